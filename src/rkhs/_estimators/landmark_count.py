"""The number of landmarks for more labels than an exact fit can afford.

The squared errors of held-out rows are compared for 1,000 and 2,000 landmarks, learned from a part of the rows.  If the
errors fall, f has more detail than these can show, and as many landmarks are used as a minute affords.
"""

from __future__ import annotations

from math import inf
from time import perf_counter

import numpy as np

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._estimators.scoring import mean_fall
from rkhs._finite.sums import KEPT_BYTES
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._progress import seconds_left
from rkhs._spaces import Landmarks
from rkhs.losses import Squared

FIRST, MOST = 1000, 3000
WORK = 4e12  # rows times squared landmarks: about a minute on two cores
ROWS, HELD_OUT = 20_000, 2000  # rows that are learned, and held out, to compare numbers of landmarks
LEAST_FALL = 0.01  # a smaller fall of the error is not worth the time


def landmark_count(problem: Problem, verbose: bool = False) -> int:
    """Return the number of landmarks for a problem whose first term has the labels.

    With a time limit it is the number that the remaining time affords, without a comparison.
    """
    term = problem.terms[0]
    most = _affordable(term)
    if seconds_left() < inf:
        return min(most, max(50, int((_speed() * max(seconds_left(), 0.0) / (2 * term.size)) ** 0.5)))
    if most <= 2 * FIRST:
        return most
    rows = np.random.default_rng(0).permutation(term.size)[: ROWS + HELD_OUT]
    held_out, learned = _squared(term, rows[:HELD_OUT]), _squared(term, rows[HELD_OUT:])
    before, after = (_errors(problem, learned, held_out, count, verbose) for count in (FIRST, 2 * FIRST))
    fall, error = mean_fall(before, after, to_numpy(held_out.weights())[:, 0])
    return most if fall > max(error, LEAST_FALL * float(np.mean(before))) else FIRST


def solves_exactly(labels: int) -> bool:
    """Return whether an exact fit of some labels takes less than the time that is left."""
    return labels**3 / (3 * _speed()) < seconds_left()


def _affordable(term: Term) -> int:
    """Return the number of landmarks that a minute affords, or memory if the rows have to be stored."""
    most = int((WORK / term.size) ** 0.5)
    if not term.loss.quadratic:
        most = min(most, KEPT_BYTES // (8 * term.size))
    return min(max(most, 50), MOST)


def _speed() -> float:
    """Return operations per second of a fit, a tenth of those of products.

    It is measured now, because other processes slow down the fit as well.
    """
    A = np.ones((768, 768))
    A @ A[:, :8]  # the first product of a process starts the BLAS threads
    start = perf_counter()
    A @ A
    return 0.2 * len(A) ** 3 / max(perf_counter() - start, 1e-6)


def _squared(term: Term, rows: Vector) -> Term:
    """Return some rows of a term with squared losses."""
    weight = term.weight if isinstance(term.weight, float) else term.weight[rows]
    return Term(term.functional.take(rows), Squared(), to_numpy(term.target)[rows], weight)


def _errors(problem: Problem, learned: Term, held_out: Term, count: int, verbose: bool) -> Vector:
    """Return the squared errors (t,) of held-out rows."""
    small = Problem(problem.kernel, [learned], problem.basis, approximation=Landmarks(count))
    values = to_numpy(held_out.functional(small.solve(verbose=verbose).function))
    squares = (values - to_numpy(held_out.target)) ** 2
    return np.asarray(squares.reshape(len(squares), -1).mean(axis=1))
