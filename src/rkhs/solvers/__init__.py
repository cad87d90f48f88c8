"""Solvers of the finite problem, one algorithm per file; `_choose.auto` lets up to three of them race."""

from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import Solver
from rkhs.solvers._choose import Race
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._direct import Direct, SchurComplement
from rkhs.solvers._galerkin import Galerkin, GreedyCoordinate
from rkhs.solvers._interior_point import BoxDual, InteriorPointCG
from rkhs.solvers._libsvm import LibSVM
from rkhs.solvers._newton import Newton, ProximalNewton
from rkhs.solvers._nonlinear_cg import LBFGS, NonlinearCG

__all__ = [
    "ADMM",
    "LBFGS",
    "BoxDual",
    "ConjugateGradients",
    "Direct",
    "Galerkin",
    "GreedyCoordinate",
    "InteriorPointCG",
    "LibSVM",
    "Newton",
    "NonlinearCG",
    "ProximalNewton",
    "Race",
    "SchurComplement",
    "Solver",
]
