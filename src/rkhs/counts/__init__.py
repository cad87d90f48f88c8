"""Estimators for targets that are counts, ordered classes, comparisons or times until an event."""

from rkhs.counts._observations import KernelPoissonRegressor, OrdinalClassifier, PreferenceRegressor, SurvivalRanker

__all__ = ["KernelPoissonRegressor", "OrdinalClassifier", "PreferenceRegressor", "SurvivalRanker"]
