"""Solving a small problem, whatever its losses: Newton's method, elimination of its variables, or smoothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs.finite.certificate import relative_gap
from rkhs.finite.monitor import quiet
from rkhs.solvers.choose import cheapest
from rkhs.solvers.small.elimination import Elimination
from rkhs.solvers.small.problem import Matrix, SmallProblem
from rkhs.solvers.smoothing import SHRINK

FEW = 3000  # rows up to which losses without a gradient are eliminated: their Gram matrix is dense
NARROWEST = 1e-9  # width of the envelopes beyond, beside the first one


@dataclass(frozen=True, eq=False)
class SmallSolution:
    """theta, and on the rows of each part alpha = -w loss'(u), or what stands in for it where there is no slope."""

    theta: Matrix
    alphas: list[Matrix]

    @property
    def alpha(self) -> Matrix:
        """On all rows."""
        return np.concatenate([np.zeros(0), *self.alphas])


def solve(
    problem: SmallProblem, tol: float, start: Matrix | None = None, enough: float = 0.0, seconds: float = inf
) -> SmallSolution:
    """The minimum: to rounding where losses are smooth (or to `enough`), to a relative gap of tol elsewhere.

    It raises `Stopped` after so many seconds.
    """
    if start is not None:
        start = np.concatenate([start, np.zeros(len(problem.linear) - len(start))])
    if problem.smooth:
        return _smooth(problem, problem.minimise(start, enough))
    kept = all(hasattr(part.E, "shape") for part in problem.parts)
    if kept and sum(len(part.rows.target) for part in problem.parts) <= FEW:
        elimination = Elimination(problem)
        theta, alpha = elimination.solve(cheapest(elimination.system, tol), quiet(tol, seconds))
        ends = np.cumsum([len(part.rows.target) for part in problem.parts])[:-1]
        return SmallSolution(theta, list(np.split(alpha, ends)))
    return _smoothed(problem, tol, start)


def _smooth(problem: SmallProblem, theta: Matrix) -> SmallSolution:
    return SmallSolution(theta, [-slope for slope in problem.slopes(theta)])


def _smoothed(problem: SmallProblem, tol: float, start: Matrix | None) -> SmallSolution:
    """The last of a series of smoothed problems: J of the true one is at most the envelopes' excess above."""
    theta = np.zeros(len(problem.linear)) if start is None else start
    rough = [part for part in problem.parts if not part.rows.loss.smooth]
    weight = sum(float(np.sum(part.rows.weight)) for part in rough)
    first = width = 2 * abs(problem.value(theta)) / max(weight, 1e-300) or 1.0
    while True:
        soft = problem.smoothed(width)
        theta = soft.minimise(theta)
        value = problem.value(theta)
        if relative_gap(value, soft.value(theta)) <= tol or width <= NARROWEST * first:
            return SmallSolution(theta, _smooth(soft, theta).alphas)
        width *= SHRINK
