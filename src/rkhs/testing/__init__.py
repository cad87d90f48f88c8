"""The public laws: what every kernel, family of functionals, loss, solver and space obeys, a user's own included."""

from rkhs.testing.functionals import check_functional
from rkhs.testing.kernels import check_kernel
from rkhs.testing.losses import check_loss
from rkhs.testing.solvers import check_solver
from rkhs.testing.spaces import check_space

__all__ = ["check_functional", "check_kernel", "check_loss", "check_solver", "check_space"]
