"""Averages: over a Gaussian around each point, or over any sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, as_array, as_points, namespace, owned, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs.functionals.base import Functional, Part, described
from rkhs.functionals.evaluation import Evaluation


@dataclass(frozen=True, eq=False, repr=False)
class LocalAverage(Functional):
    """Averages around points, as a blurred sensor sees them.

        L_i(f) = E f(x_i + z),  z ~ N(0, width^2 I): shape (t,).  One width, or one per feature

    Exact for Gaussian kernels (per-feature scales and linear changes of input included) and for
    polynomial ones; to 1e-12 for Matern and the rational quadratic, as mixtures of Gaussians; by the
    cubature of `rkhs._calculus.cubature` for all others.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[1.0]])
    >>> rkhs.LocalAverage(X, width=2.0)(rkhs.Polynomials(degree=2))  # E (1 + z)^2 = 5
    array([[1., 1., 5.]])
    """

    X: Array
    width: float | tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", owned(as_points(self.X)))
        width = to_numpy(as_array(self.width, "width"))
        n = self.X.shape[1]
        if width.shape not in ((), (n,)) or not np.all(width > 0):
            raise ValueError(f"width must be positive, one number or one for each of {n} features, got {self.width!r}.")
        object.__setattr__(self, "width", float(width) if width.ndim == 0 else tuple(width.tolist()))

    def __repr__(self) -> str:
        return described("LocalAverage", self.X)[:-1] + f", width={self.width})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]),)

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
