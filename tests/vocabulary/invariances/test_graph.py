"""Graphs of neighbors as functionals: their squares are f'L^p f, with L as SciPy has it."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import laplacian

import rkhs
from refusals import refused
from rkhs.invariances import Graph
from rkhs.invariances._graph import laplacian_of, neighbor_weights, root_of_laplacian

RNG = np.random.default_rng(0)
X = RNG.standard_normal((25, 2))
F = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(X), RNG.standard_normal(25))


def weights(k=4):
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    near = np.argsort(distances, axis=1)[:, 1 : k + 1]
    return neighbor_weights(np.take_along_axis(distances, near, axis=1), near)


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("normalized", [True, False])
def test_the_sum_of_squares_is_a_power_of_the_laplacian(power, normalized):
    W = weights().toarray()
    roots = np.sqrt(W.sum(axis=1))
    W = W / np.outer(roots, roots) if normalized else W
    L = laplacian(W)
    A = root_of_laplacian(scipy.sparse.csr_array(W), power)
    np.testing.assert_allclose((A.T @ A).toarray(), np.linalg.matrix_power(L, power), atol=1e-12)
    values = Graph(4, power, normalized=normalized)(X)(F)
    f, M = F(X), np.linalg.matrix_power(L, power)
    assert np.sum(values**2) == pytest.approx(f @ M @ f / np.trace(M), rel=1e-10)


def test_constants_cost_nothing():
    for power in (1, 2, 3):
        assert np.max(np.abs(Graph(4, power)(X)(rkhs.Polynomials(0)))) < 1e-14


def test_neighbors_are_those_of_either_point_and_heat_falls_with_the_distance():
    W = weights(3).toarray()
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    near = np.argsort(distances, axis=1)[:, 1:4]
    joined = np.zeros((25, 25), dtype=bool)
    joined[np.repeat(np.arange(25), 3), near.ravel()] = True
    np.testing.assert_array_equal(W > 0, joined | joined.T)
    width = np.take_along_axis(distances, near, axis=1).mean()
    np.testing.assert_allclose(W[W > 0], np.exp(-(distances[W > 0] ** 2) / (2 * width**2)))


def test_a_graph_of_the_users_own():
    W = scipy.sparse.csr_array(([1.0, 1.0, 2.0, 2.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    family = Graph(power=1, normalized=False, graph=W)(X[:3])
    f = F(X[:3])
    assert np.sum(family(F) ** 2) == pytest.approx(((f[0] - f[1]) ** 2 + 2 * (f[1] - f[2]) ** 2) / 6)


def test_units_do_not_matter_and_scales_are_units():
    one, other = Graph(5)(X)(F), Graph(5)(1000 * X)
    assert np.allclose(one, other.parts[0].matrix @ F(X))
    stretched = Graph(5, scale=np.array([1.0, 10.0]))(X * [1.0, 10.0])
    assert np.allclose(one, stretched.parts[0].matrix @ F(X))


def test_points_without_neighbors_and_many_neighbors():
    W = scipy.sparse.csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(3, 3))
    assert not laplacian_of(W).toarray()[2].any()
    assert Graph(100)(X).shape == (25,)
    assert Graph()(X[:1]).shape == (1,)
    assert np.all(np.isfinite(Graph(3)(np.zeros((5, 2)))(F)))  # copies of one point


test_bad_input = refused(
    (lambda: Graph(0), "n_neighbors of a Graph must be a positive integer, got 0"),
    (lambda: Graph(power=1.5), "power of a Graph must be a positive integer, got 1.5"),
    (lambda: Graph(weights="cold"), 'weights of a Graph must be "heat" or "ones"'),
    (lambda: Graph(graph=scipy.sparse.eye_array(3))(X), "one row per point"),
    (lambda: Graph(graph=scipy.sparse.csr_array(np.triu(np.ones((25, 25)))))(X), "symmetric"),
)
