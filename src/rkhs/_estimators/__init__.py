"""scikit-learn estimators: thin classes around `rkhs.Problem`."""

from rkhs._estimators.calibration import class_proportions
from rkhs._estimators.classifier import InvariantClassifier
from rkhs._estimators.cv import InvariantClassifierCV, InvariantRegressorCV
from rkhs._estimators.functional_regressor import FunctionalRegressor, Measurement
from rkhs._estimators.quantile_regressor import QuantileRegressor
from rkhs._estimators.regressor import InvariantRegressor
from rkhs._estimators.rivals import LaplacianSVC, VirtualSampleSVC
from rkhs._estimators.thin_plate import ThinPlateClassifier, ThinPlateRegressor

__all__ = [
    "FunctionalRegressor",
    "InvariantClassifier",
    "InvariantClassifierCV",
    "InvariantRegressor",
    "InvariantRegressorCV",
    "LaplacianSVC",
    "Measurement",
    "QuantileRegressor",
    "ThinPlateClassifier",
    "ThinPlateRegressor",
    "VirtualSampleSVC",
    "class_proportions",
]
