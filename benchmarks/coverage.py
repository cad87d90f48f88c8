"""How often error bars, intervals and prediction sets hold what they promise, with the default models.

    python -m benchmarks.coverage [--draws 10] [--only REGEX] [--ways REGEX] [--out DIR]

Bars: the share of new targets within 1.96 standard deviations of the prediction, `predict(X, return_std=True)`, where
0.95 is promised.  Intervals and sets: `predict_interval` and `predict_set`, where 0.9 is promised.  Learned from 200
rows (diabetes 300, classes at most 400) of the sets of `benchmarks.tables`, Friedman's functions with and without
noise, and judged on the other rows; means over draws, with the standard error of the mean.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn import datasets

import rkhs
from benchmarks.tables import NOISE, Split, Vector, split
from benchmarks.timing import markdown, show, write

EXACT = tuple(f"{name}, no noise" for name in NOISE)
VALUES = (*NOISE, *EXACT, "wing", "borehole", "diabetes")
CLASSES = tuple(f"raetsch_{name}" for name in ("banana", "german", "image", "splice", "thyroid", "waveform"))
BARS, LEVEL = 1.96, 0.9


def rows_of(name: str, draw: int) -> Split:
    """Training rows and targets, and others."""
    if name not in EXACT:
        return split(name, draw)
    X, y = getattr(datasets, f"make_{name.split(',')[0]}")(2200, noise=0.0, random_state=draw)
    return X[:200], y[:200], X[200:], y[200:]


def bars(X: Vector, y: Vector, new: Vector, truth: Vector) -> float:
    """Of the default model."""
    found, std = rkhs.InvariantRegressorCV().fit(X, y).predict(new, return_std=True)
    return float(np.mean(np.abs(found - truth) <= BARS * std))


def intervals(model: Callable[[], Any]) -> Callable[..., float]:
    """Of a regressor."""

    def covered(X: Vector, y: Vector, new: Vector, truth: Vector) -> float:
        spread = X.std(axis=0)
        low, high = model().fit(X / spread, y).predict_interval(new / spread, LEVEL).T
        return float(np.mean((low <= truth) & (truth <= high)))

    return covered


def sets(model: Callable[[], Any]) -> Callable[..., float]:
    """Of a classifier."""

    def covered(X: Vector, y: Vector, new: Vector, truth: Vector) -> float:
        spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        fitted = model().fit(X / spread, y)
        found = fitted.predict_set(new / spread, LEVEL)
        return float(np.mean(found[np.arange(len(truth)), np.searchsorted(fitted.classes_, truth)]))

    return covered


REGRESSORS: dict[str, Callable[..., float]] = {
    "bars": bars,
    "intervals": intervals(rkhs.InvariantRegressorCV),
    "absolute": intervals(lambda: rkhs.InvariantRegressor(loss="absolute", C=1.0, invariance=None)),
    "landmarks": intervals(lambda: rkhs.InvariantRegressor(C=10.0, nu=0, approximation=rkhs.Landmarks(50))),
    "quantile, landmarks": intervals(
        lambda: rkhs.InvariantRegressor(loss="quantile", C=1.0, nu=0, approximation=rkhs.Landmarks(50))
    ),
}
CLASSIFIERS: dict[str, Callable[..., float]] = {
    "sets": sets(lambda: rkhs.InvariantClassifierCV(unlabeled=None)),
    "hinge": sets(lambda: rkhs.InvariantClassifier(unlabeled=None, invariance=None)),
    "hinge, landmarks": sets(lambda: rkhs.InvariantClassifier(unlabeled=None, nu=0, approximation=rkhs.Landmarks(50))),
}


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--ways", default="", help="ways whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console = Console(width=150)
    for title, names, every in (("Targets", VALUES, REGRESSORS), ("Classes", CLASSES, CLASSIFIERS)):
        ways = {name: way for name, way in every.items() if re.search(options.ways, name)}
        rows = []
        for name in (name for name in names if re.search(options.only, name)):
            rows.append([name])
            for way in ways.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of models that stop a little before their tol
                    found = [way(*rows_of(name, draw)) for draw in range(options.draws)]
                error = float(np.std(found)) / max(1, options.draws - 1) ** 0.5
                rows[-1].append(f"{np.mean(found):.3f} ({error:.3f})")
            print(*rows[-1], flush=True)
        if ways and rows:
            title = f"{title} that are covered, {options.draws} draws"
            show(console, title, ["set", *ways], rows)
            write(options.out, f"coverage-{names[0]}.md", markdown(title, ["set", *ways], rows))


if __name__ == "__main__":
    main()
