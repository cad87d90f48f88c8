"""Checks of the mathematical properties of kernels, functionals, losses, solvers and spaces, for extensions."""

from rkhs.testing._functionals import check_functional
from rkhs.testing._kernels import check_kernel
from rkhs.testing._losses import check_loss
from rkhs.testing._solvers import check_solver
from rkhs.testing._spaces import check_space

__all__ = ["check_functional", "check_kernel", "check_loss", "check_solver", "check_space"]
