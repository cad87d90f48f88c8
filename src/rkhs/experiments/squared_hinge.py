"""The Gaussian machine with the squared hinge, by LIBSVM.

    min 1/2 |f|^2 + C sum_i max(0, 1 - y_i f(x_i))^2

has the dual of a hinge SVM without an upper bound on its kernel plus I / (2 C): LIBSVM with a large bound solves it.
The kernel is computed once for all C and folds.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from rkhs.functionals import Evaluation
from rkhs.gram import gram
from rkhs.kernels import Gaussian

Array = np.ndarray[Any, Any]
UNBOUNDED = 1e10  # coefficients never reach it: they are at most 2 C times the largest loss
CACHE = 500  # MiB
STEPS = 50_000, 1_000_000  # of LIBSVM, on folds and for the last machine: with large C on noisy data it has no end


class Gaussians:
    """Machines of one scale on the points X with labels y, -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0])
    >>> machines = Gaussians(X, y, scale=1.0)
    >>> np.sign(machines.values(10.0, np.array([[0.5], [2.9]])))
    array([-1.,  1.])
    """

    def __init__(self, X: Array, y: Array, scale: float) -> None:
        self.X, self.y = X, y
        self.kernel = Gaussian(scale)

    @cached_property
    def K(self) -> Array:
        """(t, t)."""
        return np.asarray(gram(self.kernel, Evaluation(self.X)).dense())

    def fold_error(self, C: float, folds: list[tuple[Array, Array]]) -> float:
        """The mean error on the folds."""
        found = []
        for a, b in folds:
            machine = _trained(self.K[np.ix_(a, a)], self.y[a], C, STEPS[0])
            found.append(np.mean(np.sign(machine.decision_function(self.K[np.ix_(b, a)])) != self.y[b]))
        return float(np.mean(found))

    def values(self, C: float, points: Array) -> Array:
        """f at the points, trained on all of X."""
        across = gram(self.kernel, Evaluation(points), Evaluation(self.X)).dense()
        return np.asarray(_trained(self.K, self.y, C, STEPS[1]).decision_function(across))


def _trained(K: Array, y: Array, C: float, steps: int) -> Any:
    shifted = K + np.eye(len(K)) / (2 * C)
    machine = SVC(C=UNBOUNDED, kernel="precomputed", cache_size=CACHE, tol=1e-2, max_iter=steps)
    with warnings.catch_warnings():  # a machine that is not done by then has a poor error, and is not chosen for it
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(shifted, y)
