"""Losses without a gradient, replaced by Moreau envelopes with a width that shrinks (Nesterov's smoothing, in steps).

Any alpha of a smoothed problem is feasible for the dual of the true one (the envelope's conjugate has the same
domain), so the gap that a smoothed problem leaves is known for the true one at any width.  The width shrinks whenever
the smoothed problem is solved better than it approximates the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rkhs._backend.arrays import Array, namespace
from rkhs._finite.problem import LossBlock

SHRINK = 0.25  # of the width, each time
LEAST = 1e-30  # of the first width: less is rounding, and then no number
SOLVED = 0.5  # share of the true gap under which the smoothed problem counts as solved


@dataclass
class Smoothing:
    """The width of the envelopes; 0 where all losses have gradients."""

    width: float

    def __post_init__(self) -> None:
        self.least = LEAST * self.width

    @classmethod
    def of(cls, terms: Sequence[LossBlock], u: Array) -> Smoothing:
        """Twice the mean loss of the rows that have no gradient, at u (N, 1): what a slope of one saves within it."""
        rough = [t for t in terms if not t.loss.smooth]
        xp = namespace(u)
        weight = sum(float(xp.sum(t.weight)) for t in rough)
        risk = sum(float(xp.sum(t.weight * t.loss.value(u[t.rows], t.target))) for t in rough)
        return cls((2 * risk / weight or 1.0) if weight > 0 else 0.0)

    def terms(self, terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
        """The rows with envelopes in place of losses that have no gradient."""
        return tuple(t if t.loss.smooth else replace(t, loss=t.loss.smoothed(self.width)) for t in terms)

    def sharpen(self, own: float, gap: float) -> bool:
        """Shrink the width if `own`, the gap of the smoothed problem, is small beside that of the true one."""
        if not self.width or own > SOLVED * gap:
            return False
        self.shrink()
        return True

    def shrink(self) -> None:
        """To the next width."""
        self.width = max(SHRINK * self.width, self.least)
