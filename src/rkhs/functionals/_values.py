"""Values of a function: at points, their differences and averages, and the components of vector fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import (
    Array,
    as_array,
    as_points,
    check_count,
    check_unmasked,
    immutable_copy,
    like,
    namespace,
    same_kind,
    to_numpy,
)
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.atoms import Atoms
from rkhs.functionals._base import AtPoints, Functional, Part


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(AtPoints):
    """Point evaluations.

        L_i(f) = f(x_i) at the rows x_i of X: shape (t,)

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (t, n)
        The points.  Sparse ones stay sparse; kernels of the dot product and of the distance accept them.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> rkhs.gram(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X)).dense().round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    takes_sparse = True

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(Atoms.values(self.X)),)


@dataclass(frozen=True, eq=False, repr=False)
class Difference(AtPoints):
    """Differences of the values at pairs of points.

        L_i(f) = f(x_i) - f(y_i): shape (t,)

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (t, n)
        The first points.
    Y : array-like or SciPy sparse matrix of shape (t, n)
        The second points; sparse if X is.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Difference([[3.0]], [[1.0]])(rkhs.Polynomials(degree=2))
    array([[0., 2., 8.]])
    """

    Y: Array

    def __post_init__(self) -> None:
        X, Y = same_kind(as_points(self.X, sparse=True), as_points(self.Y, "Y", sparse=True))
        if X.shape != Y.shape:
            raise ValueError(f"X has shape {tuple(X.shape)} and Y has {tuple(Y.shape)}: a Difference needs pairs.")
        if isinstance(X, SparseVectors) != isinstance(Y, SparseVectors):
            raise TypeError("One of X and Y is a sparse matrix: pass scipy.sparse.csr_array(X) for both.")
        object.__setattr__(self, "X", immutable_copy(X))
        object.__setattr__(self, "Y", immutable_copy(Y))

    @property
    def parts(self) -> tuple[Part, ...]:
        return Part(Atoms.values(self.X)), Part(Atoms.values(self.Y), weight=-1.0)


@dataclass(frozen=True, eq=False, repr=False)
class GraphDifference(AtPoints):
    """Weighted differences of the values along the edges of a graph.

        L_e(f) = sqrt(w_e) (f(x_i) - f(x_j)) for the edges e = (i, j) of a graph on the points: shape (e,)

    With the squared loss it is the quadratic form of the graph Laplacian, sum_e w_e (f(x_i) - f(x_j))^2.

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.
    edges : array-like of int of shape (e, 2), or sparse matrix of shape (t, t)
        Pairs of indices; or a symmetric matrix of weights, each of whose entries above the diagonal is an edge.
    weights : array-like of shape (e,), optional
        The nonnegative weights; all one by default.

    Examples
    --------
    >>> import rkhs
    >>> L = rkhs.functionals.GraphDifference([[0.0], [1.0], [3.0]], edges=[[1, 0], [2, 1]], weights=[1.0, 4.0])
    >>> L(rkhs.Polynomials(degree=1))
    array([[0., 1.],
           [0., 4.]])
    """

    takes_sparse = True
    edges: Any
    weights: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        edges, weights, t = self.edges, self.weights, int(self.X.shape[0])
        if scipy.sparse.issparse(edges):
            if weights is not None:
                raise ValueError("A sparse matrix of edges already contains the weights: omit `weights`.")
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
            raise ValueError(f"edges contain an index that is out of range: indices must be 0 to {t - 1}.")
        weights = np.ones(len(edges)) if weights is None else to_numpy(as_array(weights, "weights"))
        if weights.shape != (len(edges),) or np.any(weights < 0):
            raise ValueError(
                f"weights must be {len(edges)} nonnegative numbers, one per edge, got shape {weights.shape}."
            )
        object.__setattr__(self, "edges", immutable_copy(edges))
        object.__setattr__(self, "weights", immutable_copy(weights))

    @property
    def details(self) -> list[str]:
        return [f"{len(self.edges)} edges"]

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


@dataclass(frozen=True, eq=False, repr=False)
class LocalAverage(AtPoints):
    """Gaussian-weighted averages around points, such as readings of a sensor with finite resolution.

        L_i(f) = E f(x_i + z),  z ~ N(0, width^2 I): shape (t,)

    They are exact for Gaussian kernels (with scales per feature and linear changes of input) and polynomial ones;
    accurate to 1e-12 for Matern and rational quadratic kernels, as mixtures of Gaussians; and computed by the cubature
    of `rkhs._core.calculus.atoms` for all others.

    Parameters
    ----------
    X : array-like of shape (t, n)
        The centers.
    width : float or tuple of float
        The standard deviation, or one per feature.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[1.0]])
    >>> rkhs.functionals.LocalAverage(X, width=2.0)(rkhs.Polynomials(degree=2))  # E (1 + z)^2 = 5
    array([[1., 1., 5.]])
    """

    width: float | tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        width = to_numpy(as_array(self.width, "width"))
        n = self.X.shape[1]
        if width.shape not in ((), (n,)) or not np.all(width > 0):
            raise ValueError(f"width must be positive, a number or one for each of {n} features, got {self.width!r}.")
        object.__setattr__(self, "width", float(width) if width.ndim == 0 else tuple(width.tolist()))

    @property
    def details(self) -> list[str]:
        return [f"width={self.width}"]

    @property
    def parts(self) -> tuple[Part, ...]:
        variances = np.broadcast_to(np.asarray(self.width) ** 2, (self.X.shape[1],))
        return (Part(Atoms.values(self.X, blur=variances)),)


