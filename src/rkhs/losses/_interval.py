"""Losses of the distance from an interval: nothing inside, and then linear, quadratic, or one after the other.

With e = u - (the nearest point of the interval), the largest slopes p below and q above, and a width w >= 0,

    loss = max over -p <= s <= q of  s e - w s^2 / 2

which is linear in e for w = 0, and otherwise has the second derivative 1/w until its slope is -p or q.  The maximizer

    s = clip(e / w, -p, q)

is the gradient.  All else follows: the conjugate is sup of s u over the interval, plus w s^2 / 2; the Moreau
envelope of width h is the same loss with w + h in place of w, and the prox is u - step * (its slope for h = step).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs._backend.arrays import Array, clip, like, namespace
from rkhs.losses._base import Loss, Smoothed, between


class IntervalLoss(Loss):
    """A loss of the distance from an interval; subclasses say which interval, slopes and width."""

    width: float = 0.0  # w
    slopes: tuple[float, float] = (1.0, 1.0)  # the largest, p below and q above the interval

    def interval(self, b: Array) -> tuple[Array, Array]:
        """Return the ends of what costs nothing: (b, b) where that is the target alone; one of them may be infinite."""
        return b, b

    def nearest(self, u: Array, b: Array) -> Array:
        """Return the point of the interval nearest to u."""
        low, high = self.interval(b)
        return low if low is high else between(u, low, high)

    def slope(self, e: Array) -> Array:
        """s, for e = u - (the nearest point)."""
        xp = namespace(e)
        below, above = self.slopes
        if self.width == 0:
            return above * xp.astype(e > 0, e.dtype) - below * xp.astype(e < 0, e.dtype)
        s = e * (1 / self.width)
        return s if below == above == inf else clip(s, -below, above)

    def value(self, u: Array, b: Array) -> Array:
        e = u - self.nearest(u, b)
        s = self.slope(e)
        e -= (self.width / 2) * s
        e *= s
        return e

    def gradient(self, u: Array, b: Array) -> Array:
        return self.slope(u - self.nearest(u, b))

    def curvature(self, u: Array, b: Array) -> Array:
        if self.width == 0:
            return super().curvature(u, b)
        low, high = self.interval(b)
        below, above = self.slopes
        s = self.gradient(u, b)
        bent = (s > -below) & (s < above) & ((s != 0) | (low == high))
        return namespace(s).astype(bent, s.dtype) * (1 / self.width)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """From u towards the interval: a share of the way, and no further than step times the slope."""
        below, above = self.slopes
        step = like(step, u)
        nearest = self.nearest(u, b)
        part = u * (self.width / (self.width + step)) + nearest * (step / (self.width + step))
        part = namespace(u).where(u == nearest, u, part)  # exactly
        return between(part, u - above * step, u + below * step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * (self._end(s, b) + (self.width / 2) * s)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        """From the distance to the end of the interval that s belongs to, in which b has cancelled."""
        rest = s * (u - self._end(s, b) - (self.width / 2) * s)
        return clip(self.value(u, b) - rest, 0, None)

    def _end(self, s: Array, b: Array) -> Array:
        """Return the end of the interval at which a slope s is; 0 for no slope, where the end may be infinite."""
        low, high = self.interval(b)
        if low is high:
            return low
        xp = namespace(s)
        return xp.where(s > 0, high, xp.where(s < 0, low, xp.zeros_like(low)))  # finite inside the domain

    def domain(self, b: Array) -> tuple[Array, Array]:
        xp = namespace(b)
        low, high = self.interval(b)
        below, above = self.slopes
        zero = xp.zeros_like(b)
        if low is high:
            return zero - below, zero + above
        return xp.where(low == -inf, zero, zero - below), xp.where(high == inf, zero, zero + above)

    def smoothed(self, width: float) -> Loss:
        return SmoothedInterval(self, self.width + width) if width > 0 else self


class Quadratic(IntervalLoss):
    """An interval loss that is e^2, whose second derivative is 2, and never becomes linear."""

    smooth = True
    width = 1 / 2
    slopes = (inf, inf)


@dataclass(frozen=True)
class SmoothedInterval(IntervalLoss, Smoothed):
    """The Moreau envelope of an interval loss, without its prox: `width` is w + h."""

    loss: IntervalLoss
    width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "slopes", self.loss.slopes)

    def interval(self, b: Array) -> tuple[Array, Array]:
        return self.loss.interval(b)


@dataclass(frozen=True, eq=False)
class Shifted(Loss):
    """loss(u + shift; b), with a shift (n,) of its own for each of n functionals."""

    loss: Loss
    shift: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "smooth", self.loss.smooth)
        object.__setattr__(self, "attained", self.loss.attained)

    def at(self, u: Array) -> Array:
        """Return the shift, as a column where u has columns."""
        return self.shift if u.ndim == 1 else self.shift[:, None]

    def value(self, u: Array, b: Array) -> Array:
        return self.loss.value(u + self.at(u), b)

    def gradient(self, u: Array, b: Array) -> Array:
        return self.loss.gradient(u + self.at(u), b)

    def curvature(self, u: Array, b: Array) -> Array:
        return self.loss.curvature(u + self.at(u), b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return self.loss.prox(u + self.at(u), b, step) - self.at(u)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self.loss._conjugate(s, b) - s * self.at(s)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        return self.loss.excess(u + self.at(u), b, s)

    def domain(self, b: Array) -> tuple[Array, Array]:
        return self.loss.domain(b)


@dataclass(frozen=True, eq=False)
class ShiftedInterval(IntervalLoss, Shifted):
    """The same of a loss of the distance from an interval, which is one again."""

    loss: IntervalLoss

    def __post_init__(self) -> None:
        vars(self).update({name: getattr(self.loss, name) for name in ("smooth", "attained", "width", "slopes")})

    def interval(self, b: Array) -> tuple[Array, Array]:
        low, high = self.loss.interval(b)
        moved = low - self.at(b)
        return moved, (moved if low is high else high - self.at(b))


def shifted(loss: Loss, shift: Array) -> Loss:
    """loss(u + shift; b)."""
    return ShiftedInterval(loss, shift) if isinstance(loss, IntervalLoss) else Shifted(loss, shift)
