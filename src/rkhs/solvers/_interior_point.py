"""The box-constrained dual (Lee et al. 2006, section 5), exactly: an interior-point method, then crossover.

For losses that are linear or quadratic in the distance from an interval [p_i, q_i], v_i the width of the loss
(`rkhs.losses._interval`), the dual is

    min over alpha   1/2 alpha'(G + D) alpha - sum_i (p_i alpha_i if alpha_i > 0 else q_i alpha_i),   D_ii = v_i / w_i
    subject to       low <= alpha <= high,  Q'alpha = 0

where low and high are w_i times the slopes of the losses, infinite for losses that grow like squares.

*Interior points* (Mehrotra's predictor and corrector).  A row whose interval is more than a point is split, alpha =
x - x' with x, x' >= 0, because its cost has a kink at 0.  With y, z the multipliers of lower and upper bounds and s, t
their slacks, a step of Newton's method solves

    [G + D + M, Q; Q', 0] [d alpha; dc] = ..,     M = y/s + z/t, its inverse added up over the two parts of a row

with one factorization for predictor and corrector.  c, the multiplier of Q'alpha = 0, is the coefficient of the basis
in f.

*Crossover.*  At the solution each alpha_i sits at an end of its box, at 0 where its cost has a kink there, or is free.
With the resting ones put exactly there, the free ones solve linear equations; what then leaves its range comes to rest
at the end of it, what is pushed off its place becomes free, and the equations are solved again.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import UNITS, Certificate, certify
from rkhs._finite.monitor import FACTOR, Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._linalg.projection import project
from rkhs._linalg.saddle import Saddle
from rkhs.exceptions import NotApplicableError
from rkhs.losses._interval import IntervalLoss
from rkhs.solvers._base import OutputSolver
from rkhs.solvers._costs import Estimate, factorization

FACTORIZATIONS = 15  # as a rule, those of the crossover among them
PATIENCE, ARRIVED = 50, 3  # iterations without a smaller gap: equal rows take 30; within rounding others are chance
ROUNDS = 30  # of the crossover
FINE, WORSE = 1e-9, 10  # relative gap with which the right places are taken in any case; times the gap they may cost


@dataclass(frozen=True)
class BoxDual(OutputSolver):
    """The exact solution of the dual, with coefficients that are exactly zero, or exactly at a bound, where they are.

    The Gram matrix has to fit in memory; an iteration costs one Cholesky factorization, and there are 10 to 30.

    Parameters
    ----------
    max_iterations : for each output

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.EpsilonInsensitive(0.1), target=np.sin(3 * X[:, 0]), weight=10.0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.5), [term], rkhs.Constant()).solve(rkhs.solvers.BoxDual())
    >>> solution.status, solution.function.active < 10
    ('converged', True)
    """

    max_iterations: int = 100

    def check(self, system: FiniteProblem) -> None:
        for t in system.terms:
            if not isinstance(t.loss, IntervalLoss):
                raise NotApplicableError(
                    "BoxDual solves the dual of losses that are linear or quadratic in the distance from an interval, "
                    f"and {t.loss!r} is not: use rkhs.solvers.Newton(), or rkhs.solvers.NonlinearCG() at any size."
                )
        super().check(system)

    def cost(self, estimate: Estimate) -> float:
        system = estimate.system
        return estimate.matrix + FACTORIZATIONS * system.columns * factorization(system.size)

    def run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        output = _Output(system)
        for iteration in range(self.max_iterations):
            iterate = output.iterate()
            certificate = certify(system, iterate, quick=True)
            monitor.report(iterate, float(certificate.primal[0]), certificate.relative)
            if iteration >= 2 and output.done(certificate, monitor.tol):
                break
            monitor.afford(factorization(len(output.rows)))
            with monitor.showing(FACTOR):
                output.interior.step()
        with monitor.showing(FACTOR):
            return output.settled()


class _Output:
    """The rows that may move, and the interior-point method on them."""

    def __init__(self, system: FiniteProblem) -> None:
        self.system = system
        parts: list[tuple[Matrix, Matrix, Matrix]] = []
        for t in system.terms:
            assert isinstance(t.loss, IntervalLoss)
            p, q = (end[:, 0] for end in t.loss.interval(t.target))
            parts.append((p, q, np.broadcast_to((t.loss.width / np.where(t.weight > 0, t.weight, 1.0))[:, 0], p.shape)))
        p, q, diagonal = (np.concatenate(column) for column in zip(*parts, strict=True))
        low, high = (end[:, 0] for end in system.box)
        self.rows = rows = np.flatnonzero(low < high)
        vectors = (v[rows] for v in (diagonal, p, q, low, high))
        self.interior = Interior(Programme(system.gram.block(rows, rows), system.Q[rows], *vectors))
        self.best, self.smallest, self.since, self.patience = self.interior, inf, 0, PATIENCE

    def done(self, certificate: Certificate, tol: float) -> bool:
        """Whether the gap is far within tol, or lost in rounding, or nothing has been gained for long."""
        if certificate.gap < self.smallest:
            self.smallest, self.since, self.best = certificate.gap, 0, copy(self.interior)
            self.patience = ARRIVED if certificate.relative <= certificate.uncertain else PATIENCE
        else:
            self.since += 1
        # With a thousandth of the tolerance it is clear which coefficients are free.
        within = max(1e-3 * tol, min(certificate.uncertain / UNITS, tol))
        return certificate.relative <= within or self.since > self.patience

    def iterate(self) -> Iterate:
        """f of the last point, which need not satisfy Q'alpha = 0 yet."""
        alpha = self._whole(self.interior.alpha)
        a = alpha - self.system.Q @ (self.system.Q.T @ alpha)
        return Iterate(a, self.interior.c[:, None], a)

    def settled(self) -> Iterate:
        """The solution, every coefficient in its place."""

        def certified(alpha: Matrix, c: Matrix) -> Certificate:
            whole = self._whole(alpha)
            return certify(self.system, Iterate(whole, c[:, None], whole), quick=True)

        alpha, c = crossover(self.best, certified)
        return Iterate(self._whole(alpha), c[:, None])

    def _whole(self, alpha: Matrix) -> Matrix:
        column = np.zeros((self.system.size, 1))
        column[self.rows, 0] = alpha
        return column