def LocalDeviation(X: Array, width: float | tuple[float, ...]) -> Functional:
    """Return the differences between local averages and the values at the points.

        L_i(f) = E f(x_i + z) - f(x_i),  z ~ N(0, width^2 I): shape (t,)

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.
    width : float or tuple of float
        The standard deviation, or one per feature.

    Returns
    -------
    Functional
        ``LocalAverage(X, width) - Evaluation(X)``.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.functionals.LocalDeviation(np.array([[1.0]]), width=2.0)(rkhs.Polynomials(degree=2))
    array([[0., 0., 4.]])
    """
    average = LocalAverage(X, width)
    return average - Evaluation(average.X)


@dataclass(frozen=True, eq=False, repr=False)
class Average(Functional):
    """Weighted averages over samples of points, such as points of a region.

        L_i(f) = sum_j w_ij f(x_ij): shape (t,)

    Parameters
    ----------
    points : array-like of shape (t, k, n) or (k, n)
        The k points of each of t averages; or of a single one.
    weights : array-like of shape (t, k) or (k,), optional
        The weights, normalized to sum to one as in `numpy.average`; equal by default.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.functionals.Average([[0.0], [2.0], [4.0]], weights=[1.0, 1.0, 2.0])(rkhs.Polynomials(degree=1))
    array([[1. , 2.5]])
    """

    points: Array
    weights: Array | None = None

    def __post_init__(self) -> None:
        points = as_array(self.points, "points")
        if points.ndim == 2:
            points = points[None]
        if points.ndim != 3 or points.shape[1] == 0 or points.shape[2] == 0:
            raise ValueError(f"points must have shape (t, k, n) or (k, n), k and n positive, got {points.shape}.")
        t, k, _ = points.shape
        weights = np.ones((t, k)) if self.weights is None else to_numpy(as_array(self.weights, "weights"))
        if weights.shape not in ((k,), (t, k)):
            raise ValueError(f"weights must have shape ({k},) or ({t}, {k}) to match points, got {weights.shape}.")
        total = weights.sum(axis=-1, keepdims=True)
        if np.any(total == 0):
            raise ValueError("The weights of an average sum to zero; use W @ Evaluation(X) for such a combination.")
        object.__setattr__(self, "points", immutable_copy(points))
        object.__setattr__(self, "weights", np.broadcast_to(weights / total, (t, k)))

    def __repr__(self) -> str:
        t, k, n = self.points.shape
        return f"Average({t} of {k} points in R^{n})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.points.shape[0]),)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, k, n = self.points.shape
        weights: Any = self.weights
        data, starts = weights.ravel().astype(to_numpy(self.points[:0]).dtype), np.arange(0, t * k + 1, k)
        matrix = scipy.sparse.csr_array((data, np.arange(t * k), starts), shape=(t, t * k))
        return (Part(Atoms.values(namespace(self.points).reshape(self.points, (t * k, n))), matrix=matrix),)


@dataclass(frozen=True, eq=False, repr=False)
class Components(AtPoints):
    """All components of a vector field v at points.

        L_ic(F) = F(x_i, e_c) for the field written as F(x, e) = <e, v(x)>: shape (t, m)

    It is meant for kernels of inputs (x, e): `CurlFree`, `DivergenceFree`, and `rkhs.kernels.components`, which has m
    outputs.

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.
    outputs : int, optional
        The number m of components; n by default.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.functionals.Components(np.zeros((5, 2))).shape, rkhs.functionals.Components(np.zeros((5, 2)), 3).shape
    ((5, 2), (5, 3))
    """

    outputs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        outputs = int(self.X.shape[1]) if self.outputs is None else self.outputs
        check_count(outputs, "outputs")
        object.__setattr__(self, "outputs", outputs)

    @property
    def details(self) -> list[str]:
        return [f"{self.outputs} outputs"]

    @property
    def shape(self) -> tuple[int, ...]:
        return int(self.X.shape[0]), int(self.outputs or 0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, m = self.shape
        xp = namespace(self.X)
        n = int(self.X.shape[1])
        points = xp.reshape(xp.broadcast_to(self.X[:, None, :], (t, m, n)), (t * m, n))
        return (Part(Atoms.values(xp.concat([points, like(np.tile(np.eye(m), (t, 1)), points)], axis=1))),)
