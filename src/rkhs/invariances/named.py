"""Invariances that have a name: X -> functionals, with all that they need taken from the points."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from rkhs._backend.arrays import Array, as_points, to_numpy
from rkhs.functionals import Functional, Gradient, GraphDifference, LocalDeviation
from rkhs.invariances.graph import Graph

NEIGHBOURS = 10


def local_average(X: Array) -> Functional:
    """E f(x_i + z) - f(x_i), z so wide that |z| is about the median distance of a point to its nearest neighbour."""
    points = np.unique(to_numpy(as_points(X)), axis=0)
    if len(points) < 2:
        raise ValueError('"local_average" takes its width from distances: it needs two distinct points.')
    distances, _ = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points)
    return LocalDeviation(X, width=float(np.median(distances[:, 1])) / sqrt(points.shape[1]))


def laplacian(X: Array, neighbours: int = NEIGHBOURS) -> GraphDifference:
    """f(x_i) - f(x_j) along the edges of the graph of nearest neighbours.

    The squared loss on it is f'Lf with the graph Laplacian L, in which two points are joined if one is among the
    `neighbours` nearest of the other.

    Examples
    --------
    >>> laplacian([[0.0], [1.0], [3.0]], neighbours=1)
    GraphDifference(3 points in R^1, 2 edges)
    """
    points = as_points(X)
    return GraphDifference(points, neighbour_graph(to_numpy(points), neighbours))


def neighbour_graph(points: np.ndarray[Any, Any], neighbours: int) -> Any:
    """The symmetric (t, t) matrix with ones where one point is among the nearest neighbours of the other."""
    most = max(len(points) - 1, 0)
    if most == 0:
        return scipy.sparse.csr_array((len(points), len(points)))
    graph = scipy.sparse.csr_array(kneighbors_graph(points, min(neighbours, most)))
    return graph.maximum(graph.T)


NAMED: dict[str, Callable[[Array], Functional]] = {
    "gradient": Gradient,
    "local_average": local_average,
    "laplacian": laplacian,
    "graph": Graph(),
}
