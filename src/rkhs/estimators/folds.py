"""Folds of the labelled points; all other points are unlabelled in every fold ([Z] 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from rkhs.estimators.sample import Sample, Vector


@dataclass(frozen=True, eq=False)
class Folds:
    """For each fold a mask of the points whose labels are left out, and one of those it is scored on."""

    left_out: Vector  # (t, folds)
    scored: Vector  # (t, folds)

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        return iter(zip(self.left_out.T, self.scored.T, strict=True))

    def __len__(self) -> int:
        return self.left_out.shape[1]


def user_marks(machine: Any, y: Vector, labelled: Vector) -> Vector | None:
    """The user's own folds as marks (t, 2 folds) of the rows of X, since points of different folds are not merged.

    None for a machine without folds, or with a number of them, which are made later.  An iterable of (train, test)
    has indices of rows of X; a splitter is given the labelled rows.
    """
    cv = getattr(machine, "cv", None)
    if cv is None or isinstance(cv, Integral):
        return None
    rows = np.flatnonzero(labelled)
    splitter = check_cv(cv, y[rows], classifier=is_classifier(machine))
    own = rows if hasattr(cv, "split") else np.arange(len(y))
    columns = []
    for train, test in splitter.split(np.zeros((len(rows), 1)), y[rows]):
        left_out, scored = labelled.copy(), np.zeros(len(y), dtype=bool)
        left_out[own[train]] = False
        scored[own[test]] = labelled[own[test]]
        columns += [left_out, scored]
    return np.column_stack(columns).astype(np.float64)


def folds_of(cv: Any, sample: Sample, splitter: Callable[[int], Any]) -> Folds:
    """The folds of the labelled points of a sample, in the order in which its label term has them.

    There are no more of them than the smallest class has points, or than there are points.
    """
    labelled = sample.take(sample.labelled)
    if sample.marks.shape[1]:
        marks = labelled.marks.astype(bool)
        return Folds(marks[:, 0::2], marks[:, 1::2])
    smallest = np.unique(labelled.y, return_counts=True)[1].min() if sample.y.dtype.kind == "i" else labelled.size
    count = max(2, min(5 if cv is None else int(cv), smallest))
    test = np.zeros((labelled.size, count), dtype=bool)
    for k, (_, rows) in enumerate(splitter(count).split(np.zeros((labelled.size, 1)), labelled.y)):
        test[rows, k] = True
    return Folds(test, test)
