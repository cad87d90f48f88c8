"""Regression with invariances, its weights chosen by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from rkhs._backend.arrays import Vector
from rkhs._finite.solution import Solution
from rkhs.estimators.atomic import all_or_nothing
from rkhs.estimators.cross_validated import CrossValidated
from rkhs.estimators.invariant_regressor import InvariantRegressor
from rkhs.estimators.options import REGRESSION, as_loss
from rkhs.estimators.regressor import Regressor
from rkhs.estimators.sample import Sample
from rkhs.learning.posterior import Posterior
from rkhs.losses import Absolute, Loss, Quantile, Squared, SquaredEpsilonInsensitive
from rkhs.problem import Problem
from rkhs.problem.learnt import left_out_amplitude
from rkhs.stopping import granted

MOST_LEFT_OUT = 4000  # functionals whose matrix is inverted for error bars


class InvariantRegressorCV(CrossValidated, Regressor):
    """`InvariantRegressor` with settings, and the use of unlabelled points, chosen from the data.

    By default (``invariance="auto"``) the kernel, length scales, one for each feature where that predicts better, C,
    and whether and how the graph of nearest neighbours helps are chosen as in `InvariantClassifierCV`.

    With any other `invariance` C and nu are those of the least held-out error: the points with a target are split into
    folds; the targets of one fold are left out at a time, and its points stay, unlabelled.  The grid shares its work
    over folds, C and nu.  The score is minus the mean error at the points left out: squared for the squared losses, the
    quantile's own for "quantile" and absolute for the others.  Among equals the one with the least loss of held-out
    targets is taken.

    Parameters
    ----------
    kernel : "auto", the Gaussian or the Laplace kernel, or as in `InvariantRegressor`
    Cs, nus, scales, metric : as in `InvariantClassifierCV`
    epsilons : the widths to try for losses that are given by name and have one
    invariance : "auto", or as in `InvariantRegressor`
    loss, quantile, invariance_loss, fit_intercept, unlabeled, solver, tol, verbose :
        as in `InvariantRegressor`
    approximation : as in `InvariantRegressor`, of rows in memory: they are summed up once for each scale and epsilon,
        and the grid combines and solves p x p matrices
    cv : the number of folds (no more than there are points), a splitter of scikit-learn for the
        labelled points, or pairs of indices (train, test) of rows of X
    random_state : the seed of the folds, 0 if None
    cv_tol : the relative duality gap to which the models of the grid are solved
    time_limit : seconds for the whole fit, or None.  The search ends after about six tenths of it with the best of
        what was tried, and the model has fewer functions where all would take too long; warnings tell of both
    device, precision : as in `InvariantRegressor`: where, and how exactly, folds, cells of the grid and the model are
        computed; what "auto" judges candidates by is computed on the processor

    Attributes
    ----------
    C_, nu_, scale_, epsilon_ : the best values, together in `best_params_`, with the kernel
    feature_importances_ : as in `InvariantClassifierCV`
    knowledge_report_ : for "auto", as in `InvariantClassifierCV`
    best_score_, best_index_, cv_results_ : as in scikit-learn's `GridSearchCV`; candidates that were not solved to
        `cv_tol` have NaN as their scores and are not chosen
    search_status_ : "converged" if all candidates were solved; otherwise what kept them from it
    function_, solution_, problem_, labelled_ : of the model with the best values, trained on all labels

    Notes
    -----
    `predict(X, return_std=True)` is as in `InvariantRegressor`, but for the amplitude: it is the one by which targets
    that are left out have the spread that is promised, as settings were chosen by leaving them out
    (`solution_.posterior` has the most likely one), times l / (l - q) in squares for q settings that were chosen by l
    targets.  With an approximation, and above 4,000 functionals, it is the most likely one.  Intervals are wider by the
    same factor.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> rkhs.InvariantRegressorCV().fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.9999
    True
    >>> own = {"invariance": "gradient", "Cs": [1, 100], "nus": [0, 1], "cv": 4}
    >>> search = rkhs.InvariantRegressorCV(**own).fit(X, np.sin(X[:, 0]))
    >>> search.best_params_
    {'C': 100.0, 'nu': 0.0}
    """

    plain = InvariantRegressor

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        Cs: Any = None,
        nus: Any = None,
        scales: Any = "median",
        metric: Any = "auto",
        epsilons: Any = 0.1,
        loss: Any = "squared",
        quantile: float = 0.5,
        invariance: Any = "auto",
        invariance_loss: Any = "squared",
        fit_intercept: bool = True,
        unlabeled: Any = None,
        approximation: Any = None,
        cv: Any = 5,
        solver: Any = "auto",
        tol: float = 1e-4,
        cv_tol: float = 1e-2,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.Cs = Cs
        self.nus = nus
        self.scales = scales
        self.metric = metric
        self.epsilons = epsilons
        self.loss = loss
        self.quantile = quantile
        self.invariance = invariance
        self.invariance_loss = invariance_loss
        self.fit_intercept = fit_intercept
        self.unlabeled = unlabeled
        self.approximation = approximation
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.cv_tol = cv_tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.precision = precision

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantRegressorCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their targets y."""
        self._check_rows(X)
        sample = self._sample(X, y, sample_weight)
        self._remember(sample)
        if self._automatic:
            problem = self._choose_knowledge(sample)
            with granted(self._last):
                self._learn(problem, sample)
            return self
        machine = self._choose(sample, KFold, lambda values, points: -mean_error(values, points, self._error()))
        if self.approximation is None:
            self._learn(self._problem_of(machine, sample), sample)
        else:
            self._adopt(machine.fit(X, y, sample_weight))
        return self

    @property
    def _posterior(self) -> Posterior:
        """With the amplitude that targets have when they are left out, as settings were chosen by leaving them out."""
        posterior, problem = super()._posterior, self.problem_
        if problem is None or problem.approximation is not None or problem.null_space == "dropped":
            return posterior
        if sum(term.size for term in problem.terms) > MOST_LEFT_OUT:
            return posterior
        if getattr(self, "_tau", None) is None:
            count = self._rows_each(problem.terms[0].size)
            self._tau = self._widened(int(count.sum())) * left_out_amplitude(problem, count)
        return replace(posterior, amplitude=self._tau)

    def _widened(self, count: int) -> float:
        """Of l targets by which q settings were chosen l - q are left, as of those that a basis is fitted to."""
        return float(count / max(count - self._settings, count / 2)) ** 0.5

    def _keep(self, problem: Problem | None, solution: Solution) -> None:
        super()._keep(problem, solution)
        self._tau = None

    def _error(self) -> Loss:
        """The loss by which held-out points are judged, which has no width to be chosen."""
        loss = as_loss(self.loss, REGRESSION, "loss", tau=self.quantile)
        if isinstance(loss, Quantile):
            return loss
        return Squared() if isinstance(loss, Squared | SquaredEpsilonInsensitive) else Absolute()


def mean_error(values: Vector, sample: Sample, error: Loss) -> float:
    """The mean error, by weight."""
    return float(np.average(error.value(values, sample.y), weights=sample.weight))
