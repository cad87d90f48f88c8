"""The public names: type checkers read them here, and `__init__.py` imports each one when it is first used."""

from rkhs import datasets as datasets
from rkhs import invariances as invariances
from rkhs import kernels as kernels
from rkhs import plotting as plotting
from rkhs import preprocessing as preprocessing
from rkhs import solvers as solvers
from rkhs._calculus.function_spaces import Constant as Constant
from rkhs._calculus.function_spaces import Functions as Functions
from rkhs._calculus.function_spaces import Polynomials as Polynomials
from rkhs._estimators import (
    FunctionalRegressor as FunctionalRegressor,
)
from rkhs._estimators import (
    InvariantClassifier as InvariantClassifier,
)
from rkhs._estimators import (
    InvariantClassifierCV as InvariantClassifierCV,
)
from rkhs._estimators import (
    InvariantRegressor as InvariantRegressor,
)
from rkhs._estimators import (
    InvariantRegressorCV as InvariantRegressorCV,
)
from rkhs._estimators import (
    LaplacianSVC as LaplacianSVC,
)
from rkhs._estimators import (
    Measurement as Measurement,
)
from rkhs._estimators import (
    QuantileRegressor as QuantileRegressor,
)
from rkhs._estimators import (
    ThinPlateClassifier as ThinPlateClassifier,
)
from rkhs._estimators import (
    ThinPlateRegressor as ThinPlateRegressor,
)
from rkhs._estimators import (
    VirtualSampleSVC as VirtualSampleSVC,
)
from rkhs._estimators import (
    class_proportions as class_proportions,
)
from rkhs._finite.function import Function as Function
from rkhs._finite.function import inner as inner
from rkhs._finite.solution import Solution as Solution
from rkhs._finite.term import Term as Term
from rkhs._gram import Gram as Gram
from rkhs._gram import gram as gram
from rkhs._gram.integration import enough_nodes as enough_nodes
from rkhs._gram.integration import integration_error as integration_error
from rkhs._io import load as load
from rkhs._io import save as save
from rkhs._learning.evidence import Evidence as Evidence
from rkhs._learning.leave_one_out import LeaveOneOut as LeaveOneOut
from rkhs._learning.posterior import Posterior as Posterior
from rkhs._learning.tuning import Tuning as Tuning
from rkhs._problem import Problem as Problem
from rkhs._spaces import FourierFeatures as FourierFeatures
from rkhs._spaces import Landmarks as Landmarks
from rkhs._surfaces import surface as surface
from rkhs.exceptions import (
    BlockError as BlockError,
)
from rkhs.exceptions import (
    ModelFileError as ModelFileError,
)
from rkhs.exceptions import (
    NotBoundedError as NotBoundedError,
)
from rkhs.exceptions import (
    UnattainedError as UnattainedError,
)
from rkhs.functionals import (
    Average as Average,
)
from rkhs.functionals import (
    Components as Components,
)
from rkhs.functionals import (
    Derivative as Derivative,
)
from rkhs.functionals import (
    Difference as Difference,
)
from rkhs.functionals import (
    DirectionalDerivative as DirectionalDerivative,
)
from rkhs.functionals import (
    Evaluation as Evaluation,
)
from rkhs.functionals import (
    Functional as Functional,
)
from rkhs.functionals import (
    Gradient as Gradient,
)
from rkhs.functionals import (
    GraphDifference as GraphDifference,
)
from rkhs.functionals import (
    Hessian as Hessian,
)
from rkhs.functionals import (
    Integral as Integral,
)
from rkhs.functionals import (
    Laplacian as Laplacian,
)
from rkhs.functionals import (
    LocalAverage as LocalAverage,
)
from rkhs.functionals import (
    LocalDeviation as LocalDeviation,
)
from rkhs.functionals import (
    stack as stack,
)
from rkhs.invariances import Invariance as Invariance
from rkhs.kernels import (
    Gaussian as Gaussian,
)
from rkhs.kernels import (
    Kernel as Kernel,
)
from rkhs.kernels import (
    Laplace as Laplace,
)
from rkhs.kernels import (
    Linear as Linear,
)
from rkhs.kernels import (
    Matern as Matern,
)
from rkhs.kernels import (
    Periodic as Periodic,
)
from rkhs.kernels import (
    Polyharmonic as Polyharmonic,
)
from rkhs.kernels import (
    Polynomial as Polynomial,
)
from rkhs.kernels import (
    RationalQuadratic as RationalQuadratic,
)
from rkhs.kernels import (
    ThinPlate as ThinPlate,
)
from rkhs.kernels import (
    learn as learn,
)
from rkhs.kernels import (
    median_scale as median_scale,
)
from rkhs.losses import (
    Absolute as Absolute,
)
from rkhs.losses import (
    EpsilonInsensitive as EpsilonInsensitive,
)
from rkhs.losses import (
    Hinge as Hinge,
)
from rkhs.losses import (
    Huber as Huber,
)
from rkhs.losses import (
    Logistic as Logistic,
)
from rkhs.losses import (
    Loss as Loss,
)
from rkhs.losses import (
    OneSided as OneSided,
)
from rkhs.losses import (
    Quantile as Quantile,
)
from rkhs.losses import (
    SmoothedHinge as SmoothedHinge,
)
from rkhs.losses import (
    Squared as Squared,
)
from rkhs.losses import (
    SquaredEpsilonInsensitive as SquaredEpsilonInsensitive,
)
from rkhs.losses import (
    SquaredHinge as SquaredHinge,
)
from rkhs.losses import (
    SquaredOneSided as SquaredOneSided,
)
from rkhs.solvers._base import NotApplicableError as NotApplicableError
from rkhs.streams import (
    Block as Block,
)
from rkhs.streams import (
    Blocks as Blocks,
)
from rkhs.streams import (
    StreamedProblem as StreamedProblem,
)
from rkhs.streams import (
    blocks as blocks,
)
from rkhs.streams import (
    parquet as parquet,
)

__version__: str
