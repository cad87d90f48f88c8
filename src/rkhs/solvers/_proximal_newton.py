"""Proximal Newton: smooth losses by quadratic models, the others exactly, with the Gram matrix in memory.

At u, a smooth loss with slope s and curvature h is replaced by its quadratic model h/2 (u' - (u - s/h))^2, a squared
loss.  The result is a box-constrained dual (`_interior_point`), solved exactly; a line search then decreases J.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import certify
from rkhs._finite.monitor import Monitor, OutOfIterations, quiet
from rkhs._finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs.exceptions import NotApplicableError
from rkhs.losses._interval import IntervalLoss, Squared
from rkhs.solvers._base import Estimate, OutputSolver
from rkhs.solvers._interior_point import BoxDual

FORCING = 0.1  # relative accuracy of the models, in units of the gap of J (inexact steps: Lee, Sun and Saunders 2014)


@dataclass(frozen=True)
class ProximalNewton(OutputSolver):
    """Newton's method on the smooth losses with the box-constrained dual for the others: any mix of them, exactly.

    The Gram matrix must fit in memory.

    Parameters
    ----------
    max_iterations : int, default=100
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::4]), rkhs.Logistic(), target=np.sign(X[::4, 0] + 0.1), weight=10.0)
    >>> rising = rkhs.Term(rkhs.Gradient(X), rkhs.OneSided())
    >>> rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, rising]).solve(rkhs.solvers.ProximalNewton()).status
    'converged'
    """

    max_iterations: int = 100

    def check(self, system: FiniteProblem) -> None:
        super().check(system)
        for t in system.terms:
            if not (t.loss.smooth or isinstance(t.loss, IntervalLoss)):
                raise NotApplicableError(
                    f"ProximalNewton needs losses that are smooth or of the distance from an interval, but {t.loss!r} "
                    "is neither: use rkhs.solvers.NonlinearCG()."
                )

    def cost(self, estimate: Estimate) -> float:
        return 5 * BoxDual().cost(estimate)  # five models are typical

    def run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        point = _ProximalState(system, start.a, start.basis)
        for _ in range(self.max_iterations):
            certificate = certify(system, point.iterate, monitor.tol)
            monitor.report(point.iterate, point.value, certificate.relative)
            if certificate.within(monitor.tol) or point.stuck:
                return point.iterate
            # At a relative gap of 1e-8 the crossover solves a model exactly.
            point.step(max(1e-8, min(FORCING * certificate.relative, FORCING)), monitor.left)
        raise OutOfIterations


class _ProximalState:
    """The iterate with its image and objective."""

    def __init__(self, system: FiniteProblem, a: Matrix, basis: Matrix) -> None:
        self.system = system
        self.a, self.basis = a, basis
        self.image = system.gram @ a
        self.value = self._objective(a, self.image, basis)
        self.alpha = a
        self.stuck = False

    @property
    def iterate(self) -> Iterate:
        return Iterate(self.a, self.basis, self.alpha)

    @property
    def u(self) -> Matrix:
        return self.image + self.system.Q @ self.basis

    def step(self, tol: float, seconds: float) -> None:
        """Move towards the minimizer of the model, whose alpha is dual feasible; set `stuck` if J does not decrease."""
        model = self.system.with_rows(tuple(self._quadratic(t) for t in self.system.terms))
        goal = BoxDual().run_output(model, model.start(), quiet(tol, seconds))
        self.alpha = goal.a
        a, basis = goal.a - self.a, goal.basis - self.basis
        image = self.system.gram @ a
        predicted_decrease = _value(model, self.a, self.image, self.u) - _value(
            model, goal.a, self.image + image, self.u + image + self.system.Q @ basis
        )
        fraction = 1.0
        while fraction > 1e-10:
            point = self.a + fraction * a, self.image + fraction * image, self.basis + fraction * basis
            value = self._objective(*point)
            if value <= self.value - 1e-4 * fraction * predicted_decrease and value < self.value:
                self.a, self.image, self.basis = point
                self.value = value
                return
            fraction /= 2
        self.stuck = True

    def _objective(self, a: Matrix, image: Matrix, basis: Matrix) -> float:
        return _value(self.system, a, image, image + self.system.Q @ basis)

    def _quadratic(self, t: LossBlock) -> LossBlock:
        """Return the quadratic model of a smooth loss block; interval losses stay as they are."""
        if isinstance(t.loss, IntervalLoss):
            return t
        u = self.u[t.rows]
        slope, curvature = t.loss.gradient(u, t.target), np.maximum(t.loss.curvature(u, t.target), 1e-6)
        return replace(t, loss=Squared(), target=u - slope / curvature, weight=t.weight * curvature / 2)


def _value(system: FiniteProblem, a: Matrix, image: Matrix, u: Matrix) -> float:
    """Return J of one output."""
    return float(np.sum(a * image)) / 2 + float(system.loss(u)[0])
