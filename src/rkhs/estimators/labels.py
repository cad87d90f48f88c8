"""Classes of some points and no class of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from rkhs.estimators.sample import Vector


@dataclass(frozen=True, eq=False)
class Labels:
    """`classes` and, for each point, the index of its class, or -1 where it has none."""

    classes: Vector
    codes: Vector  # (t,) integers

    @classmethod
    def of(cls, y: Vector, marker: Any) -> Labels:
        """The labels of y, in which the marker stands for none."""
        check_classification_targets(y)
        known = ~unlabelled(y, marker)
        classes, own = np.unique(y[known], return_inverse=True)
        codes = np.full(len(y), -1)
        codes[known] = own.reshape(-1)
        return cls(classes, codes)

    @property
    def labelled(self) -> Vector:
        return self.codes >= 0


def check_classes(labels: Labels, kept: Vector, marker: Any, name: str) -> None:
    """Refuse fewer than two classes among the labelled points that are kept, with the remedy."""
    left = labels.classes[np.unique(kept)]
    if len(left) >= 2:
        return
    if len(left) == 0:
        raise ValueError(f"{name} needs labelled points of at least two classes; every y is {marker!r}, unlabelled.")
    if marker == -1 and left[0] == 1 and np.any(~labels.labelled):
        raise ValueError(
            f"y is -1 or 1 and {name} takes -1 for unlabelled points, which leaves only one class. If -1 is a class, "
            "say so with unlabeled=None, or encode the classes as 0 and 1."
        )
    raise ValueError(
        f"{name} needs at least two classes among the labelled points; there is only one class: {left[0]}."
    )


def unlabelled(y: Vector, marker: Any) -> Vector:
    """Where y is the marker; nowhere for None or a marker of another kind than y."""
    if marker is None:
        return np.zeros(len(y), dtype=bool)
    if y.dtype.kind == "O":
        return np.array([type(value) is not bool and bool(value == marker) for value in y], dtype=bool)
    if (y.dtype.kind in "US") != isinstance(marker, (str, bytes)):
        return np.zeros(len(y), dtype=bool)
    if marker != marker:  # NaN
        return np.isnan(y)
    return np.asarray(y == marker)


def one_vs_rest(codes: Vector, count: int) -> Vector:
    """Targets +1 and -1: (l,) for two classes, the second being +1, and (l, classes) for more."""
    if count == 2:
        return np.where(codes == 1, 1.0, -1.0)
    return np.where(codes[:, None] == np.arange(count), 1.0, -1.0)


def class_weights(class_weight: Any, classes: Vector, codes: Vector, weight: Vector) -> Vector:
    """The factor on the weight of each point by its class.

    "balanced" is l / (k l_c) for a class with l_c of the l labelled points among k classes: with it the losses of
    every class count the same, which is [Z] 6.3's normalisation within each class times l / k.
    """
    if class_weight is None:
        return np.ones(len(codes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f'class_weight must be None, "balanced" or a dict, got {class_weight!r}.')
        counts = np.bincount(codes, weights=weight, minlength=len(classes))
        factors = weight.sum() / (np.count_nonzero(counts) * np.where(counts > 0, counts, 1.0))
    else:
        unknown = set(class_weight) - set(classes.tolist())
        if unknown:
            raise ValueError(f"class_weight names classes that no labelled point has: {sorted(map(str, unknown))}.")
        factors = np.array([float(class_weight.get(c, 1.0)) for c in classes.tolist()])
    return np.asarray(factors[codes])
