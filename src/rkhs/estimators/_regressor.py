"""Regressors: targets at some points, priors at all of them, and the uncertainty of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # imports scipy.spatial on first use
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from rkhs._core.backend.arrays import Array, Vector, double, frozen, to_numpy
from rkhs._core.calculus.maps import Map
from rkhs._core.finite.solution import Posterior, Solution
from rkhs._core.problem import Problem
from rkhs.estimators._base import (
    BaseKernelEstimator,
    as_input_type,
    dense,
    documented_by,
    limited,
    transactional,
)
from rkhs.estimators._classifier import InvariantClassifier
from rkhs.estimators._data import Sample, check_columns_of, checked_slopes, fill_missing_targets
from rkhs.estimators._folds import HeldOutLabels, bound, user_marks
from rkhs.estimators._formulation import rows_of
from rkhs.estimators._invariant_estimator import InvariantEstimator, fit_block, updatable
from rkhs.estimators._length_scales import errors_by_slopes, with_learned_noise
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation, Functional, Gradient
from rkhs.maps import as_coordinates
from rkhs.streams._blocks import in_blocks


class Regressor(RegressorMixin, BaseKernelEstimator):
    """An estimator that predicts f(x).

    `fit` of a subclass, for example that of the second base, calls ``self._sample(X, y, sample_weight)`` for the
    distinct points with their targets, and ``self._learn(problem, sample)``.

    Examples
    --------
    >>> import rkhs
    >>> issubclass(rkhs.InvariantRegressor, rkhs.extend.Regressor)
    True
    """

    C: float | None

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, gradients: Any = None, earlier: Sample | None = None, least: int = 2
    ) -> Sample:
        """Validate X, y and measured slopes; return a point for each row."""
        points, validated, y, missing = self._validated(X, y, sparse=gradients is None, earlier=earlier, least=least)
        try:
            y = y.astype(np.float64)
        except ValueError as error:
            remedy = "write decimal points, or use InvariantClassifier if these are classes"
            raise ValueError(f"y of {type(self).__name__} must contain numbers: {error}; {remedy}.") from None
        if earlier is not None and y.shape[1:] != earlier.y.shape[1:]:
            raise ValueError(
                f"y has shape {y.shape}, and that of earlier rows has shape {earlier.y.shape}: pass the same outputs."
            )
        outputs = y.shape[1] if y.ndim == 2 else None
        check_columns_of(gradients, self, "gradients")
        slopes = None if gradients is None else checked_slopes(gradients, points, outputs)
        if slopes is not None:
            targets = np.where(missing if outputs is None else missing[:, None], np.nan, y)
            warn_of_units(double(points), targets, slopes)
        marks = user_marks(getattr(self, "cv", None), y, ~missing, classifier=False)
        rows = Sample.of_rows(points, sample_weight, y, ~missing, marks, slopes)
        if earlier is None:
            self.labeled_: Array = as_input_type(~missing, validated)
            if not np.any(rows.labeled & (rows.weight > 0)) and slopes is None:
                raise ValueError(f"{type(self).__name__} needs points with a target; every y is unlabeled.")
        return rows

    def _learn(self, problem: Problem, sample: Sample, variance: float = 1.0, **options: Any) -> None:
        """Solve the problem, whose first term holds the targets, and prepare prediction intervals."""
        self._solve(problem, variance, **options)
        labeled = sample.take(sample.labeled)
        if labeled.size:
            self._weight *= float(labeled.weight.mean())  # a new target has the mean weight of those in `fit`
        self._held_out = HeldOutLabels(
            type(self).__name__, self.problem_, labeled.weight, labeled.groups, solution=self.solution_
        )
        self._refer_to_columns()

    def _keep(self, problem: Problem | None, solution: Solution, variance: float = 1.0, *certificate: Any) -> None:
        super()._keep(problem, solution, variance, *certificate)
        C = self.C_ if hasattr(self, "C_") else self._config().C  # learned, or given
        self._weight = float(C) / variance  # the weight of a target, which later changes of C must not affect

    @property
    def target_weight_(self) -> float:
        """The weight w of a new target in `solution_.posterior`, where its noise has variance tau^2 / (2 w)."""
        return self._weight

    @limited
    def predict(self, X: Any, return_std: bool | str = False, return_cov: bool = False) -> Any:
        """Predict f at the rows of X, and the standard deviations or covariances of new targets.

        The latter need squared losses.  They are those of a Gaussian process with covariance tau^2 times the kernel, an
        improper constant if there is an intercept, and noise of variance tau^2 / (2 w) on observations of weight w; a
        target has the weight C if the kernel has variance one.  tau maximizes the likelihood of the targets, so it has
        their units.  With return_std="function" the deviations are those of f itself, without the noise of a target.
        `solution_.posterior` has the process, and functionals other than values.

        With an approximation the process has two parts: the span of p functions, which learns from all rows, and its
        complement, which `Landmarks` leave at the prior and `FourierFeatures` leave out.  The result is exact if the
        landmarks are the functionals of the problem.  With few landmarks the deviation is too large at most points,
        with few Fourier features too small.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        return_std : bool or "function", default=False
            Whether to return standard deviations as well: of new targets, or of f without the noise of a target.
        return_cov : bool, default=False
            Whether to return all covariances as well.

        Returns
        -------
        ndarray of shape (t,) or (t, outputs)
            The predictions; with `return_std` or `return_cov` a pair of these and of the deviations (t,) or covariances
            (t, t).
        """
        if not isinstance(return_std, bool) and return_std != "function":
            raise ValueError(f'return_std must be True, False or "function", got {return_std!r}.')
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov are mutually exclusive: the diagonal of the covariances has the variances."
            )
        if (return_std or return_cov) and self._is_precomputed:
            raise ValueError(
                "A standard deviation needs the kernel values of new objects among themselves, which "
                'kernel="precomputed" does not have: use kernel=rkhs.kernels.Precomputed(K) with the matrix of all '
                "objects, and their indices as X."
            )
        if return_cov:
            validated = self._validated_input(X, "predict")
            Posterior.check_memory(int(validated.shape[0]), dense(validated[:0]))
        values, validated = self._values(X, "predict")
        if not (return_std or return_cov):
            return as_input_type(values, validated)
        points = Evaluation(self._as_points(validated))
        if return_std:
            spread = self._deviations(points, noise=return_std != "function")
        else:
            spread = self._calibrated_posterior().cov(points, weight=self._weight)
        return as_input_type(values, validated), as_input_type(spread, validated)

    def _deviations(self, points: Functional, noise: bool) -> Array:
        """Return the standard deviations of new targets, or of f without their `noise`."""
        return self._calibrated_posterior().std(points, weight=self._weight if noise else None)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R2 on the rows that have a target.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,) or (t, outputs)
            Their targets, `unlabeled` where there is none.
        sample_weight : array-like of shape (t,), optional
            The weights of the rows in the sums of squares.

        Returns
        -------
        float
            One minus the sum of squared residuals over that of deviations from the mean.
        """
        return float(super().score(*self._labeled_rows(X, y, sample_weight)))

    @limited
    def predict_gradient(self, X: Any, return_std: bool = False) -> Any:
        """Predict the partial derivatives of f at the rows of X.

        The derivatives are in the features that `fit` was given.  If a scaler made those, slopes in the units of the
        data are `predict_gradient(scaler.transform(X)) / scaler.scale_`, and the `gradients` for `fit` are slopes times
        `scaler.scale_`.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        return_std : bool, default=False
            Whether to return the standard deviation of each derivative as well, without the noise of a measurement;
            this needs squared losses.

        Returns
        -------
        ndarray of shape (t, n) or (t, n, outputs)
            The derivatives; with `return_std` a pair of these and of their deviations.
        """
        values, validated = self._values(X, "predict_gradient", Gradient)
        if not return_std:
            return as_input_type(values, validated)
        spread = self._calibrated_posterior().std(Gradient(self._as_points(validated)))
        return as_input_type(values, validated), as_input_type(spread, validated)

    def _posterior(self) -> Posterior:
        """Return the posterior Gaussian process, from which standard deviations are computed."""
        if self.solution_.source is None:
            raise ValueError(
                'A standard deviation needs squared losses of finite weights: use loss="squared", also for invariances.'
            )
        return self.solution_.posterior

    def _calibrated_posterior(self) -> Posterior:
        """Return the posterior from which `predict` has its standard deviations."""
        return self._posterior()

    def _widened(self, count: int) -> float:
        """Return the ratio of errors at new points to those at `count` left-out targets."""
        return 1.0

    def _interval_widths(self, coverage: float) -> Vector:
        """Return half the width of the prediction intervals of each output, (outputs,)."""
        left_out = self._held_out.labels
        residuals = np.abs(left_out.predicted - left_out.target).reshape(len(left_out.weight), -1)  # (l, outputs)
        widths = np.array([bound(column, coverage, left_out.weight) for column in residuals.T])
        return self._widened(len(left_out.weight)) * widths

    @limited
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Predict intervals around f that contain a new target with the given probability.

        The intervals are conformal: they all have one width, taken from the errors at targets that are left out, and
        nothing is assumed about the noise (`rkhs.estimators._folds`).  The width is infinite for fewer than
        coverage / (1 - coverage) targets.  The first call leaves targets out, one by one for smooth losses and a tenth
        at a time for others.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        coverage : float, default=0.9
            The probability with which an interval contains a new target.

        Returns
        -------
        ndarray of shape (t, 2) or (t, outputs, 2)
            The lower and upper ends.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
        >>> low, high = rkhs.InvariantRegressorCV().fit(X, y).predict_interval(X, coverage=0.9).T
        >>> round(float(np.mean((low <= y) & (y <= high))), 1)
        0.9
        """
        values, validated = self._values(X, "predict_interval")
        widths, center = self._interval_widths(coverage), to_numpy(values)
        width = widths if center.ndim > 1 else widths[0]
        return as_input_type(np.stack([center - width, center + width], axis=-1), validated)


class MultiOutputMixin(Regressor):
    """A regressor whose y may have several columns, and whose rows may be positions on the earth."""

    unlabeled: Any
    coordinates: Any
    coordinates_: Any = None
    shape: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _marked(self, X: Any, y: Any, gradients: Any) -> Any:
        """Choose the marker of targets that were not observed; return y, all of them if only slopes are given."""
        self._marker = self.unlabeled
        if self.coordinates is None:
            self.coordinates_ = None
        else:
            given = {"gradients": gradients is not None, "a shape": self.shape is not None, "blocks": in_blocks(X)}
            if refused := [name for name, is_given in given.items() if is_given]:
                raise ValueError(
                    f"{type(self).__name__} with coordinates={self.coordinates!r} does not take {refused[0]}: pass "
                    "positions, such as `coordinates_(X)` of a fitted model, as X, and leave the coordinates out."
                )
        if gradients is None:
            return y
        if in_blocks(X):
            raise TypeError(f"{type(self).__name__} takes gradients with arrays only, and got blocks of rows as X.")
        self._marker = np.nan if self.unlabeled is None else self.unlabeled
        return np.full(X.shape[0] if issparse(X) else len(X), self._marker) if y is None else y

    def _fill_missing(self, y: Any) -> tuple[Vector, Vector]:
        return fill_missing_targets(y, getattr(self, "_marker", self.unlabeled))

    def _validated(
        self, X: Any, y: Any, own: bool = True, sparse: bool = True, earlier: Sample | None = None, least: int = 2
    ) -> tuple[Array, Array, Vector, Vector]:
        mapped = self.coordinates is not None
        points, *rest = super()._validated(X, y, own, sparse and not mapped, earlier, least)
        if earlier is None:
            self.coordinates_ = as_coordinates(self.coordinates, points, getattr(self, "feature_names_in_", None))
        return frozen(self.coordinates_.values(points)) if mapped else points, *rest

    def _input_map(self) -> Map | None:
        found: Map | None = self.coordinates_
        return found


@documented_by(InvariantClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class InvariantRegressor(MultiOutputMixin, InvariantEstimator):
    """Kernel regressor that learns from values, measured slopes, and priors on f at all points.

    It minimizes

        1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + gradient_weight sum_ij (df/dx_j (x_i) - g_ij)^2
                  + nu mean_i sum_j loss(L_ij(f) / s)

    The first sum is over the points with a target, the second over the slopes g that are given to `fit` as `gradients`,
    and the mean over all points of functionals L_ij(f) that are known to be small.  C and nu have no units, as in
    `InvariantClassifier`.

    Parameters
    ----------
    kernel, scale : object
        As in `InvariantClassifier`.
    loss : str or Loss, default="squared"
        "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "absolute", "quantile" (the median),
        or a loss object such as `rkhs.Huber(0.5)`.  Losses by name have the width 0.1, in units of f.
    C : float, optional
        Weight of the loss of each point with a target: twice the targets are twice the evidence.  By default it is 10;
        with measured slopes, C, `gradient_weight` and the length scales of a kernel given by name are learned by
        maximum evidence, except for those that are given as numbers.
    invariance, nu : object
        As in `InvariantClassifier`.
    shape : Shape or dict, optional
        The shape of f on the whole box of the training points, such as {"age": "increasing", 3: "convex", "f": (0, 1)};
        see `rkhs.Shape`.  It is proved; see `shape_certificate_`.
    fit_intercept : bool, default=True
        Whether f has a constant that is not penalized.
    unlabeled : float or None, default=None
        The y of points without a target (a number, or NaN), which take part in the invariances only; None if all have
        one.
    approximation, solver, tol, verbose : object
        As in `InvariantClassifier`.
    coordinates : "lonlat", callable or None, default=None
        How rows of X become positions, between which distances are measured.  With "lonlat" the first two columns are
        longitude and latitude in degrees.  Positions are in km: in Lambert's equal-area projection about the center of
        the data if these reach no farther than 30 degrees from it, and on the sphere otherwise.  Further columns are
        kept.  A callable maps X (t, n) to positions (t, m), such as those of a projection.  The kernel and its length
        scales, priors and `problem_` refer to positions; everything else to the columns, such as functionals of
        `function_` and of the posterior, for which a callable must be smooth.
    gradient_weight : float, optional
        Weight of the squared loss of each measured slope.  By default it is learned if C is, and otherwise C times the
        variance of its feature, so that a slope counts as much as a target does, in any units.

    Attributes
    ----------
    function_, solution_, problem_, labeled_, metric_, n_features_in_, feature_names_in_ : object
        As in `InvariantClassifier`.
    coordinates_ : callable or None
        The map from rows of X to positions, which are the points of `problem_`.
    shape_certificate_ : ShapeCertificate
        What is proved about the `shape`, on which box, with which margin, and where it is open.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> increasing = rkhs.Invariance(lambda X: rkhs.Derivative(X, axes=[0]), loss="squared_one_sided")
    >>> model = rkhs.InvariantRegressor(C=10.0, scale=1.0, invariance=increasing, nu=1e7).fit(X, np.sin(X[:, 0]))
    >>> bool(np.all(np.diff(model.predict(X)) > -1e-3))
    True

    Learn from a few values and slopes, such as those of a simulation with an adjoint (NaN marks missing ones):

    >>> Z = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> slopes = np.cos(Z)
    >>> model = rkhs.InvariantRegressor().fit(Z, np.sin(Z[:, 0]), gradients=slopes)
    >>> model.predict([[1.0]]).round(2), model.predict_gradient([[1.0]]).round(2)  # 0.84 and 0.54
    (array([0.84]), array([[0.54]]))

    Squared losses provide standard deviations of predictions, also with an approximation:

    >>> model = rkhs.InvariantRegressor(C=10.0, scale=1.0, approximation=rkhs.Landmarks(15)).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[3.0], [8.0]], return_std=True)[1].round(1)
    array([0.1, 0.3])
    """

    C: float | None = None
    coordinates: Any = None
    gradient_weight: float | None = None

    @transactional
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, gradients: Any = None) -> InvariantRegressor:
        """Learn f from points, their targets and measured slopes.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,) or (t, outputs), optional
            The targets, `unlabeled` where there is none; several outputs share all settings.  Not needed with
            `gradients`.
        sample_weight : array-like of shape (t,), optional
            Factors on the weights of all observations at a point.
        gradients : array-like of shape (t, n) or (t, n, outputs), optional
            Measured slopes of f; NaN, here and in y, marks what was not measured.  They exclude invariance="gradient",
            since the slopes are known.  A data frame must have the columns of X, in the same order.  A warning says
            if left-out values are predicted better without them.

        Returns
        -------
        InvariantRegressor
            The fitted estimator.
        """
        problem = self._fit(X, self._marked(X, y, gradients), sample_weight, gradients)
        if problem is not None and gradients is not None and self.approximation is None:
            if self.C is not None:
                warn_of_noise(problem, self.function_, self.C, type(self).__name__)
            self._compare_slopes()
        return self

    def _compare_slopes(self) -> None:
        """Warn if left-out values are predicted significantly better without the measured slopes."""
        formulated, given = self._training.formulation, self._config()
        compared = errors_by_slopes(
            formulated.config,
            self._merged(self._training.rows),
            lambda alone: with_learned_noise(given, alone) if given.learns_noise else formulated.config,
        )
        if compared is not None and compared[1]:
            warn(f"{type(self).__name__}: {compared[0]}. Check their signs and units, or leave them out.")

    @available_if(updatable)
    @transactional
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, gradients: Any = None
    ) -> InvariantRegressor:
        """Learn from more rows, in addition to those of `fit` and of earlier calls.

        See `InvariantClassifier.partial_fit`: the first call fixes all settings that are learned from the rows, and
        rows are added to squared losses by updates of a factor, without another fit.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points of the block.
        y : array-like of shape (t,)
            Their targets, `unlabeled` where there is none.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses.
        gradients : array-like of shape (t, n) or (t, n, outputs), optional
            Measured slopes as in `fit`, if the first call had some; not with an approximation.

        Returns
        -------
        InvariantRegressor
            The estimator, which has learned from all rows so far.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X, new = np.arange(8.0)[:, None], np.array([[8.0]])
        >>> model = rkhs.InvariantRegressor(C=1e4, scale=2.0, invariance=None).fit(X, np.sin(X[:, 0]))
        >>> before, after = (float(m.predict(new)[0]) for m in (model, model.partial_fit(new, np.sin(new[:, 0]))))
        >>> round(before, 2), round(after, 2), round(float(np.sin(8.0)), 2)
        (0.99, 0.99, 0.99)
        """
        if self.approximation is None:
            self._add_rows((X, self._marked(X, y, gradients), sample_weight, gradients))
        elif gradients is not None or self.coordinates is not None:
            what = "gradients" if self.coordinates is None else "coordinates"
            raise ValueError(
                f"partial_fit with approximation={self.approximation!r} takes no {what}: pass all rows to fit, or "
                "leave one of them out."
            )
        else:
            fit_block(self, self._config(), X, y, sample_weight, None)
        return self


def warn_of_units(X: Vector, y: Vector, slopes: Vector) -> None:
    """Warn if slopes disagree with the differences of values between nearest neighbors: their units may be wrong.

    The threshold is a factor of 100 in the median over the first 1000 rows, more than noise and curvature cause.  NaN
    marks what was not observed in y (t,) or (t, outputs) and in the slopes (t, n) or (t, n, outputs).
    """
    values = y.reshape(len(X), -1)
    along = slopes.reshape(*slopes.shape[:2], -1)
    complete = np.flatnonzero(~np.isnan(values).any(axis=1) & ~np.isnan(along).any(axis=(1, 2)))[:1000]
    if len(complete) < 3:
        return
    near = complete[scipy.spatial.cKDTree(X[complete]).query(X[complete], k=2)[1][:, 1]]
    steps = X[near] - X[complete]
    difference = float(np.median(np.abs(values[near] - values[complete])))
    integrated = float(np.median(np.abs(np.einsum("tn,tno->to", steps, (along[complete] + along[near]) / 2))))
    if min(difference, integrated) > 0 and not 0.01 < integrated / difference < 100:
        warn(
            f"Between neighbors y changes by {difference:.2g}, but the gradients amount to {integrated:.2g}: are the "
            "slopes in units of y per unit of each feature? Forces are minus slopes of an energy, and scalers change "
            "both."
        )


def warn_of_noise(problem: Problem, function: Any, C: float, name: str) -> None:
    """Warn if f does not fit values and slopes whose evidence is far larger for another C.

    A weight is one over twice the variance of the noise, relative to that of f (`_core.learning.evidence`): a small C
    treats data as noise, however exact they are.  About 300 observations are compared.  There is no warning for fewer
    than 10, for residuals below a tenth of the spread of the targets, or for a gain of less than 20 in log evidence.
    """
    if not all(term.loss.quadratic for term in problem.terms):
        return
    share, terms, residual = min(1.0, 300 / sum(term.size for term in problem.terms)), [], 0.0
    for whole in problem.terms:
        rows, per_row = rows_of(whole.functional)
        kept = np.unique(np.linspace(0, rows - 1, max(2, round(share * rows))).round().astype(int))  # evenly spaced
        term = whole.take((kept[:, None] * per_row + np.arange(per_row)).ravel())
        weight, target = to_numpy(term.weights()), to_numpy(term.target).reshape(term.size, -1)
        if np.any(weight > 0):
            terms.append(term)
            spread = float(np.sum(weight * (target - np.average(target, axis=0, weights=weight[:, 0])) ** 2))
            values = to_numpy(term.functional(function)).reshape(term.size, -1)
            missed = float(np.sqrt(np.sum(weight * (values - target) ** 2) / spread)) if spread > 0 else 0.0
            residual = max(residual, missed)  # as a share of the standard deviation of the targets
    if residual < 0.1 or sum(np.count_nonzero(term.weight) for term in terms) < 10:
        return
    evidence = {}
    for factor in (1.0, 1e-4, 1e-2, 1e2, 1e4, 1e6, 1e8):  # on C
        scaled = [term.changed(weight=factor * np.asarray(term.weight)) for term in terms]
        evidence[factor] = Problem(problem.kernel, scaled, problem.basis).evidence().value
    best = max(evidence, key=lambda factor: evidence[factor])
    if evidence[best] > evidence[1.0] + 20:
        warn(
            f"With C={C:g} {name} misses its training values or slopes by {residual:.0%} of their spread; "
            f"C={C * best:.0e} is far likelier. Set C, or leave C out, so that it and the length scales are learned."
        )
