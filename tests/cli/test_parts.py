"""The pieces of the command: labels, columns, samples, and the plain SVM."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from rkhs.cli.columns import encoder, kinds, prepared
from rkhs.cli.plain import plain_error
from rkhs.cli.sample import Points, drawn
from rkhs.cli.tables import labels, numbers


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.Series([1.0, None, 2.0]), ["1", "", "2"]),
        (pd.Series([1, 2, 3]), ["1", "2", "3"]),
        (pd.Series([1, None], dtype="Int64"), ["1", ""]),
        (pd.Series(["a ", None, ""]), ["a", "", ""]),
        (pd.Series([True, False]), ["True", "False"]),
        (pd.Series(["x", None], dtype="category"), ["x", ""]),
        (pd.Series([0.5, np.nan]), ["0.5", ""]),
    ],
)
def test_labels_are_text_and_empty_ones_are_none(values, expected):
    assert_array_equal(labels(values), expected)


def test_numbers_are_nan_where_empty():
    assert_array_equal(numbers(pd.Series(["1.5", None, "2"]), "y"), [1.5, np.nan, 2.0])


def test_kinds_of_columns():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "real": [0.5, 1.5, np.nan],
            "yes": [True, False, True],
            "word": ["a", "b", "a"],
            "kind": pd.Categorical([1, 2, 1]),
            "void": [None, None, None],
        }
    )
    assert kinds(frame) == (["whole", "real"], ["yes", "word", "kind"])


def test_points_are_standardised_and_one_hot():
    frame = pd.DataFrame({"a": [1.0, 3.0, np.nan, 5.0], "b": ["x", "y", None, "x"]})
    ready = prepared(frame, ["a"], ["b"], "here")
    points = encoder(["a"], ["b"]).fit_transform(ready)
    assert points.shape == (4, 4)  # a, and three categories: the empty one too
    assert abs(points[:, 0].mean()) < 1e-12
    assert points[2, 0] == points[1, 0]  # the median
    assert_array_equal(points[:, 1:].sum(axis=1), 1)


def test_a_sample_keeps_rare_classes_and_some_unlabelled_rows():
    y = np.array(["a"] * 900 + ["b"] * 6 + [""] * 300)
    points = Points(pd.DataFrame({"row": np.arange(len(y))}), y, regression=False)
    some = drawn(points, labelled=50, others=20)
    counts = some.counts()
    assert counts["b"] >= 5
    assert 45 <= counts["a"] <= 55
    assert some.size - some.labelled.sum() == 20
    assert len(set(some.features["row"])) == some.size
    assert_array_equal(some.y, y[some.features["row"]])
    assert drawn(points, 1000, 300).size == points.size


def test_the_plain_svm_is_scikit_learns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, "yes", "no")
    request = SimpleNamespace(cv=False, C=3.0, regression=False)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    expected = 1 - cross_val_score(SVC(C=3.0, gamma=1 / (2 * 1.5**2)), X, y, cv=folds).mean()
    assert plain_error(X, y, 1.5, request, folds) == pytest.approx(expected)


def test_sorted_tables_are_shuffled_into_folds_that_hold_every_class():
    y = np.array(["a"] * 30 + ["b"] * 4 + [""] * 5)
    points = Points(pd.DataFrame({"row": np.arange(len(y))}), y, regression=False)
    known = y[points.labelled]
    held_out = [set(known[test]) for _, test in points.folds(5).split(known, known)]
    assert held_out == [{"a", "b"}] * 4
    numbered = Points(pd.DataFrame({"row": np.arange(20)}), np.arange(20.0), regression=True)
    parts = [test for _, test in numbered.folds(5).split(numbered.y)]
    assert all(np.ptp(test) > 3 for test in parts)
