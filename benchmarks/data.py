"""The real data sets that benchmarks run on, or an exit that says what is missing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from rkhs import datasets
from rkhs.datasets import path_of


def load(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Standardized features and labels -1/+1 of a data set."""
    data = _found(name)
    return data.standardized, data.y.astype(np.float64)


def label_sets(name: str) -> np.ndarray[Any, Any] | None:
    """The official sets of 100 labeled points, (sets, 100), of a data set that has them."""
    return _found(name).label_sets


def digits(name: str, which: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images (t, pixels) as they are, and digits, of the "train" or the "test" part of a data set that has both."""
    data = _found(name)
    rows = slice(data.train) if which == "train" else slice(data.train, None)
    return data.X[rows], data.y[rows]


def arrays(name: str) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of a file of the shared data, or an exit that says where it is looked for."""
    path = path_of(name)
    if path is None:
        sys.exit(f"Set RKHS_DATA to the folder of {name}.npz.")
    with np.load(path) as file:
        return dict(file)


def _found(name: str) -> datasets.Dataset:
    try:
        return datasets.load(name)
    except datasets.MissingDataError as error:
        sys.exit(str(error))
