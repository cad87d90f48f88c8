"""Probabilities from decision values f_c, one for each class: a sigmoid whose slope s > 0 is fitted to held-out values.

    P(c | x) = exp(s f_c(x)) / sum_b exp(s f_b(x)),        for two classes 1 / (1 + exp(-s f(x)))

The losses of the classifiers are such that f = 0 is where both classes are as likely, so the sigmoid has no offset,
and the most probable class is the predicted one.  As Platt has it, the likelihood is that of targets somewhat less
than certain, which matters where classes are separated.  All of it is computed when probabilities are asked for the
first time, from one solve of all folds together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.model_selection import StratifiedKFold

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.function import Function
from rkhs.estimators.folds import dealt, smallest_class
from rkhs.estimators.refits import fold_values
from rkhs.problem import Problem

FOLDS = 5
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
        folds = min(FOLDS, smallest_class(codes, count))
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
