"""A loss seen from elsewhere: what is left of it when a part of u is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rkhs._backend.arrays import Array
from rkhs.losses.base import Loss
from rkhs.losses.interval import IntervalLoss


@dataclass(frozen=True, eq=False)
class Shifted(Loss):
    """loss(u + shift; b), with a shift (n,) of its own for each of n functionals."""

    loss: Loss
    shift: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "smooth", self.loss.smooth)
        object.__setattr__(self, "attained", self.loss.attained)

    def at(self, u: Array) -> Array:
        """The shift, as a column where u has columns."""
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
class ShiftedInterval(IntervalLoss):
    """The same of a loss of the distance from an interval, which is one again."""

    loss: IntervalLoss
    shift: Array

    def __post_init__(self) -> None:
        for name in ("smooth", "attained", "width"):
            object.__setattr__(self, name, getattr(self.loss, name))

    def interval(self, b: Array) -> tuple[Array, Array]:
        low, high = self.loss.interval(b)
        shift = self.shift if b.ndim == 1 else self.shift[:, None]
        moved = low - shift
        return moved, (moved if low is high else high - shift)

    def slopes(self) -> tuple[float, float]:
        return self.loss.slopes()


def shifted(loss: Loss, shift: Array) -> Loss:
    """loss(u + shift; b)."""
    return ShiftedInterval(loss, shift) if isinstance(loss, IntervalLoss) else Shifted(loss, shift)
