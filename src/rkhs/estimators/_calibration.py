"""Probabilities from decision values f_c, one for each class: a sigmoid whose slope s > 0 is fitted to held-out values.

    P(c | x) = exp(s f_c(x)) / sum_b exp(s f_b(x)),        for two classes 1 / (1 + exp(-s f(x)))

The losses of the classifiers are such that f = 0 is where both classes are as likely, so the sigmoid has no offset,
and the most probable class is the predicted one.  As Platt has it, the likelihood is that of targets somewhat less
than certain, which matters where classes are separated.  All of it is computed when probabilities are asked for the
first time, from one solve of all folds together.

Intervals and sets that hold the truth with a given probability, from labels left out (conformal prediction).

How badly is each label predicted without itself?  A new one is as badly predicted or less with probability

    coverage,   for scores up to the ceil((l + 1) coverage)-th smallest of l,

if points come independently from one source, up to what leaving labels out changes in f (Barber, Candes, Ramdas and
Tibshirani 2021 on when it holds).  Labels are left out one by one where that can be computed, else a tenth of them at a
time (`held_out`): those models know a little less, so intervals are a little long.  Settings that were chosen by the
same labels make intervals a little short.

What labels are predicted to be by models that have not seen them, the settings as they are.

Three ways, the first that there is:

jackknife  each label left out by itself: exact for squared losses, one Newton step for other smooth ones; of 5,000
           functionals at most
span       the same in a span of p functions, from the sums of all rows, for a sample of the labels: with f = E theta
           and h_i = 2 w_i E_i (S + diag(0, I))^-1 E_i', the residual without label i is (y_i - f_i) / (1 - h_i)
folds      models without a tenth of the labels each, all solved together, for any loss

In which proportions classes come among unlabelled rows, from a classifier that learnt from labels in others.

If rows of a class look alike everywhere and only the proportions differ, the likelihood of the rows is largest for the
p that is a fixed point of

    P(c | x)  in proportion to  (p_c / q_c) P_trained(c | x),        p_c = mean over the rows of P(c | x),

q being the proportions of the labels (Saerens, Latinne and Decaestecker, Adjusting the outputs of a classifier to new a
priori probabilities, 2002: expectation maximisation).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.function import FeatureFunction, Function
from rkhs.estimators._cross_validation import dealt, fold_values, smallest_class
from rkhs.estimators._problem import invariant_problem
from rkhs.functionals import Evaluation
from rkhs.learning.leave_one_out import left_out_in_subspace, left_out_of
from rkhs.problem import Problem

PLATT_FOLDS = 5
SLOPES = (1e-4, 1e4)  # relative to the size of the values


@dataclass(eq=False)
class Calibration:
    """The sigmoid of a problem whose first term holds the labels."""

    problem: Problem
    function: Function  # its solution, for sets too small to hold anything out
    codes: Vector  # (l,) the class of each labelled point
    weight: Vector  # (l,)
    count: Vector  # (l,) rows that it stands for
    copies: int = 1  # of each point, one set of them after the other, which are held out together

    def probabilities(self, values: Vector) -> Vector:
        """(t, classes) from decision values (t,) or (t, classes)."""
        return probabilities(self.slope, values)

    @cached_property
    def slope(self) -> float:
        """s."""
        values, rows, times = self._held_out_values()
        return fitted_slope(per_class(values), self.codes[rows], (self.weight / self.count)[rows] * times)

    def _held_out_values(self) -> tuple[Vector, Vector, Vector]:
        """Return decision values at labelled points, from models that did not see some of their rows.

        With them, which points these are, and how many rows; as from `fold_values`.
        """
        points, size = self.problem.terms[0].functional, len(self.codes) // self.copies
        codes, count = self.codes[:size], self.count[:size]
        folds = min(PLATT_FOLDS, smallest_class(codes, count))
        if folds < 2:
            return to_numpy(points(self.function)), np.arange(len(self.codes)), self.count
        left_out = dealt(StratifiedKFold(folds, shuffle=True, random_state=0), count, codes)
        return fold_values(self.problem, np.tile(left_out, (self.copies, 1)), self.count, "Probabilities")


def fitted_slope(values: Vector, codes: Vector, weight: Vector) -> float:
    """The s of largest likelihood, with Platt's targets: (l_c + 1) / (l_c + 2) for a class of l_c points.

    Examples
    --------
    >>> import numpy as np
    >>> f = np.array([[1.0, -1.0], [0.5, -0.5], [-1.0, 1.0], [0.5, -0.5]])
    >>> round(fitted_slope(f, np.array([0, 0, 1, 1]), np.ones(4)), 2)
    0.42
    """
    count = values.shape[1]
    totals = np.bincount(codes, weights=weight, minlength=count)
    sure = ((totals + 1) / (totals + 2))[codes]
    goal = np.where(codes[:, None] == np.arange(count), sure[:, None], ((1 - sure) / (count - 1))[:, None])
    size = float(np.abs(values).max(initial=0.0)) or 1.0

    def cost(log_slope: float) -> float:
        return -float(weight @ np.sum(goal * log_softmax(np.exp(log_slope) / size * values, axis=1), axis=1))

    found = minimize_scalar(cost, bounds=np.log(SLOPES), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x)) / size


def probabilities(slope: float, values: Vector) -> Vector:
    """(t, classes) from decision values (t,) or (t, classes): the formula at the top."""
    return np.asarray(softmax(slope * per_class(values), axis=1))


def per_class(values: Vector) -> Vector:
    """(t, classes): for two classes f stands for the difference, so each has half of it."""
    return values if values.ndim == 2 else np.column_stack([-values / 2, values / 2])


def bound(scores: Vector, coverage: float, times: Vector) -> float:
    """Return the score that a new label does not exceed with the given probability; infinite for too few labels.

    A score stands for as many labels as `times` says, all of the same features.

    Examples
    --------
    >>> bound(np.arange(1.0, 20.0), 0.9, np.ones(19))
    18.0
    >>> bound(np.arange(1.0, 5.0), 0.9, np.ones(4))
    inf
    """
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
    rank = ceil((np.sum(times) + 1) * float(coverage))
    order = np.argsort(scores)
    place = int(np.searchsorted(np.cumsum(times[order]), rank))
    return float(scores[order][place]) if place < len(scores) else inf


def class_scores(values: Vector) -> Vector:
    """(t, classes): by how much f of the best other class is above that of each class; from (t,) for two classes."""
    own = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    best = np.argsort(own, axis=1)
    first, second = (np.take_along_axis(own, best[:, -k][:, None], axis=1) for k in (1, 2))
    others = np.where(np.arange(own.shape[1]) == best[:, -1:], second, first)
    return np.asarray(others - own)


LEFT_OUT_FOLDS = 10
DENSE = 5000  # functionals whose matrix is inverted to leave labels out one by one


@dataclass(frozen=True, eq=False)
class Judged:
    """Labels predicted by models without them, and what they are: (l,) or (l, outputs), each of `times` equal rows."""

    predicted: Vector
    target: Vector
    times: Vector  # (l,)


def left_out_labels(machine: Any) -> Judged:
    """Return cached leave-one-out predictions of a fitted model: of rows, each without itself, its twins staying."""
    found = getattr(machine, "_left_out", None)
    if found is None:
        found = machine._left_out = _left_out(machine)
    return found


def _left_out(machine: Any) -> Judged:
    problem, copies = machine.problem_, getattr(getattr(machine, "_calibration", None), "copies", 1)
    if problem is None:
        drawn = getattr(machine, "_drawn", None)
        if drawn is not None:
            predicted, target = left_out_in_subspace(machine.solution_, drawn), to_numpy(drawn.target)
            return Judged(predicted, target, np.ones(len(target)))
        problem, count = _problem_of(machine)
    else:
        count = machine._rows_each(problem.terms[0].size)
    term = problem.terms[0]
    if not isinstance(term.functional, Evaluation):
        raise ValueError(
            f"{type(machine).__name__} was learnt without targets at points: no interval is known of what has none."
        )
    if copies == 1 and _one_by_one(problem):
        predicted = to_numpy(left_out_of(problem, None, count).predictions[0])
        return Judged(predicted, to_numpy(term.target), count)
    size = term.size // copies
    total = int(count[:size].sum())
    if total < 2:
        raise ValueError(f"{type(machine).__name__} was learnt from one label: without it nothing is known.")
    left_out = dealt(KFold(min(LEFT_OUT_FOLDS, total), shuffle=True, random_state=0), count[:size])
    values, rows, times = fold_values(problem, np.tile(left_out, (copies, 1)), count, "Intervals and sets")
    own = rows < size  # copies are judged with their originals
    return Judged(values[own], to_numpy(term.target)[rows[own]], times[own])


def _one_by_one(problem: Problem) -> bool:
    """Whether `Problem.leave_out` knows it, in a matrix of moderate size."""
    whole = problem.approximation is None and problem.null_space != "dropped"
    return whole and all(one.loss.smooth for one in problem.terms) and sum(one.size for one in problem.terms) <= DENSE


def _problem_of(machine: Any) -> tuple[Problem, Vector]:
    """Return the problem of rows in memory that was solved as a stream, and the rows of each of its labels."""
    rows = getattr(machine, "_rows", None)
    if rows is None:
        raise ValueError(
            f"{type(machine).__name__} has learnt loss={machine.loss!r} from blocks, or was loaded from a file, and "
            "has no rows at hand to leave out: use squared losses, whose sums are enough, or fit arrays and ask for "
            "intervals or sets once before it is saved."
        )
    function = machine.function_
    kernel = function.features.kernel if isinstance(function, FeatureFunction) else function.kernel
    own = clone(rows[0]).set_params(kernel=kernel, scale="median")  # which says nothing of a kernel that has its scale
    sample = own._sample(*rows[1:])
    return invariant_problem(own, sample), sample.count[sample.labelled]


STEPS, STILL = 10_000, 1e-9


def class_proportions(model: Any, X: Any, y: Any) -> dict[Any, float]:
    """The proportions of the classes among the rows of X, for `class_prior`.

    Parameters
    ----------
    model : a fitted classifier with `predict_proba`, of this library or another
    X : (t, n) rows whose proportions are asked for, labelled or not
    y : the labels that the model learnt from; what is none of its classes counts as no label

    Returns
    -------
    The share of each class.  Estimates are as good as the probabilities: with few labels expect some hundredths.

    Examples
    --------
    Labels came as often from each class, and rows do not:

    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-1.5, 1, (900, 1)), rng.normal(1.5, 1, (100, 1))])
    >>> y = np.full(1000, -1)
    >>> y[:40], y[900:940] = 0, 1
    >>> model = rkhs.InvariantClassifier(loss="logistic", invariance=None, scale=2.0).fit(X, y)
    >>> shares = rkhs.class_proportions(model, X, y)
    >>> 0.85 < shares[0] < 0.95
    True
    >>> model = model.set_params(class_prior=shares).fit(X, y)
    """
    if not hasattr(model, "predict_proba"):
        raise TypeError(f"Proportions are estimated from probabilities, and {model!r} has no predict_proba.")
    classes, labels = np.asarray(model.classes_), to_numpy(y).ravel()
    trained = np.array([np.count_nonzero(labels == c) for c in classes], dtype=float)
    if np.any(trained == 0):
        raise ValueError(
            f"y has no label of {classes[trained == 0].tolist()}, which {type(model).__name__} learnt from."
        )
    chances = np.asarray(to_numpy(model.predict_proba(X)), dtype=float)
    if len(chances) == 0:
        raise ValueError("X has no rows: proportions of nothing are not known.")
    trained /= trained.sum()
    shares = trained
    for _ in range(STEPS):
        own = chances * (shares / trained)
        new = np.mean(own / np.maximum(own.sum(axis=1, keepdims=True), np.finfo(float).tiny), axis=0)
        moved, shares = float(np.abs(new - shares).max()), new
        if moved <= STILL:
            break
    return dict(zip(classes.tolist(), shares.tolist(), strict=True))
