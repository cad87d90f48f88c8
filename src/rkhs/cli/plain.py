"""The plain SVM beside ours: scikit-learn's, with the same kernel, the same folds and the same number of Cs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.svm import SVC, SVR

from rkhs.estimators.grids import C_RANGE

Vector = np.ndarray[Any, Any]


def plain_error(X: Vector, y: Vector, scale: float, request: Any, folds: int) -> float:
    """The cross-validated error of the best C: the share of wrong classes, or the root mean squared error."""
    gamma = 1 / (2 * scale**2)
    Cs = np.logspace(*C_RANGE, 5) if request.cv else np.array([request.C])
    if request.regression:
        size = float(np.std(y)) or 1.0
        machine = SVR(gamma=gamma, epsilon=0.1 * size)
        search = GridSearchCV(machine, {"C": Cs * size}, cv=KFold(folds), scoring="neg_mean_squared_error")
        return float(np.sqrt(-search.fit(X, y).best_score_))
    _, counts = np.unique(y, return_counts=True)
    search = GridSearchCV(SVC(gamma=gamma), {"C": Cs}, cv=StratifiedKFold(max(2, min(folds, int(counts.min())))))
    return float(1 - search.fit(X, y).best_score_)
