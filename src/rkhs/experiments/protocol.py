"""The protocol of Zhang et al. 2013, 6.2: l labels drawn at random, the rest without labels, which is the test set.

The Gaussian kernel has the median distance as its scale.  5 stratified folds of the labels choose the weights; the
points of a fold stay, unlabelled, while its labels are left out.  Draws are stratified, as the folds are, and nested:
the first 30 of a random order in which classes come in proportion, then 60, then 90.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rkhs.datasets import load
from rkhs.kernels import median_scale

Array = np.ndarray[Any, Any]
SETS = ("heart", "bci", "bupa", "g241c", "g241n", "australian", "ionosphere", "sonar", "usps_ssl")
LABELS = (30, 60, 90)
DRAWS = 10
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Points:
    """The points of a set, normalised, with labels -1 and +1, and the median distance."""

    X: Array
    y: Array
    scale: float


@lru_cache(maxsize=2)
def points_of(name: str, normalised: str) -> Points:
    """The set with its "columns" standardised, or with centred columns and "rows" of length one."""
    data = load(name)
    X = data.standardised if normalised == "columns" else data.unit_rows
    return Points(X, data.y, median_scale(X))


def labelled_points(y: Array, labels: int, draw: int) -> Array:
    """The rows whose labels are known, of each class in proportion.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([-1, 1], 50)
    >>> few, more = labelled_points(y, 30, draw=0), labelled_points(y, 60, draw=0)
    >>> int(sum(y[few])), len(few), set(few) <= set(more)
    (0, 30, True)
    """
    rng = np.random.default_rng(draw)
    place = np.empty(len(y))
    for label in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == label))
        place[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.sort(np.argsort(place, kind="stable")[:labels])


def ever_labelled(y: Array) -> Array:
    """The rows that have a label in some draw, in order."""
    return np.unique(np.concatenate([labelled_points(y, LABELS[-1], draw) for draw in range(DRAWS)]))


def folds_of(y: Array) -> list[tuple[Array, Array]]:
    """The (train, test) rows of the folds of labels y; those of `InvariantClassifierCV`."""
    return list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(np.zeros((len(y), 1)), y))


def test_error(predicted: Array, y: Array, labelled: Array) -> float:
    """The percentage of the other points that is predicted wrongly."""
    rest = np.setdiff1d(np.arange(len(y)), labelled)
    return 100 * float(np.mean(predicted[rest] != y[rest]))


def cells(sets: Sequence[str], labels: Sequence[int], draws: int, machines: Sequence[str], normalised: str) -> Any:
    """One cell for each set, number of labels, draw and machine; those of a set beside one another."""
    return [
        {"set": name, "labels": count, "draw": draw, "machine": machine, "normalised": normalised}
        for name in sets
        for machine in machines
        for count in labels
        for draw in range(draws)
    ]
