"""The real data sets that benchmarks run on, from the folder that RKHS_DATA names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def load(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Standardised features and labels -1/+1 of a data set."""
    with opened(name) as data:
        X, y = data["X"].astype(np.float64), data["y"].astype(np.float64)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def label_sets(name: str) -> np.ndarray[Any, Any] | None:
    """The official sets of 100 labelled points, (sets, 100), of a data set that has them."""
    with opened(name) as data:
        return data.get("idx_lab100")


def opened(name: str) -> Any:
    """The file of a data set, or an exit that says what is missing."""
    folder = Path(os.environ.get("RKHS_DATA", DEFAULT))
    path = folder / f"{name}.npz"
    if not path.exists():
        sys.exit(f"The data set {name} is not there: set RKHS_DATA to the folder that holds {name}.npz.")
    return np.load(path)
