"""The plain SVM that ours is compared with: scikit-learn's, on the same rows, the best of as many settings.

It tries the length scales that our search tries, numbers or one per feature, and as wide a range of C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.svm import SVC, SVR

Vector = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Plain:
    """The best of some settings of a plain SVM."""

    machine: Any
    scale: Vector

    def predicted(self, X: Vector, y: Vector, folds: Any) -> Vector:
        """What it predicts for each row without its fold."""
        return np.asarray(cross_val_predict(self.machine, X / self.scale, y, cv=folds))


def plain_svm(X: Vector, y: Vector, scales: Sequence[Any], Cs: Sequence[float], regression: bool, folds: Any) -> Plain:
    """The setting of the least cross-validated error: the share of wrong classes, or the mean squared error.

    Features are divided by the scale, so that one number for each feature can be tried too.
    """
    size = float(np.std(y)) or 1.0 if regression else 1.0
    best, least = None, np.inf
    for scale in map(np.asarray, scales):
        for C in Cs:
            machine = SVR(C=C * size, gamma=0.5, epsilon=0.1 * size) if regression else SVC(C=C, gamma=0.5)
            scoring = "neg_mean_squared_error" if regression else "accuracy"
            error = -float(np.mean(cross_val_score(machine, X / scale, y, cv=folds, scoring=scoring)))
            if error < least:
                best, least = Plain(machine, scale), error
    assert best is not None
    return best
