"""Problems in stored features (`_core.finite.features`): Newton's method to rounding, and elimination for kinks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs._core.backend.arrays import Vector, double
from rkhs._core.finite.certificate import certify, relative_gap
from rkhs._core.finite.features import FeatureGeometry
from rkhs._core.finite.monitor import Monitor, Steps
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.limits import limits
from rkhs.exceptions import NotApplicableError
from rkhs.solvers._base import Solver, cheapest
from rkhs.solvers._interior_point import BoxDual
from rkhs.solvers._libsvm import LibSVM
from rkhs.solvers._newton import ProximalNewton
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._reduced import Elimination, Smoothing, minimize, value

KINKED = (LibSVM(), BoxDual(), ProximalNewton(), NonlinearCG())  # solvers for losses with kinks after elimination
MANY_ROWS = 10  # rows for each function above which kinks are smoothed first: elimination takes up to 70 times as long


@dataclass(frozen=True)
class FeatureNewton(Solver):
    """Newton's method, or elimination where losses have kinks, for problems in stored features."""

    def lacks(self, system: FiniteProblem) -> str | None:
        stored = isinstance(system.geometry, FeatureGeometry)
        return None if stored else "FeatureNewton needs a space whose matrices are stored, such as Landmarks."

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        features, count = system.geometry, system.geometry.resolved
        rest = np.zeros((len(features.square) - count, system.columns))
        if not system.terms:
            theta = features.curvature.minimum(features.linear[:count])
            return features.iterate(np.concatenate([theta, rest]), np.zeros((0, system.columns)))
        outputs = [self._output(system.output(c), start.output(c), tol, monitor) for c in range(system.columns)]
        yield from ()  # a grid reports its cells
        return Iterate.joined(outputs)

    def _output(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Iterate:
        """Solve a problem of one output to the tolerance, if rounding allows."""
        features, count = system.geometry, system.geometry.resolved
        leading = FiniteProblem(features.leading(count), system.terms)
        theta = np.concatenate([start.basis, start.a])[:count, 0]
        smoothing = MANY_ROWS * count < system.size and not system.hard
        quick = [(tol / 100, smoothing)] if system.smooth or smoothing else []
        for enough, smoothed in (*quick, (0.0, False)):
            theta, alpha = solve(leading, tol / 4, monitor, theta, enough, smoothed)
            padded = np.concatenate([theta, np.zeros(len(features.square) - count)])
            iterate = features.iterate(padded[:, None], alpha[:, None])
            if certify(system, iterate, tol).within(tol):
                break
        return iterate


def solve(
    problem: FiniteProblem,
    tol: float,
    monitor: Monitor,
    start: Vector | None = None,
    enough: float = 0.0,
    smoothing: bool = False,
) -> tuple[Vector, Vector]:
    """Minimize over few variables, to rounding (or to `enough`) if losses are smooth, else to a relative gap of tol.

    Return theta, and alpha = -w loss'(u) on the rows, or a subgradient where there is no derivative.  With `smoothing`,
    kinks on many more rows than variables are smoothed before any elimination.
    """
    variables = len(problem.geometry.square)
    if start is not None:
        start = np.concatenate([start, np.zeros(variables - len(start))])
    if problem.smooth:
        theta = minimize(problem, start, enough, monitor.check)
        return theta, dual_point(problem, theta)
    in_memory = all(hasattr(E, "shape") for E in problem.geometry.E)
    dense = in_memory and problem.size <= limits().kinked_rows
    if problem.hard and not dense:
        raise NotApplicableError(
            f"Constraints on a span need a dense matrix of all {problem.size} functionals whose losses are not "
            f"squared: use at most {limits().kinked_rows}, or large finite weights."
        )
    if not dense or (smoothing and variables < problem.size):
        theta, alpha, gap = _solve_smoothed(problem, tol, start, monitor)
        if not dense or gap <= tol:
            return theta, alpha
    elimination = Elimination(problem)
    return elimination.solve(cheapest(KINKED, elimination.system), tol, monitor)


def dual_point(problem: FiniteProblem, theta: Vector) -> Vector:
    """Return alpha = -w loss'(u) (N,)."""
    return -double(problem.gradient(problem.geometry.values(theta[:, None])))[:, 0]


def _solve_smoothed(
    problem: FiniteProblem, tol: float, start: Vector | None, monitor: Monitor
) -> tuple[Vector, Vector, float]:
    """Solve a series of smoothed problems with decreasing widths; return theta, alpha and the relative gap.

    The minimum of the true problem lies between the values of the smoothed and of the true objective.
    """
    theta = np.zeros(len(problem.geometry.square)) if start is None else start
    smoothing = Smoothing.of(problem.terms, problem.geometry.values(theta[:, None]))
    narrowest = 1e-9 * smoothing.width
    while True:
        smoothed = problem.with_rows(smoothing.terms(problem.terms))
        theta = minimize(smoothed, theta, check=monitor.check)
        gap = relative_gap(value(problem, theta), value(smoothed, theta))
        if gap <= tol or smoothing.width <= narrowest:
            return theta, dual_point(smoothed, theta), gap
        smoothing.shrink()
