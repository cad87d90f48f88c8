"""Cross-validation in the span of an approximation: every cell is the plain model, and scikit-learn's own search."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

import rkhs

X, Y = make_moons(120, noise=0.3, random_state=0)
FEW = np.where(np.arange(120) < 60, Y, -1)
FIXED = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[::4]), rkhs.Gradient(X[:5])]))
WAVES = rkhs.FourierFeatures(40)
CS, NUS = [1.0, 100.0], [0.0, 0.1]


def without(fold):
    labels = FEW.copy()
    labels[fold] = -1
    return labels


@pytest.mark.parametrize(
    ("loss", "approximation"), [("squared_hinge", WAVES), ("squared", FIXED), ("squared", WAVES), ("hinge", FIXED)]
)
def test_every_cell_is_the_machine_with_these_values(loss, approximation):
    own = {"loss": loss, "approximation": approximation}
    search = rkhs.InvariantClassifierCV(
        invariance="gradient", Cs=CS, nus=NUS, scales=[0.3, 0.6], cv=3, tol=1e-10, **own
    ).fit(X, FEW)
    results = search.cv_results_
    assert len(results["params"]) == 8
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    for k, (_, test) in enumerate(splitter.split(X[:60], Y[:60])):
        for cell, values in enumerate(results["params"]):
            model = rkhs.InvariantClassifier(tol=1e-8, **own, **values).fit(X, without(test))
            assert results[f"split{k}_test_score"][cell] == pytest.approx(model.score(X[test], Y[test]))
    best = rkhs.InvariantClassifier(**own, **search.best_params_).fit(X, FEW)
    np.testing.assert_array_equal(search.decision_function(X), best.decision_function(X))
    assert search.predict_proba(X).shape == (120, 2)


@pytest.mark.parametrize("approximation", [FIXED, WAVES], ids=["landmarks", "waves"])
def test_it_is_the_grid_search_of_scikit_learn(approximation):
    """With knowledge about labeled points only, so that held-out rows say nothing in either."""
    cv = KFold(4)
    flat = rkhs.Invariance("gradient", on="labeled")
    own = {"loss": "squared", "approximation": approximation, "invariance": flat, "unlabeled": None}
    ours = rkhs.InvariantClassifierCV(Cs=CS, nus=[0.0], scales=0.5, cv=cv, **own).fit(X, Y)
    plain = rkhs.InvariantClassifier(scale=0.5, nu=0.0, **own)
    theirs = GridSearchCV(plain, {"C": CS}, cv=cv).fit(X, Y)
    for k in range(4):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name])
    assert ours.best_params_["C"] == theirs.best_params_["C"]


def test_regression():
    points = np.linspace(0, 6, 50)[:, None]
    y = np.sin(points[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(50)
    cv = KFold(3, shuffle=True, random_state=0)
    own = {"scale": 1.0, "approximation": rkhs.Landmarks(rkhs.Evaluation(points[::3])), "unlabeled": np.nan}
    search = rkhs.InvariantRegressorCV(
        invariance="gradient", Cs=CS, nus=NUS, scales=1.0, cv=cv, approximation=own["approximation"], unlabeled=np.nan
    ).fit(points, y)
    for k, (train, test) in enumerate(cv.split(points)):
        some = np.full(50, np.nan)
        some[train] = y[train]
        for cell, values in enumerate(search.cv_results_["params"]):
            model = rkhs.InvariantRegressor(**own, **values).fit(points, some)
            error = np.mean((model.predict(points[test]) - y[test]) ** 2)
            assert search.cv_results_[f"split{k}_test_score"][cell] == pytest.approx(-error, rel=1e-6)
    assert search.predict(points).shape == (50,)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_balanced_classes_and_weights_are_those_of_each_fold(loss):
    points, y = make_blobs(90, centers=3, cluster_std=4.0, random_state=1)
    y = np.where(np.arange(90) < 35, 0, y)
    own = {
        "loss": loss, "class_weight": "balanced", "unlabeled": None,
        "approximation": rkhs.Landmarks(rkhs.Evaluation(points[:30])),
    }  # fmt: skip
    ours = rkhs.InvariantClassifierCV(
        invariance="gradient", Cs=CS, nus=[0.0], scales=2.0, cv=KFold(3), tol=1e-10, **own
    ).fit(points, y)
    theirs = GridSearchCV(rkhs.InvariantClassifier(nu=0.0, scale=2.0, tol=1e-8, **own), {"C": CS}, cv=KFold(3))
    theirs.fit(points, y)
    for k in range(3):
        name = f"split{k}_test_score"
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name])


def test_several_losses_have_one_nu():
    knowledge = [rkhs.Invariance("gradient"), rkhs.Invariance("gradient", loss="huber", weight=0.5)]
    own = {"loss": "squared_hinge", "approximation": FIXED, "invariance": knowledge}
    search = rkhs.InvariantClassifierCV(Cs=CS, nus=NUS, scales=0.5, cv=3, tol=1e-10, **own).fit(X, FEW)
    _, test = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X[:60], Y[:60]))
    for cell, values in enumerate(search.cv_results_["params"]):
        model = rkhs.InvariantClassifier(scale=0.5, tol=1e-8, **own, **values).fit(X, without(test))
        assert search.cv_results_["split0_test_score"][cell] == pytest.approx(model.score(X[test], Y[test]))


def test_own_functionals_choose_as_the_exact_search_does():
    own = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]))
    settings = {"Cs": CS, "nus": NUS, "scales": 1.0, "cv": 3, "tol": 1e-8}
    exact, near = (
        rkhs.InvariantClassifierCV(invariance="gradient", approximation=approximation, **settings).fit(X, FEW)
        for approximation in (None, own)
    )
    np.testing.assert_allclose(near.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"])
    assert near.best_params_ == exact.best_params_


@pytest.mark.slow
@pytest.mark.parametrize("search", [rkhs.InvariantClassifierCV, rkhs.InvariantRegressorCV])
def test_rows_in_blocks_are_collected(search):
    weight = np.arange(len(Y)) % 3 + 1.0
    whole = search("gaussian", approximation=FIXED).fit(X, Y, weight)
    parts = search("gaussian", approximation=FIXED).fit(rkhs.streams.blocks(X, Y, weight, rows=7))
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))
    with pytest.raises(ValueError, match=r"Blocks contain y and weights: pass them to rkhs.streams.blocks"):
        search().fit(rkhs.streams.blocks(X, Y), Y)
