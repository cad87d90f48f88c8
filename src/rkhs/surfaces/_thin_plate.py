"""The thin-plate models of Walder and Chapelle 2007, whose kernel has no length scale."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.optimize import linprog

from rkhs import Constant, InvariantClassifier, InvariantRegressor, Problem, Term
from rkhs.extend import (
    BaseKernelEstimator,
    Classifier,
    Matrix,
    Regressor,
    Vector,
    check_choice,
    documented_by,
    double,
    to_numpy,
    transactional,
)
from rkhs.kernels import Kernel, Polyharmonic, ThinPlate, median_scale


def thin_plate_problem(
    labels: Term, null_space: str, explained: bool, power: float | None = None, approximation: Any = None
) -> tuple[Problem, float]:
    """Return the problem of the labels, and the number by which their weights are divided.

    "auto" drops linear functions if they alone explain the labels (`explained`).  Without a power the kernel is the
    thin plate of order 2, or r^2 log r in four dimensions and more, where that does not exist.  The null space of all
    these kernels is the linear functions.  A constant is kept even if the null space is dropped: in other units
    r^2 log r differs by a multiple of r^2, and the functions of the problem by a constant.
    Weights are divided by the power of the median distance, so that they have no units.  Constant features are left
    out of distances, since the plate of fewer features is another one.
    """
    X = double(labels.functional.parts[0].atoms.points)
    varying = np.flatnonzero(np.ptp(X, axis=0) > 0)
    n, dimension = X.shape[1], max(len(varying), 1)
    check_choice(null_space, "null_space", "kept", "dropped", "auto")
    kernel: Kernel = ThinPlate(order=2) if dimension < 4 else Polyharmonic(power=2)
    if power is not None:
        if not (isinstance(power, Real) and 2 <= power < 4):
            raise ValueError(f"power must be None or a number from 2 up to, but not including, 4, got {power!r}.")
        kernel = Polyharmonic(power)
    if 0 < len(varying) < n:
        kernel = kernel @ np.eye(n)[varying]
    plate = 4 - dimension if dimension < 4 else 2  # the power of the distance without a given one
    unit = median_scale(X) ** float(plate if power is None else power) if len(varying) else 1.0
    labels = labels.changed(weight=np.asarray(labels.weight) / unit)
    dropped = null_space == "dropped" or (null_space == "auto" and explained)
    settings: dict[str, Any] = {"null_space": "dropped", "basis": Constant()} if dropped else {}
    return Problem(kernel, [labels], approximation=approximation, **settings), unit


def linearly_separable(X: Matrix, target: Vector) -> bool:
    """Return whether some affine function has the sign of the targets (+1 or -1) at all points."""
    A = -target[:, None] * np.column_stack([np.ones(len(X)), X])
    result = linprog(np.zeros(A.shape[1]), A_ub=A, b_ub=-np.ones(len(X)), bounds=(None, None), method="highs")
    return bool(result.status == 0)


@dataclass(eq=False, repr=False)
class ThinPlateEstimator(BaseKernelEstimator):
    """The base of both thin-plate models, which document its parameters."""

    C: float | None = 1.0
    _: KW_ONLY
    loss: Any = "squared"
    null_space: str = "auto"
    power: float | None = None
    approximation: Any = None
    solver: Any = "auto"

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn f from points and their classes or targets.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The classes of a classifier, the targets of a regressor.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses.

        Returns
        -------
        estimator
            The fitted estimator.
        """
        sample = self._sample(X, y, sample_weight)
        labels = self._config().label_term(sample)
        explained = self.null_space == "auto" and self._is_explained(to_numpy(sample.X), to_numpy(labels.target))
        problem, unit = thin_plate_problem(labels, self.null_space, explained, self.power, self.approximation)
        self._learn(problem, sample, unit)
        return self

    def _is_explained(self, X: Matrix, target: Matrix) -> bool:
        """Return whether linear functions of points (t, n) explain the targets at no cost."""
        raise NotImplementedError


