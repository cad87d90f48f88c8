"""What labels are predicted to be by models that have not seen them, the settings as they are.

Three ways, the first that there is:

jackknife  each label left out by itself: exact for squared losses, one Newton step for other smooth ones; of 5,000
           functionals at most
span       the same in a span of p functions, from the sums of all rows, for a sample of the labels: with f = E theta
           and h_i = 2 w_i E_i (S + diag(0, I))^-1 E_i', the residual without label i is (y_i - f_i) / (1 - h_i)
folds      models without a tenth of the labels each, all solved together, for any loss
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.feature_function import FeatureFunction
from rkhs._finite.term import Term
from rkhs.estimators.folds import dealt
from rkhs.estimators.invariant_problem import invariant_problem
from rkhs.estimators.refits import fold_values
from rkhs.functionals import Evaluation
from rkhs.problem import Problem
from rkhs.problem.learnt import left_out_of

FOLDS = 10
DENSE = 5000  # functionals whose matrix is inverted to leave labels out one by one
EXPLAINED = 1e-8  # of a label that others say nothing about: it is predicted by itself alone


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
            return _in_span(machine, drawn)
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
    left_out = dealt(KFold(min(FOLDS, total), shuffle=True, random_state=0), count[:size])
    values, rows, times = fold_values(problem, np.tile(left_out, (copies, 1)), count, "Intervals and sets")
    own = rows < size  # copies are judged with their originals
    return Judged(values[own], to_numpy(term.target)[rows[own]], times[own])


def _one_by_one(problem: Problem) -> bool:
    """Whether `Problem.leave_out` knows it, in a matrix of moderate size."""
    whole = problem.approximation is None and problem.null_space != "dropped"
    return whole and all(one.loss.smooth for one in problem.terms) and sum(one.size for one in problem.terms) <= DENSE


def _in_span(machine: Any, drawn: Term) -> Judged:
    """Of a sample of the labels, from the sums of all rows."""
    target, weight = to_numpy(drawn.target), to_numpy(drawn.weights())[:, 0]
    fitted = to_numpy(drawn.functional(machine.function_))
    share = 1 - 2 * weight * machine.solution_.source.spread.within(drawn.functional)
    if np.any(share < EXPLAINED):
        raise ValueError(
            f"{type(machine).__name__} predicts some labels by themselves alone, so they cannot be left out: take a "
            "smaller C, or fewer functions."
        )
    away = (target - fitted) / (share if target.ndim == 1 else share[:, None])
    return Judged(target - away, target, np.ones(len(target)))


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
