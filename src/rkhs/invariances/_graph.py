"""Neighbors are alike: f changes little along the graph of nearest neighbors, and so do its changes.

With weights W on the edges of a graph and the Laplacian  L = D - W,  D the sums of rows of W, the squared loss on
A @ Evaluation(X)  is  f'L^p f,  where A'A = L^p:

    A = L^(p/2) for an even power p,      A = B L^((p-1)/2) for an odd one, with the incidence matrix B, B'B = L

A power above one also asks that f is smooth on the graph: what L f is at a point is compared with its neighbors'.
Normalized graphs and higher powers are what the good results of the literature use (Belkin, Niyogi and Sindhwani 2006;
Zhou and Belkin 2011 for the powers).  There L = I - D^-1/2 W D^-1/2; here the weights alone are normalized so, and
L is as above: f = 1 then costs nothing, so that an intercept is free, and errors were no larger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors

from rkhs._backend.arrays import Array, Matrix, as_points, to_numpy
from rkhs.functionals import Evaluation, Functional, Gradient, LocalDeviation

MANY, COMPONENTS = 20_000, 50  # points beyond which neighbors are searched by so many principal components


@dataclass(frozen=True, eq=False)
class Graph:
    """Neighbors in a graph have similar values.

        L = A @ Evaluation(X) with  |L(f)|^2 = f'L^p f / tr(L^p),  on a graph of neighbors or one that is given

    Divided by the trace of L^p, the sum of squares is about one for a function that is white noise of variance one,
    however many points there are and whatever the graph: weights mean the same everywhere.  (Other functionals are
    compared with a typical function of the kernel, which is smooth; a graph is there to say what smooth is.)

    Parameters
    ----------
    n_neighbors : two points are joined if one is among so many nearest ones of the other
    power : p
    weights : "heat", exp(-d^2 / (2 s^2)) with s the mean distance of neighbors, or "ones"
    normalized : whether weights are divided by the roots of the degrees of both ends
    scale : what features are divided by before distances are measured, a number or one per feature
    components : distances are those of so many principal components of these; None for all features.  Neighbors in
        many noisy features are by chance
    graph : a symmetric SciPy sparse matrix (t, t) of weights, in place of nearest neighbors; X then needs these t rows
        in their order

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0], [3.0], [6.0], [10.0]])
    >>> rkhs.invariances.Graph(n_neighbors=1, power=1)(X).shape  # one for each edge
    (4,)
    >>> rkhs.invariances.Graph(n_neighbors=1, power=2)(X).shape  # one for each point
    (5,)
    """

    n_neighbors: int = 10
    power: int = 2
    weights: str = "heat"
    normalized: bool = True
    scale: Any = 1.0
    components: int | None = None
    graph: Any = None
    once: ClassVar[bool] = True  # it looks at all points together, each of them once, and has a unit of its own

    def __post_init__(self) -> None:
        for name in ("n_neighbors", "power", "components"):
            value = getattr(self, name)
            if name == "components" and value is None:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} of a Graph must be a positive integer, got {value!r}.")
        if self.weights not in ("heat", "ones"):
            raise ValueError(f'weights of a Graph must be "heat" or "ones", got {self.weights!r}.')

    def __repr__(self) -> str:
        which = f"n_neighbors={self.n_neighbors}" if self.graph is None else "graph=.."
        few = "" if self.components is None else f", components={self.components}"
        return f"Graph({which}, power={self.power}{few})"

    def __call__(self, X: Array) -> Functional:
        """Return the functionals at the points X."""
        points = as_points(X)
        rows = to_numpy(points)
        most = min(self.n_neighbors, len(rows) - 1)
        if self.graph is not None:
            W = csr_array(self.graph, dtype=np.float64)
            if W.shape != (len(rows), len(rows)):
                raise ValueError(
                    f"The graph has shape {W.shape}, and there are {len(rows)} points: it needs one row for each."
                )
            if abs(W - W.T).max() > 0 or (W.nnz and not np.all((W.data >= 0) & np.isfinite(W.data))):
                raise ValueError("The weights of a graph must be symmetric, finite and not negative.")
            W = _without_loops(W)
        elif most < 1:
            W = csr_array((len(rows), len(rows)))
        else:
            rows = rows / np.asarray(self.scale, dtype=np.float64)
            if self.components is not None:
                rows = rows @ principal_directions(rows, self.components).T
            W = neighbor_weights(*nearest(rows, most), self.weights)
        A = root_of_laplacian(normalized(W) if self.normalized else W, self.power)
        size = float(np.sum(A.data**2))
        return (A / size**0.5 if size > 0 else A) @ Evaluation(points)


def nearest(points: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """Return the distances (t, k) and the indices (t, k) of the k nearest neighbors of each point.

    Among more than 20,000 points of many features by the distance of their 50 principal components: exact neighbors of
    60,000 images would take minutes.
    """
    if len(points) > MANY and points.shape[1] > COMPONENTS:
        points = (points - points.mean(axis=0)) @ principal_directions(points, COMPONENTS).T
    return NearestNeighbors(n_neighbors=count).fit(points).kneighbors()


def principal_directions(points: Matrix, count: int) -> Matrix:
    """Return the directions (r, n), orthonormal, in which points (t, n) differ most, the first most of all.

    There are as many as asked for, or as features or points.

    Examples
    --------
    >>> np.abs(principal_directions(np.array([[0.0, 1.0], [0.0, -1.0], [0.1, 0.0]]), 1)).round(6)
    array([[0., 1.]])
    """
    centered = points - points.mean(axis=0)
    centered = centered / (float(np.max(np.abs(centered), initial=0.0)) or 1.0)  # squares of any unit are finite
    t, n = centered.shape
    if n > t:
        return np.linalg.svd(centered, full_matrices=False)[2][:count]
    return np.asarray(scipy.linalg.eigh(centered.T @ centered, subset_by_index=[max(0, n - count), n - 1])[1].T[::-1])


def neighbor_weights(distances: Matrix, neighbors: Matrix, weights: str = "heat") -> csr_array:
    """Return the symmetric matrix (t, t) of weights for the k neighbors (t, k) of each point at distances (t, k)."""
    count, most = neighbors.shape
    width = float(distances.mean())
    near = np.exp(-(distances**2) / (2 * width**2)) if weights == "heat" and width > 0 else np.ones(distances.shape)
    rows = np.repeat(np.arange(count), most)
    W = csr_array((near.ravel(), (rows, neighbors.ravel())), shape=(count, count))
    return _without_loops(W.maximum(W.T))


def normalized(W: csr_array) -> csr_array:
    """Return D^-1/2 W D^-1/2, with the degrees D."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    roots = scipy.sparse.diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)))
    return csr_array(roots @ W @ roots)