@documented_by(InvariantClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class ThinPlateClassifier(Classifier, ThinPlateEstimator):
    """Classifier without a length scale: a thin-plate spline fitted to the labels (Walder and Chapelle 2007).

    It minimizes

        1/2 |f|^2 + C sum_i loss(f(x_i); y_i)

    with the thin-plate norm: for up to three features, a multiple of the integral of the squared second derivatives of
    f.  It is zero for linear functions.  Rotations and translations of the points do not change it.  C is divided by
    L^p with the median distance L of the points and the power p of the distance in the kernel, so that it has no units
    and is the only parameter to choose.  Distances need features of one unit.  If
    linear functions alone separate the classes, they would explain the labels at no cost, and are left out of f except
    for its constant (Walder and Chapelle 2007, sections 6.2 and 7, leave out the constant as well).  Several classes
    are learned one against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each point.
    loss : str or Loss, default="squared_hinge"
        As in `InvariantClassifier`.
    null_space : {"auto", "kept", "dropped"}, default="auto"
        Whether f has a linear part, which is not penalized; "auto" drops it if linear functions separate a class from
        the rest.  The constant is always kept.
    power : float, optional
        The power of the distance r in the kernel, at least 2 and below 4: r^2 log r for 2, otherwise r^power.  By
        default the kernel is the thin plate of order 2 (r^3, r^2 log r or r for one, two or three features) and
        r^2 log r for more features.  Larger powers make f smoother; cross-validation can choose between 2 and 3.
    approximation : Landmarks or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of the kernel at p points, learned in time linear in the number of
        points.  It excludes `solver`.
    class_weight, solver, tol, verbose : object
        As in `InvariantClassifier`.

    Attributes
    ----------
    function_, solution_, classes_, labeled_, n_features_in_, feature_names_in_ : object
        As in `InvariantClassifier`.
    problem_ : Problem
        The problem that was solved; `problem_.null_space` is "dropped" if f has no linear part beside its constant.

    Examples
    --------
    >>> import rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> rkhs.geometry.ThinPlateClassifier(C=10.0).fit(X, y).score(X, y)
    1.0
    >>> model = rkhs.geometry.ThinPlateClassifier(C=10.0, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> model.score(X, y), model.solution_.span
    (1.0, 'Landmarks: 30 functions of numerical rank 27')
    """

    loss: Any = "squared_hinge"
    class_weight: Any = None

    def _is_explained(self, X: Matrix, target: Matrix) -> bool:
        return any(linearly_separable(X, signs) for signs in (target.T if target.ndim == 2 else [target]))


@documented_by(ThinPlateClassifier, InvariantRegressor)
class ThinPlateRegressor(Regressor, ThinPlateEstimator):
    """Thin-plate smoothing spline in any dimension.

    It minimizes

        1/2 |f|^2 + C sum_i loss(f(x_i); y_i)

    with the thin-plate norm: for up to three features, a multiple of the integral of the squared second derivatives of
    f.  It is zero for linear functions.  There is no length scale to choose, and C is divided by a power of the median
    distance, as in `ThinPlateClassifier`, so that the unit of the points does not matter.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss of each point.
    loss : str or Loss, default="squared"
        As in `InvariantRegressor`.
    null_space : {"auto", "kept", "dropped"}, default="auto"
        Whether f has a linear part, which is not penalized; "auto" drops it if linear functions interpolate any targets
        at these points.  The constant is always kept.
    power, approximation : object
        As in `ThinPlateClassifier`.
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
    >>> model = rkhs.geometry.ThinPlateRegressor(C=10000.0).fit(X, np.sin(X[:, 0]) + X[:, 0])
    >>> model.predict([[3.1], [10.0]]).round(1)  # f is linear outside the data
    array([ 3.1, 13.5])
    """

    def _is_explained(self, X: Matrix, target: Matrix) -> bool:
        return int(np.linalg.matrix_rank(np.column_stack([np.ones(len(X)), X]))) == len(X)
