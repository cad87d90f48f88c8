"""Families of bounded linear functionals, each a mapping to atoms; they know nothing of kernels."""

from rkhs.functionals.averages import Average, LocalAverage, LocalDeviation
from rkhs.functionals.base import Functional, stack
from rkhs.functionals.components import Components
from rkhs.functionals.derivatives import (
    Derivative,
    DirectionalDerivative,
    Gradient,
    Hessian,
    Laplacian,
)
from rkhs.functionals.differences import Difference, GraphDifference
from rkhs.functionals.evaluation import Evaluation
from rkhs.functionals.integrals import Integral

__all__ = [
    "Average",
    "Components",
    "Derivative",
    "Difference",
    "DirectionalDerivative",
    "Evaluation",
    "Functional",
    "Gradient",
    "GraphDifference",
    "Hessian",
    "Integral",
    "Laplacian",
    "LocalAverage",
    "LocalDeviation",
    "stack",
]
