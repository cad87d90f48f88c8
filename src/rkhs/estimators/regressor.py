"""What all regressors share: a target for some points, and the spread that squared losses leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from rkhs.estimators.folds import user_marks
from rkhs.estimators.machine import Machine, home
from rkhs.estimators.options import REGRESSION, as_loss, check_number
from rkhs.estimators.sample import Sample
from rkhs.estimators.spread import Spread
from rkhs.finite.term import Term
from rkhs.functionals import Evaluation
from rkhs.problem import Problem


class Regressor(RegressorMixin, Machine):
    """A machine that predicts f(x)."""

    def _sample(self, X: Any, y: Any, sample_weight: Any) -> Sample:
        """The merged training points; y is the target."""
        points, given, y, missing = self._validated(X, y)
        y = y.astype(np.float64)
        sample = Sample.of(points, sample_weight, y, ~missing, user_marks(self, y, ~missing))
        if not np.any(sample.labelled):
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

    def _learn(self, problem: Problem) -> None:
        """Solve the problem, whose first term is that of the labels."""
        self._solve(problem)
        squared = all(term.loss.quadratic for term in problem.terms)
        self._spread = Spread(self.problem_) if squared else None

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """f at the rows of X; with `return_std` also its standard deviation, where all losses are squared.

        It is that of a Gaussian process with the kernel as its covariance, a constant without penalty if there is
        an intercept, and noise of variance 1 / (2 C) on targets and 1 / (2 nu) on invariances, given all of them.

        With an approximation the process has two parts: one in the span of p functions, which learns from all rows, and
        one outside of it, which `Landmarks` leave as it was before any data and `FourierFeatures` leave out.  It is the
        same number where the landmarks are the problem's own functionals.  With few landmarks it is too large at most
        points (what rows say about functions outside of the span is not used) and somewhat too small at others; with
        few waves it is too small (once learnt, they are known everywhere).  Take more where that matters.
        """
        values, given = self._values(X, "predict")
        if not return_std:
            return home(values, given)
        if self._spread is None:
            raise ValueError(
                'A standard deviation needs all losses to be squared: use loss="squared" and invariance_loss="squared".'
            )
        return home(values, given), home(self._spread(self._points(given)), given)
