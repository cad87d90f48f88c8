"""The box-constrained dual (Lee et al. 2006, section 5), exactly: interior points, then every coefficient in its place.

For losses that are linear or quadratic in the distance from an interval, in any mix; see `dual` for the problem,
`interior` for the method, `settle` for the last step.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import UNITS, Certificate, certify
from rkhs._finite.monitor import FACTOR, Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers.base import OutputSolver
from rkhs.solvers.costs import Estimate, factorisation
from rkhs.solvers.dual import Dual, check_dual
from rkhs.solvers.interior import Interior, Programme
from rkhs.solvers.settle import settle

SHARPER = 1e-3  # of the tolerance, the relative gap of the interior-point method: places are clear then
STEPS = 15  # factorisations, as a rule, those that put coefficients in their places among them
FEWEST = 2  # iterations, so that it shows which slacks are vanishing
PATIENCE = 50  # iterations without a smaller gap; a Gram matrix with many equal rows takes 30 to find its way
ARRIVED = 3  # the same, when the smallest gap is within what rounding may hide: others are chance


@dataclass(frozen=True)
class BoxDual(OutputSolver):
    """The exact solution of the dual, with coefficients that are exactly zero, or exactly at a bound, where they are.

    The Gram matrix has to fit in memory; an iteration costs one Cholesky factorisation, and there are 10 to 30.

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
        check_dual(system, self.name)
        super().check(system)

    def cost(self, estimate: Estimate) -> float:
        system = estimate.system
        return estimate.matrix + STEPS * system.columns * factorisation(system.size)

    def run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        output = _Output(system)
        for iteration in range(self.max_iterations):
            iterate = output.iterate()
            certificate = certify(system, iterate, quick=True)
            monitor.report(iterate, float(certificate.primal[0]), certificate.relative)
            if iteration >= FEWEST and output.done(certificate, monitor.tol):
                break
            monitor.check(factorisation(len(output.rows)))
            with monitor.showing(FACTOR):
                output.interior.step()
        with monitor.showing(FACTOR):
            return output.settled()


class _Output:
    """The rows that may move, and the interior-point method on them."""

    def __init__(self, system: FiniteProblem) -> None:
        self.system, dual = system, Dual.of(system)
        vectors = [v[:, 0] for v in (dual.diagonal, dual.p, dual.q, dual.low, dual.high)]
        self.rows = np.flatnonzero(dual.low[:, 0] < dual.high[:, 0])
        G = system.gram.block(self.rows, self.rows)
        self.interior = Interior(Programme(G, system.Q[self.rows], *(v[self.rows] for v in vectors)))
        self.best, self.smallest, self.since, self.patience = self.interior, float("inf"), 0, PATIENCE

    def done(self, certificate: Certificate, tol: float) -> bool:
        """Whether the gap is far within tol, or lost in rounding, or nothing has been gained for long."""
        if certificate.gap < self.smallest:
            self.smallest, self.since, self.best = certificate.gap, 0, copy(self.interior)
            self.patience = ARRIVED if certificate.relative <= certificate.uncertain else PATIENCE
        else:
            self.since += 1
        within = max(SHARPER * tol, min(certificate.uncertain / UNITS, tol))
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

        alpha, c = settle(self.best, certified)
        return Iterate(self._whole(alpha), c[:, None])

    def _whole(self, alpha: Matrix) -> Matrix:
        column = np.zeros((self.system.size, 1))
        column[self.rows, 0] = alpha
        return column
