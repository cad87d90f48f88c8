"""One algorithm per file; `auto` chooses."""

from rkhs.solvers.absorption import Absorption
from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.box_dual import BoxDual
from rkhs.solvers.descent import Descent
from rkhs.solvers.direct import Direct
from rkhs.solvers.galerkin import Galerkin
from rkhs.solvers.growth import Growth
from rkhs.solvers.krylov import ConjugateGradients
from rkhs.solvers.lbfgs import LBFGS
from rkhs.solvers.libsvm import LibSVM
from rkhs.solvers.newton import Newton
from rkhs.solvers.proximal_newton import ProximalNewton
from rkhs.solvers.splitting import Splitting

__all__ = [
    "LBFGS",
    "Absorption",
    "BoxDual",
    "ConjugateGradients",
    "Descent",
    "Direct",
    "Galerkin",
    "Growth",
    "LibSVM",
    "Newton",
    "NotApplicableError",
    "ProximalNewton",
    "Solver",
    "Splitting",
]
