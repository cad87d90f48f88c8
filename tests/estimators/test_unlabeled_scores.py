"""Rows without a label are no errors: in `score`, in cross-validation, in searches, and in pipelines."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(200, noise=0.1, random_state=0)
    return X, y, np.where(np.arange(200) < 40, y, -1)


MODEL = rkhs.InvariantClassifier(scale=0.5, C=10.0, loss="squared_hinge")


def test_score_counts_labeled_rows_only(moons):
    X, y, few = moons
    model, weight = MODEL.fit(X, few), np.arange(200.0)
    assert model.score(X, few) == np.mean(model.predict(X[:40]) == y[:40])
    assert model.score(X, few, weight) == pytest.approx(
        np.average(model.predict(X[:40]) == y[:40], weights=weight[:40])
    )
    assert model.score(pd.DataFrame(X).to_numpy().tolist(), few.tolist()) == model.score(X, few)
    with pytest.raises(ValueError, match="every y is -1"):
        model.score(X, np.full(200, -1))


def test_other_markers(moons):
    X, y, few = moons
    text = np.where(few < 0, "?", np.where(few == 1, "yes", "no"))
    named = rkhs.InvariantClassifier(scale=0.5, unlabeled="?").fit(X, text)
    assert named.score(X, text) == np.mean(named.predict(X[:40]) == text[:40])
    missing = np.where(few < 0, None, text)
    model = rkhs.InvariantClassifier(scale=0.5, unlabeled=np.nan).fit(X, missing)
    assert model.score(X, missing) == named.score(X, text)
    assert rkhs.InvariantClassifier(scale=0.5, unlabeled=None).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("outputs", [1, 2])
def test_regressors(outputs):
    X = np.linspace(0, 6, 60)[:, None]
    y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])[:, :outputs].squeeze()
    some = np.where((np.arange(60) % 3 > 0).reshape(-1, *[1] * (y.ndim - 1)), np.nan, y)
    model = rkhs.InvariantRegressor(scale=1.0, C=1e4, nu=0.0, unlabeled=np.nan).fit(X, some)
    assert model.score(X, some) == model.score(X[::3], y[::3])
    scores = cross_val_score(model, X, some, cv=rkhs.LabeledSplit(KFold(4, shuffle=True, random_state=0), np.nan))
    assert scores.min() > 0.9


@pytest.mark.parametrize("model", [MODEL, make_pipeline(StandardScaler(), MODEL)], ids=["model", "pipeline"])
@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_cross_validation(moons, model, scoring):
    """The score is near that of the truth on new rows; rows without a label were errors before."""
    X, _, few = moons
    scores = cross_val_score(model, X, few, cv=rkhs.LabeledSplit(4), scoring=scoring)
    assert scores.mean() > 0.9
    if scoring is None:  # without the splitter the models have fewer unlabeled rows, but no errors are counted on them
        assert cross_val_score(model, X, few, cv=4).mean() > 0.9


def test_searches(moons):
    X, _, few = moons
    search = GridSearchCV(MODEL, {"C": [1.0, 10.0]}, cv=rkhs.LabeledSplit(4)).fit(X, few)
    assert search.best_score_ > 0.9
    assert search.n_splits_ == 4


def test_training_parts_have_all_unlabeled_rows(moons):
    X, _, few = moons
    random = np.random.default_rng(0).permutation(200)
    few = few[random]
    tested = []
    for train, test in rkhs.LabeledSplit(4).split(X, few):
        assert set(np.flatnonzero(few < 0)) <= set(train)
        assert not set(train) & set(test)
        assert len(train) + len(test) == 200
        shares = np.bincount(few[test]) - np.bincount(few[few >= 0]) / 4  # stratified
        assert np.all(abs(shares) <= 1)
        tested += test.tolist()
    assert sorted(tested) == np.flatnonzero(few >= 0).tolist()
    shuffled = list(rkhs.LabeledSplit(ShuffleSplit(3, test_size=5, random_state=0)).split(X, few))
    assert [len(test) for _, test in shuffled] == [5, 5, 5]
    groups = np.arange(200) % 8
    for train, test in rkhs.LabeledSplit(GroupKFold(4)).split(X, few, groups):
        assert not set(groups[test]) & set(groups[train[few[train] >= 0]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        rkhs.LabeledSplit(GroupKFold(4)).get_n_splits(X, few, groups[:50])


def test_what_is_refused(moons):
    X, _, few = moons
    split = rkhs.LabeledSplit(4)
    with pytest.raises(ValueError, match="needs y"):
        next(split.split(X))
    with pytest.raises(ValueError, match="every y is unlabeled=-1"):
        next(split.split(X, np.full(200, -1)))
    assert repr(split) == "LabeledSplit(cv=4, unlabeled=-1)"
    assert split.get_n_splits(X, few) == 4
    assert rkhs.LabeledSplit(LeaveOneOut()).get_n_splits(X, few) == 40  # rows without a label are never left out
