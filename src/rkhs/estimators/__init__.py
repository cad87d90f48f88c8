"""scikit-learn estimators: thin classes around `rkhs.Problem`."""

from rkhs.estimators.invariant_classifier import InvariantClassifier

__all__ = ["InvariantClassifier"]
