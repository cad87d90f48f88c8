"""Which solver: the one whose estimated time is least, among those that apply.

Every solver estimates its own cost; this file compares.  `cheapest` is for problems whose Gram matrix is in memory, or
could be: whole problems, what elimination leaves, small ones, cells of a grid.  `auto` knows the others as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from rkhs._finite.problem import FiniteProblem
from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.box_dual import BoxDual
from rkhs.solvers.costs import Estimate
from rkhs.solvers.descent import Descent
from rkhs.solvers.direct import Direct
from rkhs.solvers.libsvm import LibSVM
from rkhs.solvers.newton import Newton
from rkhs.solvers.proximal_newton import ProximalNewton

DENSE: tuple[Solver, ...] = (Direct(), LibSVM(), Newton(), BoxDual(), ProximalNewton())


def cheapest(system: FiniteProblem, tol: float, among: Sequence[Solver] = DENSE) -> Solver:
    """The solver of the least cost that applies; `Descent`, which always does, where none of them does."""
    fit = [solver for solver in among if applies(solver, system)]
    estimate = Estimate(system, tol)
    return min(fit, key=lambda solver: solver.cost(estimate)) if fit else Descent()


def applies(solver: Solver, system: FiniteProblem) -> bool:
    """Whether a solver can solve the system."""
    try:
        solver.check(system)
    except NotApplicableError:
        return False
    return True
