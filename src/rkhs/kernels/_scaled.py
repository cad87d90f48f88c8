"""Length scales: a positive number, one per feature, "median" until somebody has the data, or left open."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # which imports scipy.spatial when it is first used

from rkhs._backend.arrays import Array, Matrix, Vector, as_points, as_real, namespace, to_numpy
from rkhs._calculus.atoms import Pairing
from rkhs._calculus.forms import Form, RadialDerivatives
from rkhs.kernels._algebra import Product
from rkhs.kernels._base import FormKernel, Kernel, Tunable, check_known

MOST_POINTS = 5000  # above this, the median is that of a random sample
LEAST = float(np.finfo(np.float64).tiny ** 0.5)  # of a scale: the square of a smaller one underflows
Scale = float | tuple[float, ...] | str | Tunable


def median_scale(X: Array, random_state: int = 0, distance: str = "euclidean") -> float:
    """Return the median distance between distinct points, a common choice of scale.

    Above 5,000 points (2,000 of 5,000 features) it is that of so many drawn at random.  `distance` is a name that SciPy
    knows.

    Examples
    --------
    >>> median_scale([[0.0], [1.0], [3.0]])
    2.0
    """
    points = to_numpy(as_points(X))
    most = min(MOST_POINTS, int((2e10 / points.shape[1]) ** 0.5))  # 1e10 coordinates of all pairs take ten seconds
    if len(points) > most:
        points = np.random.default_rng(random_state).choice(points, most, replace=False)
    distances = scipy.spatial.distance.pdist(points, distance)
    distances = distances[distances > 0]
    if distances.size == 0:
        raise ValueError(
            f"The median distance of {len(points)} points is undefined: fewer than two of them are distinct. "
            "Give the scale as a number."
        )
    return float(np.median(distances))


class Scaled(Kernel):
    """A kernel of x / scale; a subclass has the field `scale`."""

    scale: Scale
    positive: ClassVar[tuple[str, ...]] = ("scale",)
    distance: ClassVar[str] = "euclidean"  # of which the median is a scale

    def __post_init__(self) -> None:
        scale: Any = self.scale
        if isinstance(scale, str) and scale != "median":
            raise ValueError(f'scale must be positive, one per feature, or "median", got {scale!r}.')
        if isinstance(scale, (str, Tunable)):
            return
        values = np.asarray(to_numpy(as_real(scale, "scale")), dtype=np.float64)
        if values.ndim > 1 or values.size == 0 or not np.all((values > 0) & np.isfinite(values)):
            raise ValueError(f"scale must be positive and finite, a number or one per feature, got {scale!r}.")
        if not np.all((values >= LEAST) & (values <= 1 / LEAST)):
            raise ValueError(
                f"scale must be between {LEAST:.1e} and {1 / LEAST:.1e}, got {scale!r}: the square of others overflows "
                "or underflows; give the features another unit."
            )
        object.__setattr__(self, "scale", float(values) if values.ndim == 0 else tuple(values.tolist()))

    def linear(self, dimension: int) -> Vector:
        """Return the map x -> x / scale, one factor per feature."""
        if isinstance(self.scale, str):
            raise ValueError(
                f"{self!r} has no scale yet: resolve it where the data are, with kernel.resolved(X), "
                "or give the scale as a number."
            )
        if isinstance(self.scale, Tunable):
            check_known(self)
        factors = 1.0 / np.asarray(self.scale, dtype=np.float64)
        return np.full(dimension, factors) if factors.ndim == 0 else factors

    def resolved(self, X: Array) -> Kernel:
        if self.scale != "median":
            return self
        return replace(cast(Any, self), scale=median_scale(X, distance=self.distance))


class ScaledKernel(Scaled, FormKernel):
    """A radial kernel of x / scale, phi(q) with a phi that is smooth unless a subclass says otherwise."""

    smooth: ClassVar[bool] = True

    @abstractmethod
    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return {k: phi^(k)(q) for k in orders}; q may be overwritten."""

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(1, self.radial_derivatives, self.smooth, self.linear(dimension))

    def own_tangent(self, name: str, feature: int | None) -> Kernel:
        return ScaleTangent(self, feature)