@dataclass(frozen=True, eq=False)
class Programme:
    """The dual of one output: G (n, n), Q (n, r) and vectors."""

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
        center = ahead * min(ahead / mean, 1.0) ** 2 if mean > 0 else 0.0
        dx, dc, dy, dz = direction(center - dx * dy, center + dx * dz)
        length = min(1.0, 0.995 * self._longest(dx, dy, dz))
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


def crossover(interior: Interior, certify: Callable[[Matrix, Matrix], Certificate]) -> tuple[Matrix, Matrix]:
    """alpha and c of the smallest gap among those tried, from a point of the interior-point method."""
    it = interior.programme
    resting, alpha = _resting(interior)
    rising = np.where(it.low == 0, True, alpha > 0)  # whether a row that moves is where its cost is -p alpha
    c = interior.c
    first = _feasible(it, interior.alpha, it.low, it.high)
    unsettled = smallest = certify(first, c)
    best = None
    for _ in range(ROUNDS):
        low, high = _range(it, resting, rising, alpha)
        alpha, c = _solved(it, ~resting, np.where(rising, it.p, it.q), alpha, c)
        outside = ~resting & ((alpha < low) | (alpha > high))
        feasible = _feasible(it, alpha, low, high)
        found = certify(feasible, c)
        if best is None or found.gap < smallest.gap:
            best, smallest = (feasible, c), found
        alpha = np.clip(alpha, low, high)
        up, down = _pushed(it, alpha, c)
        up, down = up & resting, down & resting
        if not np.any(outside | up | down):
            break
        rising = np.where(up, alpha >= 0, np.where(down, alpha > 0, rising))
        resting = (resting | outside) & ~up & ~down
    good = smallest.gap <= WORSE * unsettled.gap or smallest.relative <= FINE
    return best if best is not None and good else (first, interior.c)


def _resting(interior: Interior) -> tuple[Matrix, Matrix]:
    """Which rows rest, and alpha with those put exactly at their place."""
    n, split = interior.n, interior.split
    at_low, at_high = interior.vanishing()
    x = np.where(at_low, interior.lower, np.where(at_high, interior.upper, interior.x))
    resting, alpha = (at_low | at_high)[:n], x[:n].copy()
    first, second = interior.x[split], interior.x[n:]
    negative = second > first
    alpha[split] = np.where(negative, -x[n:], x[split])
    resting[split] = np.where(negative, (at_low | at_high)[n:], resting[split])
    return resting, alpha


def _range(it: Programme, resting: Matrix, rising: Matrix, alpha: Matrix) -> tuple[Matrix, Matrix]:
    """Between which values a row may move with its cost linear; those that rest may not."""
    kink = it.p < it.q
    low = np.where(kink & rising, np.maximum(it.low, 0.0), it.low)
    high = np.where(kink & ~rising, np.minimum(it.high, 0.0), it.high)
    return np.where(resting, alpha, low), np.where(resting, alpha, high)


def _solved(it: Programme, free: Matrix, aim: Matrix, alpha: Matrix, c: Matrix) -> tuple[Matrix, Matrix]:
    """The free rows and c with (G + D) alpha + Qc = aim on them and Q'alpha = 0."""
    rows = np.flatnonzero(free)
    if rows.size == 0:
        return alpha, c
    soft = 1e-15 * float(np.abs(it.G).max())  # where the block may be singular
    saddle = Saddle(it.G[np.ix_(rows, rows)], it.diagonal[rows] + soft, it.Q[rows])
    for _ in range(2):
        short = (aim - it.force(alpha, c))[rows]
        change, shift = saddle.solve(short[:, None], -(it.Q.T @ alpha)[:, None])
        alpha, c = alpha.copy(), c + shift[:, 0]
        alpha[rows] += change[:, 0]
    return alpha, c


def _feasible(it: Programme, alpha: Matrix, low: Matrix, high: Matrix) -> Matrix:
    """The nearest point in the ranges with Q'alpha = 0, or in the box if they have none."""
    for ends in ((low, high), (it.low, it.high)):
        point = project(alpha[:, None], ends[0][:, None], ends[1][:, None], it.Q)[:, 0]
        if np.all(np.abs(it.Q.T @ point) <= 1e-13 * np.linalg.norm(point)):
            break
    return point


def _pushed(it: Programme, alpha: Matrix, c: Matrix) -> tuple[Matrix, Matrix]:
    """Which rows would lower the objective by moving up, and which by moving down."""
    force = it.force(alpha, c)
    margin = 1e-10 * it.level  # less is rounding
    up = (alpha < it.high) & (force < np.where(alpha >= 0, it.p, it.q) - margin)
    down = (alpha > it.low) & (force > np.where(alpha <= 0, it.q, it.p) + margin)
    return up, down
