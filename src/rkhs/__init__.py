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
    from rkhs import datasets, invariances, kernels, plotting, preprocessing, solvers
    from rkhs.calculus.polynomials import Constant, Polynomials
    from rkhs.calculus.spaces import Functions
    from rkhs.errors import BlockError, ModelFileError, NotBoundedError, UnattainedError
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
        class_proportions,
    )
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
    from rkhs.gram.integration import enough_nodes, integration_error
    from rkhs.invariances import Invariance
    from rkhs.kernels import (
        Gaussian,
        Kernel,
        Laplace,
        Linear,
        Matern,
        Periodic,
        Polyharmonic,
        Polynomial,
        RationalQuadratic,
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
    from rkhs.streams import Block, Blocks, StreamedProblem, blocks, parquet
    from rkhs.surfaces import surface

__all__ = [
    "Absolute",
    "Average",
    "Block",
    "BlockError",
    "Blocks",
    "Components",
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
    "Kernel",
    "Landmarks",
    "Laplace",
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
    "Term",
    "ThinPlate",
    "ThinPlateClassifier",
    "ThinPlateRegressor",
    "Tuning",
    "UnattainedError",
    "VirtualSampleSVC",
    "blocks",
    "class_proportions",
    "datasets",
    "enough_nodes",
    "gram",
    "inner",
    "integration_error",
    "invariances",
    "kernels",
    "learn",
    "load",
    "median_scale",
    "parquet",
    "plotting",
    "preprocessing",
    "save",
    "solvers",
    "stack",
    "surface",
]

_WHERE = {  # module: what of it is public here
    "calculus.polynomials": "Constant Polynomials",
    "calculus.spaces": "Functions",
    "errors": "BlockError ModelFileError NotBoundedError UnattainedError",
    "estimators": (
        "FunctionalRegressor InvariantClassifier InvariantClassifierCV InvariantRegressor InvariantRegressorCV "
        "LaplacianSVC Observed QuantileRegressor ThinPlateClassifier ThinPlateRegressor VirtualSampleSVC "
        "class_proportions"
    ),
    "finite.function": "Function inner",
    "finite.solution": "Solution",
    "finite.term": "Term",
    "functionals": (
        "Average Components Derivative Difference DirectionalDerivative Evaluation Functional Gradient "
        "GraphDifference Hessian Integral Laplacian LocalAverage LocalDeviation stack"
    ),
    "gram": "FourierFeatures Gram Landmarks gram",
    "gram.integration": "enough_nodes integration_error",
    "invariances": "Invariance",
    "kernels": (
        "Gaussian Kernel Laplace Linear Matern Periodic Polyharmonic Polynomial RationalQuadratic ThinPlate learn "
        "median_scale"
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
    "streams": "Block Blocks StreamedProblem blocks parquet",
    "surfaces": "surface",
}
_WHEN_ASKED = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for."""
    if name == "__version__":
        return _version()
    if name not in _WHEN_ASKED:
        if find_spec(f"rkhs.{name}"):
            return import_module(f"rkhs.{name}")
        homes = (home for home in ("kernels", "solvers") if name in import_module(f"rkhs.{home}").__all__)
        moved = "".join(f": use rkhs.{home}.{name}" for home in homes)
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
