"""The convex problem of a kernel and terms, and its solutions along paths and grids of weights."""

from rkhs._core.problem.problem import Problem

__all__ = ["Problem"]
