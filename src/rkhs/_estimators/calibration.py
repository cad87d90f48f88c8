"""Held-out predictions of a fitted model, and what follows from them: probabilities, intervals and prediction sets.

**Held-out predictions** (`HeldOutLabels`) keep the settings of the model and use the first method that applies:

jackknife  each label is left out by itself: exact for squared losses, one Newton step for other smooth losses; for up
           to 5,000 functionals
subspace   the same in a span of p functions, from the sums over all rows, for a sample of the labels: with f = E theta
           and h_i = 2 w_i E_i (S + diag(0, I))^-1 E_i', the residual without label i is (y_i - f_i) / (1 - h_i)
folds      models without a tenth of the labels each, all solved together, for any loss

**Probabilities** (`Calibration`) are a softmax of the decision values f_c, one for each class, whose slope s > 0 is
fitted to held-out values (Platt scaling):

    P(c | x) = exp(s f_c(x)) / sum_b exp(s f_b(x)),        for two classes 1 / (1 + exp(-s f(x)))

The sigmoid has no offset, so that f = 0 has equal probabilities and the most probable class is the predicted one.  The
targets of the likelihood are Platt's, slightly less than certain, which matters if the classes are separated.

**Intervals and sets** (`bound`) are conformal: they contain the truth with a given probability.  Let the score of a
label measure the error of its held-out prediction.  If points are drawn independently from one distribution, the score
of a new label is with probability

    coverage   at most the ceil((l + 1) coverage)-th smallest of l scores,

up to the change of f when labels are left out (Barber, Candes, Ramdas and Tibshirani 2021, Predictive inference with
the jackknife+).  Models without a tenth of the labels are slightly worse, which makes intervals slightly too long;
settings that were chosen by the same labels make them slightly too short.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import KFold, StratifiedKFold

from rkhs._backend.arrays import Matrix, Vector, double, to_numpy
from rkhs._estimators.folds import fold_values, rows_per_fold, smallest_class
from rkhs._estimators.formulation import ModelConfig
from rkhs._estimators.length_scales import formulate
from rkhs._finite.function import Function
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._learning.leave_one_out import left_out_in_subspace, left_out_of
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional

SAMPLED = 1000  # labels that are left out of larger problems
DENSE = 5000  # functionals up to which their matrix is inverted, to leave labels out one by one


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Labels and their predictions by models that have not seen them."""

    predicted: Vector  # (l,) or (l, outputs)
    target: Vector  # of the same shape
    times: Vector  # (l,) the number of equal rows that each label stands for


@dataclass(eq=False)
class HeldOutLabels:
    """Held-out predictions for the labels in the first term of a problem, by the jackknife or by folds."""

    estimator: str  # the name of its class, for messages
    problem: Problem
    count: Vector  # (l,) the number of equal rows that each labeled point stands for
    copies: int = 1  # sets of points in the term, one after the other; copies of a point are held out together
    solution: Solution | None = None  # of the problem

    @cached_property
    def labels(self) -> HeldOutPredictions:
        term, size = self.problem.terms[0], self.problem.terms[0].size // self.copies
        if not isinstance(term.functional, Evaluation):
            raise ValueError(
                f"{self.estimator} was fitted without targets at points, which intervals are calibrated by: pass y."
            )
        problem = self.problem
        exact = self.copies == 1 and problem.approximation is None and problem.null_space != "dropped"
        smooth = all(t.loss.smooth for t in problem.terms)
        if exact and smooth and sum(t.size for t in problem.terms) <= DENSE:
            predicted = to_numpy(left_out_of(problem, None, self.count).predictions[0])
            return HeldOutPredictions(predicted, to_numpy(term.target), self.count)
        source = None if self.solution is None else self.solution.source
        if exact and source is not None and len(problem.terms) == 1:
            rows, residuals, _ = sampled_residuals(self.solution, self.count)
            target = to_numpy(term.target)[rows]
            return HeldOutPredictions(target - residuals.reshape(target.shape), target, np.ones(len(rows)))
        total = int(self.count[:size].sum())
        if total < 2:
            raise ValueError(
                f"{self.estimator} was fitted to a single label, which cannot be left out: intervals and sets need two "
                "labels or more."
            )
        left_out = rows_per_fold(KFold(min(10, total), shuffle=True, random_state=0), self.count[:size])
        values, rows, times = fold_values(
            self.problem, np.tile(left_out, (self.copies, 1)), self.count, "Intervals and sets"
        )
        original = rows < size  # copies are left out with their originals, and only the latter are scored
        return HeldOutPredictions(values[original], to_numpy(term.target)[rows[original]], times[original])


def sampled_residuals(solution: Any, count: Vector) -> tuple[Vector, Matrix, Vector]:
    """Return a sample of the rows, their leave-one-out residuals (m, c), and the variances (m,) of their targets.

    The variances are in units of tau^2.  Rows that stand for several equal ones are not drawn, if there are others.
    """
    single = np.flatnonzero(count == 1)
    among = single if len(single) >= SAMPLED else np.arange(len(count))
    rows = np.sort(np.random.default_rng(0).permutation(among)[:SAMPLED])
    variance = solution.source.spread.left_out_variance(rows)
    coefficients = double(solution.function.coefficients).reshape(len(count), -1)
    return rows, coefficients[rows] * variance[:, None], variance


