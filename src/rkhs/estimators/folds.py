"""Folds of the labelled points; all other points are unlabelled in every fold (Zhang et al. 2013, 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from rkhs._backend.arrays import Vector
from rkhs.estimators.sample import Sample


@dataclass(frozen=True, eq=False)
class Folds:
    """For each fold factors on the weights of labels, and how many rows of each label it is scored on.

    A factor is the share of its rows that a fold keeps, 0 or 1 for a label of one row, times what class weights that
    count the labels of each fold make of it.
    """

    factors: Vector  # (t, folds)
    scored: Vector  # (t, folds)

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        return iter(zip(self.factors.T, self.scored.T, strict=True))

    def __len__(self) -> int:
        return self.factors.shape[1]

    def weighted(self, weights: Callable[[Vector, Vector], Vector]) -> Folds:
        """Return the folds with weights of the labels that each of them keeps in place of those of all labels.

        `weights` is a function from some points, and the shares of their rows that are kept, to the class weights that
        these have if there are no others.
        """
        factors = np.zeros(self.factors.shape)
        whole = weights(np.arange(len(factors)), np.ones(len(factors)))
        for k, column in enumerate(self.factors.T):
            kept = np.flatnonzero(column)
            factors[kept, k] = column[kept] * weights(kept, column[kept]) / whole[kept]
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
        return Folds(1.0 - marks[:, 0::2], labelled.count[:, None] * marks[:, 1::2])
    classes = labelled.y if sample.y.dtype.kind == "i" else None
    smallest = int(labelled.count.sum()) if classes is None else smallest_class(classes, labelled.count)
    scored = dealt(splitter(max(2, min(5 if cv is None else int(cv), smallest))), labelled.count, classes)
    return Folds(1 - scored / labelled.count[:, None], scored)


def smallest_class(codes: Vector, count: Vector) -> int:
    """Return the number of rows of the smallest class, from the classes of points and the rows of each."""
    rows = np.bincount(codes, weights=count)
    return int(rows[rows > 0].min())


def dealt(splitter: Any, count: Vector, classes: Vector | None = None) -> Vector:
    """Return how many of the `count` (t,) rows of each point a splitter of K folds puts into each: (t, K).

    Of a point with 2 K rows or more each fold has the same number, but for the last K to 2 K - 1 rows.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> dealt(KFold(2), np.array([1, 1, 7]))
    array([[1, 0],
           [1, 0],
           [3, 4]])
    """
    folds = int(splitter.get_n_splits())
    each = np.maximum(count // folds - 1, 0)
    rows = np.repeat(np.arange(len(count)), count - folds * each)
    found = np.repeat(each[:, None], folds, axis=1)
    labels = None if classes is None else classes[rows]
    for k, (_, test) in enumerate(splitter.split(np.zeros((len(rows), 1)), labels)):
        found[:, k] += np.bincount(rows[test], minlength=len(count))
    return found
