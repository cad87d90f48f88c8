"""rkhs: kernel machines that learn from anything linear you know about the function."""

from importlib.metadata import version

from rkhs import invariances, plotting
from rkhs.calculus.polynomials import Constant, Polynomials
from rkhs.calculus.spaces import Functions
from rkhs.errors import ModelFileError, NotBoundedError, UnattainedError
from rkhs.estimators import InvariantClassifier
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
from rkhs.invariances import Invariance
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
from rkhs.saving import load, save
from rkhs.solvers import (
    LBFGS,
    Absorption,
    BoxDual,
    ConjugateGradients,
    Descent,
    Direct,
    Galerkin,
    Growth,
    LibSVM,
    Newton,
    NotApplicableError,
    ProjectedDual,
)
from rkhs.solvers.warped import WarpedGram

__version__ = version("rkhs")

__all__ = [
    "LBFGS",
    "Absolute",
    "Absorption",
    "AutodiffKernel",
    "Average",
    "BoxDual",
    "ConjugateGradients",
    "Constant",
    "Derivative",
    "Descent",
    "Difference",
    "Direct",
    "DirectionalDerivative",
    "EpsilonInsensitive",
    "Evaluation",
    "Function",
    "Functional",
    "Functions",
    "Galerkin",
    "Gaussian",
    "Gradient",
    "Gram",
    "GraphDifference",
    "Growth",
    "Hessian",
    "Hinge",
    "Huber",
    "Invariance",
    "InvariantClassifier",
    "Kernel",
    "Laplacian",
    "LibSVM",
    "Linear",
    "LocalAverage",
    "LocalDeviation",
    "Logistic",
    "Loss",
    "Matern",
    "ModelFileError",
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
    "UnattainedError",
    "WarpedGram",
    "gram",
    "inner",
    "invariances",
    "load",
    "median_scale",
    "plotting",
    "save",
    "stack",
]