@dataclass(frozen=True, eq=False)
class Formed(FormKernel):
    """phi(q) of a form that is at hand."""

    given: Form

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return self.given


@dataclass(frozen=True, eq=False)
class Weighted(Kernel):
    """sum_i c_i k_i with numbers c_i of any sign."""

    parts: tuple[tuple[float, Kernel], ...]

    def smoothness(self, dimension: int) -> float:
        return min(k.smoothness(dimension) for _, k in self.parts)

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple((c * weight, part) for c, k in self.parts for weight, part in k.summands())

    def pair(self, pairing: Pairing) -> Array:
        return sum(c * k.pair(pairing) for c, k in self.parts)


@dataclass(frozen=True)
class ScaleTangent(Kernel):
    """The derivative of a radial kernel in the logarithm of its scale, or of that of one feature.

    With z = x / s a radial kernel is phi(q), q = sum_j q_j, q_j = -(z_j - z'_j)^2 / 2, where dq_j / dlog s_j = -2 q_j.
    So

        dk / dlog s_j  =  phi'(q) * (-2 q_j)

    is a product of two forms, whose derivatives are Leibniz's.  In one scale for all features it is -2 q phi'(q), of q
    alone.  Rough kernels have a phi' that is not finite at q = 0, where its product with q_j is.
    """

    kernel: Any  # a ScaledKernel
    feature: int | None = None

    def smoothness(self, dimension: int) -> float:
        return float(self.kernel.smoothness(dimension))

    def form(self, dimension: int) -> Form | None:
        form: Form = self.kernel.form(dimension)
        return replace(form, radial_derivatives=dilated(form.radial_derivatives)) if self.feature is None else None

    def pair(self, pairing: Pairing) -> Array:
        form = self.form(pairing.left.dimension)
        if form is not None:
            return form(pairing)
        given: Form = self.kernel.form(pairing.left.dimension)
        row = np.zeros((1, pairing.left.dimension))
        row[0, self.feature] = np.asarray(given.linear)[self.feature]
        return Product(
            (Formed(replace(given, radial_derivatives=shifted(given.radial_derivatives))), square(row))
        ).pair(pairing)

    def blurred(self, covariance: Matrix) -> Kernel:
        """Of each Gaussian that the kernel is a mixture of."""
        mixture = self.kernel.gaussians(len(covariance))
        return Weighted(tuple((w, k.blurred_tangent(covariance, self.feature)) for w, k in mixture))


def square(A: Matrix) -> Kernel:
    """|A (x - y)|^2."""

    def radial_derivatives(q: Array, orders: range) -> dict[int, Array]:
        xp = namespace(q)
        values = {0: -2 * q, 1: xp.full_like(q, -2.0)}
        return {k: values[k] if k < 2 else xp.zeros_like(q) for k in orders}

    return Formed(Form(1, radial_derivatives, smooth=False, linear=A))


def shifted(radial_derivatives: RadialDerivatives) -> RadialDerivatives:
    """Return the derivatives of phi'."""

    def phi(q: Array, orders: range) -> dict[int, Array]:
        above = radial_derivatives(q, range(orders[0] + 1, orders[-1] + 2))
        return {k: above[k + 1] for k in orders}

    return phi


def dilated(radial_derivatives: RadialDerivatives) -> RadialDerivatives:
    """Return the derivatives of -2 q phi'(q):  -2 (q phi^(k+1) + k phi^(k))."""

    def phi(q: Array, orders: range) -> dict[int, Array]:
        own = namespace(q).asarray(q, copy=True)
        given = radial_derivatives(q, range(orders[0], orders[-1] + 2))
        return {k: -2 * (own * given[k + 1] + k * given[k]) for k in orders}

    return phi
