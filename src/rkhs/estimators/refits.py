"""Models of the same settings that have not seen some of the labels, all solved together."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.solution import CONVERGED
from rkhs.problem import Problem
from rkhs.stopping import interrupts_raised

FOLD_TOL = 1e-2  # the relative gap to which they are solved


def fold_values(problem: Problem, left_out: Vector, count: Vector, what: str) -> tuple[Vector, Vector, Vector]:
    """Return f at labels, from models that have not seen some of their rows; which labels; and how many rows.

    Of the `count` (l,) rows of each label fold k has not seen `left_out[:, k]`.  A label stands once for each fold that
    leaves rows of it out, in the order of labels; folds that could not be solved are missing.
    """
    points = problem.terms[0].functional
    factors = list((1 - left_out / count[:, None]).T)
    with interrupts_raised():
        solutions = problem.in_double().grid({}, held_out={0: factors}, tol=FOLD_TOL)
    solved = [k for k, s in enumerate(solutions) if s.status == CONVERGED]
    if len(solved) < len(factors):
        _tell(solutions, len(solved), what)
    parts = [np.flatnonzero(left_out[:, k]) for k in solved]
    values = [to_numpy(points.take(part)(solutions[k].function)) for k, part in zip(solved, parts, strict=True)]
    times = np.concatenate([left_out[part, k] for k, part in zip(solved, parts, strict=True)])
    rows = np.concatenate(parts)
    order = np.argsort(rows, kind="stable")
    return np.concatenate(values)[order], rows[order], times[order]


def _tell(solutions: Vector, solved: int, what: str) -> None:
    """Warn of folds that are left out; where none is solved nothing is known."""
    reasons = ", ".join(sorted({s.status for s in solutions if s.status != CONVERGED}))
    if not solved:
        raise RuntimeError(
            f"{what} need models that did not see some labels, and none of {len(solutions)} was solved ({reasons}): "
            "fit with a smaller C, or use decision_function."
        )
    warnings.warn(
        f"{what} are from {solved} of {len(solutions)} folds: the others were not solved ({reasons}).",
        ConvergenceWarning,
        stacklevel=7,
    )
