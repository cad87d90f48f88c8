"""The thin-plate models of Walder and Chapelle 2007, whose kernel has no length scale."""

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
    """Return the problem of the labels; "auto" drops the null space if that alone explains the labels (`explained`).

    The kernel is the thin plate of order 2, or r^2 log r in four dimensions and more, where that does not exist.  The
    null space of both is the linear functions; in the plane they are equal.
    """
    if null_space not in ("kept", "dropped", "auto"):
        raise ValueError(f'null_space must be "kept", "dropped" or "auto", got {null_space!r}.')
    kernel: Kernel = ThinPlate(order=2) if labels.functional.dimension < 4 else Polyharmonic(power=2)
    dropped = null_space == "dropped" or (null_space == "auto" and explained)
    return Problem(kernel, [labels], null_space="dropped" if dropped else "kept")


def linearly_separable(X: Matrix, target: Vector) -> bool:
    """Return whether some affine function has the sign of the targets (+1 or -1) at all points."""
    A = -target[:, None] * np.column_stack([np.ones(len(X)), X])
    result = linprog(np.zeros(A.shape[1]), A_ub=A, b_ub=-np.ones(len(X)), bounds=(None, None), method="highs")
    return bool(result.status == 0)


@dataclass(eq=False, repr=False)
class ThinPlateClassifier(Classifier):
    """Classifier without a length scale: a thin-plate spline fitted to the labels (Walder and Chapelle 2007).

    It minimizes

        1/2 |f|^2 + C sum_i loss(f(x_i); y_i)

    with the thin-plate norm: for up to three features, the integral of the squared second derivatives of f.  It is zero
    for linear functions.  Rotations and translations of the points do not change it, and dilations multiply it by a
    factor, so there is no length scale to choose.  If linear functions alone separate the classes, they would explain
    the labels at no cost, and are left out of f (Walder and Chapelle 2007, sections 6.2 and 7).  Several classes are
    learned one against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each point.
    loss : str or Loss, default="squared_hinge"
        As in `InvariantClassifier`.
    null_space : {"auto", "kept", "dropped"}, default="auto"
        Whether f has a linear part, which is not penalized; "auto" drops it if linear functions separate a class from
        the rest.
    class_weight, solver, tol, verbose : object
        As in `InvariantClassifier`.

    Attributes
    ----------
    function_, solution_, classes_, labeled_, n_features_in_, feature_names_in_ : object
        As in `InvariantClassifier`.
    problem_ : Problem
        The problem that was solved; `problem_.null_space` is "dropped" if f has no linear part.

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
        """Learn f from points and their classes.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The classes.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses; integers are numbers of rows.

        Returns
        -------
        ThinPlateClassifier
            The fitted estimator.
        """
        sample = self._sample(X, y, sample_weight)
        labels = self._config().label_term(sample)
        points, target = to_numpy(sample.X), to_numpy(labels.target)
        outputs = target.T if target.ndim == 2 else [target]
        explained = self.null_space == "auto" and any(linearly_separable(points, signs) for signs in outputs)
        self._learn(thin_plate_problem(labels, self.null_space, explained), sample)
        return self


@dataclass(eq=False, repr=False)
class ThinPlateRegressor(Regressor):
    """Thin-plate smoothing spline in any dimension.

    It minimizes

        1/2 |f|^2 + C sum_i loss(f(x_i); y_i)

    with the thin-plate norm: for up to three features, the integral of the squared second derivatives of f.  It is zero
    for linear functions, and there is no length scale to choose.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each point.
    loss : str or Loss, default="squared"
        As in `InvariantRegressor`.
    null_space : {"auto", "kept", "dropped"}, default="auto"
        Whether f has a linear part, which is not penalized; "auto" drops it if linear functions interpolate any targets
        at these points.
    solver, tol, verbose : object
        As in `InvariantRegressor`.

    Attributes
    ----------
    function_, solution_, problem_, labeled_, n_features_in_, feature_names_in_ : object
        As in `InvariantRegressor`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> model = rkhs.ThinPlateRegressor(C=1000.0).fit(X, np.sin(X[:, 0]) + X[:, 0])
    >>> model.predict([[3.1], [10.0]]).round(1)  # f is linear outside the data
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
        """Learn f from points and their targets.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The targets.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses; integers are numbers of rows.

        Returns
        -------
        ThinPlateRegressor
            The fitted estimator.
        """
        sample = self._sample(X, y, sample_weight)
        labels = self._config().label_term(sample)
        basis = np.column_stack([np.ones(sample.size), to_numpy(sample.X)])
        explained = int(np.linalg.matrix_rank(basis)) == sample.size
        self._learn(thin_plate_problem(labels, self.null_space, explained), sample)
        return self
