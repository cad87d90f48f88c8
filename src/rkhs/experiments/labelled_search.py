"""Cross-validation of a small problem whose first term holds the labels: Descent on a Gram matrix in memory.

The problems of the digits have some hundred functionals with kinks and are solved some hundred times: all that is
needed is u = Ga + Qc, whose first rows are the values at the labelled points, held out or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rkhs.finite.function import Function
from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, System
from rkhs.problem import Problem
from rkhs.solvers import Descent
from rkhs.solvers.dense import in_memory

Array = np.ndarray[Any, Any]
TOL = 1e-2  # relative gap of the machines of the folds


@dataclass(frozen=True)
class Setting:
    """A scale with its problem for C = nu = 1."""

    problem: Problem
    scale: float


@dataclass(frozen=True)
class Choice:
    """The best weights, and the setting they belong to."""

    setting: Setting
    C: float
    nu: float
    score: float  # balanced accuracy
    loss: float  # of the held-out labels

    def solve(self, tol: float) -> Function:
        """The function with these weights, learnt from all labels."""
        system = in_memory(self.setting.problem.system)
        iterate = _solved(system, self.C, self.nu, tol)
        basis = system.basis_coefficients(iterate)
        return Function(
            self.setting.problem.kernel,
            system.functionals,
            iterate.a[:, 0],
            system.space,
            None if basis is None else basis[:, 0],
        )


def search(settings: Sequence[Setting], Cs: Sequence[float], nus: Sequence[float], y: Array, folds: Any) -> Choice:
    """The best setting and weights by balanced accuracy, among equals by the balanced logistic loss of held-out labels.

    `folds` are pairs of rows (train, test) of the label term, whose classes are y.
    """
    found = []
    for setting in settings:
        scores: dict[tuple[float, float], list[tuple[float, float]]] = {}
        for C, nu, score in _scores(setting.problem, Cs, nus, y, folds):
            scores.setdefault((C, nu), []).append(score)
        found += [Choice(setting, C, nu, *np.mean(own, axis=0).tolist()) for (C, nu), own in scores.items()]
    return min(found, key=lambda one: (-round(one.score, 12), one.loss))


def _scores(
    problem: Problem, Cs: Sequence[float], nus: Sequence[float], y: Array, folds: Any
) -> Iterator[tuple[float, float, tuple[float, float]]]:
    """(C, nu, (balanced accuracy, balanced loss)) for all weights and folds."""
    system = in_memory(problem.system)
    for train, test in folds:
        kept = np.zeros((len(y), 1))
        kept[train] = 1.0
        for C, nu in product(Cs, nus):
            iterate = _solved(system, C * kept, nu, TOL)
            u = system.gram @ iterate.a + system.Q @ iterate.basis
            right, loss = np.sign(u[test, 0]) == y[test], np.logaddexp(0, -y[test] * u[test, 0])
            yield C, nu, (balanced(right, y[test]), balanced(loss, y[test]))


def _solved(system: System, C: Any, nu: float, tol: float) -> Iterate:
    """From zero: starting at the solution of other weights takes longer."""
    labels, *others = system.terms
    rows = (replace(labels, weight=C * labels.weight), *(replace(t, weight=nu * t.weight) for t in others))
    return Descent().run(system.with_rows(rows), system.start(), Monitor(tol, verbose=False))


def balanced(values: Array, y: Array) -> float:
    """The mean over the classes of the means of their values.

    Examples
    --------
    >>> import numpy as np
    >>> balanced(np.array([1, 1, 1, 0]), np.array([1, 1, 1, -1]))
    0.5
    """
    return float(np.mean([np.mean(values[y == label]) for label in np.unique(y)]))
