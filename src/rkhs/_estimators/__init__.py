"""Estimators with the interface of scikit-learn, thin classes around `rkhs.Problem`."""

from rkhs._estimators.classifier import InvariantClassifier, VirtualSampleSVC
from rkhs._estimators.comparisons import OrdinalClassifier, PreferenceRegressor, SurvivalRanker
from rkhs._estimators.cv import InvariantClassifierCV, InvariantRegressorCV
from rkhs._estimators.data import ClassPrior
from rkhs._estimators.folds import LabeledSplit
from rkhs._estimators.force_field import ForceFieldRegressor
from rkhs._estimators.functional_regressor import FunctionalRegressor, Measurement
from rkhs._estimators.observations import KernelPoissonRegressor
from rkhs._estimators.options import SolverOptions
from rkhs._estimators.quantile_regressor import QuantileRegressor
from rkhs._estimators.regressor import InvariantRegressor
from rkhs._estimators.thin_plate import ThinPlateClassifier, ThinPlateRegressor

__all__ = [
    "ClassPrior",
    "ForceFieldRegressor",
    "FunctionalRegressor",
    "InvariantClassifier",
    "InvariantClassifierCV",
    "InvariantRegressor",
    "InvariantRegressorCV",
    "KernelPoissonRegressor",
    "LabeledSplit",
    "Measurement",
    "OrdinalClassifier",
    "PreferenceRegressor",
    "QuantileRegressor",
    "SolverOptions",
    "SurvivalRanker",
    "ThinPlateClassifier",
    "ThinPlateRegressor",
    "VirtualSampleSVC",
]
