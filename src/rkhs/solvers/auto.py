"""Which solver for which problem: one readable match."""

from __future__ import annotations

from rkhs.finite.system import System
from rkhs.losses.interval import IntervalLoss
from rkhs.solvers.absorption import Absorption
from rkhs.solvers.base import Solver
from rkhs.solvers.box_dual import BoxDual
from rkhs.solvers.descent import Descent
from rkhs.solvers.direct import Direct
from rkhs.solvers.galerkin import Galerkin
from rkhs.solvers.krylov import ConjugateGradients
from rkhs.solvers.newton import Newton
from rkhs.solvers.proximal_newton import ProximalNewton
from rkhs.solvers.sharing.capacity import few_others

SMALL = 1500  # functionals, up to which a dense factorisation takes about a second at most


def auto(system: System) -> Solver:
    """The solver for a system: by its losses (all quadratic? all smooth?) and by its size."""
    small = system.size <= SMALL
    squared = sum(t.rows.stop - t.rows.start for t in system.terms if t.loss.quadratic)
    boxed = all(isinstance(t.loss, IntervalLoss) for t in system.terms)
    match (system.quadratic, system.smooth, small):
        case (True, _, True):
            return Direct()
        case (True, _, False):
            return ConjugateGradients()
        case (False, True, True):
            return Newton()
        case (False, False, True) if system.size / 2 <= squared < system.size:  # elimination leaves little
            return Absorption()
        case (False, False, True):
            return BoxDual() if boxed else ProximalNewton()
        case _:
            return Galerkin() if few_others(system) else Descent()
