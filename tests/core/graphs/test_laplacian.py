"""Weights and Laplacians of graphs against their definitions, and what is refused of a user's graph."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array

from refusals import refused
from rkhs.kernels import NeighborGraph


def graph(t=20, seed=0):
    """A symmetric graph with some points that have no neighbors, the last among them."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.uniform(size=(t, t)) * (rng.uniform(size=(t, t)) < 0.15), k=1)
    W[:, [2, -1]] = W[[2, -1]] = 0
    return W + W.T


def given(W):
    """A user's graph of 20 points."""
    return NeighborGraph.of(np.arange(20.0)[:, None], graph=W)


@pytest.mark.parametrize("seed", range(3))
def test_laplacians_are_as_defined(seed):
    W = graph(seed=seed)
    degrees = W.sum(axis=1)
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    similar = W / np.outer(roots, roots)
    found = given(W).laplacian.toarray()
    np.testing.assert_allclose(found, np.diag(1.0 * (degrees > 0)) - similar, atol=1e-15)


def test_the_number_of_zero_eigenvalues_is_that_of_components():
    W = graph()
    labels, L = given(W).components, given(W).laplacian.toarray()
    assert np.sum(np.linalg.eigvalsh(L) < 1e-12) == len(np.unique(labels))
    reached = np.linalg.matrix_power(np.eye(20) + W, 20) > 0
    np.testing.assert_array_equal(labels[:, None] == labels, reached)


def test_loops_are_removed():
    W = graph() + np.diag(np.arange(20.0))
    np.testing.assert_array_equal(given(W).weights.toarray(), graph())
    assert given(W).weights.nnz == np.count_nonzero(graph())


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("dtype", [float, np.float32, int, bool])
def test_graphs_of_any_kind(kind, dtype):
    W = (graph() > 0).astype(dtype)
    mine = kind(W)
    found = given(mine).weights
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found.toarray(), W)
    found.data[:] = 7.0
    np.testing.assert_array_equal(mine if kind is np.asarray else mine.toarray(), W)  # the user's one is not changed


def changed(value, mirrored=True):
    W = graph()
    W[0, 1] = value
    if mirrored:
        W[1, 0] = value
    return csr_array(W)


REFUSED = [
    (lambda: csr_array(graph()[:19, :19]), r"shape \(19, 19\), but there are 20 points: it needs one row per"),
    (lambda: csr_array(graph()[:, :7]), r"shape \(20, 7\)"),
    *((lambda value=value: changed(value), "finite and nonnegative") for value in (-1e-9, np.nan, np.inf)),
    (lambda: changed(0.7, mirrored=False), r"symmetric: pass \(W \+ W\.T\) / 2, or W\.maximum\(W\.T\)"),
]
test_what_is_refused = refused(*((lambda make=make: given(make()), words) for make, words in REFUSED))


def test_the_remedies_for_an_asymmetric_graph_work():
    W = changed(0.7, mirrored=False)
    for remedy in ((W + W.T) / 2, W.maximum(W.T)):
        assert given(remedy).weights[0, 1] > 0
