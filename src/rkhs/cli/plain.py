"""The plain SVM beside ours: scikit-learn's, on the same folds, the best of as many settings.

Ours has a grid of C and nu, this one of C and the scale of the kernel.  Both errors are of the best setting on the
folds that chose it, so both are a little too good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

from rkhs.estimators.grids import C_RANGE

Vector = np.ndarray[Any, Any]


def plain_error(X: Vector, y: Vector, scale: float, request: Any, folds: Any) -> float:
    """The cross-validated error of the best setting: the share of wrong classes, or the root mean squared error."""
    Cs = np.logspace(*C_RANGE, 5) if request.cv else np.array([request.C])
    scales = scale * np.array([0.25, 0.5, 1.0, 2.0, 4.0]) if request.cv else np.array([scale])
    gammas = 1 / (2 * scales**2)
    if request.regression:
        size = float(np.std(y)) or 1.0
        machine = SVR(epsilon=0.1 * size)
        grid = {"C": Cs * size, "gamma": gammas}
        search = GridSearchCV(machine, grid, cv=folds, scoring="neg_mean_squared_error")
        return float(np.sqrt(-search.fit(X, y).best_score_))
    search = GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=folds)
    return float(1 - search.fit(X, y).best_score_)
