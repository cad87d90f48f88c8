"""Losses of the margin m = b u, for classes b in {-1, +1}: margins of 1 and more cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs._backend.arrays import Array, clip, like, namespace
from rkhs.losses._base import Loss, between, positive
from rkhs.losses._interval import IntervalLoss, Quadratic


class _Margin(IntervalLoss):
    """A loss of the margin b u, which is zero from 1 on: in [1, infinity) for the class +1, (-infinity, -1] for -1."""

    classification = True

    def interval(self, b: Array) -> tuple[Array, Array]:
        xp = namespace(b)
        far = xp.full_like(b, inf)
        return xp.where(b > 0, b, -far), xp.where(b > 0, far, b)


@dataclass(frozen=True)
class Hinge(_Margin):
    """Hinge loss, for classes: that of the support vector machine.

        loss = max(0, 1 - b u)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Hinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([1.5, 0. ])
    """


@dataclass(frozen=True)
class SquaredHinge(Quadratic, _Margin):
    """Squared hinge loss, for classes: smooth, so faster than the hinge.

        loss = max(0, 1 - b u)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredHinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([2.25, 0.  ])
    """


@dataclass(frozen=True)
class SmoothedHinge(_Margin):
    """Hinge loss with its corner rounded, for classes.

        loss = (1 - m)^2 / (2 width) for margins m = b u between 1 - width and 1, linear below, 0 above

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.SmoothedHinge(width=1.0).value(np.array([0.5, 3.0, -1.0]), np.array([1.0, 1.0, 1.0]))
    array([0.125, 0.   , 1.5  ])
    """

    width: float
    smooth = True

    def __post_init__(self) -> None:
        positive(self, "width")


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic loss, for classes.

        loss = log(1 + exp(-b u))

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Logistic().value(np.array([0.0, 100.0]), np.array([1.0, -1.0])).round(6)
    array([  0.693147, 100.      ])
    """

    smooth = True
    classification = True
    attained = False

    def value(self, u: Array, b: Array) -> Array:
        return _softplus(-b * u)

    def gradient(self, u: Array, b: Array) -> Array:
        return -b * _sigmoid(-b * u)

    def curvature(self, u: Array, b: Array) -> Array:
        small = namespace(u).exp(-abs(b * u))
        return small / (1 + small) ** 2

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return b * _prox(b * u, like(step, u))

    def _conjugate(self, s: Array, b: Array) -> Array:
        """p log p + (1 - p) log(1 - p) for p = -b s, with the limits 0 at both ends."""
        xp = namespace(s)
        p = -b * s
        some, rest = xp.where(p > 0, p, xp.ones_like(p)), xp.where(p < 1, p, xp.zeros_like(p))
        return p * xp.log(some) + (1 - p) * xp.log1p(-rest)

    def domain(self, b: Array) -> tuple[Array, Array]:
        zero = namespace(b).zeros_like(b)
        return between(-b, zero - 1, zero), between(-b, zero, zero + 1)


def _softplus(t: Array) -> Array:
    """log(1 + exp(t))."""
    xp = namespace(t)
    return xp.log1p(xp.exp(-abs(t))) + clip(t, 0, None)


def _sigmoid(t: Array) -> Array:
    """1 / (1 + exp(-t))."""
    xp = namespace(t)
    small = xp.exp(-abs(t))
    return xp.where(t < 0, small, xp.ones_like(t)) / (1 + small)


def _prox(m: Array, step: Array) -> Array:
    """Return the root v of (v - m) (1 + exp(v)) = step.

    If v solves it for m then -v does for -m - step, so v >= 0 may be assumed.  Then, with m = p - q split into its
    positive and negative part and v = p + z, Newton's method finds the root z >= 0 of

        h(z) = log(q + z) + log(1 + exp(p + z)) - log(step)

    Where q = 0 it works in log(z), in which h is convex, from the right; else in z: from the left for small steps,
    where h is concave, and from the right for large ones, where h' is about 1.
    """
    xp = namespace(m)
    eps, tiny = float(xp.finfo(m.dtype).eps), float(xp.finfo(m.dtype).smallest_normal)
    m, step = m + xp.zeros_like(step), step + xp.zeros_like(m)
    mirrored = m < -step / 2
    m = xp.where(mirrored, -m - step, m)
    p, q, size = clip(m, 0, None), clip(-m, 0, None), xp.log(step)
    right = xp.minimum(_softplus(size - p), size - xp.log(clip(q, tiny, None)))
    z = xp.where((q > 0) & (step < 4), (step / 2 - q) / (1 + step / 4), right)
    for _ in range(20):  # it takes five: a bound for what is not a number
        z = clip(z, tiny, None)
        h = xp.log(q + z) + _softplus(p + z) - size
        move = -h / (1 / (q + z) + _sigmoid(p + z))
        new = xp.where(q > 0, z + move, z * xp.exp(clip(move / z, None, 1)))
        near = (abs(h) <= eps**0.5) | (abs(new - z) <= eps * (p + z))
        z = new
        if bool(xp.all(near)):
            break
    slope = _sigmoid(-p - z)
    z = z - (q + z - step * slope) / (1 + step * slope * (1 - slope))  # without logarithms: to rounding
    return xp.where(mirrored, -p - z, p + z)
