"""Values of a function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, as_array, as_points, check_unmasked, like, namespace, owned, same_kind, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs.functionals._base import AtPoints, Functional, Part


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(AtPoints):
    """Values at points.

        L_i(f) = f(x_i) at the rows x_i of X: shape (t,)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> rkhs.gram(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X)).dense().round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(Atoms.values(self.X)),)


@dataclass(frozen=True, eq=False, repr=False)
class Difference(AtPoints):
    """Differences of values at two places.

        L_i(f) = f(x_i) - f(y_i): shape (t,)

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Difference([[3.0]], [[1.0]])(rkhs.Polynomials(degree=2))
    array([[0., 2., 8.]])
    """

    Y: Array

    def __post_init__(self) -> None:
        X, Y = same_kind(as_points(self.X), as_points(self.Y, "Y"))
        if X.shape != Y.shape:
            raise ValueError(f"X has shape {tuple(X.shape)} and Y has {tuple(Y.shape)}: a Difference needs pairs.")
        object.__setattr__(self, "X", owned(X))
        object.__setattr__(self, "Y", owned(Y))

    @property
    def parts(self) -> tuple[Part, ...]:
        return Part(Atoms.values(self.X)), Part(Atoms.values(self.Y), weight=-1.0)


@dataclass(frozen=True, eq=False, repr=False)
class GraphDifference(AtPoints):
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
    >>> L = rkhs.functionals.GraphDifference([[0.0], [1.0], [3.0]], edges=[[1, 0], [2, 1]], weights=[1.0, 4.0])
    >>> L(rkhs.Polynomials(degree=1))
    array([[0., 1.],
           [0., 4.]])
    """

    edges: Any
    weights: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        edges, weights, t = self.edges, self.weights, int(self.X.shape[0])
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
            raise ValueError(
                f"weights must be {len(edges)} non-negative numbers, one per edge, got shape {weights.shape}."
            )
        object.__setattr__(self, "edges", owned(edges))
        object.__setattr__(self, "weights", owned(weights))

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
    """Averages around points, as a blurred sensor sees them.

        L_i(f) = E f(x_i + z),  z ~ N(0, width^2 I): shape (t,).  One width, or one per feature

    Exact for Gaussian kernels (per-feature scales and linear changes of input included) and for
    polynomial ones; to 1e-12 for Matern and the rational quadratic, as mixtures of Gaussians; by the
    cubature of `rkhs._calculus.atoms` for all others.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[1.0]])
    >>> rkhs.LocalAverage(X, width=2.0)(rkhs.Polynomials(degree=2))  # E (1 + z)^2 = 5
    array([[1., 1., 5.]])
    """

    width: float | tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        width = to_numpy(as_array(self.width, "width"))
        n = self.X.shape[1]
        if width.shape not in ((), (n,)) or not np.all(width > 0):
            raise ValueError(f"width must be positive, one number or one for each of {n} features, got {self.width!r}.")
        object.__setattr__(self, "width", float(width) if width.ndim == 0 else tuple(width.tolist()))

    @property
    def details(self) -> list[str]:
        return [f"width={self.width}"]

    @property
    def parts(self) -> tuple[Part, ...]:
        variances = np.broadcast_to(np.asarray(self.width) ** 2, (self.X.shape[1],))
        return (Part(Atoms.values(self.X, blur=variances)),)


def LocalDeviation(X: Array, width: float | tuple[float, ...]) -> Functional:
    """By how much averages around points differ from the values there.

        L_i(f) = E f(x_i + z) - f(x_i): by how much the local average differs from the value, shape (t,)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.LocalDeviation(np.array([[1.0]]), width=2.0)(rkhs.Polynomials(degree=2))
    array([[0., 0., 4.]])
    """
    average = LocalAverage(X, width)
    return average - Evaluation(average.X)


@dataclass(frozen=True, eq=False, repr=False)
class Average(Functional):
    """Averages over samples of points, such as regions.

        L_i(f) = sum_j w_ij f(x_ij), the average over the sample x_i1, x_i2, .. : shape (t,)

    Parameters
    ----------
    points : (t, k, n), k points for each of t averages; (k, n) for a single one
    weights : (t, k) or (k,), scaled to sum to one as in `numpy.average`; equal when None

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Average([[0.0], [2.0], [4.0]], weights=[1.0, 1.0, 2.0])(rkhs.Polynomials(degree=1))
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
            raise ValueError(f"weights must have shape ({k},) or ({t}, {k}) to go with points, got {weights.shape}.")
        total = weights.sum(axis=-1, keepdims=True)
        if np.any(total == 0):
            raise ValueError("weights of an average sum to zero; use W @ Evaluation(X) for such a combination.")
        object.__setattr__(self, "points", owned(points))
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
        matrix = scipy.sparse.csr_array(
            (weights.ravel().astype(to_numpy(self.points[:0]).dtype), np.arange(t * k), np.arange(0, t * k + 1, k)),
            shape=(t, t * k),
        )
        return (Part(Atoms.values(namespace(self.points).reshape(self.points, (t * k, n))), matrix=matrix),)


@dataclass(frozen=True, eq=False, repr=False)
class Components(AtPoints):
    """All components of a vector field v at the rows of X: shape (t, m).

    L_ic(F) = F(x_i, e_c), where the field is written as F(x, e) = <e, v(x)>.

    For kernels of points (x, e): `CurlFree`, `DivergenceFree`, and `rkhs.kernels.components`, which has m outputs.

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
        if not (isinstance(outputs, int) and outputs > 0):
            raise ValueError(f"outputs is a positive whole number, got {self.outputs!r}.")
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
        places = xp.reshape(xp.broadcast_to(self.X[:, None, :], (t, m, n)), (t * m, n))
        return (Part(Atoms.values(xp.concat([places, like(np.tile(np.eye(m), (t, 1)), places)], axis=1))),)
