"""rkhs: kernel models that learn from anything linear you know about the function.

Everything is imported when it is first asked for: NumPy, SciPy and scikit-learn together take most of a second.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from rkhs import datasets, invariances, plotting, solvers
    from rkhs.calculus.polynomials import Constant, Polynomials
    from rkhs.calculus.spaces import Functions
    from rkhs.errors import BlockError, ModelFileError, NotBoundedError, UnattainedError
    from rkhs.estimators import (
        InvariantClassifier,
        InvariantClassifierCV,
        InvariantRegressor,
        InvariantRegressorCV,
        LaplacianSVC,
        ThinPlateClassifier,
        ThinPlateRegressor,
        VirtualSampleSVC,
    )
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
    from rkhs.gram import FourierFeatures, Gram, Landmarks, gram
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
    from rkhs.saving import load, save
    from rkhs.solvers.base import NotApplicableError
    from rkhs.solvers.warped import WarpedGram
    from rkhs.solvers.warped_path import warped_path
    from rkhs.streams import Block, Blocks, StreamedProblem, blocks, parquet

__all__ = [
    "Absolute",
    "AutodiffKernel",
    "Average",
    "Block",
    "BlockError",
    "Blocks",
    "Constant",
    "Derivative",
    "Difference",
    "DirectionalDerivative",
    "EpsilonInsensitive",
    "Evaluation",
    "Evidence",
    "FourierFeatures",
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
    "Invariance",
    "InvariantClassifier",
    "InvariantClassifierCV",
    "InvariantRegressor",
    "InvariantRegressorCV",
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
    "OneSided",
    "Polyharmonic",
    "Polynomial",
    "Polynomials",
    "Posterior",
    "Problem",
    "Product",
    "Pullback",
    "Quantile",
    "RationalQuadratic",
    "SmoothedHinge",
    "Solution",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredOneSided",
    "StreamedProblem",
    "Sum",
    "Term",
    "ThinPlate",
    "ThinPlateClassifier",
    "ThinPlateRegressor",
    "Tuning",
    "UnattainedError",
    "VirtualSampleSVC",
    "WarpedGram",
    "blocks",
    "datasets",
    "gram",
    "inner",
    "invariances",
    "learn",
    "load",
    "median_scale",
    "parquet",
    "plotting",
    "save",
    "solvers",
    "stack",
    "warped_path",
]

_WHERE = {  # module: what of it is public here
    "calculus.polynomials": "Constant Polynomials",
    "calculus.spaces": "Functions",
    "errors": "BlockError ModelFileError NotBoundedError UnattainedError",
    "estimators": (
        "InvariantClassifier InvariantClassifierCV InvariantRegressor InvariantRegressorCV LaplacianSVC "
        "ThinPlateClassifier ThinPlateRegressor VirtualSampleSVC"
    ),
    "finite.function": "Function inner",
    "finite.solution": "Solution",
    "finite.term": "Term",
    "functionals": (
        "Average Derivative Difference DirectionalDerivative Evaluation Functional Gradient GraphDifference "
        "Hessian Laplacian LocalAverage LocalDeviation stack"
    ),
    "gram": "FourierFeatures Gram Landmarks gram",
    "invariances": "Invariance",
    "kernels": (
        "AutodiffKernel Gaussian Kernel Linear Matern Multiple Polyharmonic Polynomial Product Pullback "
        "RationalQuadratic Sum ThinPlate learn median_scale"
    ),
    "learning.evidence": "Evidence",
    "learning.leave_out": "LeftOut",
    "learning.posterior": "Posterior",
    "learning.tuning": "Tuning",
    "losses": (
        "Absolute EpsilonInsensitive Hinge Huber Logistic Loss OneSided Quantile SmoothedHinge Squared "
        "SquaredEpsilonInsensitive SquaredHinge SquaredOneSided"
    ),
    "problem": "Problem",
    "saving": "load save",
    "solvers.base": "NotApplicableError",
    "solvers.warped": "WarpedGram",
    "solvers.warped_path": "warped_path",
    "streams": "Block Blocks StreamedProblem blocks parquet",
}
_WHEN_ASKED = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name == "__version__":
        return _version()
    if name not in _WHEN_ASKED:
        if find_spec(f"rkhs.{name}"):
            return import_module(f"rkhs.{name}")
        moved = f": use rkhs.solvers.{name}" if name in import_module("rkhs.solvers").__all__ else ""
        raise AttributeError(f"module 'rkhs' has no attribute {name!r}{moved}")
    found = globals()[name] = getattr(import_module(f"rkhs.{_WHEN_ASKED[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rkhs")
    except PackageNotFoundError:  # a copy of the source that was never installed
        return "0+unknown"


class _Package(ModuleType):
    """`rkhs.gram` is the function, also after the package of that name has been imported and bound here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "gram" and isinstance(value, ModuleType):
            value = value.gram
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
