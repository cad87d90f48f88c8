"""One algorithm per file; `auto` chooses."""

from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import NotApplicableError, Solver
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._direct import Direct
from rkhs.solvers._galerkin import Galerkin, GreedyCoordinate
from rkhs.solvers._interior_point import BoxDual
from rkhs.solvers._lbfgs import LBFGS
from rkhs.solvers._libsvm import LibSVM
from rkhs.solvers._newton import Newton
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._proximal_newton import ProximalNewton
from rkhs.solvers._schur_complement import SchurComplement

__all__ = [
    "ADMM",
    "LBFGS",
    "BoxDual",
    "ConjugateGradients",
    "Direct",
    "Galerkin",
    "GreedyCoordinate",
    "LibSVM",
    "Newton",
    "NonlinearCG",
    "NotApplicableError",
    "ProximalNewton",
    "SchurComplement",
    "Solver",
]
