"""The one place where kernels meet functionals."""

from rkhs.gram.operator import Gram, gram

__all__ = ["Gram", "gram"]
