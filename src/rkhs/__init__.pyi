"""List the public names: type checkers read them here, and `__init__.py` imports each one when it is first used."""

from rkhs import (
    acquisition as acquisition,
    ase as ase,
    counts as counts,
    datasets as datasets,
    exceptions as exceptions,
    export as export,
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
from rkhs._core.calculus.function_spaces import Constant as Constant, Functions as Functions, Polynomials as Polynomials
from rkhs._core.finite.function import inner as inner
from rkhs._core.finite.term import Term as Term
from rkhs._core.gram import gram as gram
from rkhs._core.problem import Problem as Problem
from rkhs.estimators._classifier import InvariantClassifier as InvariantClassifier, VirtualSampleSVC as VirtualSampleSVC
from rkhs.estimators._data import ClassPrior as ClassPrior
from rkhs.estimators._folds import LabeledSplit as LabeledSplit
from rkhs.estimators._formulation import SolverOptions as SolverOptions
from rkhs.estimators._measurements import FunctionalRegressor as FunctionalRegressor, Measurement as Measurement
from rkhs.estimators._regressor import InvariantRegressor as InvariantRegressor
from rkhs.estimators._robustness import certified_radius as certified_radius
from rkhs.estimators.search._cv import (
    InvariantClassifierCV as InvariantClassifierCV,
    InvariantRegressorCV as InvariantRegressorCV,
)
from rkhs.export._model_files import load as load, load_problem as load_problem, save as save
from rkhs.export._models import to_json as to_json, to_onnx as to_onnx
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
from rkhs.maps import FourierGrid as FourierGrid, Neighbors as Neighbors
from rkhs.shapes._fitting import Shape as Shape
from rkhs.shapes._quantile_regressor import QuantileRegressor as QuantileRegressor
from rkhs.spaces import FourierFeatures as FourierFeatures, Landmarks as Landmarks

__version__: str
