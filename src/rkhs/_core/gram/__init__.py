"""Gram matrices of functionals under a kernel, as operators; the only package that knows both."""

from rkhs._core.gram.operator import Gram, gram

__all__ = ["Gram", "gram"]
