"""All losses quadratic, the Gram matrix in memory: one factorisation.

    (G + diag(1/(2w))) a + Q c = b,        Q'a = 0

are the equations of the minimum and of the maximum of the dual at once (`linalg.saddle`).
"""

from __future__ import annotations

from dataclasses import dataclass

from rkhs.finite.certificate import certify
from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, System
from rkhs.linalg.saddle import Saddle
from rkhs.solvers.base import DenseSolver, NotApplicableError, Solver
from rkhs.solvers.costs import Estimate, factorisation
from rkhs.solvers.dense import from_memory, in_memory


@dataclass(frozen=True)
class Direct(DenseSolver):
    """The solution of the linear equations of an all-quadratic problem, by Cholesky's factorisation.

    All outputs share it.  The Gram matrix has to fit in memory.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e6)
    >>> solution = rkhs.Problem(rkhs.Polyharmonic(3), [values]).solve(rkhs.solvers.Direct())
    >>> solution.status, round(float(solution.function([[0.5]])[0]), 3)
    ('converged', 0.141)
    """

    def check(self, system: System) -> None:
        check_quadratic(self, system)
        super().check(system)

    def cost(self, estimate: Estimate) -> float:
        return estimate.matrix + factorisation(estimate.system.size)

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        monitor.check(self.cost(Estimate(system, monitor.tol)))
        inside = in_memory(system)
        w, b, Q = inside.weight[:, 0], inside.target, inside.Q
        found = Iterate(*Saddle(inside.gram.dense(), 1 / (2 * w), Q).solve(b))
        certificate = certify(inside, found)
        last = from_memory(inside, system, found)
        monitor.report(last, float(certificate.primal.sum()), certificate.relative)
        return last


def check_quadratic(solver: Solver, system: System) -> None:
    """Refuse a problem with a loss that is not quadratic."""
    for t in system.terms:
        if not t.loss.quadratic:
            raise NotApplicableError(
                f"{solver.name} needs all losses to be Squared, and one is {t.loss!r}: use rkhs.solvers.Absorption() "
                "where few functionals have such a loss, or rkhs.solvers.Descent() at any size."
            )
