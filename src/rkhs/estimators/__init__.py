"""scikit-learn estimators: thin classes around `rkhs.Problem`."""

from rkhs.estimators._calibration import class_proportions
from rkhs.estimators.classifier import InvariantClassifier
from rkhs.estimators.cv import InvariantClassifierCV, InvariantRegressorCV
from rkhs.estimators.functional_regressor import FunctionalRegressor, Observed
from rkhs.estimators.quantile_regressor import QuantileRegressor
from rkhs.estimators.regressor import InvariantRegressor
from rkhs.estimators.rivals import LaplacianSVC, VirtualSampleSVC
from rkhs.estimators.thin_plate import ThinPlateClassifier, ThinPlateRegressor

__all__ = [
    "FunctionalRegressor",
    "InvariantClassifier",
    "InvariantClassifierCV",
    "InvariantRegressor",
    "InvariantRegressorCV",
    "LaplacianSVC",
    "Observed",
    "QuantileRegressor",
    "ThinPlateClassifier",
    "ThinPlateRegressor",
    "VirtualSampleSVC",
    "class_proportions",
]
