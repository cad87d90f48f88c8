"""Exact minimisation over the span of all gradients so far, for losses without a gradient of their own."""

from __future__ import annotations

from dataclasses import dataclass

from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, System
from rkhs.solvers.base import Solver
from rkhs.solvers.descent import Descent
from rkhs.solvers.recycling import Task, solve_together


@dataclass(frozen=True)
class Galerkin(Solver):
    """The problem on a growing span of gradients, solved exactly there: `recycling` with a single problem.

    One Gram product per iteration, as `Descent`, which it is for smooth losses in exact arithmetic.  For losses without
    a gradient it needs far fewer: the small problem is solved to the end for envelopes so narrow that they do not
    matter, instead of following their width with the iterates.  Best when the rows of such losses are not too many.

    Parameters
    ----------
    capacity : directions kept; what they cannot reach is left to `Descent`

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::5]), rkhs.Hinge(), target=np.sign(X[::5, 0] + 0.1), weight=10.0)
    >>> flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, flat]).solve(rkhs.Galerkin())
    >>> solution.status
    'converged'
    """

    capacity: int = 300

    def check(self, system: System) -> None:
        """Every problem will do."""

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        whole = (1.0,) * len(system.terms)
        tasks = [Task.of(system, c, whole) for c in range(system.columns)]
        solve_together(tasks, system, monitor, min(self.capacity, system.size))
        found = Iterate.joined([task.iterate or task.system.start() for task in tasks])
        if all(task.gap <= monitor.tol for task in tasks):
            return found
        return Descent().run(system, found, monitor)
