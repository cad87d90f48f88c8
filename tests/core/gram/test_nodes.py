"""Gram matrices under graph kernels and sums with them, against dense matrices of all points.

Every family here is a matrix R of values at the points Z, so that the Gram matrix is R K R' with the kernel matrix K.
"""

from functools import cache

import numpy as np
import pytest
import scipy.sparse
import torch

import rkhs
from rkhs._core.gram.blocks import NodeProduct
from rkhs._core.gram.matrix import GramMatrix
from rkhs._core.gram.rounding import magnitudes
from rkhs._core.graphs.filters import ChebyshevFilters, SpectralFilters
from rkhs._core.limits import with_limits
from rkhs.extend import limits, to_numpy, with_progress_callback
from rkhs.kernels import Features, GraphKernel, NeighborGraph


def normal(seed, *shape):
    """Numbers that are exact in single precision."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(np.float64)


X, NEW = normal(0, 32, 2), normal(1, 9, 2)  # the nodes, and other points
Z = np.concatenate([X, NEW])
ON_X, ON_NEW = np.eye(41)[:32], np.eye(41)[32:]
DENSE, SPARSE = normal(2, 5, 32), scipy.sparse.csr_array(normal(3, 6, 9) * (normal(4, 6, 9) > 0.2))
MEAN = np.full((1, 32), 1 / 32)


def like(values, points):
    return values.astype(points.dtype) if isinstance(points, np.ndarray) else points.new_tensor(values)


FAMILIES = {  # a function of the nodes and of the new points, and its matrix
    "Evaluation of nodes": (lambda X, Y: rkhs.Evaluation(X), ON_X),
    "Evaluation of new points": (lambda X, Y: rkhs.Evaluation(Y), ON_NEW),
    "Difference": (lambda X, Y: rkhs.Difference(X[:9], Y), ON_X[:9] - ON_NEW),
    "dense W @ Evaluation": (lambda X, Y: like(DENSE, X) @ rkhs.Evaluation(X), DENSE @ ON_X),
    "sparse W @ Evaluation": (lambda X, Y: SPARSE @ rkhs.Evaluation(Y), SPARSE @ ON_NEW),
    "mean over all nodes": (lambda X, Y: like(MEAN, X) @ rkhs.Evaluation(X), MEAN @ ON_X),
    "difference of families": (lambda X, Y: rkhs.Evaluation(Y) - 0.5 * rkhs.Evaluation(X[:9]), ON_NEW - 0.5 * ON_X[:9]),
    "stack": (
        lambda X, Y: rkhs.stack(
            [rkhs.Evaluation(Y), 2.0 * rkhs.Difference(X[:9], Y), like(MEAN, X) @ rkhs.Evaluation(X)]
        ),
        np.concatenate([ON_NEW, 2.0 * (ON_X[:9] - ON_NEW), MEAN @ ON_X]),
    ),
}


def graph_matrix(kernel):
    """b(x)'(I + (L / cutoff)^power)^-1 b(y) / v at all points."""
    L = kernel.graph.laplacian.toarray() / kernel.cutoff
    B = kernel.graph.on_nodes(Z).toarray()
    return B @ np.linalg.solve(np.eye(len(L)) + np.linalg.matrix_power(L, kernel.power), B.T) / kernel.variance


def gaussian_matrix(points):
    return np.exp(-np.sum((points[:, None] - points) ** 2, axis=2) / 2)


def bent(points):
    return points * (1 + points[:, :1] / 4)


def kernel_and_matrix(name):
    return kernels_and_matrices(limits().spectral_nodes)[name]


@cache
def kernels_and_matrices(small):
    """All kernels, whose graphs keep the way in which filters are computed."""
    one = GraphKernel(NeighborGraph.of(X, n_neighbors=4), power=2, cutoff=0.3)
    other = GraphKernel(NeighborGraph.of(X[::2], n_neighbors=3, scale=[1.0, 3.0]), power=1, cutoff=0.1)
    assert isinstance(one.graph.filters, SpectralFilters if small else ChebyshevFilters)
    assert isinstance(other.graph.filters, type(one.graph.filters))
    features = rkhs.Gaussian(1.0) @ Features(bent)
    K, M, G, F = graph_matrix(one), graph_matrix(other), gaussian_matrix(Z), gaussian_matrix(bent(Z))
    return {
        "GraphKernel": (one, K),
        "Multiple": (2.5 * one, 2.5 * K),
        "with a Gaussian": (one + 0.5 * rkhs.Gaussian(1.0), K + 0.5 * G),
        "after a Gaussian": (0.5 * rkhs.Gaussian(1.0) + 2.0 * one, 0.5 * G + 2 * K),
        "two graphs": (one + 0.25 * other, K + 0.25 * M),
        "with features": (0.1 * one + features, 0.1 * K + F),
        "all of them": (3.0 * (one + rkhs.Gaussian(1.0)) + other + features, 3 * (K + G) + M + F),
    }


