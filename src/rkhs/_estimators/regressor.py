"""Regressors: a target for some points, what is known about f at all of them, and how sure predictions are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # which imports scipy.spatial when it is first used
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._estimators.base import BaseKernelEstimator, dense, home, transactional
from rkhs._estimators.calibration import HeldOutLabels, bound
from rkhs._estimators.cross_validation import user_marks
from rkhs._estimators.data import Sample, check_columns_of, checked_slopes, columns_of, fill_missing, fill_missing_rows
from rkhs._estimators.problem import keeps_rows
from rkhs._estimators.streamed import InvariantEstimator, approximated
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._learning.posterior import Posterior
from rkhs._problem import Problem
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Gradient


class Regressor(RegressorMixin, BaseKernelEstimator):
    """An estimator that predicts f(x)."""

    C: float

    def _sample(self, X: Any, y: Any, sample_weight: Any, gradients: Any = None) -> Sample:
        """Return the merged training points; y is the target."""
        points, given, y, missing = self._validated(X, y)
        y = y.astype(np.float64)
        outputs = y.shape[1] if y.ndim == 2 else None
        check_columns_of(gradients, self, "gradients")
        slopes = None if gradients is None else checked_slopes(gradients, points, outputs)
        if slopes is not None:
            known = np.where(missing if outputs is None else missing[:, None], np.nan, y)
            warn_of_units(to_numpy(points).astype(np.float64), known, slopes)
        marks = user_marks(getattr(self, "cv", None), y, ~missing, classifier=False)
        merge = not keeps_rows(getattr(self, "invariance", None))
        sample = Sample.of(points, sample_weight, y, ~missing, marks, slopes, merge=merge)
        if not np.any(sample.labeled) and slopes is None:
            raise ValueError(f"{type(self).__name__} needs points with a target; every y is unlabeled.")
        self.labeled_ = home(~missing, given)
        return sample

    def _learn(self, problem: Problem, sample: Sample, variance: float = 1.0) -> None:
        """Solve the problem, whose first term is that of the labels, and keep what intervals need."""
        self._solve(problem, variance)
        self._held_out = HeldOutLabels(type(self).__name__, self.problem_, sample.count[sample.labeled])
        source = self.solution_.source
        if source is not None:
            self.solution_ = replace(self.solution_, source=replace(source, repeats=sample.repeats))

    def _keep(self, problem: Problem | None, solution: Solution, variance: float = 1.0) -> None:
        super()._keep(problem, solution, variance)
        C = self.C_ if hasattr(self, "C_") else self.C  # of a search, or given
        self._weight = float(C) / variance  # of a target, whatever becomes of C

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Return f at the rows of X; with `return_std` also the standard deviation of a new target, or all covariances.

        For squared losses only.  f is a Gaussian process with covariance tau^2 times the kernel, a constant without
        penalty if there is an intercept, and noise of variance tau^2 / (2 w) on targets, a new one included, and on
        invariances, given all of them, with the weights w of their terms: C of a target, where values of the kernel
        have variance one.  tau makes the targets most likely, so that it has their units.  Without the noise, and for
        anything but values: `solution_.posterior`.

        With an approximation the process has two parts: one in the span of p functions, which learns from all rows, and
        one outside of it, which `Landmarks` leave as it was before any data and `FourierFeatures` leave out.  It is the
        same number where the landmarks are the problem's own functionals.  With few landmarks it is too large at most
        points (what rows say about functions outside of the span is not used) and somewhat too small at others; with
        few waves it is too small (once learned, they are known everywhere).  Take more where that matters.
        """
        if return_std and return_cov:
            raise ValueError("A standard deviation is the root of the covariances' diagonal: ask for one of them.")
        if return_cov:
            given = self._given(X, "predict")
            Posterior.check_memory(int(given.shape[0]), dense(given[:0]))
        values, given = self._values(X, "predict")
        if not (return_std or return_cov):
            return home(values, given)
        posterior, points = self._posterior(), Evaluation(dense(given))
        spread = (posterior.std if return_std else posterior.cov)(points, weight=self._weight)
        return home(values, given), home(spread, given)

    def predict_gradient(self, X: Any, return_std: bool = False) -> Any:
        """Return the slopes of f at the rows of X, (t, n), with a last axis for several outputs.

        With `return_std`, for squared losses only, also the standard deviation of each slope of f itself, without the
        noise that a new measurement of it would have.

        They are slopes in the features that this regressor sees.  Behind a scaler, a feature is (x - mean) / spread: so
        slopes in the units of the data are `predict_gradient(scaler.transform(X)) / scaler.scale_`, and `gradients` to
        be learned from are given as `G * scaler.scale_`.
        """
        values, given = self._values(X, "predict_gradient", Gradient)
        if not return_std:
            return home(values, given)
        spread = self._posterior().std(Gradient(dense(given)))
        return home(values, given), home(spread, given)

    def _posterior(self) -> Posterior:
        """Return the Gaussian process that error bars come from."""
        if self.solution_.source is None:
            raise ValueError(
                'A standard deviation needs all losses to be squared: use loss="squared" and invariance_loss="squared".'
            )
        return self.solution_.posterior

    def _widened(self, count: int) -> float:
        """Return the factor from errors at `count` left-out targets to those at new points."""
        return 1.0

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return intervals around f that hold a new target with the given probability: (t, 2), or (t, outputs, 2).

        All have one width, that of errors at targets which are left out (`rkhs._estimators.calibration`); nothing is
        assumed about noise.  It is infinite where there are fewer than coverage / (1 - coverage) targets.  The first
        call leaves them out: one by one for smooth losses, a tenth at a time for others.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
        >>> low, high = rkhs.InvariantRegressorCV().fit(X, y).predict_interval(X, coverage=0.9).T
        >>> round(float(np.mean((low <= y) & (y <= high))), 1)
        0.9
        """
        values, given = self._values(X, "predict_interval")
        left_out = self._held_out.labels
        residuals = np.abs(left_out.predicted - left_out.target)
        width = np.array([bound(own, coverage, left_out.times) for own in residuals.reshape(len(residuals), -1).T])
        center = to_numpy(values)
        width = self._widened(int(left_out.times.sum())) * (width if center.ndim > 1 else width[0])
        return home(np.stack([center - width, center + width], axis=-1), given)


def likely_spread(model: Regressor, X: Vector) -> Vector:
    """Return the standard deviation of a new target by the most likely amplitude, for searches and models of folds."""
    return to_numpy(model.solution_.posterior.std(Evaluation(X), weight=model._weight))


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantRegressor(Regressor, InvariantEstimator):
    """Regressor that learns from values at some points and from what is known about f at all of them.

        min 1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu mean_i sum_j invariance_loss(L_ij(f) / s)

    The sum of losses is over the points with a target, the mean over all points, of what is said of f there and known
    to be small.  C and nu have no units, as in `InvariantClassifier`.  Measured slopes, `gradients`, add a sum of their
    own, gradient_weight sum_ij gradient_loss(df/dx_j (x_i); g_ij).

    Parameters
    ----------
    loss : "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "absolute", "quantile", or an
        rkhs loss
    C : weight of the loss of each point with a target: twice the targets are twice the evidence
    epsilon : the width of the losses that are given by name and have one: "huber" (its delta) and the
        epsilon-insensitive ones, in units of f
    quantile : the level of the loss "quantile"
    gradient_weight : weight of the loss of each measured slope; by default C times the variance of its feature, so that
        a slope counts as a target does, in any units
    gradient_loss : "squared", "huber", "absolute", .., as `loss`: for slopes that disagree with the targets here and
        there, a robust one
    shape : what f does everywhere on the box of the training points, such as {"age": "increasing", 3: "convex",
        "f": (0, 1)}: "increasing", "decreasing", "convex", "concave" or a list of these for a feature (its number, or
        the name of its column), "convex" or "concave" for features together, such as {(0, 1): "convex"}, and a pair of
        bounds for f itself, either of them None.  It is proved, see `shape_certificate_`
    unlabeled : the y of points without a target (a number, or NaN), which take part in the invariances only; None if
        all have one
    kernel, scale, metric, invariance, nu, invariance_loss, fit_intercept, shape_box, shape_time_limit, approximation,
        solver, tol, device, precision, random_state, verbose : as in `InvariantClassifier`

    Attributes
    ----------
    shape_certificate_ : what is proved of the `shape`, on which box, with which margin, and where it is open
    metric_, function_, solution_, problem_, labeled_, n_features_in_, feature_names_in_ : as in `InvariantClassifier`

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> increasing = rkhs.Invariance(lambda X: rkhs.Derivative(X, axes=[0]), loss="squared_one_sided")
    >>> model = rkhs.InvariantRegressor(C=10.0, scale=1.0, invariance=increasing, nu=1e7).fit(X, np.sin(X[:, 0]))
    >>> bool(np.all(np.diff(model.predict(X)) > -1e-3))
    True

    From a few values and slopes, as solvers with an adjoint have them (NaN where there is none):

    >>> Z = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> slopes = np.cos(Z)
    >>> model = rkhs.InvariantRegressor(C=1e4, scale=1.5).fit(Z, np.sin(Z[:, 0]), gradients=slopes)
    >>> model.predict([[1.0]]).round(2), model.predict_gradient([[1.0]]).round(2)  # 0.84 and 0.54
    (array([0.84]), array([[0.54]]))

    With squared losses it says how sure it is, also in a span:

    >>> model = rkhs.InvariantRegressor(C=10.0, scale=1.0, approximation=rkhs.Landmarks(15)).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[3.0], [8.0]], return_std=True)[1].round(1)
    array([0.1, 0.3])
    """

    gradient_weight: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _fill_missing(self, y: Any) -> tuple[Vector, Vector]:
        marker = getattr(self, "_marker", self.unlabeled)
        return fill_missing_rows(y, marker) if columns_of(y) > 1 else fill_missing(y, marker)

    @transactional
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, gradients: Any = None) -> InvariantRegressor:
        """Learn f from points X (t, n) and their targets y, `unlabeled` where there is none.

        Parameters
        ----------
        X : (t, n)
        y : (t,), or (t, outputs) for several functions that share all settings; not needed beside `gradients`
        sample_weight : (t,) factors of the weights of all that was observed at a point
        gradients : (t, n), or (t, n, outputs): slopes of f that were measured.  NaN, here and in y, is for what was not
            observed.  With them, invariance="gradient" is left out: these slopes are known.  A data frame must have the
            columns of X, in the same order
        """
        self._marker = self.unlabeled  # of targets that were not observed
        if gradients is not None:
            self._marker = np.nan if self.unlabeled is None else self.unlabeled
            y = np.full(X.shape[0] if issparse(X) else len(X), self._marker) if y is None else y
        elif self._is_streamed(X) and (y is None or columns_of(y) == 1):
            self._fit_blocks(X, y, sample_weight)
            return self
        problem = self._fit_sample(self._sample(X, y, sample_weight, gradients))
        if gradients is not None and self.approximation is None:
            warn_of_noise(problem, self.function_, self.C, type(self).__name__)
        return self

    @available_if(approximated)
    @transactional
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InvariantRegressor:
        """Learn from one more block of rows; needs an `approximation`.  See `InvariantClassifier.partial_fit`."""
        self._fit_more(X, y, sample_weight, None)
        return self


def warn_of_units(X: Vector, y: Vector, slopes: Vector) -> None:
    """Warn where slopes disagree with the differences of values between near points, as those of other units do.

    That is by a factor of 100 in the median over the first 1000 rows, more than noise and curvature make.  X (t, n),
    y (t,) or (t, outputs) and slopes (t, n) or (t, n, outputs), NaN for what was not observed.
    """
    values = y.reshape(len(X), -1)
    along = slopes.reshape(*slopes.shape[:2], -1)
    whole = np.flatnonzero(~np.isnan(values).any(axis=1) & ~np.isnan(along).any(axis=(1, 2)))[:1000]
    if len(whole) < 3:
        return
    near = whole[scipy.spatial.cKDTree(X[whole]).query(X[whole], k=2)[1][:, 1]]
    steps = X[near] - X[whole]
    seen = float(np.median(np.abs(values[near] - values[whole])))
    told = float(np.median(np.abs(np.einsum("tn,tno->to", steps, (along[whole] + along[near]) / 2))))
    if min(seen, told) > 0 and not 0.01 < told / seen < 100:
        warn(
            f"Between neighbors y changes by {seen:.2g}, where gradients say {told:.2g}: are the slopes in the units "
            "of y for one unit of each feature? Forces are minus slopes of an energy, and scalers change both."
        )


def warn_of_noise(problem: Problem, function: Any, C: float, name: str) -> None:
    """Warn where f misses values and slopes that are far likelier under another C than under that of the model.

    Weights are one over twice the variance of the noise, relative to that of f (`rkhs._learning.evidence`): data that a
    small C takes for noise are not followed, however exact they are.  About 300 observations are compared; nothing is
    said of fewer than 10, or where f misses less than a tenth of their spread, and a log evidence that is larger by 20
    is beyond doubt.
    """
    if not all(term.loss.quadratic for term in problem.terms):
        return
    share = min(1.0, 300 / sum(term.size for term in problem.terms))
    terms = [_some(term, share) for term in problem.terms]
    terms = [term for term in terms if np.any(np.asarray(term.weight) > 0)]
    missed = max((_missed(term, function) for term in terms), default=0.0)
    if missed < 0.1 or sum(np.count_nonzero(term.weight) for term in terms) < 10:
        return
    evidence = {}
    for factor in (1.0, 1e-4, 1e-2, 1e2, 1e4, 1e6, 1e8):  # on C
        scaled = [term.changed(weight=factor * np.asarray(term.weight)) for term in terms]
        evidence[factor] = Problem(problem.kernel, scaled, problem.basis).evidence().value
    best = max(evidence, key=lambda factor: evidence[factor])
    if evidence[best] > evidence[1.0] + 20:
        warn(
            f"{name} misses values or slopes that it has learned from by {missed:.0%} of their spread with C={C:g}, and "
            f"C={C * best:.0e} suits their noise far better. Set C, or use rkhs.FunctionalRegressor, which "
            "learns the noise and the length scales."
        )


def _missed(term: Term, function: Any) -> float:
    """Return the root mean square, by weight, of what f misses of the targets, as a share of their own deviation."""
    weight = to_numpy(term.weights())
    target = to_numpy(term.target).reshape(term.size, -1)
    spread = float(np.sum(weight * (target - np.average(target, axis=0, weights=weight[:, 0])) ** 2))
    values = to_numpy(term.functional(function)).reshape(term.size, -1)
    return float(np.sqrt(np.sum(weight * (values - target) ** 2) / spread)) if spread > 0 else 0.0


def _some(term: Term, share: float) -> Term:
    """Return a term of the observations of some of its points, evenly spaced."""
    rows = int(term.functional.shape[0])
    each = term.size // rows
    kept = np.unique(np.linspace(0, rows - 1, max(2, round(share * rows))).round().astype(int))
    index = (kept[:, None] * each + np.arange(each)).ravel()
    weight = to_numpy(term.weights())[index, 0]
    return Term(term.functional.take(index), term.loss, to_numpy(term.target)[index], weight)
