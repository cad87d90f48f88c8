"""Families of bounded linear functionals, each a linear map of atoms; they do not depend on `rkhs.kernels`."""

from rkhs.functionals._base import Functional, stack
from rkhs.functionals._derivatives import Derivative, DirectionalDerivative, Gradient, Hessian, Jet, Laplacian
from rkhs.functionals._integrals import Integral
from rkhs.functionals._values import (
    Average,
    Components,
    Difference,
    Evaluation,
    GraphDifference,
    LocalAverage,
    LocalDeviation,
)

__all__ = [
    "Average",
    "Components",
    "Difference",
    "Evaluation",
    "GraphDifference",
    "Integral",
    "LocalAverage",
    "LocalDeviation",
]
__all__ += ["Derivative", "DirectionalDerivative", "Gradient", "Hessian", "Jet", "Laplacian"]
__all__ += ["Functional", "stack"]
