"""Small parts of the estimators that no law of a model shows by itself, each against numbers computed by hand."""

import numpy as np

import rkhs
from rkhs._estimators.data import checked_slopes
from rkhs._estimators.folds import fitted_slope
from rkhs._estimators.invariant_estimator import same
from rkhs._estimators.search import CompactResults, paired_test


def test_the_slope_of_a_sigmoid():
    f = np.array([[1.0, -1.0], [0.5, -0.5], [-1.0, 1.0], [0.5, -0.5]])
    assert round(fitted_slope(f, np.array([0, 0, 1, 1]), np.ones(4)), 2) == 0.42


def test_results_keep_each_value_once():
    params = [{"kernel": "gaussian"}, {"kernel": None}, {"kernel": "gaussian"}]
    short = CompactResults.of({"params": params})
    assert short.params["kernel"][0] == ["gaussian", None]
    assert short.params["kernel"][1].tolist() == [0, 1, 0]
    assert short.expanded()["params"] == params


def test_slopes_that_were_not_observed():
    np.testing.assert_array_equal(checked_slopes([[1.0, None]], np.zeros((1, 2)), None), [[1.0, np.nan]])


def test_losses_that_fall_by_more_than_chance():
    assert paired_test(np.ones(3), np.array([0.5, 0.6, 0.4]))
    assert not paired_test(np.ones(3), np.array([0.0, 2.0, 0.5]))
    before, after = np.array([3.0, 5.0]), np.array([2.0, 2.0])  # the mean falls by 2, with the standard error 0.707
    assert paired_test(before, after, sure=2 / 0.708)
    assert not paired_test(before, after, sure=2 / 0.707)


def test_parameters_that_are_the_same():
    X = np.zeros((2, 1))
    assert same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X.copy())))
    assert not same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X + 1)))
