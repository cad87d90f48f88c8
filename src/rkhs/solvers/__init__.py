"""One algorithm per file; `auto` chooses."""

from rkhs.solvers.absorption import Absorption
from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.conjugate_gradients import ConjugateGradients
from rkhs.solvers.direct import Direct
from rkhs.solvers.interior_point import BoxDual
from rkhs.solvers.lbfgs import LBFGS
from rkhs.solvers.libsvm import LibSVM
from rkhs.solvers.newton import Newton
from rkhs.solvers.nonlinear_cg import Descent
from rkhs.solvers.proximal_newton import ProximalNewton
from rkhs.solvers.splitting import Splitting
from rkhs.solvers.subspace import Galerkin, Growth

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
