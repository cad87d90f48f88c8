"""Models of the same settings that have not seen some of the labels, all solved together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs.backend.arrays import to_numpy
from rkhs.estimators.sample import Vector
from rkhs.finite.solution import CONVERGED, INTERRUPTED
from rkhs.problem import Problem

FOLD_TOL = 1e-2  # the relative gap to which they are solved


def fold_values(problem: Problem, parts: Sequence[Vector], what: str) -> tuple[Vector, Vector]:
    """f at labels, each without the labels of its part, and which labels, in order: all but those of unsolved parts."""
    points = problem.terms[0].functional
    solutions, status = problem.in_double().grid_and_status({}, held_out={0: parts}, tol=FOLD_TOL)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    solved = [(part, s) for part, s in zip(parts, solutions, strict=True) if s.status == CONVERGED]
    if len(solved) < len(parts):
        _tell(solutions, len(solved), what)
    values = [to_numpy(points.take(part)(s.function)) for part, s in solved]
    rows = np.concatenate([part for part, _ in solved])
    return np.concatenate(values)[np.argsort(rows)], np.sort(rows)


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