@dataclass(frozen=True, eq=False)
class HeldOutInSubspace:
    """Held-out predictions for a sample of the labels of a model in a subspace, from the sums over all rows."""

    term: Term
    solution: Solution

    @cached_property
    def labels(self) -> HeldOutPredictions:
        target = to_numpy(self.term.target)
        return HeldOutPredictions(left_out_in_subspace(self.solution, self.term), target, np.ones(len(target)))


@dataclass(eq=False)
class HeldOutByFolds:
    """Held-out predictions of a model in a subspace with losses that are not squared, by folds of the rows."""

    estimator: str
    loss: Any
    unfitted: Any = None  # an estimator that validates the rows
    config: ModelConfig | None = None  # with the kernel of the model
    rows: tuple[Any, Any, Any] | None = None  # X, y and sample weights of the user, which are not saved

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "unfitted": None, "config": None, "rows": None}

    @cached_property
    def labels(self) -> HeldOutPredictions:
        if self.rows is None:
            raise ValueError(
                f"{self.estimator} was fitted to blocks with loss={self.loss!r}, or loaded from a file, and has no "
                "rows in memory to leave out: use squared losses, which need only sums, or fit arrays and call "
                "predict_interval or predict_set once before saving."
            )
        assert self.config is not None
        sample = self.unfitted._sample(*self.rows)
        problem, _ = formulate(self.config, sample).problem(sample)
        return HeldOutLabels(self.estimator, problem, sample.count[sample.labeled]).labels


@dataclass(eq=False)
class Calibration:
    """The sigmoid of a classifier; its slope is fitted to held-out values of f, or else to the values at `points`."""

    function: Function
    points: Functional
    codes: Vector  # (l,) the class index of each point
    weight: Vector  # (l,)
    held_out: HeldOutLabels | None = None

    @cached_property
    def slope(self) -> float:
        values, rows, shares = self._held_out_values()
        return fitted_slope(per_class(values), self.codes[rows], self.weight[rows] * shares)

    def _held_out_values(self) -> tuple[Vector, Vector, Vector]:
        """Return values of f at labels, the index of each label, and the share of its rows that each value is for.

        The values come from stratified folds, unless a class has a single row or nothing can be held out.
        """
        held_out = self.held_out
        if held_out is not None:
            size = len(self.codes) // held_out.copies
            codes, count = self.codes[:size], held_out.count[:size]
            folds = min(5, smallest_class(codes, count))
            if folds > 1:
                left_out = rows_per_fold(StratifiedKFold(folds, shuffle=True, random_state=0), count, codes)
                left_out = np.tile(left_out, (held_out.copies, 1))
                values, rows, times = fold_values(held_out.problem, left_out, held_out.count, "Probabilities")
                return values, rows, times / held_out.count[rows]
        return to_numpy(self.points(self.function)), np.arange(len(self.codes)), np.ones(len(self.codes))


def fitted_slope(values: Matrix, codes: Vector, weight: Vector) -> float:
    """Return the slope s of maximum likelihood, with Platt's target (l_c + 1) / (l_c + 2) for a class of l_c points."""
    count = values.shape[1]
    totals = np.bincount(codes, weights=weight, minlength=count)
    certainty = ((totals + 1) / (totals + 2))[codes]
    others = (1 - certainty) / (count - 1)
    targets = np.where(codes[:, None] == np.arange(count), certainty[:, None], others[:, None])
    size = float(np.abs(values).max(initial=0.0)) or 1.0

    def cost(log_slope: float) -> float:
        return -float(weight @ np.sum(targets * log_softmax(np.exp(log_slope) / size * values, axis=1), axis=1))

    result = minimize_scalar(cost, bounds=np.log((1e-4, 1e4)), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(result.x)) / size


def per_class(values: Vector) -> Matrix:
    """Return one score per class (t, classes); for two classes, f (t,) is the difference of -f/2 and f/2."""
    return values if values.ndim == 2 else np.column_stack([-values / 2, values / 2])


def bound(scores: Vector, coverage: float, times: Vector) -> float:
    """Return the score that a new label does not exceed with probability `coverage`; infinity for too few labels.

    Each of the scores (l,) counts `times` (l,).
    """
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
    rank = ceil((np.sum(times) + 1) * float(coverage))  # of l + 1 exchangeable scores
    order = np.argsort(scores)
    index = int(np.searchsorted(np.cumsum(times[order]), rank))
    return float(scores[order][index]) if index < len(scores) else inf


def class_scores(values: Vector) -> Matrix:
    """Return the conformity scores (t, classes): the largest f of the other classes minus that of the class."""
    decision = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    order = np.argsort(decision, axis=1)
    first, second = (np.take_along_axis(decision, order[:, -k][:, None], axis=1) for k in (1, 2))
    others = np.where(np.arange(decision.shape[1]) == order[:, -1:], second, first)
    return np.asarray(others - decision)
