"""Losses of the distance from an interval: zero inside, then linear, quadratic, or first quadratic and then linear.

With e = u - (the nearest point of the interval), maximal slopes p below and q above, and a width w >= 0,

    loss = max over -p <= s <= q of  s e - w s^2 / 2

which is linear in e for w = 0, and otherwise has the second derivative 1/w until its slope is -p or q.  The maximizer

    s = clip(e / w, -p, q)

is the gradient.  The rest follows: the conjugate is the supremum of s u over the interval plus w s^2 / 2; the Moreau
envelope of width h is the same loss with width w + h; and the prox is u - step * (the slope for h = step).

They are losses of the residual r = u - b, and losses of the margin m = b u for classes b in {-1, +1}, of which margins
of at least 1 have no loss; the logistic loss is the one that is no interval loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, cast

from rkhs._core.backend.arrays import Array, clip, like, namespace
from rkhs.losses._base import Loss, Smoothed, between, positive


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
        # s = clip(e / w, -p, q), the maximizer of s e - w s^2 / 2
        s = e * (1 / self.width)
        return s if below == above == inf else clip(s, -below, above)

    def value(self, u: Array, b: Array) -> Array:
        e = u - self.nearest(u, b)
        s = self.slope(e)
        # s e - w s^2 / 2 = s (e - w s / 2)
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
        # 1 / w where the slope is strictly between its bounds, and the distance is not zero
        curved = (s > -below) & (s < above) & ((s != 0) | (low == high))
        return namespace(s).astype(curved, s.dtype) * (1 / self.width)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """Move u towards the interval, by a fraction of the distance and at most by step times the maximal slope."""
        below, above = self.slopes
        step = like(step, u)
        nearest = self.nearest(u, b)
        # (w u + step nearest) / (w + step), the minimizer of e^2 / 2w + (v - u)^2 / 2 step
        blend = u * (self.width / (self.width + step)) + nearest * (step / (self.width + step))
        blend = namespace(u).where(u == nearest, u, blend)  # without rounding inside the interval
        # u - step s for slopes -p <= s <= q
        return between(blend, u - above * step, u + below * step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        # sup over the interval of s u, plus w s^2 / 2
        return s * (self._end(s, b) + (self.width / 2) * s)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        """Return the Fenchel-Young gap from the distance to the end that s belongs to, where b has canceled."""
        # loss(u) + loss*(s) - s u = loss(u) - s (u - end - w s / 2)
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
        # min_v loss(v) + (v - u)^2 / 2h has the conjugate loss* + h s^2 / 2: the width is w + h (Moreau 1965)
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


@dataclass(frozen=True)
class Indicator(IntervalLoss):
    """The constraint that u is in the interval without loss: the limit of an interval loss for an infinite weight.

        loss = 0 in the interval, infinite outside

    The conjugate is the support function of the interval, and the prox is the projection.  Iterates of solvers satisfy
    constraints only up to rounding, so that the value is 0 everywhere, violations are stated beside the objective, and
    the excess counts u beyond an end like u before it: to first order, J differs from its minimum by as much.

    Parameters
    ----------
    loss : IntervalLoss
        The loss that has the interval.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> margin = rkhs.Term(rkhs.Evaluation(np.zeros((2, 1))), rkhs.Hinge(), target=[1.0, -1.0], weight=np.inf).loss
    >>> margin.prox(np.array([0.5, -3.0]), np.array([1.0, -1.0]), 1.0)
    array([ 1., -3.])
    """

    loss: IntervalLoss
    slopes = (inf, inf)
    hard = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "classification", self.loss.classification)

    def interval(self, b: Array) -> tuple[Array, Array]:
        return self.loss.interval(b)

    def value(self, u: Array, b: Array) -> Array:
        return 0 * (u + b)

    gradient = value

    def violation(self, u: Array, b: Array) -> Array:
        """Return the distance of u from the interval.

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.

        Returns
        -------
        array
            The distances.
        """
        return abs(u - self.nearest(u, b))

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        # support(s) - s u = s (end - u), whose sign says on which side of the end u is
        return abs(s * (self._end(s, b) - u))

    def in_units(self, unit: float) -> tuple[Loss, float] | None:
        scaled = self.loss.in_units(unit)
        return None if scaled is None else (Indicator(cast(IntervalLoss, scaled[0])), 1.0)


def _at_shifted(name: str) -> Callable[..., Array]:
    """Return the method of that name of a shifted loss: the one of the loss at u + shift."""
    return lambda self, u, *others: getattr(self.loss, name)(u + self.shift_like(u), *others)


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

    value, gradient, curvature, excess, excess_increase = map(
        _at_shifted, ("value", "gradient", "curvature", "excess", "excess_increase")
    )

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        # prox of loss(u + t):  prox(u + t) - t
        return self.loss.prox(u + self.shift_like(u), b, step) - self.shift_like(u)

    def _conjugate(self, s: Array, b: Array) -> Array:
        # conjugate of loss(u + t):  loss*(s) - s t
        return self.loss._conjugate(s, b) - s * self.shift_like(s)

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
    if isinstance(loss, Indicator):
        return Indicator(ShiftedInterval(loss.loss, shift))
    return ShiftedInterval(loss, shift) if isinstance(loss, IntervalLoss) else Shifted(loss, shift)


class HomogeneousLoss(IntervalLoss):
    """A loss that scales with a power of the unit of u, b and the parameters named in `lengths`."""

    lengths: ClassVar[tuple[str, ...]] = ()

    def in_units(self, unit: float) -> tuple[Loss, float]:
        scaled: Any = replace(cast(Any, self), **{name: getattr(self, name) * unit for name in self.lengths})
        return scaled, unit**-2 if self.width else 1 / unit


@dataclass(frozen=True)
class Squared(Quadratic, HomogeneousLoss):
    """The squared loss: the fastest to minimize, and the only one with posterior variances.

        loss = (u - b)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Squared().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 4.])
    """

    quadratic = True

    # Direct formulas are faster than those of `IntervalLoss`, which matters for millions of functionals.
    def value(self, u: Array, b: Array) -> Array:
        return (u - b) ** 2

    def gradient(self, u: Array, b: Array) -> Array:
        return 2 * (u - b)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        return (u - b - s / 2) ** 2


@dataclass(frozen=True)
class _EpsilonLoss(HomogeneousLoss):
    """A loss that is zero within epsilon of the target."""

    epsilon: float
    lengths: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        positive(self, "epsilon", or_zero=True)

    def interval(self, b: Array) -> tuple[Array, Array]:
        return b - self.epsilon, b + self.epsilon


@dataclass(frozen=True)
class EpsilonInsensitive(_EpsilonLoss):
    """The epsilon-insensitive loss of support vector regression.

        loss = max(0, |u - b| - epsilon)

    Deviations up to epsilon have no loss, and outliers have little influence.

    Parameters
    ----------
    epsilon : float
        The nonnegative tolerance.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.EpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0. , 1.5])
    """


@dataclass(frozen=True)
class Absolute(EpsilonInsensitive):
    """The absolute loss, which is robust to outliers.

        loss = |u - b|

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.Absolute().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 2.])
    """

    epsilon: float = field(default=0.0, init=False, repr=False)
    lengths: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Quadratic, _EpsilonLoss):
    """The squared epsilon-insensitive loss.

        loss = max(0, |u - b| - epsilon)^2

    Parameters
    ----------
    epsilon : float
        The nonnegative tolerance.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.SquaredEpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0.  , 2.25])
    """


@dataclass(frozen=True)
class Huber(Quadratic, HomogeneousLoss):
    """The Huber loss: squared near the target, linear far from it.

        loss = r^2 for |r| <= delta, delta (2 |r| - delta) beyond;  r = u - b

    It is `Squared` in the limit of large delta and grows like `Absolute` far from the target.

    Parameters
    ----------
    delta : float
        The positive residual at which the loss becomes linear.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Huber(delta=1.0).value(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.25, 5.  ])
    """

    delta: float
    lengths: ClassVar[tuple[str, ...]] = ("delta",)

    def __post_init__(self) -> None:
        positive(self, "delta")
        object.__setattr__(self, "slopes", (2 * self.delta, 2 * self.delta))


@dataclass(frozen=True)
class Quantile(HomogeneousLoss):
    """The quantile (pinball) loss, whose minimizer is the tau-quantile.

        loss = tau (b - u) below the target, (1 - tau) (u - b) above

    Parameters
    ----------
    tau : float
        The level of the quantile, between 0 and 1.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Quantile(tau=0.9).value(np.array([0.0, 2.0]), np.array([1.0, 1.0])).round(2)
    array([0.9, 0.1])
    """

    tau: float

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ValueError(f"{type(self).__name__} needs 0 < tau < 1, got {self.tau!r}.")
        positive(self, "tau")
        object.__setattr__(self, "slopes", (self.tau, 1 - self.tau))


class _LowerBoundLoss(HomogeneousLoss):
    """A loss that is zero above the target."""

    def interval(self, b: Array) -> tuple[Array, Array]:
        return b, b * 0 + inf


@dataclass(frozen=True)
class OneSided(_LowerBoundLoss):
    """The linear penalty of an inequality u >= b.

        loss = max(0, b - u)

    With target 0 it makes f increasing if applied to derivatives, convex if applied to second derivatives, and
    positive if applied to values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.OneSided().value(np.array([-1.0, 3.0]), np.array([0.0, 0.0]))
    array([1., 0.])
    """


@dataclass(frozen=True)
class SquaredOneSided(Quadratic, _LowerBoundLoss):
    """The squared penalty of an inequality u >= b.

        loss = max(0, b - u)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.SquaredOneSided().value(np.array([-2.0, 3.0]), np.array([0.0, 0.0]))
    array([4., 0.])
    """


class _MarginLoss(IntervalLoss):
    """A loss of the margin b u that vanishes for margins of at least 1.

    The interval without loss is [1, infinity) for the class +1 and (-infinity, -1] for -1.
    """

    classification = True

    def interval(self, b: Array) -> tuple[Array, Array]:
        xp = namespace(b)
        infinite = xp.full_like(b, inf)
        return xp.where(b > 0, b, -infinite), xp.where(b > 0, infinite, b)


@dataclass(frozen=True)
class Hinge(_MarginLoss):
    """The hinge loss of the support vector machine.

        loss = max(0, 1 - b u)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Hinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([1.5, 0. ])
    """


@dataclass(frozen=True)
class SquaredHinge(Quadratic, _MarginLoss):
    """The squared hinge loss, which is smooth and therefore faster to minimize than the hinge loss.

        loss = max(0, 1 - b u)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredHinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([2.25, 0.  ])
    """


@dataclass(frozen=True)
class SmoothedHinge(_MarginLoss):
    """The hinge loss with a quadratic piece at its kink.

        loss = (1 - m)^2 / (2 width) for margins m = b u between 1 - width and 1, linear below, 0 above

    Parameters
    ----------
    width : float
        The positive width of the quadratic piece.

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
    """The logistic loss.

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
        # d/du log(1 + exp(-bu)) = -b / (1 + exp(bu))
        return -b * _sigmoid(-b * u)

    def curvature(self, u: Array, b: Array) -> Array:
        # sigma(bu) (1 - sigma(bu)) = e / (1 + e)^2 with e = exp(-|bu|)
        small = namespace(u).exp(-abs(b * u))
        return small / (1 + small) ** 2

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return b * _logistic_prox(b * u, like(step, u))

    def _conjugate(self, s: Array, b: Array) -> Array:
        """Return p log p + (1 - p) log(1 - p) for p = -b s, with the limit 0 at both ends."""
        xp = namespace(s)
        # p log p + (1 - p) log(1 - p), p = -b s in [0, 1], the negative entropy
        p = -b * s
        above_zero, below_one = xp.where(p > 0, p, xp.ones_like(p)), xp.where(p < 1, p, xp.zeros_like(p))
        return p * xp.log(above_zero) + (1 - p) * xp.log1p(-below_one)

    def domain(self, b: Array) -> tuple[Array, Array]:
        zero = namespace(b).zeros_like(b)
        return between(-b, zero - 1, zero), between(-b, zero, zero + 1)


def _softplus(t: Array) -> Array:
    """Return log(1 + exp(t)) without overflow."""
    xp = namespace(t)
    return xp.log1p(xp.exp(-abs(t))) + clip(t, 0, None)


def _sigmoid(t: Array) -> Array:
    """Return 1 / (1 + exp(-t)) without overflow."""
    xp = namespace(t)
    small = xp.exp(-abs(t))
    return xp.where(t < 0, small, xp.ones_like(t)) / (1 + small)


def _logistic_prox(m: Array, step: Array) -> Array:
    """Return the root v of (v - m) (1 + exp(v)) = step.

    If v is the root for m, then -v is the root for -m - step, so v >= 0 may be assumed.  With m = p - q split into its
    positive and negative part and v = p + z, Newton's method finds the root z >= 0 of

        h(z) = log(q + z) + log(1 + exp(p + z)) - log(step)

    Where q = 0 it iterates in log(z), in which h is convex, from the right; otherwise in z: from the left for small
    steps, where h is concave, and from the right for large ones, where h' is about 1.
    """
    xp = namespace(m)
    eps, tiny = float(xp.finfo(m.dtype).eps), float(xp.finfo(m.dtype).smallest_normal)
    m, step = m + xp.zeros_like(step), step + xp.zeros_like(m)
    mirrored = m < -step / 2
    m = xp.where(mirrored, -m - step, m)
    p, q, size = clip(m, 0, None), clip(-m, 0, None), xp.log(step)
    # starts from the right: the root of log(1 + e^(p+z)) = log step, or of q + z = step
    right = xp.minimum(_softplus(size - p), size - xp.log(clip(q, tiny, None)))
    z = xp.where((q > 0) & (step < 4), (step / 2 - q) / (1 + step / 4), right)
    for _ in range(20):  # five iterations are enough; the limit ends the loop for NaN
        z = clip(z, tiny, None)
        h = xp.log(q + z) + _softplus(p + z) - size
        # Newton's step -h / h', h' = 1 / (q + z) + sigma(p + z)
        move = -h / (1 / (q + z) + _sigmoid(p + z))
        new = xp.where(q > 0, z + move, z * xp.exp(clip(move / z, None, 1)))
        near = (abs(h) <= eps**0.5) | (abs(new - z) <= eps * (p + z))
        z = new
        if bool(xp.all(near)):
            break
    slope = _sigmoid(-p - z)
    # a last step without logarithms, accurate to rounding
    z = z - (q + z - step * slope) / (1 + step * slope * (1 - slope))
    return xp.where(mirrored, -p - z, p + z)
