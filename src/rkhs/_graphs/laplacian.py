"""Weights of the edges of a graph, and its Laplacians.

With weights W on the edges and D the row sums of W, the Laplacian is  L = D - W,  and the normalized Laplacian is
I - D^-1/2 W D^-1/2,  whose eigenvalues lie between 0 and 2.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from scipy.sparse import csr_array

from rkhs._backend.arrays import Matrix, Vector

DECAY = 4.0  # exponent of the weight of the last neighbor, exp(-4)


def heat_weights(distances: Matrix) -> Matrix:
    """Return the weights exp(-DECAY d^2 / d_k^2) of neighbors at distances (t, k), d_k being the largest of a row.

    The local width makes the weights independent of the density of points (Zelnik-Manor and Perona 2004).
    """
    farthest = distances[:, -1:]
    return np.exp(-DECAY * (distances / np.where(farthest > 0, farthest, 1.0)) ** 2)


def adjacency(weights: Matrix, neighbors: Matrix) -> csr_array:
    """Return the symmetric matrix (W + W') / 2 of the weights (t, k) of the edges from each point to its neighbors."""
    count, most = neighbors.shape
    rows = np.repeat(np.arange(count), most)
    W = csr_array((weights.ravel(), (rows, neighbors.ravel())), shape=(count, count))
    return without_loops(csr_array((W + W.T) / 2))


def normalized(W: csr_array) -> csr_array:
    """Return D^-1/2 W D^-1/2 with the degrees D."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    roots = scipy.sparse.diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)))
    return csr_array(roots @ W @ roots)


def laplacian_of(W: csr_array) -> csr_array:
    """Return L = D - W; rows of points without neighbors are zero."""
    return csr_array(scipy.sparse.csgraph.laplacian(W))


def normalized_laplacian(W: csr_array) -> csr_array:
    """Return I - D^-1/2 W D^-1/2; rows of points without neighbors are zero."""
    return csr_array(scipy.sparse.csgraph.laplacian(W, normed=True))


def without_loops(W: csr_array) -> csr_array:
    """Return the graph without edges from points to themselves."""
    W = csr_array(W - scipy.sparse.diags_array(W.diagonal()))
    W.eliminate_zeros()
    return W


def checked_graph(graph: object, count: int) -> csr_array:
    """Return a user's graph of `count` rows without loops; raise an error that says how to repair an invalid one."""
    W = csr_array(graph, dtype=np.float64)
    if W.shape != (count, count):
        raise ValueError(f"The graph has shape {W.shape}, but there are {count} points: it needs one row per point.")
    if W.nnz and not np.all((W.data >= 0) & np.isfinite(W.data)):
        raise ValueError("The weights of a graph must be finite and nonnegative.")
    if abs(W - W.T).max() > 0:
        raise ValueError(
            "The weights of a graph must be symmetric: pass (W + W.T) / 2, or W.maximum(W.T) to keep all edges."
        )
    return without_loops(W)


def components_of(W: csr_array) -> Vector:
    """Return the index of the connected component of each node."""
    return np.asarray(scipy.sparse.csgraph.connected_components(W, directed=False)[1])
