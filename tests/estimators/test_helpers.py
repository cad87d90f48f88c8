"""Small parts of the estimators, each against numbers that can be computed by hand."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

import rkhs
from rkhs._estimators.calibration import bound, fitted_slope
from rkhs._estimators.data import checked_slopes, drawn_rows, fill_missing, fill_missing_targets, predicted_codes
from rkhs._estimators.folds import rows_per_fold
from rkhs._estimators.formulation import WeightNormalization
from rkhs._estimators.invariant_estimator import same
from rkhs._estimators.length_scales import decorrelating
from rkhs._estimators.scoring import Discriminant, leave_one_out, paired_test
from rkhs._estimators.search import CompactResults
from rkhs._estimators.thin_plate import linearly_separable


def test_the_slope_of_a_sigmoid():
    f = np.array([[1.0, -1.0], [0.5, -0.5], [-1.0, 1.0], [0.5, -0.5]])
    assert round(fitted_slope(f, np.array([0, 0, 1, 1]), np.ones(4)), 2) == 0.42


def test_the_bound_of_a_new_label():
    assert bound(np.arange(1.0, 20.0), 0.9, np.ones(19)) == 18.0
    assert bound(np.arange(1.0, 5.0), 0.9, np.ones(4)) == np.inf


def test_rows_dealt_to_folds():
    np.testing.assert_array_equal(rows_per_fold(KFold(2), np.array([1, 1, 7])), [[1, 0], [1, 0], [3, 4]])


def test_results_keep_each_value_once():
    params = [{"kernel": "gaussian"}, {"kernel": None}, {"kernel": "gaussian"}]
    short = CompactResults.of({"params": params})
    assert short.params["kernel"][0] == ["gaussian", None]
    assert short.params["kernel"][1].tolist() == [0, 1, 0]
    assert short.expanded()["params"] == params


def test_drawn_rows_repeat_points():
    np.testing.assert_array_equal(drawn_rows(np.array([1, 3]), 10, 0), [0, 1, 1, 1])


def test_missing_labels_are_filled():
    y, missing = fill_missing(["a", -1, "b"], -1)
    assert (y.tolist(), missing.tolist()) == (["a", "a", "b"], [False, True, False])
    y, missing = fill_missing_targets([[1.0, 2.0], [np.nan, np.nan]], np.nan)
    assert (y.tolist(), missing.tolist()) == ([[1.0, 2.0], [0.0, 0.0]], [False, True])


def test_slopes_that_were_not_observed():
    np.testing.assert_array_equal(checked_slopes([[1.0, None]], np.zeros((1, 2)), None), [[1.0, np.nan]])


def test_decorrelated_features():
    X = np.random.default_rng(0).standard_normal((1000, 2)) @ [[1.0, 0.9], [0.0, 0.5]]
    np.testing.assert_allclose(np.cov((X @ decorrelating(X)).T), np.eye(2), atol=0.05)


def test_losses_that_fall():
    assert paired_test(np.ones(3), np.array([0.5, 0.6, 0.4]))
    assert not paired_test(np.ones(3), np.array([0.0, 2.0, 0.5]))
    before, after = np.array([3.0, 5.0]), np.array([2.0, 2.0])  # the mean falls by 2, with the standard error 0.707
    assert paired_test(before, after, sure=2 / 0.708)
    assert not paired_test(before, after, sure=2 / 0.707)


def test_parameters_that_are_the_same():
    X = np.zeros((2, 1))
    assert same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X.copy())))
    assert not same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X + 1)))


def test_units_of_a_kernel():
    X = np.random.default_rng(0).standard_normal((50, 3))
    norms = WeightNormalization.at(7.0 * rkhs.Gaussian(scale=2.0), X, np.ones(50))
    assert (norms.variance, norms.size(rkhs.Gradient(X), 1.0)) == (7.0, 0.5)


def test_without_correlation_the_mean_of_the_others_is_predicted():
    [values] = leave_one_out(np.eye(3), np.array([[0.0], [3.0], [6.0]]), np.ones(3), [1.0])
    np.testing.assert_allclose(values.ravel(), [4.5, 3.0, 1.5])


def test_a_discriminant_finds_the_class_in_the_middle():
    codes = np.arange(60) % 3
    along = codes - 1 + 0.1 * np.random.default_rng(0).standard_normal(60)  # one quantity separates three classes
    scores = np.stack([-along, np.zeros(60), along], axis=1)
    rule = Discriminant.of(scores, codes)
    assert [round(float(np.mean(own.argmax(axis=1) == codes)), 2) for own in (scores, rule(scores))] == [0.67, 1.0]


def test_classes_that_a_line_separates():
    square = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert linearly_separable(square, np.array([1, 1, 1, -1]))
    assert not linearly_separable(square, np.array([1, 1, -1, -1]))


@pytest.mark.parametrize("scores", [[-1.0, 2.0], [[-1.0], [2.0]], [[3.0, 1.0], [0.0, 1.0]]])
def test_codes_of_predicted_classes(scores):
    assert predicted_codes(np.array(scores)).tolist() == [0, 1]
