"""The training points as the estimators see them: equal points merged, and points of weight zero left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from rkhs.backend.arrays import Array, check_unmasked, taken, to_numpy

Vector = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Sample:
    """Points X (t, n) with weights (t,), what y says of each of them (a class index or a target), and where it does.

    Points with different `marks` (t, k), such as the folds they belong to, are never merged.  `slopes` (t, n), or
    (t, n, outputs), were measured there, NaN where they were not; None where there are none.
    """

    X: Array
    weight: Vector
    y: Vector  # 0 where there is no label; (t, outputs) for several targets
    labelled: Vector
    marks: Vector
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
    ) -> Sample:
        """The points with checked weights, merged; laid out by rows, so that a data frame rounds as an array does."""
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        marks = np.zeros((len(y), 0)) if marks is None else marks
        known = np.where(labelled if y.ndim == 1 else labelled[:, None], y, 0)
        return cls(X, as_weights(sample_weight, X), known, labelled, marks, slopes)._merged()

    @property
    def size(self) -> int:
        return len(self.weight)

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
            None if self.slopes is None else self.slopes[index],
        )

    def _merged(self) -> Sample:
        """Each point once, its weight the sum of its copies' weights: a weight of 2 is a point given twice.

        Copies have equal features, labels and marks.  The points keep their order if there are no copies and all
        weights are one; otherwise they come in an order that depends on nothing but which points there are.
        """
        sample = self.take(self.weight > 0)
        columns = [to_numpy(sample.X).astype(np.float64), sample.y, sample.labelled, sample.marks]
        if sample.slopes is not None:
            columns.append(sample.slopes.reshape(sample.size, -1))
        rows = np.column_stack(columns)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(rows) and np.all(sample.weight == 1):
            return sample
        weight = np.bincount(inverse.reshape(-1), weights=sample.weight)
        order = np.random.default_rng(0).permutation(len(first))  # blocks of a sorted set would be poor folds
        return replace(sample.take(first[order]), weight=weight[order])


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
