"""Nearest neighbors against all distances, and the projection to principal components."""

import sys
from types import ModuleType

import numpy as np
import pytest

from rkhs._core.graphs.neighbor_graph import nearest, principal_directions
from rkhs._core.limits import with_limits
from rkhs.extend import with_progress_callback
from rkhs.kernels import NeighborGraph

torch = pytest.importorskip("torch")


def points(t=60, n=3, seed=0):
    return np.random.default_rng(seed).standard_normal((t, n))


def all_distances(queries, X):
    return np.linalg.norm(queries[:, None] - X, axis=2)


def brute_force(X, count):
    """The distances and indices of other points, from all differences."""
    distances = all_distances(X, X)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(distances, order, axis=1), order


SEARCHES = {"CPU": nearest, "device": lambda X, count: nearest(X, count, device="cpu")}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize(("t", "n", "count"), [(60, 1, 4), (60, 3, 5), (60, 20, 7), (6, 2, 5), (2, 2, 1), (500, 40, 3)])
def test_all_differences_give_the_same(search, t, n, count):
    X = points(t, n)
    distances, indices = search(X, count)
    expected = brute_force(X, count)
    np.testing.assert_array_equal(indices, expected[1])
    rounding = 10 * n * np.finfo(float).eps * np.max(X**2)  # |x|^2 + |y|^2 - 2 x'y
    np.testing.assert_allclose(distances**2, expected[0] ** 2, rtol=1e-12, atol=rounding)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("n", [2, 20])
def test_equal_points(search, n):
    """Each of seven copies has neighbors other than itself, at distance zero."""
    X = np.concatenate([points(20, n), np.tile(points(1, n, seed=1), (7, 1))])
    distances, indices = search(X, 4)
    assert indices.shape == (27, 4)
    assert not np.any(indices == np.arange(27)[:, None])
    assert all(len(set(row)) == 4 for row in indices)
    assert np.all(indices[20:] >= 20)
    np.testing.assert_allclose(distances[20:], 0.0, atol=1e-6)
    np.testing.assert_allclose(distances[:20], brute_force(X, 4)[0][:20], rtol=1e-7)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_clusters_far_apart(search):
    """Neighbors within a cluster are the same whether or not another one is a thousand widths away."""
    X = points(400, 2)
    X[200:] += 1000.0
    X -= X.mean(axis=0)
    np.testing.assert_array_equal(search(X, 5)[1], brute_force(X, 5)[1])


@pytest.mark.parametrize("tile", [1, 7, 60])
def test_a_device_computes_in_tiles(tile):
    X, progress = points(), []
    expected = brute_force(X, 5)
    with with_limits(device_distances=60 * tile), with_progress_callback(progress.append):
        distances, indices = nearest(X, 5, device="cpu")
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_allclose(distances, expected[0], rtol=1e-12)
    assert len(progress) == -(-60 // tile)
    assert progress[-1] == 1


def test_an_index_for_many_points():
    pytest.importorskip("pynndescent")
    X = points(800, 5)
    with with_limits(exact_neighbors=100):
        distances, indices = nearest(X, 8)
    expected = brute_force(X, 8)[1]
    shared = [len(set(own) & set(other)) for own, other in zip(indices, expected, strict=True)]
    assert np.mean(shared) > 0.9 * 8
    assert not np.any(indices == np.arange(800)[:, None])
    np.testing.assert_allclose(distances, np.take_along_axis(all_distances(X, X), indices, axis=1), rtol=1e-3)


@pytest.fixture
def up_to_59():
    with with_limits(exact_neighbors=59):
        yield


@pytest.mark.parametrize("seen", [True, False], ids=["with itself", "without itself"])
def test_the_index_may_or_may_not_return_the_point_itself(monkeypatch, seen):
    """An index in place of pynndescent's, which returns points by their distance."""
    X = points(50, 3)

    class NNDescent:
        def __init__(self, data, n_neighbors, random_state):
            assert data.dtype == np.float32
            table = all_distances(data, data)
            if not seen:
                np.fill_diagonal(table, np.inf)
            order = np.argsort(table, axis=1)[:, :n_neighbors].astype(np.int32)
            self.neighbor_graph = order, np.take_along_axis(table, order, axis=1)

    module = ModuleType("pynndescent")
    module.NNDescent = NNDescent
    monkeypatch.setitem(sys.modules, "pynndescent", module)
    with with_limits(exact_neighbors=49):
        distances, indices = nearest(X, 6)
    assert not np.any(indices == np.arange(50)[:, None])
    np.testing.assert_array_equal(indices, brute_force(X, 6)[1])
    np.testing.assert_allclose(distances, brute_force(X, 6)[0], rtol=1e-5)
    assert distances.dtype == np.float64
    assert indices.dtype == np.intp


def test_a_missing_index_says_what_to_install(monkeypatch, up_to_59):
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(ImportError, match=r"more than 59 rows, here 60, .*pip install 'rkhs\[graphs\]', or .* GPU"):
        nearest(points(), 5)
    assert nearest(points(59), 5)[1].shape == (59, 5)
    assert nearest(points(), 5, device="cpu")[1].shape == (60, 5)


def test_many_points_are_projected():
    X = points(31, 5) * [5.0, 1.0, 0.1, 0.1, 3.0]
    with with_limits(projected_rows=30, projected_features=2):
        few, thin, found = (NeighborGraph.of(points, 3).nodes for points in (X[:30], X[:, :2], X))
    assert (few.shape, thin.shape, found.shape) == ((30, 5), (31, 2), (31, 2))
    expected = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(found), np.abs(expected[0][:, :2] * expected[1][:2]), atol=1e-12)


@pytest.mark.parametrize("shape", [(30, 4), (4, 30), (5, 5), (1, 3)])
@pytest.mark.parametrize("count", [1, 3, 100])
@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_principal_directions(shape, count, unit):
    X = points(*shape) + 3.0
    found = principal_directions(X * unit, count)
    assert found.shape == (min(count, *shape), shape[1])
    np.testing.assert_allclose(found @ found.T, np.eye(len(found)), atol=1e-13)
    centered = X - X.mean(axis=0)
    most = np.sum(np.linalg.svd(centered)[1][: len(found)] ** 2)
    assert np.sum((centered @ found.T) ** 2) == pytest.approx(most, rel=1e-10, abs=1e-20)
