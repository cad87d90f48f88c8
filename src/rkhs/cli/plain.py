"""The plain SVM that ours is compared with: scikit-learn's, on the same rows, the best of as many settings.

It tries the length scales that our search tries, numbers or one per feature, and as wide a range of C.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC, SVR

from rkhs._backend.arrays import Vector

STEPS = 100_000  # of libsvm, which would take millions for large C and noisy targets
GAMMA = 0.5  # exp(-GAMMA |x - y|^2) is the Gaussian of scale one


@dataclass(frozen=True, eq=False)
class Plain:
    """The best of some settings of a plain SVM."""

    machine: Any
    scale: Vector

    def predicted(self, X: Vector, y: Vector, folds: Any) -> Vector:
        """What it predicts for each row without its fold."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return np.asarray(cross_val_predict(self.machine, X / self.scale, y, cv=folds))


def plain_svm(X: Vector, y: Vector, scales: Sequence[Any], Cs: Sequence[float], regression: bool, folds: Any) -> Plain:
    """The setting of the least cross-validated error: the share of wrong classes, or the mean squared error.

    Features are divided by the scale, so that one number for each feature can be tried too.  Kernel matrices serve all
    C and folds.
    """
    size = float(np.std(y)) or 1.0 if regression else 1.0
    parts = list(folds.split(X, y))
    best, least = None, np.inf
    for scale in map(np.asarray, scales):
        K = rbf_kernel(X / scale, gamma=GAMMA)
        for C in Cs:
            options = {"C": C * size, "epsilon": 0.1 * size} if regression else {"C": C}
            machine = (SVR if regression else SVC)(gamma=GAMMA, max_iter=STEPS, **options)
            error = float(np.mean([_error(machine, K, y, train, test, regression) for train, test in parts]))
            if error < least:
                best, least = Plain(machine, scale), error
    assert best is not None
    return best


def _error(machine: Any, K: Vector, y: Vector, train: Vector, test: Vector, regression: bool) -> float:
    """Of a machine that learns from some rows, on others."""
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore", ConvergenceWarning)
        own = clone(machine).set_params(kernel="precomputed").fit(K[np.ix_(train, train)], y[train])
        predicted = own.predict(K[np.ix_(test, train)])
    return float(np.mean((predicted - y[test]) ** 2) if regression else np.mean(predicted != y[test]))
