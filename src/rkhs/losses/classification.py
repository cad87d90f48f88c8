"""Losses of the margin m = b u, for classes b in {-1, +1}."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs.backend.arrays import Array, namespace
from rkhs.losses.base import Loss
from rkhs.losses.regression import _at_most, _indicator, _plus, _positive


class MarginLoss(Loss):
    """psi(b u) for a decreasing psi; subclasses write psi of the margin.

    The conjugate in s is that of psi in p = -b s, for p between 0 and the steepest slope of psi.
    """

    classification = True
    steepest: float = 1.0

    @abstractmethod
    def psi(self, m: Array) -> Array:
        """The loss as a function of the margin."""

    @abstractmethod
    def slope(self, m: Array) -> Array:
        """-psi'(m) >= 0."""

    @abstractmethod
    def margin_prox(self, m: Array, step: Any) -> Array:
        """argmin_v psi(v) + (v - m)^2 / (2 step)."""

    @abstractmethod
    def dual(self, p: Array) -> Array:
        """sup_m -p m - psi(m)."""

    def value(self, u: Array, b: Array) -> Array:
        return self.psi(u * b)

    def gradient(self, u: Array, b: Array) -> Array:
        return -b * self.slope(u * b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return b * self.margin_prox(u * b, step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self.dual(-b * s)

    def domain(self, b: Array) -> tuple[Array, Array]:
        positive = b > 0
        xp = namespace(b)
        zero = xp.zeros_like(b)
        far = zero + self.steepest
        return xp.where(positive, -far, zero), xp.where(positive, zero, far)


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """loss = max(0, 1 - b u), the support vector machine's.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Hinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([1.5, 0. ])
    """

    def psi(self, m: Array) -> Array:
        return _plus(1 - m)

    def slope(self, m: Array) -> Array:
        return _indicator(m < 1, m)

    def margin_prox(self, m: Array, step: Any) -> Array:
        return m + _at_most(_plus(1 - m), step)

    def dual(self, p: Array) -> Array:
        return -p


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """loss = max(0, 1 - b u)^2.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredHinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([2.25, 0.  ])
    """

    smooth = True
    steepest = inf

    def psi(self, m: Array) -> Array:
        return _plus(1 - m) ** 2

    def slope(self, m: Array) -> Array:
        return 2 * _plus(1 - m)

    def curvature(self, u: Array, b: Array) -> Array:
        return 2.0 * _indicator(u * b < 1, u * b)

    def margin_prox(self, m: Array, step: Any) -> Array:
        return m + _plus(1 - m) * (2 * step / (1 + 2 * step))

    def dual(self, p: Array) -> Array:
        return p**2 / 4 - p


@dataclass(frozen=True)
class SmoothedHinge(MarginLoss):
    """loss = (1 - m)^2 / (2 width) for margins m = b u between 1 - width and 1, linear below, 0 above.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SmoothedHinge(width=1.0).value(np.array([0.5, 3.0, -1.0]), np.array([1.0, 1.0, 1.0]))
    array([0.125, 0.   , 1.5  ])
    """

    width: float
    smooth = True

    def __post_init__(self) -> None:
        _positive(self, "width", self.width)

    def psi(self, m: Array) -> Array:
        short = _plus(1 - m)
        near = _at_most(short, self.width)
        return near * (short - near / 2) / self.width

    def slope(self, m: Array) -> Array:
        return _at_most(_plus(1 - m), self.width) / self.width

    def curvature(self, u: Array, b: Array) -> Array:
        m = u * b
        return _indicator((m < 1) & (m > 1 - self.width), m) / self.width

    def margin_prox(self, m: Array, step: Any) -> Array:
        return m + _at_most(_plus(1 - m) * (step / (self.width + step)), step)

    def dual(self, p: Array) -> Array:
        return self.width * p**2 / 2 - p


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """loss = log(1 + exp(-b u)).

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Logistic().value(np.array([0.0, 100.0]), np.array([1.0, -1.0])).round(6)
    array([  0.693147, 100.      ])
    """

    smooth = True

    def psi(self, m: Array) -> Array:
        xp = namespace(m)
        return xp.log1p(xp.exp(-abs(m))) + _plus(-m)

    def slope(self, m: Array) -> Array:
        xp = namespace(m)
        small = xp.exp(-abs(m))
        return xp.where(m > 0, small, xp.ones_like(m)) / (1 + small)

    def curvature(self, u: Array, b: Array) -> Array:
        p = self.slope(u * b)
        return p * (1 - p)

    def margin_prox(self, m: Array, step: Any) -> Array:
        """The root of v - m - step p(v), increasing in v, by Newton's method kept inside a bracket."""
        xp = namespace(m)
        low, high = m + xp.zeros_like(m), m + step  # p is between 0 and 1
        v = (low + high) / 2
        for _ in range(60):
            p = self.slope(v)
            residual = v - m - step * p
            low, high = xp.where(residual < 0, v, low), xp.where(residual < 0, high, v)
            newton = v - residual / (1 + step * p * (1 - p))
            inside = (newton > low) & (newton < high)
            v = xp.where(inside, newton, (low + high) / 2)
        return v

    def dual(self, p: Array) -> Array:
        """p log p + (1 - p) log(1 - p)."""
        return _entropy(p) + _entropy(1 - p)


def _entropy(p: Array) -> Array:
    """p log p, with its limit 0 at 0."""
    xp = namespace(p)
    positive = p > 0
    return xp.where(positive, p * xp.log(xp.where(positive, p, xp.ones_like(p))), xp.zeros_like(p))