NAMES = ("GraphKernel", "Multiple", "with a Gaussian", "after a Gaussian", "two graphs", "with features", "all of them")
BOTH_ENDS = (NAMES[0], NAMES[-1])


@pytest.fixture(params=["eigenvectors", "polynomials"])
def way(request):
    """How filters are computed."""
    with with_limits(spectral_nodes=0 if request.param == "polynomials" else 2000):
        yield request.param


def close(found, expected, dtype="float64"):
    atol = 2e-10 if dtype == "float64" else 2e-5  # the polynomial's error of 1e-12 is divided by the variance
    np.testing.assert_allclose(found, expected, atol=atol * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name in NAMES for family in FAMILIES if name in BOTH_ENDS or family == "stack"],
)
def test_one_family(way, name, family):
    (kernel, K), (make, R) = kernel_and_matrix(name), FAMILIES[family]
    expected = R @ K @ R.T
    G = rkhs.gram(kernel, make(X, NEW))
    table = G.dense()
    close(table, expected)
    np.testing.assert_array_equal(table, table.T)
    close(G.in_double(), expected)
    out = np.zeros(G.shape)
    assert G.dense(out) is out
    close(out, expected)
    v = normal(5, len(R), 3)
    close(G @ v, expected @ v)
    close(G @ v[:, 0], expected @ v[:, 0])
    close(G.T @ v, expected @ v)
    close(G.diagonal(), np.diag(expected))
    rows = np.arange(len(R))[::-2]
    close(G.block(rows, slice(0, 2)), expected[rows][:, :2])
    close(G.part(rows, rows).dense(), expected[np.ix_(rows, rows)])
    close(G.part(slice(None), rows) @ v[rows], expected[:, rows] @ v[rows])


@pytest.mark.parametrize("name", BOTH_ENDS)
@pytest.mark.parametrize(
    ("left", "right"), [("Evaluation of nodes", "stack"), ("stack", "Difference"), ("mean over all nodes", "stack")]
)
def test_two_families(way, name, left, right):
    kernel, K = kernel_and_matrix(name)
    (make, R), (other, S) = FAMILIES[left], FAMILIES[right]
    expected = R @ K @ S.T
    G = rkhs.gram(kernel, make(X, NEW), other(X, NEW))
    close(G.dense(), expected)
    close(G.T.dense(), expected.T)
    v, w = normal(5, len(S), 2), normal(6, len(R))
    close(G @ v, expected @ v)
    close(G.T @ w, expected.T @ w)
    close(G.diagonal(), np.diag(expected))
    close(G.block([0], slice(None)), expected[:1])


@pytest.mark.parametrize(
    ("library", "dtype"), [(np.asarray, "float32"), (torch.tensor, "float64")], ids=["NumPy", "PyTorch"]
)
@pytest.mark.parametrize("name", BOTH_ENDS)
def test_libraries_and_dtypes(way, library, dtype, name):
    kernel, K = kernel_and_matrix(name)
    nodes, new = (library(points.astype(dtype)) for points in (X, NEW))
    for make, R in FAMILIES.values():
        G, expected = rkhs.gram(kernel, make(nodes, new)), R @ K @ R.T
        v = library(normal(5, len(R), 2).astype(dtype))
        results = G.dense(), G @ v, G.diagonal()
        for found in results:
            assert type(found) is type(nodes)
            assert found.dtype == nodes.dtype
        close(results[0], expected, dtype)
        close(results[1], expected @ np.asarray(v, dtype=np.float64), dtype)
        close(results[2], np.diag(expected), dtype)
        close(G.in_double(), expected)
        assert to_numpy(G.in_double()).dtype == np.float64


@pytest.mark.parametrize("build", [lambda k: k, lambda k: rkhs.Gaussian(1.0) + 2.0 * k], ids=["graph", "sum"])
def test_products_in_low_precision_find_the_nodes(way, build):
    """Rounded points would not be nodes, so that the precision is that of the points."""
    nodes = X + 1e-9  # no numbers of single precision
    kernel = build(GraphKernel(NeighborGraph.of(nodes, n_neighbors=4), cutoff=0.3))
    v = normal(5, 32)
    exact, fast = (rkhs.gram(kernel, rkhs.Evaluation(nodes), precision=p) for p in (None, "float32"))
    assert fast.precision is None
    np.testing.assert_array_equal(fast @ v, exact @ v)
    close(fast @ v, exact.dense() @ v)
    assert rkhs.gram(rkhs.Gaussian(1.0), rkhs.Evaluation(nodes), precision="float32").precision == "float32"


