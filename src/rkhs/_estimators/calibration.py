"""What labels are worth that a fitted model has not seen: probabilities, intervals, sets, and proportions of classes.

**Held-out predictions** (`HeldOutLabels`), the settings as they are, in the first of three ways that there is:

jackknife  each label left out by itself: exact for squared losses, one Newton step for other smooth ones; of 5,000
           functionals at most
span       the same in a span of p functions, from the sums of all rows, for a sample of the labels: with f = E theta
           and h_i = 2 w_i E_i (S + diag(0, I))^-1 E_i', the residual without label i is (y_i - f_i) / (1 - h_i)
folds      models without a tenth of the labels each, all solved together, for any loss

**Probabilities** (`Calibration`) from decision values f_c, one for each class: a sigmoid whose slope s > 0 is fitted to
held-out values.

    P(c | x) = exp(s f_c(x)) / sum_b exp(s f_b(x)),        for two classes 1 / (1 + exp(-s f(x)))

f = 0 is where both classes are as likely, so the sigmoid has no offset, and the most probable class is the predicted
one.  As by Platt, the likelihood is that of targets somewhat less than certain, which matters for separated classes.

**Intervals and sets** (`bound`) hold the truth with a given probability (conformal prediction).  How badly is each
label predicted without itself?  A new one is as badly predicted or less with probability

    coverage,   for scores up to the ceil((l + 1) coverage)-th smallest of l,

if points come independently from one source, up to what leaving labels out changes in f (Barber, Candes, Ramdas and
Tibshirani 2021 on when it holds).  Models without a tenth of the labels know a little less, so that their intervals are
a little long; settings that were chosen by the same labels make intervals a little short.
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

from rkhs._backend.arrays import Matrix, Vector, to_numpy
from rkhs._estimators.cross_validation import dealt, fold_values, smallest_class
from rkhs._estimators.options import ModelConfig
from rkhs._estimators.problem import formulate
from rkhs._finite.function import Function
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._learning.leave_one_out import left_out_in_subspace, left_out_of
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional

DENSE = 5000  # functionals whose matrix is inverted to leave labels out one by one


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Labels predicted by models without them, and the labels: (l,) or (l, outputs), each of `times` equal rows."""

    predicted: Vector
    target: Vector
    times: Vector  # (l,)


@dataclass(eq=False)
class HeldOutLabels:
    """The labels of a fitted model, in the first term of its problem, predicted without themselves, row by row."""

    estimator: str  # the name of its class, for messages
    problem: Problem
    count: Vector  # (l,) rows that each labeled point stands for
    copies: int = 1  # of each point, one set of them after the other, which are held out together

    @cached_property
    def labels(self) -> HeldOutPredictions:
        term, size = self.problem.terms[0], self.problem.terms[0].size // self.copies
        if not isinstance(term.functional, Evaluation):
            raise ValueError(f"{self.estimator} was learned without targets at points: no interval is known.")
        problem = self.problem
        whole = self.copies == 1 and problem.approximation is None and problem.null_space != "dropped"
        smooth = all(one.loss.smooth for one in problem.terms)
        if whole and smooth and sum(one.size for one in problem.terms) <= DENSE:
            predicted = to_numpy(left_out_of(problem, None, self.count).predictions[0])
            return HeldOutPredictions(predicted, to_numpy(term.target), self.count)
        total = int(self.count[:size].sum())
        if total < 2:
            raise ValueError(f"{self.estimator} was learned from one label: without it nothing is known.")
        left_out = dealt(KFold(min(10, total), shuffle=True, random_state=0), self.count[:size])
        values, rows, times = fold_values(
            self.problem, np.tile(left_out, (self.copies, 1)), self.count, "Intervals and sets"
        )
        own = rows < size  # copies are left out with their originals
        return HeldOutPredictions(values[own], to_numpy(term.target)[rows[own]], times[own])


@dataclass(frozen=True, eq=False)
class HeldOutOfSums:
    """Some labels of a model in a subspace, left out of the sums of all rows."""

    term: Term
    solution: Solution

    @cached_property
    def labels(self) -> HeldOutPredictions:
        target = to_numpy(self.term.target)
        return HeldOutPredictions(left_out_in_subspace(self.solution, self.term), target, np.ones(len(target)))


