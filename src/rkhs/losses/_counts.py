"""The loss of counts, a function of the logarithm of their rate."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, clip, like, namespace
from rkhs.losses._base import Loss

HIGHEST = 64.0  # the largest u at which the loss is exp(u); float32 holds its continuation up to u = 1e5
RATE = exp(HIGHEST)  # 6e27
SERIES = 0.25  # the largest |d| for which exp(d) - 1 - d is computed by its Taylor series
ORDER = 12  # terms of the series, which leave a relative error below 1e-17


@dataclass(frozen=True)
class Poisson(Loss):
    """The Poisson loss of counts with the logarithmic link: u is the logarithm of the expected count.

        loss = exp(u) - b u + b log(b) - b

    It is the negative log-likelihood of a count b with the mean exp(u), shifted by a constant so that its minimum, at
    u = log(b), is 0: half of the deviance.  A count y that was observed with the exposure t (a time, an area, a number
    of people) has the mean t exp(u): use the target y / t and the weight t.

    Above u = 64, a rate of 6e27, exp(u) is replaced by its Taylor polynomial of degree 2 at 64.  This never matters at
    a solution, but the loss neither overflows on the way there nor grows faster than solvers can handle.  Targets must
    be at least 0; for b < 0, which is no count, the loss is exp(u) - b u.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.Poisson().value(np.log([3.0, 6.0, 6.0]), np.array([3.0, 3.0, 0.0])).round(4)
    array([0.    , 0.9206, 6.    ])
    """

    smooth = True
    attained = False  # for b = 0 the infimum 0 is approached for u -> -infinity

    def check_targets(self, b: Array) -> None:
        if not bool(namespace(b).all(b >= 0)):
            raise ValueError(f"{self!r} needs counts or rates as targets, which are not negative.")

    def value(self, u: Array, b: Array) -> Array:
        xp = namespace(u)
        return xp.where(b < 0, _exp(u) - b * u, _divergence(u, clip(b, 0, None)))

    def gradient(self, u: Array, b: Array) -> Array:
        return self.curvature(u, b) * (1 + clip(u - HIGHEST, 0, None)) - b

    def curvature(self, u: Array, b: Array) -> Array:
        xp = namespace(u)
        return xp.exp(clip(u + xp.zeros_like(b), None, HIGHEST))

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """Return v with v + step exp(v) = u + step b.

        The solution is log(W(step exp(u + step b)) / step) with the Lambert function W, of whose argument only the
        logarithm is computed.  Above HIGHEST the equation is linear.
        """
        xp = namespace(u)
        step = like(step, u)
        # v + step exp(v) = u + step b;  y = log(step exp(v)) satisfies y + exp(y) = total + log(step)
        total = u + step * b
        y = _log_lambert(total + xp.log(step))  # log(step exp(v))
        small = xp.exp(clip(y, None, 0.0))
        below = xp.where(y < 0, total - small, y - xp.log(step))
        with np.errstate(over="ignore"):
            slope = step * RATE
        above = clip(total - HIGHEST - slope, 0, None)
        return xp.where(above > 0, HIGHEST + above / (1 + slope), below)

    def _conjugate(self, s: Array, b: Array) -> Array:
        """Return p log(p) - p - b log(b) + b for p = s + b, with 0 log(0) = 0."""
        xp = namespace(s)
        # p log p - p - (b log b - b) = p log(p / b) + s (log b - 1), in which near rates do not cancel
        p, counted = s + b, b > 0
        base = xp.where(counted, b, xp.ones_like(b))
        ratio = xp.where(counted, s, p - 1) / base  # log(p) = log(base) + log1p(ratio)
        log = xp.log1p(xp.where(p > 0, ratio, xp.zeros_like(p)))
        below = p * log + xp.where(counted, s * (xp.log(base) - 1), -p)
        high = p > RATE
        if not bool(xp.any(high)):
            return below
        shift = xp.where(counted, b * (xp.log(base) - 1), xp.zeros_like(b))
        return xp.where(high, _conjugate_of_exp(p) - shift, below)

    def domain(self, b: Array) -> tuple[Array, Array]:
        return -b, namespace(b).full_like(b, inf)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        """Return the loss of u with the target s + b, which equals loss(u; b) + conjugate(s; b) - s u."""
        return _divergence(u, clip(s + b, 0, None))


def _exp(u: Array) -> Array:
    """Return exp(u), continued by its Taylor polynomial of degree 2 above HIGHEST."""
    more = clip(u - HIGHEST, 0, None)
    with np.errstate(over="ignore"):
        return namespace(u).exp(clip(u, None, HIGHEST)) * (1 + more + more**2 / 2)


def _conjugate_of_exp(p: Array) -> Array:
    """Return the conjugate of the continued exp at slopes p >= 0: p log(p) - p up to the slope RATE."""
    xp = namespace(p)
    more = clip(p / RATE - 1, 0, None)
    low = clip(p, None, RATE)
    below = low * (xp.log(xp.where(low > 0, low, xp.ones_like(low))) - 1)
    return below + RATE * (HIGHEST * more + more**2 / 2)


def _divergence(u: Array, p: Array) -> Array:
    """Return exp(u) - p u + p log(p) - p for p >= 0, without cancellation where it is near 0."""
    xp = namespace(u)
    u = u + xp.zeros_like(p)
    # exp(u) - p u + p log p - p = p (exp(d) - 1 - d), d = u - log p
    d = u - xp.log(xp.where(p > 0, p, xp.ones_like(p)))
    near = clip(d, -SERIES, SERIES)
    series = xp.ones_like(d)
    for k in range(ORDER, 2, -1):
        series = 1 + near * series / k
    middle = clip(d, None, 1.0)
    remainder = xp.where(abs(d) < SERIES, near**2 * series / 2, xp.expm1(middle) - middle)
    value = xp.where((p == 0) | (d > 1) | (u > HIGHEST), _exp(u) - p * (1 + d), p * remainder)
    high = p > RATE
    if not bool(xp.any(high)):
        return value
    return xp.where(high, clip(_exp(u) - p * u + _conjugate_of_exp(p), 0, None), value)


def _log_lambert(t: Array) -> Array:
    """Return the root y of y + exp(y) = t, the logarithm of the Lambert function of exp(t).

    The left-hand side is convex, so Newton's method decreases from a start above the root: t, or log(t) for t > 1.
    """
    xp = namespace(t)
    eps = float(xp.finfo(t.dtype).eps)
    y = xp.where(t > 1, xp.log(clip(t, 1, None)), t)
    for _ in range(20):  # six iterations are enough; the limit ends the loop for NaN
        rate = xp.exp(y)
        # Newton's step for y + exp(y) - t
        move = (y + rate - t) / (1 + rate)
        y = y - move
        if bool(xp.all(abs(move) <= 4 * eps * (1 + abs(y)))):
            break
    return y
