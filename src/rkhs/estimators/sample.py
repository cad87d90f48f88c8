"""The training points as the estimators see them: equal rows merged, and rows of weight zero left out.

Merging makes the problem smaller and does not change f.  Whatever leaves observations out, or counts them, has to do
that row by row: a row is left out and its twins stay, as rows do that differ by next to nothing.  So a point knows how
many rows it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.random import sample_without_replacement

from rkhs._backend.arrays import Array, Vector, check_unmasked, taken, to_numpy

MOST_COUNTED = 2.0**53  # rows, which float64 can count; larger weights are no numbers of rows
MOST_ROWS = 100_000  # rows that are taken apart again, if there are more: drawn at random


@dataclass(frozen=True, eq=False)
class Sample:
    """Points X (t, n) with weights (t,), what y says of each of them (a class index or a target), and where it does.

    A point stands for `count` (t,) equal rows and has the sum of their weights.  If all sample weights are integers, a
    weight is a number of rows, as scikit-learn's glossary defines it; other weights say how much one row counts.
    Points with different `marks` (t, k), such as the folds they belong to, are never merged.  `slopes` (t, n), or
    (t, n, outputs), were measured there, NaN where they were not; None where there are none.
    """

    X: Array
    weight: Vector
    y: Vector  # 0 where there is no label; (t, outputs) for several targets
    labelled: Vector
    marks: Vector
    count: Vector
    slopes: Vector | None = None

    @classmethod
    def of(
        cls,
        X: Array,
        sample_weight: Any,
        y: Vector,
        labelled: Vector,
        marks: Vector | None = None,
        slopes: Vector | None = None,
        merge: bool = True,
    ) -> Sample:
        """The points with checked weights, merged; laid out by rows, so that a data frame rounds as an array does."""
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        marks = np.zeros((len(y), 0)) if marks is None else marks
        known = np.where(labelled if y.ndim == 1 else labelled[:, None], y, 0)
        weight = as_weights(sample_weight, X)
        whole = bool(np.all(weight == np.round(weight))) and float(weight.sum()) <= MOST_COUNTED
        count = weight.astype(np.int64) if whole else np.ones(len(weight), dtype=np.int64)
        sample = cls(X, weight, known, labelled, marks, count, slopes)
        sample = sample.take(weight > 0)
        return sample._merged(whole) if merge else sample

    @property
    def size(self) -> int:
        return len(self.weight)

    @property
    def repeats(self) -> int:
        """The number of observations, of values and of slopes, that were merged into others."""
        observed = self.labelled.astype(int)
        if self.slopes is not None:
            observed = observed + np.sum(~np.isnan(self.slopes.reshape(*self.slopes.shape[:2], -1)[..., 0]), axis=1)
        return int((self.count - 1) @ observed)

    def take(self, rows: Any) -> Sample:
        """Some of the points; where that is all of them this sample itself, so that terms share what is computed."""
        index = np.arange(self.size)[rows]
        if np.array_equal(index, np.arange(self.size)):
            return self
        return Sample(
            taken(self.X, index),
            self.weight[index],
            self.y[index],
            self.labelled[index],
            self.marks[index],
            self.count[index],
            None if self.slopes is None else self.slopes[index],
        )

    def apart(self, most: int = MOST_ROWS) -> Sample:
        """Return every row as a point of its own, with its share of the weight; `most` rows drawn from more."""
        rows = drawn_rows(self.count, most, 0)
        if np.array_equal(rows, np.arange(self.size)):
            return self
        share = replace(self, weight=self.weight / self.count, count=np.ones_like(self.count))
        return share.take(rows)

    def _merged(self, whole: bool) -> Sample:
        """Return each point once, its weight the sum of its rows' weights; `whole` if these are numbers of rows.

        Rows that are merged have equal features, labels and marks, and equal weights unless these are numbers of rows.
        The points keep their order if there are no copies and all weights are one; otherwise they come in an order that
        depends on nothing but which points there are.
        """
        columns = [to_numpy(self.X).astype(np.float64), self.y, self.labelled, self.marks]
        if self.slopes is not None:
            columns.append(self.slopes.reshape(self.size, -1))
        if not whole:
            columns.append(self.weight)
        rows = np.column_stack(columns)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(rows) and np.all(self.weight == 1):
            return self
        weight = np.bincount(inverse.reshape(-1), weights=self.weight)
        count = np.bincount(inverse.reshape(-1), weights=self.count).astype(np.int64)
        order = np.random.default_rng(0).permutation(len(first))  # blocks of a sorted set would be poor folds
        return replace(self.take(first[order]), weight=weight[order], count=count[order])


def drawn_rows(count: Vector, most: int, random_state: Any) -> Vector:
    """Return the points of all rows, each as often as it has rows; of more than `most` rows, those of a random draw.

    Examples
    --------
    >>> drawn_rows(np.array([1, 3]), 10, 0)
    array([0, 1, 1, 1])
    """
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    if total <= most:
        return np.repeat(np.arange(len(count)), count)
    drawn = np.sort(sample_without_replacement(total, most, random_state=random_state))
    return np.searchsorted(ends, drawn, side="right")


def as_weights(sample_weight: Any, X: Array) -> Vector:
    """One weight for each point, in NumPy."""
    if sample_weight is None:
        return np.ones(int(X.shape[0]))
    check_unmasked(sample_weight, "sample_weight")
    weight = as_numpy(sample_weight)
    weight = check_array(weight, ensure_2d=False, dtype=np.float64, copy=True, input_name="sample_weight")
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got shape {weight.shape}.")
    check_consistent_length(to_numpy(X[:, :1]), weight)
    if np.any(weight < 0):
        raise ValueError(f"Negative values in data passed to `sample_weight`: {weight.min():g}.")
    if not np.any(weight > 0):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight


def as_numpy(values: Any) -> Any:
    """An array of any namespace and device in NumPy; anything else as it is."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    return values.numpy(force=True) if hasattr(values, "numpy") else np.from_dlpack(values, device="cpu")
