"""A direct solver for squared losses with the Gram matrix in memory: one factorization.

    (G + diag(1/(2w))) a + Q c = b,        Q'a = 0

are the optimality conditions of the primal and the dual problem at once (`rkhs._linalg.saddle`).  Their residual s
bounds the error of a and c without another product (as in `_conjugate_gradients`):

    dual(a) = 1/2 (b'a + s'a),        J(a, c) = dual(a) + 1/2 s'D^-1 s
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs._finite.certificate import relative_gap
from rkhs._finite.monitor import FACTOR, Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._linalg.saddle import Saddle
from rkhs.exceptions import NotApplicableError
from rkhs.solvers._base import DenseSolver, Estimate, Solver, factorization, fits_once, from_memory, in_memory, in_numpy


@dataclass(frozen=True)
class Direct(DenseSolver):
    """A Cholesky factorization of the linear equations of a problem with squared losses.

    All outputs share the factor.  The Gram matrix must fit in half of the free memory: it is computed, scaled and
    factorized in place.  A time limit or Ctrl-C takes effect between two blocks; the solver then has only the start to
    return.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e6)
    >>> solution = rkhs.Problem(rkhs.kernels.Polyharmonic(3), [values]).solve(rkhs.solvers.Direct())
    >>> solution.status, round(float(solution.function([[0.5]])[0]), 3)
    ('converged', 0.141)
    """

    def check(self, system: FiniteProblem) -> None:
        check_quadratic(self, system)
        super().check(system)

    def cost(self, estimate: Estimate) -> float:
        return estimate.matrix + factorization(estimate.system.size)

    def fits(self, rows: int) -> bool:
        return fits_once(rows)

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        monitor.afford(self.cost(Estimate(system, monitor.tol)))
        stored = system.exact.stored
        inside = in_memory(system) if stored else in_numpy(system)
        w, b, Q = inside.weight, inside.target, inside.Q
        d = 1 / (2 * w[:, 0])
        write = inside.gram.in_double
        with monitor.showing(FACTOR):
            saddle = Saddle(write() if stored else write, d, Q)
        a, c = saddle.solve(b)
        residual = saddle.residual(a, c, b)
        gaps = np.sum(w * residual**2, axis=0)
        primal = np.sum((b + residual) * a, axis=0) / 2 + gaps
        solution = from_memory(inside, system, Iterate(a, c))
        relative_gaps = map(relative_gap, primal, primal - gaps, inside.rounding)
        monitor.report(solution, float(primal.sum()), max(relative_gaps, default=0.0))
        return solution


def check_quadratic(solver: Solver, system: FiniteProblem) -> None:
    """Raise `NotApplicableError` if a loss is not squared."""
    for t in system.terms:
        if not t.loss.quadratic:
            raise NotApplicableError(
                f"{solver.name} needs all losses to be Squared, but one is {t.loss!r}: use "
                "rkhs.solvers.SchurComplement() if few functionals have such a loss, or rkhs.solvers.NonlinearCG() at "
                "any size."
            )
