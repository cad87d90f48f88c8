"""Intervals and sets from labels that are left out."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_friedman1

import rkhs
from rkhs.estimators._folds import bound, class_scores


def test_the_bound_is_the_quantile_of_one_more():
    scores = np.random.default_rng(0).standard_normal(99)
    assert bound(scores, 0.9, np.ones(99)) == np.sort(scores)[89]
    assert bound(scores[:8], 0.9, np.ones(8)) == np.inf
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 99)
    weight /= weight.mean()
    for coverage in (0.1, 0.5, 0.77, 0.9, 0.999):
        found = bound(scores, coverage, weight)
        rank = np.ceil(100 * coverage)
        assert weight[scores < found].sum() < rank
        assert weight[scores <= found].sum() >= rank - 1e-9 or found == np.inf
    for wrong in (0.0, 1.0, "0.9"):
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
            bound(scores, wrong, np.ones(99))


def test_scores_are_the_distance_to_the_best_other_class():
    found = class_scores(np.array([[0.0, 2.0, -1.0]]))
    np.testing.assert_allclose(found, [[2.0, -2.0, 3.0]])
    np.testing.assert_allclose(class_scores(np.array([0.5])), [[1.0, -1.0]])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_intervals_cover_what_they_promise(unit):
    """Over several samples, of fixed settings: 0.9 within three standard errors; widths have the units of targets."""
    covered = []
    for seed in range(5):
        X, y = make_friedman1(400, n_features=5, noise=1.0, random_state=seed)
        fitted = rkhs.InvariantRegressor(scale=2.0, C=5.0, invariance=None).fit(X[:100], unit * y[:100])
        low, high = fitted.predict_interval(X[100:], 0.9).T
        covered.append(np.mean((low <= unit * y[100:]) & (unit * y[100:] <= high)))
    assert 0.86 <= np.mean(covered) <= 0.94


def test_sets_hold_the_right_class_and_grow_with_the_coverage():
    covered, sizes, rows = [], [], np.arange(250)
    for seed in range(6):
        X, y = make_blobs(400, centers=3, cluster_std=2.5, random_state=seed)
        fitted = rkhs.InvariantClassifier(loss="squared", scale=3.0, C=1.0, invariance=None).fit(X[:150], y[:150])
        both = [fitted.predict_set(X[150:], coverage) for coverage in (0.8, 0.95)]
        covered.append([np.mean(sets[rows, y[150:]]) for sets in both])
        sizes.append([sets.sum() for sets in both])
        assert not np.any(both[0] & ~both[1])
    np.testing.assert_allclose(np.mean(covered, axis=0), [0.8, 0.95], atol=0.04)
    assert np.all(np.diff(sizes, axis=1) > 0)


def test_intervals_need_targets_that_can_be_left_out():
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = X[:, 0]
    slopes = rkhs.InvariantRegressor(C=10.0).fit(X, gradients=np.ones((40, 2)))
    with pytest.raises(ValueError, match="fitted without targets"):
        slopes.predict_interval(X)
    two = rkhs.InvariantRegressor(C=10.0, nu=0).fit(X, np.stack([y, 10 * y], axis=1)).predict_interval(X[:3])
    one = rkhs.InvariantRegressor(C=10.0, nu=0).fit(X, y).predict_interval(X[:3])
    np.testing.assert_allclose(two[:, 0], one, rtol=1e-6)  # each output has the width of its own residuals
    np.testing.assert_allclose(two[:, 1], 10 * one, rtol=1e-6)
