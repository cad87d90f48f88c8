"""Losses of the distance from an interval: zero inside, then linear, quadratic, or first quadratic and then linear.

With e = u - (the nearest point of the interval), maximal slopes p below and q above, and a width w >= 0,

    loss = max over -p <= s <= q of  s e - w s^2 / 2

which is linear in e for w = 0, and otherwise has the second derivative 1/w until its slope is -p or q.  The maximizer

    s = clip(e / w, -p, q)

is the gradient.  The rest follows: the conjugate is the supremum of s u over the interval plus w s^2 / 2; the Moreau
envelope of width h is the same loss with width w + h; and the prox is u - step * (the slope for h = step).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs._backend.arrays import Array, clip, like, namespace
from rkhs.losses._base import Loss, Smoothed, between


class IntervalLoss(Loss):
    """A loss of the distance from an interval; subclasses set the interval, the slopes and the width.

        loss = max over -p <= s <= q of  s e - width s^2 / 2,  e = u - (the nearest point of the interval)

    Attributes
    ----------
    width : float
        The width of the quadratic part; 0 for a piecewise linear loss.
    slopes : tuple of float
        The maximal slopes, p below and q above the interval.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.Hinge(), rkhs.extend.IntervalLoss), rkhs.Quantile(tau=0.25).slopes
    (True, (0.25, 0.75))
    """

    width: float = 0.0
    slopes: tuple[float, float] = (1.0, 1.0)

    def interval(self, b: Array) -> tuple[Array, Array]:
        """Return the ends of the interval without loss; by default the target alone.

        Parameters
        ----------
        b : array
            The targets.

        Returns
        -------
        tuple of array
            The lower and upper ends; one of them may be infinite.
        """
        return b, b

    def nearest(self, u: Array, b: Array) -> Array:
        """Return the point of the interval nearest to u.

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.

        Returns
        -------
        array
            The projections of u onto the interval.
        """
        low, high = self.interval(b)
        return low if low is high else between(u, low, high)

    def slope(self, e: Array) -> Array:
        """Return the derivative of the loss at signed distance e from the interval.

        Parameters
        ----------
        e : array
            The signed distances u - nearest(u, b).

        Returns
        -------
        array
            The slopes s = clip(e / width, -p, q).
        """
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
        curved = (s > -below) & (s < above) & ((s != 0) | (low == high))
        return namespace(s).astype(curved, s.dtype) * (1 / self.width)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """Move u towards the interval, by a fraction of the distance and at most by step times the maximal slope."""
        below, above = self.slopes
        step = like(step, u)
        nearest = self.nearest(u, b)
        blend = u * (self.width / (self.width + step)) + nearest * (step / (self.width + step))
        blend = namespace(u).where(u == nearest, u, blend)  # without rounding inside the interval
        return between(blend, u - above * step, u + below * step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * (self._end(s, b) + (self.width / 2) * s)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        """Return the Fenchel-Young gap from the distance to the end that s belongs to, where b has canceled."""
        rest = s * (u - self._end(s, b) - (self.width / 2) * s)
        return clip(self.value(u, b) - rest, 0, None)

    def _end(self, s: Array, b: Array) -> Array:
        """Return the end of the interval whose normal cone contains s; 0 for s = 0, where the end may be infinite."""
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
    """An interval loss e^2, without a linear part."""

    smooth = True
    width = 1 / 2
    slopes = (inf, inf)


@dataclass(frozen=True)
class SmoothedInterval(IntervalLoss, Smoothed):
    """The Moreau envelope of an interval loss in closed form; `width` is w + h."""

    loss: IntervalLoss
    width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "slopes", self.loss.slopes)

    def interval(self, b: Array) -> tuple[Array, Array]:
        return self.loss.interval(b)


@dataclass(frozen=True, eq=False)
class Shifted(Loss):
    """The loss loss(u + shift; b) with one shift per functional, (n,)."""

    loss: Loss
    shift: Array

    def __post_init__(self) -> None:
        vars(self).update({name: getattr(self.loss, name) for name in ("smooth", "attained", "separable")})

    def shift_like(self, u: Array) -> Array:
        """Return the shift, as a column if u has columns."""
        return self.shift if u.ndim == 1 else self.shift[:, None]

    def value(self, u: Array, b: Array) -> Array:
        return self.loss.value(u + self.shift_like(u), b)

    def gradient(self, u: Array, b: Array) -> Array:
        return self.loss.gradient(u + self.shift_like(u), b)

    def curvature(self, u: Array, b: Array) -> Array:
        return self.loss.curvature(u + self.shift_like(u), b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return self.loss.prox(u + self.shift_like(u), b, step) - self.shift_like(u)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self.loss._conjugate(s, b) - s * self.shift_like(s)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        return self.loss.excess(u + self.shift_like(u), b, s)

    def excess_increase(self, u: Array, b: Array, s: Array, error: Array) -> Array:
        return self.loss.excess_increase(u + self.shift_like(u), b, s, error)

    def conjugate(self, s: Array, b: Array) -> Array:
        return self.loss.conjugate(s, b) - s * self.shift_like(s)

    def project_dual(self, s: Array, b: Array) -> Array:
        return self.loss.project_dual(s, b)

    def domain(self, b: Array) -> tuple[Array, Array]:
        return self.loss.domain(b)

    def smoothed(self, width: float) -> Loss:
        return Shifted(self.loss.smoothed(width), self.shift)


@dataclass(frozen=True, eq=False)
class ShiftedInterval(IntervalLoss, Shifted):
    """A shifted interval loss, which is again an interval loss."""

    loss: IntervalLoss

    def __post_init__(self) -> None:
        vars(self).update({name: getattr(self.loss, name) for name in ("smooth", "attained", "width", "slopes")})

    def interval(self, b: Array) -> tuple[Array, Array]:
        low, high = self.loss.interval(b)
        new_low = low - self.shift_like(b)
        return new_low, (new_low if low is high else high - self.shift_like(b))


def shifted(loss: Loss, shift: Array) -> Loss:
    """Return the loss loss(u + shift; b)."""
    return ShiftedInterval(loss, shift) if isinstance(loss, IntervalLoss) else Shifted(loss, shift)
