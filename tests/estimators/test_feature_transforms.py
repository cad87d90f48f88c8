"""What distances are measured by: against Mahalanobis' distance of SciPy, in kernels and graphs."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

import rkhs
from rkhs._core.graphs.neighbor_graph import principal_directions
from rkhs.estimators._length_scales import FeatureTransform, decorrelating, feature_maps
from rkhs.invariances import Graph


def some(rows=60, features=5):
    rng = np.random.default_rng(0)
    return rng.standard_normal((rows, features)) @ rng.standard_normal((features, features)) + 7.0


def test_decorrelated_distances_are_those_of_mahalanobis():
    """With what is added to the variances."""
    X = some()
    covariance = np.cov(X.T, bias=True)
    least = np.trace(covariance) / len(X)
    exact = pdist(X[:30], "mahalanobis", VI=np.linalg.inv(covariance + least * np.eye(5)))
    np.testing.assert_allclose(pdist(X[:30] @ decorrelating(X).T), exact, rtol=1e-9)


def test_decorrelated_distances_do_not_know_how_often_a_feature_is_given():
    X = some()
    twice = np.hstack([X, X]) / 2**0.5
    np.testing.assert_allclose(pdist(twice @ decorrelating(twice).T), pdist(X @ decorrelating(X).T), rtol=1e-9)


def test_constant_features_are_no_trouble():
    X = np.column_stack([some(), np.full(60, 3.0)])
    for features in feature_maps(X):
        assert np.all(np.isfinite(features.points(X)))


def test_features_that_are_others_in_other_words_are_no_directions():
    X = some(60, 3)
    assert all(one.components is None for one in feature_maps(np.hstack([X, 2 * X])))


@pytest.mark.parametrize("n", [1, 2, 4, 12, 35])
def test_those_that_are_tried(n):
    X = np.random.default_rng(0).standard_normal((100, n)) * np.arange(1, n + 1)
    found = list(feature_maps(X))
    assert [one.components for one in found if one.components is not None] == [
        count for _ in range(2) for count in (3, 10, 30) if count < n
    ]
    assert found[0].linear is None
    assert sum(one.linear is not None and one.components is None for one in found) == (n > 1)


@pytest.mark.parametrize("unit", [1.0, np.array([1.0, 2.0, 0.5, 1.0, 3.0])])
@pytest.mark.parametrize("components", [None, 2])
def test_kernel_and_graph_are_of_these_distances(unit, components):
    X = some()
    linear = None if components is None else principal_directions(X / unit, components)
    features = FeatureTransform(unit, linear, components)
    kernel, scale = features.kernel("gaussian", 1.5, lambda name, s: rkhs.Gaussian(s))
    kernel = rkhs.Gaussian(scale) if isinstance(kernel, str) else kernel
    points = features.points(X)
    np.testing.assert_allclose(kernel(X), np.exp(-cdist(points, points, "sqeuclidean") / 4.5), atol=1e-12)
    near = Graph(4, 2, scale=features.unit, components=features.components)
    values = np.random.default_rng(1).standard_normal(60)
    np.testing.assert_allclose(energy(near(X), values), energy(Graph(4, 2)(points), values), rtol=1e-9)


def energy(functionals, values):
    """The sum of squares for a function that has these values: |A values|^2 of A @ Evaluation."""
    narrow = rkhs.Gaussian(1e-3)  # under which all points are strangers
    points = functionals.parts[0].atoms.points
    f = rkhs.results.Function(narrow, rkhs.Evaluation(points), values)
    return float(np.sum(np.asarray(functionals(f)) ** 2))
