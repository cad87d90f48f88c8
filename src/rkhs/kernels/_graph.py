"""The kernel of a graph of points: functions that vary little along the edges of all labeled and unlabeled points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from rkhs._core.backend.arrays import Array, Matrix, check_count, check_number, like, sparse_like, to_numpy, zeros
from rkhs._core.calculus.atoms import AllPairs, Pairing
from rkhs._core.graphs.filters import ACCURACY, Filter
from rkhs._core.graphs.neighbor_graph import NeighborGraph
from rkhs._core.limits import limits
from rkhs.kernels._base import Kernel


@dataclass(frozen=True)
class GraphKernel(Kernel):
    """The kernel of functions on the nodes of a graph, extended to new points by their neighbors.

        k(x, y) = b(x)'(I + (L / cutoff)^power)^-1 b(y) / v,        |f|^2 = v u'(I + (L / cutoff)^power) u

    with the normalized Laplacian L of the graph, whose eigenvalues lie between 0 and 2, the unit vector b(x) of a node
    x or the weights of the neighbors of a new point, and f(x) = b(x)'u.  The constant v makes the mean of k(x, x) over
    the nodes one.  f varies little within a cluster of nodes and freely between clusters, so that a few labels suffice
    if classes are clusters (Zhou and Belkin 2011 for the powers).  The matrix is never formed: its products with
    vectors are polynomials of the sparse L.  Functionals that take values of f are bounded, and derivatives are not.

    Parameters
    ----------
    graph : NeighborGraph
        The graph of all points.
    power : int, default=2
        The power of the Laplacian; 1 fails if a class has very few labels.
    cutoff : float, default=0.01
        The eigenvalue of L above which functions are damped; the smaller, the fewer degrees of freedom.
    accuracy : float, default=1e-12
        The largest error of the polynomial, relative to the largest eigenvalue of the kernel matrix of all nodes.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.kernels import GraphKernel, NeighborGraph
    >>> X = np.concatenate([np.linspace(0, 1, 20), np.linspace(3, 4, 20)])[:, None]  # two clusters
    >>> kernel = GraphKernel(NeighborGraph.of(X, n_neighbors=4), cutoff=1e-3)
    >>> kernel(X[[0]], X[[5, 25]]).round(2)
    array([[0.97, 0.  ]])
    >>> labels = rkhs.Term(rkhs.Evaluation(X[[0, 39]]), rkhs.Squared(), target=[-1.0, 1.0], weight=10.0)
    >>> np.sign(rkhs.Problem(kernel, [labels]).solve().function(X[[3, 17, 22, 30]]))
    array([-1., -1.,  1.,  1.])
    """

    graph: NeighborGraph
    power: int = 2
    cutoff: float = 0.01
    accuracy: float = ACCURACY

    def __post_init__(self) -> None:
        if not isinstance(self.graph, NeighborGraph):
            raise TypeError(f"GraphKernel needs a graph, such as NeighborGraph.of(X), got {self.graph!r}.")
        check_count(self.power, "power of a GraphKernel")
        for name in ("cutoff", "accuracy"):
            check_number(getattr(self, name), f"{name} of a GraphKernel")

    def __repr__(self) -> str:
        return f"GraphKernel({self.graph!r}, power={self.power}, cutoff={self.cutoff:g})"

    def __getstate__(self) -> dict[str, Any]:
        kept = ("graph", "power", "cutoff", "accuracy", "variance")  # the rest is computed when it is needed
        return {name: value for name, value in vars(self).items() if name in kept}

    def smoothness(self, dimension: int) -> float:
        return 1.0  # values are bounded functionals, and derivatives are not

    @cached_property
    def _filter(self) -> Filter:
        return Filter(self.power, self.cutoff, self.accuracy)

    @cached_property
    def variance(self) -> float:
        """The mean v of the diagonal of (I + (L / cutoff)^power)^-1, by which it is divided."""
        return self.graph.filters.mean_diagonals([self._filter], np.empty(0))[0]

    @property
    def degrees_of_freedom(self) -> float:
        """The trace of (I + (L / cutoff)^power)^-1, roughly the number of eigenvalues of L below the cutoff."""
        return self.variance * len(self.graph.nodes)

    @property
    def operations_per_column(self) -> int:
        """The number of multiplications in the product of the kernel matrix of all nodes and a vector."""
        return len(self._filter.coefficients) * int(self.graph.laplacian.nnz)

    def on_nodes(self, X: Array) -> csr_array:
        """Return the sparse matrix B (s, t) with which the kernel matrix of points X is B filter(B').

        Parameters
        ----------
        X : array-like of shape (s, n)
            The points.

        Returns
        -------
        csr_array of shape (s, t)
            The weights of the nodes.
        """
        return csr_array(self.graph.on_nodes(X) * self.variance**-0.5)

    def filter(self, V: Array) -> Array:
        """Return (I + (L / cutoff)^power)^-1 V for a block of columns.

        Parameters
        ----------
        V : array of shape (t, r)
            The columns.

        Returns
        -------
        array of shape (t, r)
            The result.
        """
        return self.graph.filters.apply(self._filter, V)

    def between(self, left: csr_array, right: csr_array, array: Array) -> Array:
        """Return the matrix left filter(right') for sparse matrices of node weights, like `array`.

        Parameters
        ----------
        left, right : csr_array of shape (s, t) and (r, t)
            The weights of the nodes; the same object if the result is symmetric.
        array : array
            The array whose namespace, dtype and device the result has.

        Returns
        -------
        array of shape (s, r)
            The matrix.
        """
        if left.shape[0] < right.shape[0]:
            return self.between(right, left, array).T
        count, t = right.shape
        if left is right and count * t <= limits().filtered_entries:
            return self._symmetric(right, array)
        # left filter(right') by columns, a tile of them at a time
        rows = sparse_like(left, array)
        out, step = zeros((left.shape[0], count), array), max(1, limits().filtered_entries // t)
        for start in range(0, count, step):
            tile = slice(start, start + step)
            out[:, tile] = rows @ self.filter(like(right[tile].T.toarray(), array))
        return out

    def _symmetric(self, B: csr_array, array: Array) -> Array:
        """Return B filter(B'); the last result is kept, because a search and the final fit need the same one."""
        last = vars(self).get("_last")
        if last is None or last[0].shape != B.shape or (last[0] != B).nnz or last[1].itemsize < array.itemsize:
            last = B, to_numpy(self.graph.filters.inner_products([self._filter], B, array)[0])
            vars(self)["_last"] = last
        return like(last[1], array)

    def pair(self, pairing: Pairing) -> Array:
        left = self.on_nodes(pairing.left.points)
        right = left if pairing.right.points is pairing.left.points else self.on_nodes(pairing.right.points)
        if isinstance(pairing, AllPairs):
            return self.between(left, right, pairing.left.points)
        values, step = np.empty(left.shape[0]), max(1, limits().filtered_entries // left.shape[1])
        for start in range(0, len(values), step):
            tile = slice(start, start + step)
            # k(x_i, y_i) = b(x_i)' filter(b(y_i))
            values[tile] = (left[tile] * self.filter(right[tile].T.toarray()).T).sum(axis=1)
        return like(to_numpy(values), pairing.left.points)


def graph_kernels(graph: NeighborGraph, power: int, cutoffs: Sequence[float], place: Array) -> list[GraphKernel]:
    """Return the kernels of a graph for several cutoffs, with their variances from one sequence of products.

    The products are computed with arrays like `place`.
    """
    kernels = [GraphKernel(graph, power, cutoff) for cutoff in cutoffs]
    variances = graph.filters.mean_diagonals([kernel._filter for kernel in kernels], place)
    for kernel, variance in zip(kernels, variances, strict=True):
        vars(kernel)["variance"] = variance  # the cached property
    return kernels


def kernel_matrices(kernels: Sequence[GraphKernel], X: Array, place: Array) -> list[Matrix]:
    """Return the kernel matrices (s, s) of points under kernels of one graph, from one sequence of products.

    The products are computed with arrays like `place`.
    """
    graph = kernels[0].graph
    found = graph.filters.inner_products([kernel._filter for kernel in kernels], graph.on_nodes(X), place)
    matrices = [to_numpy(K) / kernel.variance for K, kernel in zip(found, kernels, strict=True)]
    for K, kernel in zip(matrices, kernels, strict=True):
        vars(kernel)["_last"] = kernel.on_nodes(X), K
    return matrices
