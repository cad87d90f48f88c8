"""The machines of Walder and Chapelle 2007: squared hinge, with the Gaussian or the thin plate.

    min 1/2 |f|^2 + C sum_i max(0, 1 - y_i f(x_i))^2

with an unpenalised constant (Gaussian), unpenalised linear functions (thin plate), or neither (thin plate without its
null space).  A problem has C = 1; `Problem.grid` has all C and folds, from small C to large ones, and shares the Gram
matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rkhs._calculus.function_spaces import Constant
from rkhs._finite.solution import CONVERGED, Solution
from rkhs._finite.term import Term
from rkhs.estimators._cross_validation import evaluated
from rkhs.estimators.thin_plate import second_order
from rkhs.functionals import Evaluation
from rkhs.kernels import Gaussian, median_scale
from rkhs.losses import SquaredHinge
from rkhs.problem import Problem

Array = np.ndarray[Any, Any]


def gaussian_machine(X: Array, target: Array, scale: float) -> Problem:
    """The problem of the Gaussian and a constant."""
    return Problem(Gaussian(scale), [Term(Evaluation(X), SquaredHinge(), target=target)], Constant())


def thin_plate_machine(X: Array, target: Array, null_space: str = "kept") -> Problem:
    """The problem of the thin plate; C is divided by the squared median distance, so that units do not matter."""
    labels = Term(Evaluation(X), SquaredHinge(), target=target, weight=1 / median_scale(X) ** 2)
    return Problem(second_order(X.shape[1]), [labels], null_space=null_space)


def machine_values(solutions: Sequence[Solution], points: Array) -> Array:
    """f(x) of solutions of one problem with several weights or folds: (solutions, t) or (solutions, t, outputs).

    It is NaN, which has no sign and is an error everywhere, of a solution that did not converge.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0])
    >>> path = gaussian_machine(X, y, scale=1.0).path(0, [1.0, 10.0])
    >>> np.sign(machine_values(path, np.array([[0.5], [2.9]])))
    array([[-1.,  1.],
           [-1.,  1.]])
    """
    values = np.stack(evaluated([solution.function for solution in solutions], Evaluation(points)))
    values[[solution.status != CONVERGED for solution in solutions]] = np.nan
    return values
