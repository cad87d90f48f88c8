"""Functions of an RKHS (and, later, the problems whose solutions they are)."""

from rkhs.problem.function import Function

__all__ = ["Function"]
