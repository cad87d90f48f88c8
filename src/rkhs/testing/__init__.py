"""The public laws: what every kernel, family of functionals and loss obeys, a user's own included."""

from rkhs.testing.functionals import check_functional
from rkhs.testing.kernels import check_kernel
from rkhs.testing.losses import check_loss

__all__ = ["check_functional", "check_kernel", "check_loss"]
