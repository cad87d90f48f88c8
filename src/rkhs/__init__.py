"""rkhs: kernel machines that learn from anything linear you know about the function."""

from importlib.metadata import version

from rkhs.calculus.polynomials import Constant, Polynomials
from rkhs.calculus.spaces import Functions
from rkhs.errors import NotBoundedError
from rkhs.finite.function import Function, inner
from rkhs.finite.solution import Solution
from rkhs.finite.term import Term
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
from rkhs.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    OneSided,
    Quantile,
    SmoothedHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    SquaredOneSided,
)
from rkhs.problem import Problem
from rkhs.solvers import LBFGS, BoxDual, Descent, Newton, NotApplicableError, ProjectedDual

__version__ = version("rkhs")

__all__ = [
    "LBFGS",
    "Absolute",
    "AutodiffKernel",
    "Average",
    "BoxDual",
    "Constant",
    "Derivative",
    "Descent",
    "Difference",
    "DirectionalDerivative",
    "EpsilonInsensitive",
    "Evaluation",
    "Function",
    "Functional",
    "Functions",
    "Gaussian",
    "Gradient",
    "Gram",
    "GraphDifference",
    "Hessian",
    "Hinge",
    "Huber",
    "Kernel",
    "Laplacian",
    "Linear",
    "LocalAverage",
    "LocalDeviation",
    "Logistic",
    "Loss",
    "Matern",
    "Multiple",
    "Newton",
    "NotApplicableError",
    "NotBoundedError",
    "OneSided",
    "Polyharmonic",
    "Polynomial",
    "Polynomials",
    "Problem",
    "Product",
    "ProjectedDual",
    "Pullback",
    "Quantile",
    "RationalQuadratic",
    "SmoothedHinge",
    "Solution",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredOneSided",
    "Sum",
    "Term",
    "ThinPlate",
    "gram",
    "inner",
    "median_scale",
    "stack",
]