@dataclass(eq=False)
class HeldOutOfRows:
    """The labels of a model in a span whose losses have no sums: folds of the rows, while these are in memory."""

    estimator: str
    loss: Any
    unfitted: Any = None  # an estimator with the kernel of the model
    rows: tuple[Any, Any, Any] | None = None  # X, y and sample weights of the user, which are in no file

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "unfitted": None, "rows": None}

    @cached_property
    def labels(self) -> HeldOutPredictions:
        if self.rows is None:
            raise ValueError(
                f"{self.estimator} has learned loss={self.loss!r} from blocks, or was loaded from a file, and has no "
                "rows at hand to leave out: use squared losses, whose sums are enough, or fit arrays and ask for "
                "intervals or sets once before it is saved."
            )
        return self.held_out().labels

    def held_out(self) -> HeldOutLabels:
        """Return the labels of all rows as those of one problem."""
        sample = self.unfitted._sample(*(self.rows or ()))
        problem = formulate(ModelConfig.of(self.unfitted), sample).problem
        return HeldOutLabels(self.estimator, problem, sample.count[sample.labeled])


@dataclass(eq=False)
class Calibration:
    """The sigmoid of a classifier, whose slope is fitted to held-out values of f, or to f at `points` without any."""

    function: Function
    points: Functional
    codes: Vector  # (l,) the class of each point
    weight: Vector  # (l,)
    held_out: HeldOutLabels | None = None

    @cached_property
    def slope(self) -> float:
        values, rows, shares = self._held_out_values()
        return fitted_slope(per_class(values), self.codes[rows], self.weight[rows] * shares)

    def _held_out_values(self) -> tuple[Vector, Vector, Vector]:
        """Return f at labels, from stratified folds unless a class has one row; which labels; and shares of rows."""
        own = self.held_out
        if own is not None:
            size = len(self.codes) // own.copies
            codes, count = self.codes[:size], own.count[:size]
            folds = min(5, smallest_class(codes, count))
            if folds > 1:
                left_out = dealt(StratifiedKFold(folds, shuffle=True, random_state=0), count, codes)
                left_out = np.tile(left_out, (own.copies, 1))
                values, rows, times = fold_values(own.problem, left_out, own.count, "Probabilities")
                return values, rows, times / own.count[rows]
        return to_numpy(self.points(self.function)), np.arange(len(self.codes)), np.ones(len(self.codes))


def fitted_slope(values: Matrix, codes: Vector, weight: Vector) -> float:
    """Return the s of largest likelihood, with Platt's targets: (l_c + 1) / (l_c + 2) for a class of l_c points."""
    count = values.shape[1]
    totals = np.bincount(codes, weights=weight, minlength=count)
    sure = ((totals + 1) / (totals + 2))[codes]
    goal = np.where(codes[:, None] == np.arange(count), sure[:, None], ((1 - sure) / (count - 1))[:, None])
    size = float(np.abs(values).max(initial=0.0)) or 1.0

    def cost(log_slope: float) -> float:
        return -float(weight @ np.sum(goal * log_softmax(np.exp(log_slope) / size * values, axis=1), axis=1))

    found = minimize_scalar(cost, bounds=np.log((1e-4, 1e4)), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x)) / size


def per_class(values: Vector) -> Matrix:
    """Return (t, classes): for two classes f stands for the difference, so each has half of it."""
    return values if values.ndim == 2 else np.column_stack([-values / 2, values / 2])


def bound(scores: Vector, coverage: float, times: Vector) -> float:
    """Return the score that a new label does not exceed with the given probability; infinite for too few labels.

    A score stands for `times` labels, all of the same features.
    """
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
    rank = ceil((np.sum(times) + 1) * float(coverage))
    order = np.argsort(scores)
    place = int(np.searchsorted(np.cumsum(times[order]), rank))
    return float(scores[order][place]) if place < len(scores) else inf


def class_scores(values: Vector) -> Matrix:
    """Return (t, classes) by how much f of the best other class is above that of each; from (t,) for two classes."""
    own = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    best = np.argsort(own, axis=1)
    first, second = (np.take_along_axis(own, best[:, -k][:, None], axis=1) for k in (1, 2))
    others = np.where(np.arange(own.shape[1]) == best[:, -1:], second, first)
    return np.asarray(others - own)
