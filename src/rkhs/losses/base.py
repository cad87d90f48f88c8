"""What a loss is: a convex function of u with a target b, and what solvers may ask of it.

    value      loss(u; b)
    gradient   a subgradient in u (the derivative where it exists)
    curvature  the second derivative in u, almost everywhere (None for losses that have none to use)
    prox       argmin_v  loss(v; b) + (v - u)^2 / (2 step)
    conjugate  sup_u  s u - loss(u; b), finite for s in `domain(b)` and +infinity outside

All are element-wise on arrays that broadcast, in NumPy or PyTorch.  Solvers ask for what they need by
`smooth` (a Lipschitz gradient) and `quadratic`; anything convex has a prox and a conjugate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs.backend.arrays import Array, namespace


class Loss(ABC):
    """A convex loss of u = L(f) with target b."""

    smooth: bool = False  # has a Lipschitz-continuous gradient
    quadratic: bool = False  # is (u - b)^2
    classification: bool = False  # b is a class, +1 or -1

    @abstractmethod
    def value(self, u: Array, b: Array) -> Array:
        """loss(u; b)."""

    @abstractmethod
    def gradient(self, u: Array, b: Array) -> Array:
        """A subgradient in u."""

    @abstractmethod
    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """argmin_v loss(v; b) + (v - u)^2 / (2 step)."""

    @abstractmethod
    def _conjugate(self, s: Array, b: Array) -> Array:
        """The conjugate for s inside the domain."""

    @abstractmethod
    def domain(self, b: Array) -> tuple[Array, Array]:
        """The interval on which the conjugate is finite: the range of the gradient, closed."""

    def curvature(self, u: Array, b: Array) -> Array:
        """The second derivative in u, almost everywhere: zero for piecewise linear losses."""
        return namespace(u).zeros_like(u + b)

    def conjugate(self, s: Array, b: Array) -> Array:
        """sup_u s u - loss(u; b)."""
        xp = namespace(s)
        low, high = self.domain(b)
        inside = (s >= low) & (s <= high)
        some = xp.where(low > 0, low, xp.where(high < 0, high, xp.zeros_like(high)))  # a point of the domain
        safe = xp.where(inside, s, some)
        return xp.where(inside, self._conjugate(safe, b), xp.full_like(safe, inf))


@dataclass(frozen=True)
class Smoothed(Loss):
    """The Moreau envelope: min_v loss(v; b) + (v - u)^2 / (2 width), which is below the loss and smooth.

    Its conjugate is the loss's plus width s^2 / 2, on the same domain: what is feasible for its dual is
    feasible for that of the loss itself.
    """

    loss: Loss
    width: float

    smooth = True

    def value(self, u: Array, b: Array) -> Array:
        v = self.loss.prox(u, b, self.width)
        return self.loss.value(v, b) + (v - u) ** 2 / (2 * self.width)

    def gradient(self, u: Array, b: Array) -> Array:
        low, high = self.loss.domain(b)
        xp = namespace(u)
        slope = (u - self.loss.prox(u, b, self.width)) / self.width
        return xp.minimum(xp.maximum(slope, low + 0 * slope), high + 0 * slope)

    def curvature(self, u: Array, b: Array) -> Array:
        """(1 - dprox/du) / width, with dprox/du = 1 / (1 + width * curvature at the prox) where smooth."""
        xp = namespace(u)
        slope, v = self.gradient(u, b), self.loss.prox(u, b, self.width)
        low, high = self.loss.domain(b)
        below = self.loss.curvature(v, b)
        moving = (slope > low) & (slope < high)  # at a kink of the loss, or on a curved piece
        kink = moving & (below == 0) & (v != u)
        return xp.where(kink, 1 / self.width + 0 * slope, below / (1 + self.width * below))

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """The envelope's prox, a blend of u and the loss's prox with step + width."""
        far = self.loss.prox(u, b, step + self.width)
        return u + (step / (step + self.width)) * (far - u)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self.loss._conjugate(s, b) + self.width * s**2 / 2

    def domain(self, b: Array) -> tuple[Array, Array]:
        return self.loss.domain(b)
