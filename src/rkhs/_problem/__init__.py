"""The problem as it is written on paper, and its solutions along paths and grids of weights."""

from rkhs._problem.problem import Problem

__all__ = ["Problem"]
