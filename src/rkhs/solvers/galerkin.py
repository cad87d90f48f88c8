"""Exact minimisation over the span of all gradients so far: one Gram product per iteration, and the fewest."""

from __future__ import annotations

from dataclasses import dataclass

from rkhs._finite.ledger import joined
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.box_dual import STEPS as DUAL
from rkhs.solvers.costs import FLOP, Estimate, factorisation
from rkhs.solvers.descent import Descent
from rkhs.solvers.krylov import SHARED
from rkhs.solvers.sharing.capacity import FEW, capacity_of, few_others
from rkhs.solvers.sharing.recycling import solve_together
from rkhs.solvers.sharing.task import Task


@dataclass(frozen=True)
class Galerkin(Solver):
    """The problem on a growing span of gradients, solved exactly there: `recycling` with a single problem.

    One Gram product per iteration, as `Descent`, but with all gradients so far in the place of the last few: half as
    many products for smooth losses, and far fewer for others.  Most functionals must have a squared loss; all losses
    are allowed for up to 1,500.

    Parameters
    ----------
    capacity : directions kept, by default as many as half the memory budget holds, and at most 300; when they are used
        up, half of them are forgotten

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::5]), rkhs.Hinge(), target=np.sign(X[::5, 0] + 0.1), weight=10.0)
    >>> flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, flat]).solve(rkhs.solvers.Galerkin())
    >>> solution.status
    'converged'
    """

    capacity: int | None = None

    def check(self, system: FiniteProblem) -> None:
        if not few_others(system):
            losses = ", ".join(sorted({repr(t.loss) for t in system.terms if not t.loss.quadratic}))
            raise NotApplicableError(
                f"Galerkin needs all but {FEW} functionals to have a Squared loss, and more have {losses}: "
                "use rkhs.solvers.Descent()."
            )

    def cost(self, estimate: Estimate) -> float:
        system, steps = estimate.system, estimate.iterations
        others = len(system.other_rows)
        small = 3 * FLOP * others * steps**2 + (0.0 if system.smooth else DUAL * factorisation(others))
        return (
            estimate.iterating(self.step(estimate)) * (1 + SHARED * (system.columns - 1))
            + steps * system.columns * small
        )

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        whole = (1.0,) * len(system.terms)
        tasks = [Task.of(system, c, whole) for c in range(system.columns)]

        def together() -> Iterate:
            return joined([task.iterate or task.system.start() for task in tasks])

        try:
            capacity = self.capacity or capacity_of(system)
            solve_together(tasks, system, monitor, capacity, system.inside(start.a), together)
        except (Stopped, KeyboardInterrupt):
            monitor.keep(together())
            raise
        found = together()
        if all(task.gap <= monitor.tol for task in tasks):
            return found
        return Descent().run(system, found, monitor)
