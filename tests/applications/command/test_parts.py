"""Test the parts of the command: columns, samples, folds, the plain SVM, and the words of a comparison."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.svm import SVC

import rkhs
from rkhs._command.comparison import (
    BETTER,
    PLAIN_CS,
    PLAIN_SCALES,
    UNCLEAR,
    WORSE,
    OutOfFold,
    PairedDifference,
    plain_svm,
)
from rkhs._command.effects import slopes
from rkhs._command.learning import Examples, deviations
from rkhs._command.predict import new_texts
from rkhs._command.report import reliability
from rkhs._command.tables import Kinds, Table, TableColumn, classify, describe, features_of
from rkhs.preprocessing import TableEncoder

MAX_CATEGORIES = TableEncoder().max_categories


def table(**columns):
    made = {name: TableColumn(name, values) for name, values in columns.items()}
    return Table(Path("here.csv"), len(next(iter(columns.values()))), made)


def text(*cells):
    return pd.Series(cells, dtype="string[pyarrow]")


def test_points_are_standardized_and_one_hot():
    found, names = (
        table(a=pd.Series([1.0, 3.0, None, 5.0], dtype="double[pyarrow]"), b=text("x", "y", None, "x")),
        Kinds(["a"], ["b"]),
    )
    points = names.encoder().fit_transform(features_of(found, names))
    assert points.shape == (4, 4)  # a, and three categories: the empty one too
    assert abs(points[:, 0].mean()) < 1e-12
    assert points[2, 0] == points[1, 0]  # the median
    assert_array_equal(points[:, 1:].sum(axis=1), 1)


def test_sentences_are_read_by_their_words():
    notes = [f"order {k} was {'late' if k % 3 else 'early'} and fine" for k in range(30)]
    found = table(note=text(*notes), price=pd.Series(np.arange(30.0) / 7, dtype="double[pyarrow]"))
    kinds = classify(found, [], [])
    assert (kinds.sentences, kinds.numeric, kinds.ids) == (["note"], ["price"], [])
    features = features_of(found, kinds)
    points = kinds.encoder().fit_transform(features)
    assert points.shape[1] >= 3  # the price, and "late" and "early"
    kept = describe(found, kinds, features, "price", True)
    assert (kept[1]["kind"], kept[1]["cells"]) == ("target", "0 to 4.143")
    assert kept[0]["kind"] == "sentences, read by their words"
    assert new_texts(kinds.encoder().fit(features), features, kinds) is None


def test_rare_texts_are_one_kind_and_new_ones_belong_to_it():
    cells = [f"often {k}" for k in range(MAX_CATEGORIES - 1) for _ in range(3)] + [f"rare {k}" for k in range(40)]
    names = Kinds([], ["b"])
    ready = features_of(table(b=text(*cells)), names)
    columns = names.encoder().fit(ready)
    points = columns.transform(ready)
    assert points.shape == (len(cells), MAX_CATEGORIES)
    assert_array_equal(points.sum(axis=1), 1)
    rare = points[-1]
    assert_array_equal(points[-40:], np.tile(rare, (40, 1)))
    assert not (points[:-40] == rare).all(axis=1).any()
    new = features_of(table(b=text("never seen", "often 3")), names)
    assert_array_equal(columns.transform(new)[0], rare)
    assert new_texts(columns, new, names) == {"b": "1 row (never seen)"}
    several = features_of(table(b=text("u", "u", "v", None, "w", "often 3")), names)
    assert new_texts(columns, several, names) == {"b": "5 rows (u, v, (empty), ..)"}
    assert new_texts(columns, ready, names) is None


def test_a_sample_keeps_rare_classes_and_some_unlabeled_rows():
    y = np.array(["a"] * 900 + ["b"] * 6 + [""] * 300)
    points = Examples(pd.DataFrame({"row": np.arange(len(y))}), y, regression=False)
    some = points.sample(labeled=50, others=20)
    counts = some.counts()
    assert counts["b"] >= 5
    assert 45 <= counts["a"] <= 55
    assert len(some.y) - some.labeled.sum() == 20
    assert len(set(some.features["row"])) == len(some.y)
    assert_array_equal(some.y, y[some.features["row"]])
    assert len(points.sample(1000, 300).y) == len(y)


def test_the_plain_svm_is_tuned_and_trained_without_the_fold_that_it_predicts():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, "yes", "no")
    folds = [test for _, test in StratifiedKFold(4, shuffle=True, random_state=0).split(X, y)]
    fold_of = np.empty(60, dtype=int)
    for k, fold in enumerate(folds):
        fold_of[fold] = k
    grid = {"gamma": [0.5 / (s * rkhs.kernels.median_scale(X)) ** 2 for s in PLAIN_SCALES], "C": PLAIN_CS}
    found = plain_svm(X, y, False, folds)
    for k, fold in enumerate(folds):
        rest = np.flatnonzero(fold_of != k)
        expected = GridSearchCV(SVC(), grid, cv=PredefinedSplit(fold_of[rest])).fit(X[rest], y[rest])
        errors = 1 - expected.cv_results_["mean_test_score"]
        ties = [expected.cv_results_["params"][i] for i in np.flatnonzero(errors < errors.min() + 1e-9)]
        assert any((SVC(**one).fit(X[rest], y[rest]).predict(X[fold]) == found[fold]).all() for one in ties)


def test_sorted_tables_are_shuffled_into_folds_that_hold_every_class():
    y = np.array(["a"] * 30 + ["b"] * 4 + [""] * 5)
    points = Examples(pd.DataFrame({"row": np.arange(len(y))}), y, regression=False)
    known = y[points.labeled]
    held_out = [set(known[test]) for _, test in points.folds().split(known, known)]
    assert held_out == [{"a", "b"}] * 4
    numbered = Examples(pd.DataFrame({"row": np.arange(20)}), np.arange(20.0), regression=True)
    parts = [test for _, test in numbered.folds().split(numbered.y)]
    assert all(np.ptp(test) > 3 for test in parts)


def held_out(right):
    truth = np.array(["a"] * len(right))
    return OutOfFold(truth, np.where(right, "a", "b"), np.array(["a", "b"]))


@pytest.mark.every
@pytest.mark.parametrize(
    ("ours", "plain", "verdict", "sentence"),
    [
        (100, 50, BETTER, "The model is better than a plain SVM by 50.0 ± 5.0 points: 0.0 % errors, compared with 50"),
        (51, 50, UNCLEAR, "There is no clear difference between the model and a plain SVM (1.0 ± 1.0 points): 49.0 %"),
        (50, 50, UNCLEAR, "There is no clear difference between the model and a plain SVM (0.0 ± 0.0 points): 50.0 %"),
        (50, 100, WORSE, "The model is worse than a plain SVM by 50.0 ± 5.0 points: 50.0 % errors, compared with 0.0"),
    ],
)
def test_words_follow_from_the_paired_difference(ours, plain, verdict, sentence):
    rows = np.arange(100)
    found = PairedDifference.between(held_out(rows < ours), held_out(rows < plain), "a plain SVM")
    assert found.verdict == verdict
    assert found.sentence().startswith(sentence)


def test_the_difference_of_root_mean_squares_and_its_standard_error():
    rng, truth = np.random.default_rng(0), np.zeros(4000)
    noise = rng.standard_normal((2, 200, 4000))
    gains = [
        PairedDifference.between(OutOfFold(truth, a), OutOfFold(truth, 1.2 * b), "x")
        for a, b in zip(*noise, strict=True)
    ]
    assert gains[0].gain == pytest.approx(gains[0].other_error - gains[0].error)
    assert np.std([one.gain for one in gains]) == pytest.approx(
        np.mean([one.standard_error for one in gains]), rel=0.15
    )


def test_intervals_hold_the_stated_share():
    rng = np.random.default_rng(0)
    truth, spread = rng.standard_normal(500), rng.uniform(0.5, 2.0, 500)
    own = OutOfFold(truth, truth + spread * rng.standard_normal(500), deviation=spread)
    interval = own.interval()
    inside = np.abs(own.predicted - truth) <= interval["factor"] * spread
    assert interval["of the deviation"]
    assert 0.9 <= inside.mean() <= 0.91
    assert interval["factor"] == pytest.approx(1.64, abs=0.15)
    assert OutOfFold(truth[:3], truth[:3] + 1).interval() == {"level": 0.9, "factor": 1.0, "of the deviation": False}


def test_slopes_of_smooth_and_of_rough_functions():
    f = rkhs.results.Function(rkhs.kernels.Linear(), rkhs.Evaluation([[2.0, -1.0]]), [1.0])  # f(x) = 2 x_0 - x_1
    assert slopes(f, np.eye(2), 0).tolist() == [[2.0], [2.0]]
    rough = rkhs.results.Function(rkhs.Matern(nu=0.5, scale=1.0), rkhs.Evaluation([[0.0]]), [1.0])  # exp(-|x|)
    assert slopes(rough, np.array([[1.0]]), 0).round(2).tolist() == [[-0.37]]


@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(10)], ids=["exact", "span"])
def test_deviations_are_those_of_the_regressor(approximation):
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = rkhs.InvariantRegressor(scale=1.0, C=10.0, approximation=approximation).fit(X, X[:, 0])
    np.testing.assert_allclose(deviations(model, X), model.predict(X, return_std=True)[1])


def test_reliability_of_probabilities():
    yes = np.array(["yes", "yes"])
    found = reliability(OutOfFold(yes, yes, np.array(["no", "yes"]), np.array([[0.1, 0.9], [0.2, 0.8]])))
    assert found == [(0.8, 1.0, 1), (0.9, 1.0, 1)]
