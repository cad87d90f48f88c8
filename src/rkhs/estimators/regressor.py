"""What all regressors share: a target for some points, and the spread that squared losses leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs.estimators.conformal import bound
from rkhs.estimators.folds import user_marks
from rkhs.estimators.held_out import left_out_labels
from rkhs.estimators.machine import Machine, home
from rkhs.estimators.options import REGRESSION, as_loss, check_number
from rkhs.estimators.sample import Sample
from rkhs.estimators.targets import check_columns_of, checked_slopes, warn_of_units
from rkhs.estimators.terms import keeps_rows
from rkhs.functionals import Evaluation, Gradient
from rkhs.learning.posterior import Posterior
from rkhs.problem import Problem


class Regressor(RegressorMixin, Machine):
    """A machine that predicts f(x)."""

    def _sample(self, X: Any, y: Any, sample_weight: Any, gradients: Any = None) -> Sample:
        """The merged training points; y is the target."""
        points, given, y, missing = self._validated(X, y)
        y = y.astype(np.float64)
        outputs = y.shape[1] if y.ndim == 2 else None
        check_columns_of(gradients, self, "gradients")
        slopes = None if gradients is None else checked_slopes(gradients, points, outputs)
        if slopes is not None:
            known = np.where(missing if outputs is None else missing[:, None], np.nan, y)
            warn_of_units(to_numpy(points).astype(np.float64), known, slopes)
        own = y, ~missing, user_marks(self, y, ~missing), slopes
        sample = Sample.of(points, sample_weight, *own, merge=not keeps_rows(self))
        if not np.any(sample.labelled) and slopes is None:
            raise ValueError(f"{type(self).__name__} needs points with a target; every y is unlabelled.")
        self.labelled_ = home(~missing, given)
        return sample

    def _label_term(self, sample: Sample, C: float) -> Term:
        """C * sum over the labelled points of sample weight * loss(f(x_i); y_i)."""
        labelled = sample.take(sample.labelled)
        loss = as_loss(self.loss, REGRESSION, "loss", getattr(self, "epsilon", 0.1), getattr(self, "quantile", 0.5))
        return Term(
            Evaluation(labelled.X),
            loss,
            target=labelled.y,
            weight=check_number(C, "C") * labelled.weight,
        )

    def _slope_term(self, sample: Sample, C: float) -> Term:
        """The same of measured slopes, each with `gradient_weight`; by default C times the variance of its feature.

        A slope times the spread of its feature has the units of the target.
        """
        own: Any = self
        slopes: Any = sample.slopes
        known = sample.take(~np.all(np.isnan(slopes.reshape(sample.size, -1)), axis=1))
        n = int(known.X.shape[1])
        if own.gradient_weight is None:
            X = to_numpy(sample.X).astype(np.float64)
            factors = check_number(C, "C") * np.cov(X.T, ddof=0, fweights=sample.count).reshape(n, n).diagonal()
        else:
            factors = np.full(n, check_number(own.gradient_weight, "gradient_weight"))
        return Term(
            Gradient(known.X),
            as_loss(own.gradient_loss, REGRESSION, "gradient_loss", own.epsilon, own.quantile),
            target=known.slopes,
            weight=np.outer(known.weight, factors).reshape(known.X.shape),
        )

    def _learn(self, problem: Problem, sample: Sample) -> None:
        """Solve the problem, whose first term is that of the labels, and keep how many rows each of them stands for."""
        self._solve(problem)
        self._count_rows(sample.take(sample.labelled))
        source = self.solution_.source
        if source is not None:
            self.solution_ = replace(self.solution_, source=source.with_repeats(sample.repeats))

    def _keep(self, problem: Problem | None, solution: Solution) -> None:
        super()._keep(problem, solution)
        own: Any = self
        unit = getattr(own, "_unit", 1.0)  # of the kernel
        self._weight = float(own.C_ if hasattr(own, "C_") else own.C) / unit  # of a target, whatever becomes of C

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """f at the rows of X; with `return_std` also the standard deviation of a new target there, or all covariances.

        For squared losses only.  f is a Gaussian process with covariance tau^2 times the kernel, a constant without
        penalty if there is an intercept, and noise of variance tau^2 / (2 w) on targets, a new one included, and on
        invariances, given all of them, with the weights w of their terms: C of a target, where values of the kernel
        have variance one.  tau makes the targets most likely, so that it has their units.  Without the noise, and for
        anything but values: `solution_.posterior`.

        With an approximation the process has two parts: one in the span of p functions, which learns from all rows, and
        one outside of it, which `Landmarks` leave as it was before any data and `FourierFeatures` leave out.  It is the
        same number where the landmarks are the problem's own functionals.  With few landmarks it is too large at most
        points (what rows say about functions outside of the span is not used) and somewhat too small at others; with
        few waves it is too small (once learnt, they are known everywhere).  Take more where that matters.
        """
        if return_std and return_cov:
            raise ValueError("A standard deviation is the root of the covariances' diagonal: ask for one of them.")
        if return_cov:
            given = self._given(X, "predict")
            Posterior.check_memory(int(given.shape[0]), self._points(given[:0]))
        values, given = self._values(X, "predict")
        if not (return_std or return_cov):
            return home(values, given)
        self._check_spread()
        posterior, points = self._posterior, Evaluation(self._points(given))
        spread = (posterior.std if return_std else posterior.cov)(points, weight=self._weight)
        return home(values, given), home(spread, given)

    def predict_gradient(self, X: Any, return_std: bool = False) -> Any:
        """The slopes of f at the rows of X, (t, n), with a last axis for several outputs.

        With `return_std`, for squared losses only, also the standard deviation of each slope of f itself, without the
        noise that a new measurement of it would have.

        They are slopes in the features that this regressor sees.  Behind a scaler, a feature is (x - mean) / spread: so
        slopes in the units of the data are `predict_gradient(scaler.transform(X)) / scaler.scale_`, and `gradients` to
        be learnt from are given as `G * scaler.scale_`.
        """
        values, given = self._values(X, "predict_gradient", Gradient)
        if not return_std:
            return home(values, given)
        self._check_spread()
        spread = self._posterior.std(Gradient(self._points(given)))
        return home(values, given), home(spread, given)

    @property
    def _posterior(self) -> Posterior:
        """What error bars come from."""
        return self.solution_.posterior

    def _widened(self, count: int) -> float:
        """By how much errors at so many left-out targets are short of those at new points."""
        return 1.0

    def _check_spread(self) -> None:
        if self.solution_.source is None:
            raise ValueError(
                'A standard deviation needs all losses to be squared: use loss="squared" and invariance_loss="squared".'
            )

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Intervals around f that hold a new target with the given probability: (t, 2), or (t, outputs, 2).

        All have one width, that of errors at targets which are left out (`rkhs.estimators.conformal` on when it holds);
        nothing is assumed about noise.  It is infinite where there are fewer than coverage / (1 - coverage) targets.
        The first call leaves them out: one by one for smooth losses, a tenth at a time for others.

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
        judged = left_out_labels(self)
        residuals = np.abs(judged.predicted - judged.target)
        width = np.array([bound(own, coverage, judged.times) for own in residuals.reshape(len(residuals), -1).T])
        centre = to_numpy(values)
        width = self._widened(int(judged.times.sum())) * (width if centre.ndim > 1 else width[0])
        return home(np.stack([centre - width, centre + width], axis=-1), given)


def likely_spread(model: Any, X: Vector) -> Vector:
    """The standard deviation of a new target at rows of X, by the most likely amplitude, whatever the model is.

    Searches have error bars of their own (`InvariantRegressorCV`): a factor that is found with models of folds, which
    are no searches, needs one rule for both.
    """
    return to_numpy(model.solution_.posterior.std(Evaluation(X), weight=model._weight))
