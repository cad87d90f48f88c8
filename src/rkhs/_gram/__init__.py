"""The one place where kernels meet functionals."""

from rkhs._gram.operator import Gram, gram

__all__ = ["Gram", "gram"]
