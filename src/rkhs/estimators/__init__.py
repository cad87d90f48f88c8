"""scikit-learn estimators: thin classes around `rkhs.Problem`."""

from rkhs.estimators.functional_regressor import FunctionalRegressor
from rkhs.estimators.invariant_classifier import InvariantClassifier
from rkhs.estimators.invariant_classifier_cv import InvariantClassifierCV
from rkhs.estimators.invariant_regressor import InvariantRegressor
from rkhs.estimators.invariant_regressor_cv import InvariantRegressorCV
from rkhs.estimators.laplacian_svc import LaplacianSVC
from rkhs.estimators.observed import Observed
from rkhs.estimators.proportions import class_proportions
from rkhs.estimators.quantile_regressor import QuantileRegressor
from rkhs.estimators.thin_plate import ThinPlateClassifier, ThinPlateRegressor
from rkhs.estimators.virtual_sample_svc import VirtualSampleSVC

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