def test_empty_families(way):
    kernel, _ = kernel_and_matrix("with a Gaussian")
    G = rkhs.gram(kernel, rkhs.Evaluation(X), rkhs.Evaluation(X[:0]))
    assert G.dense().shape == (32, 0)
    np.testing.assert_array_equal(G @ np.zeros(0), np.zeros(32))
    np.testing.assert_array_equal(rkhs.gram(kernel, rkhs.Evaluation(X[:0])).dense(), np.zeros((0, 0)))


def test_averages_over_densities(way):
    """Cubature takes values at further points."""
    kernel, _ = kernel_and_matrix("with a Gaussian")
    G = rkhs.gram(kernel, rkhs.functionals.LocalAverage(NEW, 0.3))
    v = normal(5, 9)
    close(G @ v, G.dense() @ v)
    close(G.diagonal(), np.diag(G.dense()))


def test_products_share_the_matrix_of_a_family():
    kernel, _ = kernel_and_matrix("GraphKernel")
    steps = rkhs.gram(kernel, rkhs.Evaluation(X))._product
    assert [type(step) for step in steps] == [NodeProduct]
    assert steps[0]._left is steps[0]._right


@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["NumPy", "PyTorch"])
@pytest.mark.parametrize("name", NAMES)
def test_magnitudes_bound_the_entries(way, name, library):
    kernel, K = kernel_and_matrix(name)
    for make, R in FAMILIES.values():
        m = np.asarray(magnitudes(kernel, make(library(X), library(NEW))))
        assert m.shape == (len(R), 1)
        assert np.all(np.abs(R @ K @ R.T) <= m @ m.T * (1 + 1e-9))


def test_magnitudes_of_values_at_nodes():
    """A unit vector, divided by the root of the variance; those of a sum add up."""
    kernel, _ = kernel_and_matrix("GraphKernel")
    L, expected = rkhs.Evaluation(X), kernel.variance**-0.5
    np.testing.assert_allclose(magnitudes(kernel, L)[:, 0], expected)
    np.testing.assert_allclose(magnitudes(4.0 * kernel, L)[:, 0], 2 * expected)
    np.testing.assert_allclose(magnitudes(kernel + 9.0 * rkhs.Gaussian(1e6), L)[:, 0], expected + 3.0)


@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["NumPy", "PyTorch"])
def test_a_small_matrix_is_stored(library):
    """In double precision too, in which certificates are computed, even if points have single precision."""
    kernel, K = kernel_and_matrix("with a Gaussian")
    G = rkhs.gram(kernel, rkhs.Evaluation(library(X.astype(np.float32))))
    stored = G.stored_if_small()
    assert isinstance(stored, GramMatrix)
    for found in (G, stored):
        close(found.in_double(), K[:32, :32])
    operator = rkhs.gram(kernel, rkhs.Evaluation(X), memory=32 * 32 * 8 - 1)
    assert operator.stored_if_small() is operator


def test_the_time_of_products_grows_with_the_degree():
    graph, L = NeighborGraph.of(X, n_neighbors=4), rkhs.Evaluation(X)
    few, many = (rkhs.gram(GraphKernel(graph, cutoff=cutoff), L).core_seconds for cutoff in (0.1, 1e-4))
    assert 0 < few < many
    both = rkhs.gram(GraphKernel(graph, cutoff=0.1) + rkhs.Gaussian(1.0), L).core_seconds
    assert both > few


@pytest.mark.parametrize("way", ["polynomials"], indirect=True)
def test_progress_is_reported_and_callbacks_cancel(way):
    kernel, _ = kernel_and_matrix("with a Gaussian")
    fractions = []
    with with_progress_callback(fractions.append):
        rkhs.gram(kernel, rkhs.Evaluation(X)).dense()
    assert np.all(np.diff(fractions) >= 0)
    assert sum(fraction < 0.5 for fraction in fractions) > 10
    assert fractions[-1] <= 1

    def cancel(fraction):
        raise TimeoutError

    for work in (lambda G: G.dense(), lambda G: G @ np.ones(32)):
        with with_progress_callback(cancel), pytest.raises(TimeoutError):
            work(rkhs.gram(kernel, rkhs.Evaluation(X)))
