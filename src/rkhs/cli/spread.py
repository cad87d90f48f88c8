"""How far new targets lie from f, up to a factor that targets left out have told.

A search has error bars of its own (`InvariantRegressorCV`), and the models of folds, which are no searches, have
others: one rule for both, or the factor would be that of other bars.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs.functionals import Evaluation


def spread(machine: Any, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The standard deviation of a new target at the rows of X, by the most likely amplitude."""
    return np.asarray(machine.solution_.posterior.std(Evaluation(X), weight=machine._weight))
