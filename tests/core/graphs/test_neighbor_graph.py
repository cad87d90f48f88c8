"""Graphs of nearest neighbors, and functions on their nodes at new points, against loops over all points."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse
import torch

from refusals import refused
from rkhs._core.graphs.filters import ChebyshevFilters, SpectralFilters
from rkhs._core.limits import with_limits
from rkhs.kernels import NeighborGraph

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
NEW = RNG.standard_normal((7, 3))


def interpolation(points, nodes, count):
    """The weights of the nearest nodes, normalized, one point after the other."""
    B = np.zeros((len(points), len(nodes)))
    for row, point in zip(B, points, strict=True):
        distances = np.linalg.norm(nodes - point, axis=1)
        near = np.argsort(distances)[:count]
        row[near] = np.exp(-4 * (distances[near] / distances[near].max()) ** 2)
        row /= row.sum()
    return B


def weights(nodes, count):
    W = np.zeros((len(nodes), len(nodes)))
    for i, row in enumerate(W):
        distances = np.linalg.norm(nodes - nodes[i], axis=1)
        near = np.argsort(distances)[1 : count + 1]
        row[near] = np.exp(-4 * (distances[near] / distances[near].max()) ** 2)
    return (W + W.T) / 2


@pytest.mark.parametrize("count", [1, 4, 29, 100])
def test_weights_are_as_defined(count):
    graph = NeighborGraph.of(X, count)
    np.testing.assert_allclose(graph.weights.toarray(), weights(X, min(count, 29)), atol=1e-14)
    assert repr(graph) == f"NeighborGraph(30 nodes, {np.count_nonzero(weights(X, min(count, 29))) // 2} edges)"


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_units_and_the_origin_do_not_matter(n, unit, device):
    Z = np.round(np.random.default_rng(1).standard_normal((40, n)) * 2**20) / 2**20
    new = np.round(np.random.default_rng(2).standard_normal((5, n)) * 2**20) / 2**20
    one = NeighborGraph.of(Z, 5)
    other = NeighborGraph.of((Z + 2.0**20) * unit, 5, device=device)
    np.testing.assert_allclose(other.weights.toarray(), one.weights.toarray(), atol=1e-7)
    moved = other.on_nodes((new + 2.0**20) * unit).toarray()
    np.testing.assert_allclose(moved, one.on_nodes(new).toarray(), atol=1e-7)


SCALE = np.array([1.0, 10.0, 1e-3])
NOISE = 1e-3 * np.random.default_rng(3).standard_normal((30, 2))
AS_OF_X = {  # nodes, new points, options, and how near the weights are
    "scales are units": (X * SCALE, NEW * SCALE, {"scale": SCALE}, 1e-12),
    "principal components": (np.hstack([X, NOISE]), np.hstack([NEW, np.zeros((7, 2))]), {"components": 3}, 1e-4),
    "a constant feature": (np.insert(X, 3, 3.0, axis=1), np.insert(NEW, 3, 3.0, axis=1), {}, 1e-12),
    "components beside it": (np.insert(X, 3, 3.0, axis=1), np.insert(NEW, 3, 3.0, axis=1), {"components": 3}, 1e-12),
    "more components": (np.insert(X, 3, 3.0, axis=1), np.insert(NEW, 3, 3.0, axis=1), {"components": 10}, 1e-12),
}


@pytest.mark.every
@pytest.mark.parametrize(("nodes", "new", "options", "atol"), AS_OF_X.values(), ids=AS_OF_X)
def test_the_weights_are_those_of_the_points_themselves(nodes, new, options, atol):
    one, other = NeighborGraph.of(X, 5), NeighborGraph.of(nodes, 5, **options)
    assert other.nodes.shape[1] <= options.get("components", 4)
    np.testing.assert_allclose(other.weights.toarray(), one.weights.toarray(), atol=atol)
    np.testing.assert_allclose(other.on_nodes(new).toarray(), one.on_nodes(NEW).toarray(), atol=atol)


def test_points_that_differ_outside_of_the_principal_components():
    """Nodes with equal coordinates are different nodes, and a new point at their place has them as neighbors."""
    Z = np.hstack([np.repeat(X[:10], 3, axis=0) * 1e3, np.tile(np.eye(3), (10, 1))])
    graph = NeighborGraph.of(Z, 2, components=3)
    np.testing.assert_array_equal(graph.on_nodes(Z).toarray(), np.eye(30))
    own = np.arange(30) // 3
    same = own[:, None] == own
    assert np.all(graph.as_new_points(np.arange(30)).toarray()[~same] < 1e-9)
    assert np.all(np.isfinite(graph.weights.data))


@pytest.mark.parametrize("kind", ["float64", "float32", "PyTorch", "PyTorch float32", "list", "Fortran order"])
def test_nodes_are_unit_vectors(kind):
    make = {
        "float32": lambda Z: Z.astype(np.float32),
        "PyTorch": torch.tensor,
        "PyTorch float32": lambda Z: torch.tensor(Z, dtype=torch.float32),
        "list": np.ndarray.tolist,
        "Fortran order": np.asfortranarray,
    }.get(kind, np.asarray)
    points = make(X)
    graph = NeighborGraph.of(points, 5)
    rows = np.array([4, 0, 29, 4])
    chosen = [points[i] for i in rows] if kind == "list" else points[rows]
    B = graph.on_nodes(chosen)
    assert isinstance(B, scipy.sparse.csr_array)
    np.testing.assert_array_equal(B.toarray(), np.eye(30)[rows])
    as_doubles = np.asarray(chosen, dtype=np.float64)  # the same numbers in double precision
    np.testing.assert_array_equal(graph.on_nodes(as_doubles).toarray(), np.eye(30)[rows])
    np.testing.assert_array_equal(graph.on_nodes(points).toarray(), np.eye(30))


def test_zeros_of_either_sign_are_equal_and_integers_are_numbers():
    graph = NeighborGraph.of(np.array([[0.0, -0.0], [1.0, 2.0], [-0.0, 3.0]]), 1)
    for zero in (0.0, -0.0):
        points = np.array([[zero, zero], [zero, 3.0]])
        np.testing.assert_array_equal(graph.on_nodes(points).toarray(), np.eye(3)[[0, 2]])
    assert len(NeighborGraph.of(np.array([[0.0, 1.0], [-0.0, 1.0]])).nodes) == 1
    integers = NeighborGraph.of(np.array([[0], [1], [3]]), 1)
    np.testing.assert_array_equal(integers.on_nodes(np.array([[3.0], [0.0]])).toarray(), np.eye(3)[[2, 0]])


def test_new_points_have_the_weights_of_their_neighbors():
    graph = NeighborGraph.of(X, 4)
    B = graph.on_nodes(NEW).toarray()
    np.testing.assert_allclose(B, interpolation(NEW, X, 4), atol=1e-13)
    np.testing.assert_allclose(B.sum(axis=1), 1.0, rtol=1e-14)
    assert np.all(B >= 0)
    mixed = graph.on_nodes(np.stack([NEW[0], X[3], NEW[1], X[0]])).toarray()
    np.testing.assert_allclose(mixed, np.stack([B[0], np.eye(30)[3], B[1], np.eye(30)[0]]), atol=1e-15)


@pytest.mark.parametrize("away", [1e3, 1e9, 1e150])
def test_points_far_away_have_weights(away):
    B = NeighborGraph.of(X, 4).on_nodes(np.full((1, 3), away)).toarray()
    np.testing.assert_allclose(B.sum(), 1.0)
    assert np.count_nonzero(B) == 4


@pytest.mark.parametrize("count", [1, 4, 100])
def test_nodes_as_new_points(count):
    graph = NeighborGraph.of(X, count)
    rows = np.array([3, 0, 29, 3])
    B = graph.as_new_points(rows).toarray()
    assert not B[np.arange(4), rows].any()
    np.testing.assert_allclose(B.sum(axis=1), 1.0, rtol=1e-14)
    for own, i in zip(B, rows, strict=True):
        others = np.delete(np.arange(30), i)
        np.testing.assert_allclose(own[others], interpolation(X[[i]], X[others], min(count, 29))[0], atol=1e-13)


def test_equal_rows_are_one_node():
    Z = np.concatenate([X[:20], X[[5, 5, 0]], X[20:]])
    graph = NeighborGraph.of(Z, 4)
    np.testing.assert_allclose(graph.weights.toarray(), NeighborGraph.of(X, 4).weights.toarray(), atol=1e-12)
    nodes = np.concatenate([np.arange(20), [5, 5, 0], np.arange(20, 30)])
    np.testing.assert_array_equal(graph.on_nodes(Z).toarray(), np.eye(30)[nodes])
    np.testing.assert_allclose(graph.on_nodes(NEW).toarray(), interpolation(NEW, X, 4), atol=1e-13)
    copies = NeighborGraph.of(np.ones((5, 2)))
    assert repr(copies) == "NeighborGraph(1 nodes, 0 edges)"


def test_equal_rows_with_a_graph_are_refused():
    Z = X.copy()
    Z[17] = Z[5]
    with pytest.raises(ValueError, match=r"Rows 5 and 17 of X are equal.*merge the nodes of equal rows"):
        NeighborGraph.of(Z, graph=scipy.sparse.eye_array(30))


def test_the_indices_of_nodes():
    graph = NeighborGraph.of(X, 4)
    points = np.concatenate([X[[7, 0, 7]], NEW, X[29:]])
    np.testing.assert_array_equal(graph.index_of(points), [7, 0, 7, *[-1] * 7, 29])
    np.testing.assert_array_equal(graph.index_of(torch.tensor(points)), graph.index_of(points))
    assert graph.index_of(X[:0]).shape == (0,)
    assert graph.on_nodes(X[:0]).shape == (0, 30)
    with pytest.raises(ValueError, match="has points of 3 features, got 1"):
        graph.index_of(X[:, :1])


def test_a_graph_of_the_users_own():
    """New points have their nearest neighbors, whatever the edges are."""
    W = scipy.sparse.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(30, 30))
    graph = NeighborGraph.of(X, 4, graph=W)
    assert repr(graph) == "NeighborGraph(30 nodes, 29 edges)"
    np.testing.assert_array_equal(graph.weights.toarray(), np.eye(30, k=1) + np.eye(30, k=-1))
    np.testing.assert_allclose(graph.on_nodes(NEW).toarray(), interpolation(NEW, X, 4), atol=1e-13)
    np.testing.assert_array_equal(graph.on_nodes(X).toarray(), np.eye(30))
    with pytest.raises(ValueError, match=r"shape \(29, 29\), but there are 30 points"):
        NeighborGraph.of(X, graph=W.tocsr()[:29, :29])


def test_one_point_and_two_points():
    one = NeighborGraph.of(X[:1])
    assert repr(one) == "NeighborGraph(1 nodes, 0 edges)"
    np.testing.assert_array_equal(one.laplacian.toarray(), [[0.0]])
    np.testing.assert_array_equal(one.on_nodes(X[:3]).toarray(), np.ones((3, 1)))
    assert not one.as_new_points(np.array([0])).toarray().any()
    two = NeighborGraph.of(X[:2])
    np.testing.assert_allclose(two.laplacian.toarray(), [[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(two.as_new_points(np.array([0, 1])).toarray(), [[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(two.on_nodes(X[:2].mean(axis=0, keepdims=True)).toarray().sum(), 1.0)


def test_components_are_those_that_edges_join():
    Z = np.concatenate([X, X + 100.0, X - 100.0])
    graph = NeighborGraph.of(Z, 6)
    assert len(np.unique(graph.components)) == 3
    np.testing.assert_array_equal(graph.components, np.repeat([0, 1, 2], 30))
    assert graph.weights[:30, 30:].nnz == 0


@pytest.mark.parametrize("clone", [copy.deepcopy, copy.copy, lambda graph: pickle.loads(pickle.dumps(graph))])
@pytest.mark.parametrize("used", [False, True])
def test_copies_are_the_same(clone, used):
    graph = NeighborGraph.of(X, 5, components=2)
    if used:  # what is computed once is copied
        graph.on_nodes(X)
        assert graph.filters is graph.filters
        assert len(graph.components) == 30
    other = clone(graph)
    for name in ("nodes", "keys", "components"):
        np.testing.assert_array_equal(getattr(other, name), getattr(graph, name))
    assert abs(other.laplacian - graph.laplacian).max() == 0
    points = np.concatenate([X[:5], NEW])
    np.testing.assert_array_equal(other.on_nodes(points).toarray(), graph.on_nodes(points).toarray())
    np.testing.assert_array_equal(other.as_new_points([1, 2]).toarray(), graph.as_new_points([1, 2]).toarray())


def test_small_graphs_have_eigenvectors():
    with with_limits(spectral_nodes=29):
        assert isinstance(NeighborGraph.of(X[:29]).filters, SpectralFilters)
        assert isinstance(NeighborGraph.of(X).filters, ChebyshevFilters)


def test_later_changes_of_the_callers_array_do_not_matter():
    Z = X.copy()
    graph = NeighborGraph.of(Z, 5)
    expected = graph.on_nodes(X).toarray(), graph.on_nodes(NEW).toarray()
    Z += 1.0
    np.testing.assert_array_equal(graph.on_nodes(X).toarray(), expected[0])
    np.testing.assert_array_equal(graph.on_nodes(NEW).toarray(), expected[1])


test_what_is_refused = refused(
    *(
        (lambda n=n: NeighborGraph.of(X, n), f"n_neighbors of a NeighborGraph must be a positive integer, got {n}")
        for n in (0, 2.5, True, None)
    ),
    (lambda: NeighborGraph.of(X, components=0), "components of a NeighborGraph must be a positive integer, got 0"),
    (lambda: NeighborGraph.of(X, scale=0.0), "scale"),
    (lambda: NeighborGraph.of(X, scale=[1.0, np.nan, 1.0]), "scale"),
    (lambda: NeighborGraph.of(X, scale=[1.0, 2.0]), "scale"),
    (lambda: NeighborGraph.of(X[:0]), "needs at least one point"),
    (lambda: NeighborGraph.of(X[0]), r"X must have shape \(points, features\)"),
    (lambda: NeighborGraph.of(np.where(X > 2, np.nan, X)), "NaN or infinity"),
    (lambda: NeighborGraph.of(X).on_nodes(X[:, :2]), "has points of 3 features, got 2"),
    (lambda: NeighborGraph.of(X).on_nodes(np.full((1, 3), np.inf)), "NaN or infinity"),
)
