"""An interior-point method for the box-constrained dual, dense (Mehrotra's predictor and corrector).

A row whose interval [p, q] is more than a point costs -p alpha for alpha > 0 and -q alpha for alpha < 0: it is split,
alpha = x - x' with x, x' >= 0.  With y, z the multipliers of lower and upper bounds and s, t their slacks, a step of
Newton's solves

    [G + D + M, Q; Q', 0] [d alpha; dc] = ..,     M = y/s + z/t, its inverse added up over the two parts of a row

with one factorisation for predictor and corrector.  c, the multiplier of Q'alpha = 0, is the coefficient of the basis
in f.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._linalg.saddle import Saddle

KEPT = 0.995  # of the way to the boundary, at most


@dataclass(frozen=True, eq=False)
class Programme:
    """The dual (`dual`) of one output: G (n, n), Q (n, r) and vectors."""

    G: Matrix
    Q: Matrix
    diagonal: Matrix
    p: Matrix
    q: Matrix
    low: Matrix
    high: Matrix

    def force(self, alpha: Matrix, c: Matrix) -> Matrix:
        """(G + D) alpha + Qc, the derivative of all but the linear part and the bounds."""
        return self.G @ alpha + self.diagonal * alpha + self.Q @ c

    @cached_property
    def level(self) -> float:
        """The size of the values that f aims at."""
        ends = np.abs(np.concatenate([self.p, self.q]))
        return float(np.max(ends[np.isfinite(ends)], initial=0.0)) or 1.0

    @cached_property
    def sizes(self) -> Matrix:
        """The alpha_i that would bring about such a value of L_i(f), were it alone."""
        own = np.diag(self.G) + self.diagonal
        typical = float(np.abs(self.G).max(initial=0.0)) or 1.0
        return self.level / np.where(own > 1e-12 * typical, own, typical)


class Interior:
    """The state of the method: x, all rows first and then the negative parts of the split ones."""

    def __init__(self, programme: Programme) -> None:
        self.programme = it = programme
        self.n = len(it.p)
        self.split = np.flatnonzero((it.p < it.q) & (it.low < 0) & (it.high > 0))
        self.rows = np.concatenate([np.arange(self.n), self.split])
        self.sign = np.concatenate([np.ones(self.n), -np.ones(len(self.split))])
        lower = it.low.copy()
        lower[self.split] = 0.0
        self.lower = np.concatenate([lower, np.zeros(len(self.split))])
        self.upper = np.concatenate([it.high, -it.low[self.split]])
        self.cost = np.concatenate([-np.where(it.high > 0, it.p, it.q), it.q[self.split]])
        self.below, self.above = np.isfinite(self.lower), np.isfinite(self.upper)
        self.bounds = int(self.below.sum() + self.above.sum())
        self._start()

    def _start(self) -> None:
        """Near 0, inside the bounds by what is small for the problem or for the box."""
        it, sizes = self.programme, self.programme.sizes[self.rows]
        inside = np.minimum((self.upper - self.lower) / 2, sizes)
        self.x = np.clip(0.0, self.lower + inside, self.upper - inside)
        self.s = np.where(self.below, self.x - self.lower, 1.0)
        self.t = np.where(self.above, self.upper - self.x, 1.0)
        self.c = np.zeros(it.Q.shape[1])
        slope = self._slope()
        self.y = np.where(self.below, it.level * np.minimum(1, sizes / self.s) + np.maximum(slope, 0), 0.0)
        self.z = np.where(self.above, it.level * np.minimum(1, sizes / self.t) + np.maximum(-slope, 0), 0.0)

    @property
    def alpha(self) -> Matrix:
        alpha = self.x[: self.n].copy()
        alpha[self.split] -= self.x[self.n :]
        return alpha

    def _slope(self) -> Matrix:
        """The derivative of the objective and of c'Q'alpha in x."""
        return self.sign * self.programme.force(self.alpha, self.c)[self.rows] + self.cost

    def step(self) -> None:
        """Take one iteration."""
        it, n, split = self.programme, self.n, self.split
        theta = self.y / self.s + self.z / self.t
        M, second = theta[:n].copy(), theta[n:]
        M[split] *= second / (M[split] + second)
        saddle = Saddle(it.G, it.diagonal + M, it.Q)
        residual, feasibility = self._slope() - self.y + self.z, it.Q.T @ self.alpha

        def direction(low: Any, high: Any) -> tuple[Matrix, Matrix, Matrix, Matrix]:
            """The step to s y = low and t z = high."""
            right = -residual + (low / self.s - self.y) * self.below - (high / self.t - self.z) * self.above
            joint = right[:n].copy()
            joint[split] = M[split] * (right[split] / theta[split] - right[n:] / second)
            da, dc = (part[:, 0] for part in saddle.solve(joint[:, None], -feasibility[:, None]))
            force = joint[split] - M[split] * da[split]
            dx = np.concatenate([da, (right[n:] + force) / second])
            dx[split] = (right[split] - force) / theta[split]
            dy = ((low - self.y * dx) / self.s - self.y) * self.below
            dz = ((high + self.z * dx) / self.t - self.z) * self.above
            return dx, dc, dy, dz

        dx, _, dy, dz = direction(0.0, 0.0)
        length = min(1.0, self._longest(dx, dy, dz))
        mean, ahead = self._mean(), self._mean(length * dx, length * dy, length * dz)
        centre = ahead * min(ahead / mean, 1.0) ** 2 if mean > 0 else 0.0
        dx, dc, dy, dz = direction(centre - dx * dy, centre + dx * dz)
        length = min(1.0, KEPT * self._longest(dx, dy, dz))
        self.before = self.s, self.t, self.y, self.z
        self.x, self.c = self.x + length * dx, self.c + length * dc
        self.s, self.t = self.s + length * dx * self.below, self.t - length * dx * self.above
        self.y, self.z = self.y + length * dy, self.z + length * dz

    def vanishing(self) -> tuple[Matrix, Matrix]:
        """Which slacks of lower and upper bounds went down faster than their multipliers in the last step.

        These are zero at the solution (Tapia's indicators, which do not depend on the scale of either).
        """
        s, t, y, z = self.before
        return self.below & (self.s * y < self.y * s), self.above & (self.t * z < self.z * t)

    def _mean(self, dx: Any = 0.0, dy: Any = 0.0, dz: Any = 0.0) -> float:
        """The mean of s y and t z after a step."""
        low, high = (self.s + dx) * (self.y + dy) * self.below, (self.t - dx) * (self.z + dz) * self.above
        return max(float(np.sum(low) + np.sum(high)), 0.0) / max(self.bounds, 1)

    def _longest(self, dx: Matrix, dy: Matrix, dz: Matrix) -> float:
        """The longest step that keeps slacks and multipliers nonnegative."""
        longest = np.inf
        for value, change, bounded in (
            (self.s, dx, self.below), (self.t, -dx, self.above), (self.y, dy, self.below), (self.z, dz, self.above)
        ):  # fmt: skip
            falling = bounded & (change < 0)
            longest = min(longest, float(np.min(-value[falling] / change[falling], initial=np.inf)))
        return longest
