"""rkhs: kernel machines that learn from anything linear you know about the function.

What stands on scikit-learn (estimators, invariances, model files, pictures) is imported when it is first asked for:
scikit-learn takes longer to import than all the rest.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from rkhs import solvers
from rkhs.calculus.maps import Features, InverseDistances
from rkhs.calculus.polynomials import Constant, Polynomials
from rkhs.calculus.spaces import Functions
from rkhs.errors import BlockError, ModelFileError, NotBoundedError, UnattainedError
from rkhs.finite.function import Function, inner
from rkhs.finite.solution import Solution
from rkhs.finite.term import Term
from rkhs.functionals import (
    Average,
    Components,
    Derivative,
    Difference,
    DirectionalDerivative,
    Evaluation,
    Functional,
    Gradient,
    GraphDifference,
    Hessian,
    Integral,
    Laplacian,
    LocalAverage,
    LocalDeviation,
    stack,
)
from rkhs.gram import FourierFeatures, Gram, Landmarks, gram
from rkhs.gram.integration import integration_error
from rkhs.kernels import (
    AutodiffKernel,
    Composition,
    ConstantKernel,
    CurlFree,
    DivergenceFree,
    Gaussian,
    Kernel,
    Linear,
    Matern,
    Multiple,
    Periodic,
    Polyharmonic,
    Polynomial,
    Product,
    Pullback,
    RationalQuadratic,
    Sum,
    Symmetrised,
    ThinPlate,
    additive,
    components,
    learn,
    median_scale,
)
from rkhs.learning.evidence import Evidence
from rkhs.learning.leave_out import LeftOut
from rkhs.learning.posterior import Posterior
from rkhs.learning.tuning import Tuning
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
from rkhs.solvers.base import NotApplicableError
from rkhs.solvers.warped import WarpedGram
from rkhs.solvers.warped_path import warped_path
from rkhs.streams import Block, Blocks, StreamedProblem, blocks, parquet

if TYPE_CHECKING:
    from rkhs import datasets, invariances, plotting
    from rkhs.estimators import (
        FunctionalRegressor,
        InvariantClassifier,
        InvariantClassifierCV,
        InvariantRegressor,
        InvariantRegressorCV,
        LaplacianSVC,
        Observed,
        QuantileRegressor,
        ThinPlateClassifier,
        ThinPlateRegressor,
        VirtualSampleSVC,
    )
    from rkhs.invariances import Invariance
    from rkhs.saving import load, save
    from rkhs.surfaces import surface

try:
    __version__ = version("rkhs")
except PackageNotFoundError:  # a copy of the source that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Absolute",
    "AutodiffKernel",
    "Average",
    "Block",
    "BlockError",
    "Blocks",
    "Components",
    "Composition",
    "Constant",
    "ConstantKernel",
    "CurlFree",
    "Derivative",
    "Difference",
    "DirectionalDerivative",
    "DivergenceFree",
    "EpsilonInsensitive",
    "Evaluation",
    "Evidence",
    "Features",
    "FourierFeatures",
    "Function",
    "Functional",
    "FunctionalRegressor",
    "Functions",
    "Gaussian",
    "Gradient",
    "Gram",
    "GraphDifference",
    "Hessian",
    "Hinge",
    "Huber",
    "Integral",
    "Invariance",
    "InvariantClassifier",
    "InvariantClassifierCV",
    "InvariantRegressor",
    "InvariantRegressorCV",
    "InverseDistances",
    "Kernel",
    "Landmarks",
    "Laplacian",
    "LaplacianSVC",
    "LeftOut",
    "Linear",
    "LocalAverage",
    "LocalDeviation",
    "Logistic",
    "Loss",
    "Matern",
    "ModelFileError",
    "Multiple",
    "NotApplicableError",
    "NotBoundedError",
    "Observed",
    "OneSided",
    "Periodic",
    "Polyharmonic",
    "Polynomial",
    "Polynomials",
    "Posterior",
    "Problem",
    "Product",
    "Pullback",
    "Quantile",
    "QuantileRegressor",
    "RationalQuadratic",
    "SmoothedHinge",
    "Solution",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredOneSided",
    "StreamedProblem",
    "Sum",
    "Symmetrised",
    "Term",
    "ThinPlate",
    "ThinPlateClassifier",
    "ThinPlateRegressor",
    "Tuning",
    "UnattainedError",
    "VirtualSampleSVC",
    "WarpedGram",
    "additive",
    "blocks",
    "components",
    "datasets",
    "gram",
    "inner",
    "integration_error",
    "invariances",
    "learn",
    "load",
    "median_scale",
    "parquet",
    "plotting",
    "save",
    "solvers",
    "stack",
    "surface",
    "warped_path",
]

_WHEN_ASKED = {
    "FunctionalRegressor": "estimators",
    "Invariance": "invariances",
    "InvariantClassifier": "estimators",
    "InvariantClassifierCV": "estimators",
    "InvariantRegressor": "estimators",
    "InvariantRegressorCV": "estimators",
    "LaplacianSVC": "estimators",
    "Observed": "estimators",
    "QuantileRegressor": "estimators",
    "ThinPlateClassifier": "estimators",
    "ThinPlateRegressor": "estimators",
    "VirtualSampleSVC": "estimators",
    "load": "saving",
    "save": "saving",
    "surface": "surfaces",
}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name in ("datasets", "estimators", "invariances", "plotting", "saving", "testing"):
        return import_module(f"rkhs.{name}")
    if name not in _WHEN_ASKED:
        moved = f": use rkhs.solvers.{name}" if name in solvers.__all__ else ""
        raise AttributeError(f"module 'rkhs' has no attribute {name!r}{moved}")
    found = globals()[name] = getattr(import_module(f"rkhs.{_WHEN_ASKED[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
