"""Losses with a curvature beside losses without, the Gram matrix in memory: Newton's method on the former.

At u, a loss with slope s and curvature h is replaced by its quadratic model h/2 (u' - (u - s/h))^2, a squared loss.
What is left is the box-constrained dual (`interior_point`), solved exactly; J then falls along the step to there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import certify
from rkhs._finite.monitor import Monitor, OutOfIterations, quiet
from rkhs._finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs.exceptions import NotApplicableError
from rkhs.losses._interval import IntervalLoss
from rkhs.losses._regression import Squared
from rkhs.solvers._base import OutputSolver
from rkhs.solvers._costs import Estimate
from rkhs.solvers._interior_point import BoxDual

FORCING = 0.1  # of the gap of J, that of a model on the way there (inexact steps: Lee, Sun and Saunders 2014)


@dataclass(frozen=True)
class ProximalNewton(OutputSolver):
    """Newton's method on the smooth losses, the box-constrained dual for the others: any mix, exactly.

    The Gram matrix has to fit in memory.

    Parameters
    ----------
    max_iterations : for each output

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
                    f"ProximalNewton needs losses with a curvature or of the distance from an interval, and {t.loss!r} "
                    "is neither: use rkhs.solvers.NonlinearCG()."
                )

    def cost(self, estimate: Estimate) -> float:
        return 5 * BoxDual().cost(estimate)  # models, as a rule

    def run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        point = _ProximalPoint(system, start.a, start.basis)
        for _ in range(self.max_iterations):
            certificate = certify(system, point.iterate, monitor.tol)
            monitor.report(point.iterate, point.value, certificate.relative)
            if certificate.within(monitor.tol) or point.stuck:
                return point.iterate
            # A model is solved exactly by the crossover once its relative gap is 1e-8.
            point.step(max(1e-8, min(FORCING * certificate.relative, FORCING)), monitor.left)
        raise OutOfIterations


class _ProximalPoint:
    """A point with its image and objective."""

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
        """Move towards the minimum of the model, whose own alpha is one for J; stuck where J is not smaller there."""
        model = self.system.with_rows(tuple(self._quadratic(t) for t in self.system.terms))
        goal = BoxDual().run_output(model, model.start(), quiet(tol, seconds))
        self.alpha = goal.a
        a, basis = goal.a - self.a, goal.basis - self.basis
        image = self.system.gram @ a
        promise = _value(model, self.a, self.image, self.u) - _value(
            model, goal.a, self.image + image, self.u + image + self.system.Q @ basis
        )
        fraction = 1.0
        while fraction > 1e-10:
            point = self.a + fraction * a, self.image + fraction * image, self.basis + fraction * basis
            value = self._objective(*point)
            if value <= self.value - 1e-4 * fraction * promise and value < self.value:
                self.a, self.image, self.basis = point
                self.value = value
                return
            fraction /= 2
        self.stuck = True

    def _objective(self, a: Matrix, image: Matrix, basis: Matrix) -> float:
        return _value(self.system, a, image, image + self.system.Q @ basis)

    def _quadratic(self, t: LossBlock) -> LossBlock:
        """The rows of the model: those of an interval are as they are."""
        if isinstance(t.loss, IntervalLoss):
            return t
        u = self.u[t.rows]
        slope, bend = t.loss.gradient(u, t.target), np.maximum(t.loss.curvature(u, t.target), 1e-6)
        return replace(t, loss=Squared(), target=u - slope / bend, weight=t.weight * bend / 2)


def _value(system: FiniteProblem, a: Matrix, image: Matrix, u: Matrix) -> float:
    """J of one output."""
    return float(np.sum(a * image)) / 2 + float(system.loss(u)[0])
