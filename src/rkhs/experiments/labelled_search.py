"""Cross-validation of a small problem whose first term holds the labels, on a Gram matrix in memory.

All weights and folds of a setting are solved together (`splitting`): all that is needed is u = Ga + Qc, whose first
rows are the values at the labelled points, held out or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rkhs.experiments.splitting import Splitting
from rkhs.finite.certificate import certify
from rkhs.finite.function import Function
from rkhs.finite.system import System
from rkhs.problem import Problem
from rkhs.solvers.dense import in_memory

Array = np.ndarray[Any, Any]
TOL = 1e-3  # to which the values of the machines of the folds are settled, margins being about 1


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
    score: float  # balanced accuracy on held-out labels
    loss: float  # their balanced loss

    def solve(self, tol: float) -> Function:
        """The function with these weights, learnt from all labels, to the relative gap `tol`."""
        system = in_memory(self.setting.problem.system)
        factors = [self.C, *(self.nu for _ in system.terms[1:])]
        rows = [replace(t, weight=factor * t.weight) for t, factor in zip(system.terms, factors, strict=True)]
        weighted = system.with_rows(tuple(rows))
        splitting = Splitting(weighted, np.concatenate([t.weight for t in rows]))
        settled = TOL
        splitting.run(settled)
        while not certify(weighted, splitting.iterate(0), tol).within(tol):
            settled /= 4
            splitting.run(settled)
        return self.setting.problem.represented.function(splitting.iterate(0))


def search(settings: Sequence[Setting], Cs: Sequence[float], nus: Sequence[float], y: Array, folds: Any) -> Choice:
    """The setting and weights with the least balanced logistic loss of held-out labels.

    `folds` are pairs of rows (train, test) of the label term, whose classes are y.
    """
    weights = list(product(Cs, nus))
    found = []
    for setting in settings:
        images = _images(in_memory(setting.problem.system), weights, y, folds)  # (labels, weights, folds)
        for k, (C, nu) in enumerate(weights):
            scores = [_scores(images[test, k, fold], y[test]) for fold, (_, test) in enumerate(folds)]
            found.append(Choice(setting, C, nu, *np.mean(scores, axis=0).tolist()))
    return min(found, key=lambda one: one.loss)


def _images(system: System, weights: list[tuple[float, float]], y: Array, folds: Any) -> Array:
    """The values at the labelled points of all machines."""
    kept = np.zeros((len(y), len(folds)))
    for fold, (train, _) in enumerate(folds):
        kept[train, fold] = 1.0
    labels, *others = (t.weight for t in system.terms)
    columns = [
        np.concatenate([C * kept * labels, *(np.repeat(nu * w, len(folds), axis=1) for w in others)])
        for C, nu in weights
    ]
    splitting = Splitting(system, np.concatenate(columns, axis=1))
    splitting.run(TOL)
    return splitting.images[: len(y)].reshape(len(y), len(weights), len(folds))


def _scores(u: Array, y: Array) -> tuple[float, float]:
    """Balanced accuracy and loss."""
    return balanced(np.sign(u) == y, y), balanced(np.logaddexp(0, -y * u), y)


def balanced(values: Array, y: Array) -> float:
    """The mean over the classes of the means of their values.

    Examples
    --------
    >>> import numpy as np
    >>> balanced(np.array([1, 1, 1, 0]), np.array([1, 1, 1, -1]))
    0.5
    """
    return float(np.mean([np.mean(values[y == label]) for label in np.unique(y)]))
