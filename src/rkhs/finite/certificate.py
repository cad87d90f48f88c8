"""The certificate: how far an iterate is from the minimum, at most.

Any alpha with Q'alpha = 0 inside the losses' box bounds the minimum from below, any iterate from above.  Two
alphas come for nothing with an iterate: minus the slopes of the losses at its image (Fenchel and Young's choice,
which makes the gap 1/2 |grad J|^2 for smooth losses), and its own coefficients a (right for solvers of the dual).
"""

from __future__ import annotations

from dataclasses import dataclass

from rkhs.backend.arrays import Array, namespace
from rkhs.finite.system import Iterate, System
from rkhs.linalg.projection import project


@dataclass(frozen=True, eq=False)
class Certificate:
    """Primal and dual values, one per output."""

    primal: Array
    dual: Array

    @property
    def gap(self) -> float:
        """primal - dual, summed over the outputs."""
        return max(0.0, float(namespace(self.primal).sum(self.primal - self.dual)))

    @property
    def relative(self) -> float:
        """The largest gap of any output, relative to its value."""
        xp = namespace(self.primal)
        return float(xp.max(relative_gap(self.primal, self.dual)))


def relative_gap(primal: Array, dual: Array) -> Array:
    """(primal - dual) / max(|primal|, |dual|), 0 for 0 / 0."""
    xp = namespace(primal)
    size = xp.maximum(abs(primal), abs(dual))
    gap = xp.clip(primal - dual, 0, None)
    positive = size > 0
    return xp.where(positive, gap / xp.where(positive, size, xp.ones_like(size)), gap)


def certify(system: System, iterate: Iterate) -> Certificate:
    """The certificate of an iterate, from scratch: up to three Gram products."""
    xp = namespace(iterate.a)
    image = system.gram @ iterate.a
    u = image + system.Q @ iterate.basis
    primal = xp.vecdot(iterate.a, image, axis=0) / 2 + system.risk(u)
    low, high = system.box
    dual = None
    for candidate in (-system.slope(u), iterate.a):
        alpha = project(candidate, low, high, system.Q)
        value = dual_value(system, alpha, system.gram @ alpha)
        dual = value if dual is None else xp.maximum(dual, value)
    return Certificate(primal, dual)


def dual_value(system: System, alpha: Array, image: Array) -> Array:
    """The dual objective (c,) of a feasible alpha with its image G alpha."""
    return -namespace(alpha).vecdot(alpha, image, axis=0) / 2 - system.conjugate(alpha)
