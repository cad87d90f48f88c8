"""Graph regularization: f changes little along the edges of a nearest-neighbor graph.

With weights W on the edges and the Laplacian  L = D - W,  D the row sums of W, the squared loss on  A @ Evaluation(X)
is  f'L^p f,  where A'A = L^p:

    A = L^(p/2) for an even power p,      A = B L^((p-1)/2) for an odd one, with the incidence matrix B, B'B = L

A power above one also asks that L f is small, which compares f at a point with the mean of its neighbors.
Normalized graphs and higher powers have given the best results in the literature (Belkin, Niyogi and Sindhwani 2006;
Zhou and Belkin 2011 for the powers).  There L = I - D^-1/2 W D^-1/2; here only the weights are normalized this way and
L is as above: constants then have no penalty, so that an intercept is free, and errors were no larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from scipy.sparse import csr_array

from rkhs._core.backend.arrays import (
    Array,
    Matrix,
    as_points,
    check_choice,
    take_rows,
    to_numpy,
    unique_rows,
)
from rkhs._core.graphs.neighbor_graph import (
    Projection,
    as_rows,
    check_counts,
    checked_graph,
    directed,
    laplacian_of,
    nearest,
    normalized,
    without_loops,
)
from rkhs.functionals import Evaluation, Functional, Gradient, LocalDeviation


@dataclass(frozen=True, eq=False)
class Graph:
    """Graph Laplacian regularization: neighbors in a graph have similar values.

        L = A @ Evaluation(X) with  |L(f)|^2 = f'L^p f / tr(L^p)

    The graph joins nearest neighbors or is given.  Division by the trace of L^p makes the sum of squares about one for
    white noise of variance one, independently of the number of points and of the graph, so that weights are comparable.
    (Other functionals are compared with a typical function of the kernel, which is smooth; a graph defines another
    notion of smoothness.)

    Parameters
    ----------
    n_neighbors : int, default=10
        Two points are joined if one is among the `n_neighbors` nearest ones of the other.
    power : int, default=2
        The power p of the Laplacian.
    weights : {"heat", "ones"}, default="heat"
        Weights exp(-d^2 / (2 s^2)) with s the mean distance of neighbors, or all one.
    normalized : bool, default=True
        Whether to divide the weights by the square roots of the degrees of both ends.
    scale : float or array-like of shape (n,), default=1.0
        A divisor of the features, or one per feature, before distances are computed.
    components : int, optional
        The number of principal components in which distances are computed; by default all features are used.  In many
        noisy features neighbors are arbitrary.
    graph : sparse matrix of shape (t, t), optional
        A symmetric matrix of weights that replaces nearest neighbors; X must then have these t rows in this order.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0], [3.0], [6.0], [10.0]])
    >>> rkhs.invariances.Graph(n_neighbors=1, power=1)(X).shape  # one functional per edge
    (4,)
    >>> rkhs.invariances.Graph(n_neighbors=1, power=2)(X).shape  # one functional per point
    (5,)
    """

    n_neighbors: int = 10
    power: int = 2
    weights: str = "heat"
    normalized: bool = True
    scale: Any = 1.0
    components: int | None = None
    graph: Any = None
    once: ClassVar[bool] = True  # see Invariance.once

    def __post_init__(self) -> None:
        check_counts("Graph", self.components, n_neighbors=self.n_neighbors, power=self.power)
        check_choice(self.weights, "weights of a Graph", "heat", "ones")

    def __repr__(self) -> str:
        source = f"n_neighbors={self.n_neighbors}" if self.graph is None else "graph=.."
        components = "" if self.components is None else f", components={self.components}"
        return f"Graph({source}, power={self.power}{components})"

    def __call__(self, X: Array) -> Functional:
        """Return the functionals at the points X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        Functional
            The functionals A @ Evaluation(X).
        """
        points = as_points(X)
        if self.graph is not None:
            W = checked_graph(self.graph, len(points))
        else:
            first = np.sort(unique_rows(as_rows(points))[1])  # copies of a point would be its only neighbors
            points, n_neighbors = take_rows(points, first), min(self.n_neighbors, len(first) - 1)
            W = csr_array((len(first), len(first)))
            if n_neighbors > 0:
                points_in = Projection.of(as_rows(points), self.scale, self.components)(as_rows(points))
                W = neighbor_weights(*nearest(points_in, n_neighbors), self.weights)
        A = root_of_laplacian(normalized(W) if self.normalized else W, self.power)
        size = float(np.sum(A.data**2))
        return (A / size**0.5 if size > 0 else A) @ Evaluation(points)


def neighbor_weights(distances: Matrix, neighbors: Matrix, weights: str = "heat") -> csr_array:
    """Return the symmetric matrix (t, t) of weights, given the neighbors (t, k) of each point and their distances."""
    width = float(distances.mean())
    near = np.exp(-(distances**2) / (2 * width**2)) if weights == "heat" and width > 0 else np.ones(distances.shape)
    W = directed(near, neighbors)
    return without_loops(W.maximum(W.T))


def root_of_laplacian(W: csr_array, power: int) -> csr_array:
    """Return A with A'A = L^p; for odd p its first factor is the incidence matrix B with one row per edge, B'B = L."""
    A = L = laplacian_of(W)
    if power % 2:
        upper = scipy.sparse.triu(W, k=1, format="coo")
        root, edges = np.sqrt(upper.data), np.tile(np.arange(upper.nnz), 2)
        ends = np.concatenate([upper.row, upper.col])
        A = csr_array((np.concatenate([root, -root]), (edges, ends)), shape=(upper.nnz, W.shape[0]))
    for _ in range((power - 1) // 2):
        A = A @ L
    return csr_array(A)


def local_average(X: Array) -> Functional:
    """Return E f(x_i + z) - f(x_i), with |z| about the median distance of a point to its nearest neighbor."""
    points = unique_rows(to_numpy(as_points(X)))[0]
    if len(points) < 2:
        raise ValueError('"local_average" derives its width from distances: it needs at least two distinct points.')
    distances, _ = nearest(points, 1)
    return LocalDeviation(X, width=float(np.median(distances)) / sqrt(points.shape[1]))


NAMED: dict[str, Callable[[Array], Functional]] = {
    "gradient": Gradient,
    "local_average": local_average,
    "graph": Graph(),
}
