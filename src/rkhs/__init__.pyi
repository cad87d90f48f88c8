"""List the public names: type checkers read them here, and `__init__.py` imports each one when it is first used."""

from rkhs import (
    acquisition as acquisition,
    ase as ase,
    counts as counts,
    datasets as datasets,
    exceptions as exceptions,
    extend as extend,
    functionals as functionals,
    geometry as geometry,
    invariances as invariances,
    kernels as kernels,
    losses as losses,
    maps as maps,
    plotting as plotting,
    preprocessing as preprocessing,
    results as results,
    solvers as solvers,
    streams as streams,
    testing as testing,
)
from rkhs._calculus.function_spaces import Constant as Constant, Functions as Functions, Polynomials as Polynomials
from rkhs._estimators.classifier import InvariantClassifier as InvariantClassifier, VirtualSampleSVC as VirtualSampleSVC
from rkhs._estimators.cv import (
    InvariantClassifierCV as InvariantClassifierCV,
    InvariantRegressorCV as InvariantRegressorCV,
)
from rkhs._estimators.data import ClassPrior as ClassPrior
from rkhs._estimators.folds import LabeledSplit as LabeledSplit
from rkhs._estimators.formulation import SolverOptions as SolverOptions
from rkhs._estimators.functional_regressor import FunctionalRegressor as FunctionalRegressor, Measurement as Measurement
from rkhs._estimators.quantile_regressor import QuantileRegressor as QuantileRegressor
from rkhs._estimators.regressor import InvariantRegressor as InvariantRegressor
from rkhs._export.models import to_json as to_json, to_onnx as to_onnx
from rkhs._finite.function import inner as inner
from rkhs._finite.term import Term as Term
from rkhs._gram import gram as gram
from rkhs._io import load as load, save as save
from rkhs._learning.robustness import certified_radius as certified_radius
from rkhs._problem import Problem as Problem
from rkhs._shapes.fitting import Shape as Shape
from rkhs._spaces import (
    FourierFeatures as FourierFeatures,
    FourierGrid as FourierGrid,
    Landmarks as Landmarks,
    Neighbors as Neighbors,
)
from rkhs.functionals import (
    Derivative as Derivative,
    Difference as Difference,
    Evaluation as Evaluation,
    Gradient as Gradient,
    Integral as Integral,
    stack as stack,
)
from rkhs.invariances import Invariance as Invariance
from rkhs.kernels import (
    Gaussian as Gaussian,
    Matern as Matern,
    Tunable as Tunable,
)
from rkhs.losses import (
    Hinge as Hinge,
    Huber as Huber,
    Logistic as Logistic,
    Quantile as Quantile,
    Squared as Squared,
    SquaredHinge as SquaredHinge,
)

__version__: str
