"""The public laws: what every kernel and every family of functionals obeys, a user's own included."""

from rkhs.testing.functionals import check_functional
from rkhs.testing.kernels import check_kernel

__all__ = ["check_functional", "check_kernel"]
