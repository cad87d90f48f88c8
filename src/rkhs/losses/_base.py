"""What a loss is: a convex function of u with a target b, and what solvers may ask of it.

    value      loss(u; b)
    gradient   a subgradient in u (the derivative where it exists)
    curvature  the second derivative in u, almost everywhere
    prox       argmin_v  loss(v; b) + (v - u)^2 / (2 step)
    conjugate  sup_u  s u - loss(u; b), finite for s in `domain(b)` and +infinity outside
    smoothed   min_v  loss(v; b) + (v - u)^2 / (2 width), again a loss

All are element-wise on arrays that broadcast, in NumPy or PyTorch.  Solvers ask for what they need by
`smooth` (a Lipschitz gradient) and `quadratic`; anything convex has a prox and a conjugate.
`rkhs.testing.check_loss` checks that they belong together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs._backend.arrays import Array, clip, namespace


class Loss(ABC):
    """A convex loss, of a number u that a functional gives and its target b.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.Huber(0.1), rkhs.extend.Loss), rkhs.Huber(0.1).smooth
    (True, True)
    """

    smooth: bool = False  # has a Lipschitz-continuous gradient
    quadratic: bool = False  # is (u - b)^2
    classification: bool = False  # b is a class, +1 or -1
    attained: bool = True  # has a minimizer, not only an infimum

    @abstractmethod
    def value(self, u: Array, b: Array) -> Array:
        """loss(u; b)."""

    @abstractmethod
    def gradient(self, u: Array, b: Array) -> Array:
        """Return a subgradient in u."""

    @abstractmethod
    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """argmin_v loss(v; b) + (v - u)^2 / (2 step), for a positive number or an array of them."""

    @abstractmethod
    def _conjugate(self, s: Array, b: Array) -> Array:
        """Return the conjugate for s inside the domain."""

    @abstractmethod
    def domain(self, b: Array) -> tuple[Array, Array]:
        """Return the interval on which the conjugate is finite: the range of the gradient, closed."""

    def curvature(self, u: Array, b: Array) -> Array:
        """Return the second derivative in u, almost everywhere: zero for piecewise linear losses."""
        return namespace(u).zeros_like(u + b)

    def conjugate(self, s: Array, b: Array) -> Array:
        """sup_u s u - loss(u; b)."""
        xp = namespace(s)
        low, high = self.domain(b)
        outside = (s < low) | (s > high)
        if not bool(xp.any(outside)):
            return self._conjugate(s, b)
        value = self._conjugate(between(s, low, high), b)
        return xp.where(outside, xp.full_like(value, inf), value)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        """loss(u; b) + conjugate(s; b) - s u, which is never negative, for s in the domain (Fenchel and Young)."""
        return clip(self.value(u, b) + self._conjugate(s, b) - s * u, 0, None)

    def smoothed(self, width: float) -> Loss:
        """Return the Moreau envelope: min_v loss(v; b) + (v - u)^2 / (2 width); the loss itself for width 0."""
        return Smoothed(self, width) if width > 0 else self

    def in_units(self, unit: float) -> tuple[Loss, float] | None:
        """Return a loss and a factor with loss(u / unit; b / unit) = factor * that loss(u; b), or None.

        Then numbers can stay in their own units, and whatever is fast for them stays fast.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Huber(delta=0.1).in_units(2.0)
        (Huber(delta=0.2), 0.25)
        """
        return None


@dataclass(frozen=True)
class Smoothed(Loss):
    """The Moreau envelope: min_v loss(v; b) + (v - u)^2 / (2 width), which is below the loss and smooth.

    Its conjugate is the loss's plus width s^2 / 2, on the same domain: what is feasible for its dual is
    feasible for that of the loss itself.  This one needs no more than a prox; `Loss.smoothed` gives a
    better one where it is known.
    """

    loss: Loss
    width: float

    smooth = True

    def __post_init__(self) -> None:
        positive(self, "width")
        object.__setattr__(self, "classification", self.loss.classification)
        object.__setattr__(self, "attained", self.loss.attained)

    def value(self, u: Array, b: Array) -> Array:
        v = self.loss.prox(u, b, self.width)
        return self.loss.value(v, b) + self.width * self.gradient(u, b) ** 2 / 2

    def gradient(self, u: Array, b: Array) -> Array:
        low, high = self.loss.domain(b)
        return between((u - self.loss.prox(u, b, self.width)) / self.width, low, high)

    def curvature(self, u: Array, b: Array) -> Array:
        """(1 - dprox/du) / width, with a difference quotient: the prox alone tells a kink from a line."""
        xp = namespace(u)
        h = float(xp.finfo(u.dtype).eps) ** (1 / 3) * (abs(u) + self.width)
        ahead, behind = u + h, u - h
        moved = self.loss.prox(ahead, b, self.width) - self.loss.prox(behind, b, self.width)
        return clip(1 - moved / (ahead - behind), 0, 1) / self.width

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """Return a blend of u and the loss's prox with step + width."""
        far = self.loss.prox(u, b, step + self.width)
        return u + (step / (step + self.width)) * (far - u)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self.loss._conjugate(s, b) + self.width * s**2 / 2

    def domain(self, b: Array) -> tuple[Array, Array]:
        return self.loss.domain(b)


def between(u: Array, low: Array, high: Array) -> Array:
    """Return the point of [low, high] nearest to u."""
    xp = namespace(u)
    return xp.minimum(xp.maximum(u, low), high)


def positive(loss: Loss, name: str, *, or_zero: bool = False) -> None:
    """Check a setting of a loss, and make it a float: a NumPy scalar would turn float32 arrays into float64."""
    value = getattr(loss, name)
    if not (0 <= value < inf) or (value == 0 and not or_zero):
        raise ValueError(f"{type(loss).__name__} needs {name} {'>=' if or_zero else '>'} 0, got {value!r}.")
    object.__setattr__(loss, name, float(value))
