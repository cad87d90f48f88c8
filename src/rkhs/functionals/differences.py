"""Differences of values: at two places, or along the edges of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, as_array, as_points, check_unmasked, owned, same_kind, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs.functionals.base import Functional, Part, described


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Functional):
    """Differences of values at two places.

        L_i(f) = f(x_i) - f(y_i): shape (t,)

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Difference([[3.0]], [[1.0]])(rkhs.Polynomials(degree=2))
    array([[0., 2., 8.]])
    """

    X: Array
    Y: Array

    def __post_init__(self) -> None:
        X, Y = same_kind(as_points(self.X), as_points(self.Y, "Y"))
        if X.shape != Y.shape:
            raise ValueError(f"X has shape {tuple(X.shape)} and Y has {tuple(Y.shape)}: a Difference needs pairs.")
        object.__setattr__(self, "X", owned(X))
        object.__setattr__(self, "Y", owned(Y))

    def __repr__(self) -> str:
        return described("Difference", self.X)

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]),)

    @property
    def parts(self) -> tuple[Part, ...]:
        return Part(Atoms.values(self.X)), Part(Atoms.values(self.Y), weight=-1.0)


@dataclass(frozen=True, eq=False, repr=False)
class GraphDifference(Functional):
    """Differences of values along the edges of a graph.

        L_e(f) = sqrt(w_e) (f(x_i) - f(x_j)) for the edges e = (i, j) of a graph on the points: shape (e,)

    The squared loss on it is the graph Laplacian's  sum_e w_e (f(x_i) - f(x_j))^2.

    Parameters
    ----------
    X : (t, n)
    edges : (e, 2) integers, or a SciPy sparse (t, t) matrix of weights: one edge for each entry above
        the diagonal of the symmetric matrix
    weights : (e,) non-negative, one when None

    Examples
    --------
    >>> import rkhs
    >>> L = rkhs.GraphDifference([[0.0], [1.0], [3.0]], edges=[[1, 0], [2, 1]], weights=[1.0, 4.0])
    >>> L(rkhs.Polynomials(degree=1))
    array([[0., 1.],
           [0., 4.]])
    """

    X: Array
    edges: Any
    weights: Any = None

    def __post_init__(self) -> None:
        X = as_points(self.X)
        edges, weights = _as_edges(self.edges, self.weights, int(X.shape[0]))
        object.__setattr__(self, "X", owned(X))
        object.__setattr__(self, "edges", owned(edges))
        object.__setattr__(self, "weights", owned(weights))

    def __repr__(self) -> str:
        return described("GraphDifference", self.X)[:-1] + f", {len(self.edges)} edges)"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.edges),)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        e = len(self.edges)
        root = np.sqrt(self.weights).astype(to_numpy(self.X[:0]).dtype)
        data, rows = np.concatenate([root, -root]), np.tile(np.arange(e), 2)
        incidence = scipy.sparse.csr_array((data, (rows, self.edges.T.ravel())), shape=(e, self.X.shape[0]))
        return (Part(Atoms.values(self.X), matrix=incidence),)


def _as_edges(edges: Any, weights: Any, t: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if scipy.sparse.issparse(edges):
        if weights is not None:
            raise ValueError("A sparse matrix of edges carries its weights: leave `weights` out.")
        if edges.shape != (t, t) or abs(edges - edges.T).max() > 0:
            raise ValueError(f"The matrix of edges must be symmetric of shape ({t}, {t}), got {edges.shape}.")
        upper: Any = scipy.sparse.triu(edges, k=1, format="coo")
        edges, weights = np.stack([upper.row, upper.col], axis=1), upper.data
    check_unmasked(edges, "edges")
    edges = np.asarray(to_numpy(edges))
    if edges.size == 0:
        edges = np.zeros((0, 2), dtype=np.intp)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(f"edges must be integers of shape (e, 2), got {edges.dtype} of shape {edges.shape}.")
    if edges.size and (edges.min() < 0 or edges.max() >= t):
        raise ValueError(f"edges name a point that is not there: indices must be 0 to {t - 1}.")
    weights = np.ones(len(edges)) if weights is None else to_numpy(as_array(weights, "weights"))
    if weights.shape != (len(edges),) or np.any(weights < 0):
        raise ValueError(f"weights must be {len(edges)} non-negative numbers, one per edge, got shape {weights.shape}.")
    return edges, weights
