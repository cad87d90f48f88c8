"""The dual of losses of the distance from an interval: a quadratic programme in a box.

With [p_i, q_i] the interval that costs nothing, and v_i the width of the loss (`rkhs.losses.interval`), the dual is

    min over alpha   1/2 alpha'(G + D) alpha - sum_i (p_i alpha_i if alpha_i > 0 else q_i alpha_i),   D_ii = v_i / w_i
    subject to       low <= alpha <= high,  Q'alpha = 0

where low and high are w_i times the slopes of the losses, infinite for losses that grow like squares.
"""

from __future__ import annotations

from dataclasses import dataclass

from rkhs._backend.arrays import Array, namespace
from rkhs._finite.problem import FiniteProblem
from rkhs.losses.interval import IntervalLoss
from rkhs.solvers.base import NotApplicableError


@dataclass(frozen=True, eq=False)
class Dual:
    """The data of the dual beside G and Q, all (N, c)."""

    p: Array
    q: Array
    low: Array
    high: Array
    diagonal: Array

    @classmethod
    def of(cls, system: FiniteProblem) -> Dual:
        parts: list[list[Array]] = [[], [], []]
        for t in system.terms:
            assert isinstance(t.loss, IntervalLoss)
            xp = namespace(t.target)
            width = t.loss.width / xp.where(t.weight > 0, t.weight, xp.ones_like(t.weight))
            ends = t.loss.interval(t.target)
            for part, values in zip(parts, (*ends, xp.broadcast_to(width, t.target.shape)), strict=True):
                part.append(values)
        p, q, diagonal = (namespace(part[0]).concat(part, axis=0) for part in parts)
        return cls(p, q, *system.box, diagonal)


def check_dual(system: FiniteProblem, solver: str) -> None:
    """Raise `NotApplicableError` where a loss has another conjugate."""
    for t in system.terms:
        if not isinstance(t.loss, IntervalLoss):
            raise NotApplicableError(
                f"{solver} solves the dual of losses that are linear or quadratic in the distance from an interval, "
                f"and {t.loss!r} is not: use rkhs.solvers.Newton(), or rkhs.solvers.Descent() at any size."
            )
