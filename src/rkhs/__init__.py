"""rkhs: kernel machines that learn from anything linear you know about the function."""

from importlib.metadata import version

from rkhs.calculus.polynomials import Polynomials
from rkhs.errors import NotBoundedError
from rkhs.functionals import (
    Average,
    Derivative,
    Difference,
    DirectionalDerivative,
    Evaluation,
    Functional,
    Gradient,
    GraphDifference,
    Hessian,
    Laplacian,
    LocalAverage,
    LocalDeviation,
    stack,
)
from rkhs.gram import Gram, gram
from rkhs.kernels import (
    AutodiffKernel,
    Gaussian,
    Kernel,
    Linear,
    Matern,
    Multiple,
    Polyharmonic,
    Polynomial,
    Product,
    Pullback,
    RationalQuadratic,
    Sum,
    ThinPlate,
    median_scale,
)
from rkhs.problem import Function

__version__ = version("rkhs")

__all__ = [
    "AutodiffKernel",
    "Average",
    "Derivative",
    "Difference",
    "DirectionalDerivative",
    "Evaluation",
    "Function",
    "Functional",
    "Gaussian",
    "Gradient",
    "Gram",
    "GraphDifference",
    "Hessian",
    "Kernel",
    "Laplacian",
    "Linear",
    "LocalAverage",
    "LocalDeviation",
    "Matern",
    "Multiple",
    "NotBoundedError",
    "Polyharmonic",
    "Polynomial",
    "Polynomials",
    "Product",
    "Pullback",
    "RationalQuadratic",
    "Sum",
    "ThinPlate",
    "gram",
    "median_scale",
    "stack",
]
