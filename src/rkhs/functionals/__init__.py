"""Families of bounded linear functionals, each a mapping to atoms; they know nothing of kernels."""

from rkhs.functionals.averages import Average, LocalAverage, LocalDeviation
from rkhs.functionals.base import Functional, stack
from rkhs.functionals.derivatives import (
    Derivative,
    DirectionalDerivative,
    Gradient,
    Hessian,
    Laplacian,
)
from rkhs.functionals.differences import Difference, GraphDifference
from rkhs.functionals.evaluation import Evaluation

__all__ = [
    "Average",
    "Derivative",
    "Difference",
    "DirectionalDerivative",
    "Evaluation",
    "Functional",
    "Gradient",
    "GraphDifference",
    "Hessian",
    "Laplacian",
    "LocalAverage",
    "LocalDeviation",
    "stack",
]
