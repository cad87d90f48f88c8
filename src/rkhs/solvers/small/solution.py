"""Solving a small problem, whatever its losses: Newton's method, elimination of its variables, or smoothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._finite.certificate import relative_gap
from rkhs._finite.monitor import Monitor, quiet
from rkhs._finite.problem import consecutive
from rkhs.solvers.choose import cheapest
from rkhs.solvers.small.elimination import Elimination
from rkhs.solvers.small.problem import SmallProblem
from rkhs.solvers.smoothing import Smoothing

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
    monitor = quiet(tol, seconds)
    if start is not None:
        start = np.concatenate([start, np.zeros(len(problem.linear) - len(start))])
    if problem.smooth:
        return _smooth(problem, problem.minimise(start, enough, monitor.check))
    kept = all(hasattr(part.E, "shape") for part in problem.parts)
    if kept and sum(len(part.rows.target) for part in problem.parts) <= FEW:
        elimination = Elimination(problem)
        theta, alpha = elimination.solve(cheapest(elimination.system, tol), monitor)
        ends = np.cumsum([len(part.rows.target) for part in problem.parts])[:-1]
        return SmallSolution(theta, list(np.split(alpha, ends)))
    return _smoothed(problem, tol, start, monitor)


def _smooth(problem: SmallProblem, theta: Matrix) -> SmallSolution:
    return SmallSolution(theta, [-slope for slope in problem.slopes(theta)])


def _smoothed(problem: SmallProblem, tol: float, start: Matrix | None, monitor: Monitor) -> SmallSolution:
    """The last of a series of smoothed problems: J of the true one is at most the envelopes' excess above."""
    theta = np.zeros(len(problem.linear)) if start is None else start
    u = np.concatenate([to_numpy(part.at(theta)) for part in problem.parts])[:, None]
    smoothing = Smoothing.of(consecutive([part.rows for part in problem.parts]), u)
    narrowest = NARROWEST * smoothing.width
    while True:
        soft = problem.smoothed(smoothing)
        theta = soft.minimise(theta, check=monitor.check)
        if relative_gap(problem.value(theta), soft.value(theta)) <= tol or smoothing.width <= narrowest:
            return _smooth(soft, theta)
        smoothing.shrink()
