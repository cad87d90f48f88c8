"""The thin-plate models of Walder and Chapelle 2007: a kernel without a length scale, so only C is to be chosen."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from rkhs._backend.arrays import Matrix, Vector, to_numpy
from rkhs._estimators.base import transactional
from rkhs._estimators.classifier import Classifier
from rkhs._estimators.regressor import Regressor
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs.kernels import Kernel, Polyharmonic, ThinPlate


def thin_plate_problem(labels: Term, null_space: str, explained: bool) -> Problem:
    """Return the problem of the labels alone; "auto" drops the null space if it explains the labels by itself.

    The kernel is the thin plate of order 2, and r^2 log r in R^4 and beyond, where that does not exist.  Both have the
    linear functions as their null space; in the plane they are the same.
    """
    if null_space not in ("kept", "dropped", "auto"):
        raise ValueError(f'null_space must be "kept", "dropped" or "auto", got {null_space!r}.')
    kernel: Kernel = ThinPlate(order=2) if labels.functional.dimension < 4 else Polyharmonic(power=2)
    dropped = null_space == "dropped" or (null_space == "auto" and explained)
    return Problem(kernel, [labels], null_space="dropped" if dropped else "kept")


def linearly_separable(X: Matrix, target: Vector) -> bool:
    """Return whether some linear function has the sign of the targets (+1 or -1) at all points."""
    signed = target[:, None] * np.column_stack([np.ones(len(X)), X])
    found = linprog(np.zeros(signed.shape[1]), A_ub=-signed, b_ub=-np.ones(len(X)), bounds=(None, None), method="highs")
    return bool(found.status == 0)


@dataclass(eq=False, repr=False)
class ThinPlateClassifier(Classifier):
    """Classifier without a length scale: a thin plate bent by the labels.

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i), with the norm of a thin plate: the model of Walder and Chapelle 2007

    |f|^2 does not see linear functions, and rotations, shifts and, up to a factor, dilations of the points do not
    change it: there is no length scale to choose.  Where linear functions alone separate the classes they would take
    over, and are left out (Walder and Chapelle 2007, 6.2 and 7).  Several classes are learned one against the rest.

    Parameters
    ----------
    null_space : "kept", "dropped", or "auto": dropped if linear functions separate a class from the rest
    C, loss, class_weight, solver, tol, verbose : as in `InvariantClassifier`

    Attributes
    ----------
    function_, solution_, problem_, classes_, n_features_in_, feature_names_in_ : as in `InvariantClassifier`;
        `problem_.null_space` tells whether linear functions were dropped

    Examples
    --------
    >>> import rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> rkhs.ThinPlateClassifier(C=10.0).fit(X, y).score(X, y)
    1.0
    """

    C: float = 1.0
    _: KW_ONLY
    loss: Any = "squared_hinge"
    null_space: str = "auto"
    class_weight: Any = None
    solver: Any = "auto"
    tol: float = 1e-4
    verbose: bool = False

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThinPlateClassifier:
        """Learn f from points X (t, n) and their classes y."""
        sample = self._sample(X, y, sample_weight)
        labels = self._config().label_term(sample)
        points, target = to_numpy(sample.X), to_numpy(labels.target)
        outputs = target.T if target.ndim == 2 else [target]
        explained = self.null_space == "auto" and any(linearly_separable(points, one) for one in outputs)
        self._learn(thin_plate_problem(labels, self.null_space, explained), sample)
        return self


@dataclass(eq=False, repr=False)
class ThinPlateRegressor(Regressor):
    """Smoothing spline in any dimension: a thin plate bent by the values.

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i), with the norm of a thin plate

    |f|^2 does not see linear functions, and there is no length scale to choose.

    Parameters
    ----------
    null_space : "kept", "dropped", or "auto": dropped if linear functions go through all points
    C, loss, solver, tol, verbose : as in `InvariantRegressor`

    Attributes
    ----------
    function_, solution_, problem_, n_features_in_, feature_names_in_ : as in `InvariantRegressor`

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = rkhs.ThinPlateRegressor(C=1000.0).fit(X, np.sin(X[:, 0]) + X[:, 0])
    >>> model.predict([[3.1], [10.0]]).round(1)  # far away it is linear
    array([ 3.1, 13.5])
    """

    C: float = 1.0
    _: KW_ONLY
    loss: Any = "squared"
    null_space: str = "auto"
    solver: Any = "auto"
    tol: float = 1e-4
    verbose: bool = False

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThinPlateRegressor:
        """Learn f from points X (t, n) and their targets y."""
        sample = self._sample(X, y, sample_weight)
        labels = self._config().label_term(sample)
        basis = np.column_stack([np.ones(sample.size), to_numpy(sample.X)])
        explained = int(np.linalg.matrix_rank(basis)) == sample.size
        self._learn(thin_plate_problem(labels, self.null_space, explained), sample)
        return self
