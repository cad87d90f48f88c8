"""Which solver for a problem whose Gram matrix is in memory: the first that is made for its losses."""

from __future__ import annotations

from rkhs.finite.system import System
from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.box_dual import BoxDual
from rkhs.solvers.descent import Descent
from rkhs.solvers.direct import Direct
from rkhs.solvers.libsvm import LibSVM
from rkhs.solvers.newton import Newton
from rkhs.solvers.proximal_newton import ProximalNewton

IN_ORDER = (Direct(), LibSVM(), Newton(), BoxDual(), ProximalNewton())


def exact(system: System) -> Solver:
    """The quickest exact solver that applies; `Descent` for losses of which none knows anything."""
    for solver in IN_ORDER:
        try:
            solver.check(system)
        except NotApplicableError:
            continue
        return solver
    return Descent()
