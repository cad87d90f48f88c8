"""Folds of the labelled points; all other points are unlabelled in every fold (Zhang et al. 2013, 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from rkhs.estimators.sample import Sample, Vector


@dataclass(frozen=True, eq=False)
class Folds:
    """For each fold factors on the weights of labels, 0 where they are left out, and a mask of those it is scored on.

    The factors are 1 where a fold keeps a label, but for class weights that count the labels of each fold.
    """

    factors: Vector  # (t, folds)
    scored: Vector  # (t, folds)

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        return iter(zip(self.factors.T, self.scored.T, strict=True))

    def __len__(self) -> int:
        return self.factors.shape[1]

    def weighted(self, weights: Callable[[Vector], Vector]) -> Folds:
        """The folds with weights of the labels that each of them keeps in the place of those of all labels.

        `weights` is a function from some rows to the weights that these have if there are no others.
        """
        factors = np.zeros(self.factors.shape)
        whole = weights(np.arange(len(factors)))
        for k, column in enumerate(self.factors.T):
            kept = np.flatnonzero(column)
            factors[kept, k] = weights(kept) / whole[kept]
        return replace(self, factors=factors)


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
        return Folds(1.0 - marks[:, 0::2], marks[:, 1::2])
    smallest = np.unique(labelled.y, return_counts=True)[1].min() if sample.y.dtype.kind == "i" else labelled.size
    count = max(2, min(5 if cv is None else int(cv), smallest))
    test = np.zeros((labelled.size, count), dtype=bool)
    for k, (_, rows) in enumerate(splitter(count).split(np.zeros((labelled.size, 1)), labelled.y)):
        test[rows, k] = True
    return Folds(1.0 - test, test)