def laplacian_of(W: csr_array) -> csr_array:
    """Return L = D - W; nothing is known of points without neighbors."""
    return csr_array(scipy.sparse.csgraph.laplacian(W))


def root_of_laplacian(W: csr_array, power: int) -> csr_array:
    """Return A with A'A = L^p; for odd p its first factor is the incidence matrix B, a row for each edge, B'B = L."""
    A = L = laplacian_of(W)
    if power % 2:
        upper = scipy.sparse.triu(W, k=1, format="coo")
        root, edges = np.sqrt(upper.data), np.tile(np.arange(upper.nnz), 2)
        ends = np.concatenate([upper.row, upper.col])
        A = csr_array((np.concatenate([root, -root]), (edges, ends)), shape=(upper.nnz, W.shape[0]))
    for _ in range((power - 1) // 2):
        A = A @ L
    return csr_array(A)


def _without_loops(W: csr_array) -> csr_array:
    """Return the graph in which no point is a neighbor of itself."""
    W = csr_array(W - scipy.sparse.diags_array(W.diagonal()))
    W.eliminate_zeros()
    return W


def local_average(X: Array) -> Functional:
    """Return E f(x_i + z) - f(x_i), |z| about the median distance of a point to its nearest neighbor."""
    points = np.unique(to_numpy(as_points(X)), axis=0)
    if len(points) < 2:
        raise ValueError('"local_average" takes its width from distances: it needs two distinct points.')
    distances, _ = NearestNeighbors(n_neighbors=1).fit(points).kneighbors()
    return LocalDeviation(X, width=float(np.median(distances)) / sqrt(points.shape[1]))


NAMED: dict[str, Callable[[Array], Functional]] = {
    "gradient": Gradient,
    "local_average": local_average,
    "graph": Graph(),
}
