"""Small parts of the estimators that no law of a model shows by itself, each against numbers computed by hand."""

import numpy as np

from rkhs.estimators._calibration import fitted_slope
from rkhs.estimators._data import checked_slopes
from rkhs.extend import paired_test


def test_the_slope_of_a_sigmoid():
    f = np.array([[1.0, -1.0], [0.5, -0.5], [-1.0, 1.0], [0.5, -0.5]])
    assert round(fitted_slope(f, np.array([0, 0, 1, 1]), np.ones(4), 0.0), 2) == 0.42


def test_slopes_that_were_not_observed():
    np.testing.assert_array_equal(checked_slopes([[1.0, None]], np.zeros((1, 2)), None), [[1.0, np.nan]])


def test_losses_that_fall_by_more_than_chance():
    assert paired_test(np.ones(3), np.array([0.5, 0.6, 0.4]))
    assert not paired_test(np.ones(3), np.array([0.0, 2.0, 0.5]))
    before, after = np.array([3.0, 5.0]), np.array([2.0, 2.0])  # the mean falls by 2, with the standard error 0.707
    assert paired_test(before, after, sure=2 / 0.708)
    assert not paired_test(before, after, sure=2 / 0.707)
