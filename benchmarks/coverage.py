"""How often error bars, intervals and prediction sets hold what they promise, with the default models.

    python -m benchmarks.coverage [--tables] [--draws 10] [--only REGEX] [--ways REGEX] [--out DIR]

Bars: the share of new targets within 1.96 standard deviations of the prediction, `predict(X, return_std=True)`, where
0.95 is promised.  Intervals and sets: `predict_interval` and `predict_set`, where 0.9 is promised.  Learned from 200
rows (diabetes 300, classes at most 400) of the sets of `benchmarks.tables`, Friedman's functions with and without
noise, and judged on the other rows; means over draws, with the standard error of the mean.

With --tables, bars on all shared tables of targets, small parts of these, and functions without noise: from at most
400 rows (60 % of smaller tables), judged on up to 2,000 others.
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
from benchmarks.data import arrays
from benchmarks.tables import MOST, NOISE, SHARE, Split, Vector, split
from benchmarks.timing import markdown, show, write

EXACT = tuple(f"{name}, no noise" for name in NOISE)
VALUES = (*NOISE, *EXACT, "wing", "borehole", "diabetes")
CLASSES = tuple(f"raetsch_{name}" for name in ("banana", "german", "image", "splice", "thyroid", "waveform"))
BARS, LEVEL = 1.96, 0.9
TESTED = 2000  # other rows of a table at most


def rows_of(name: str, draw: int) -> Split:
    """Training rows and targets, and others."""
    if name not in EXACT:
        return split(name, draw)
    X, y = getattr(datasets, f"make_{name.split(',')[0]}")(2200, noise=0.0, random_state=draw)
    return X[:200], y[:200], X[200:], y[200:]


SHARED = ("auto_mpg", "lev", "esl", "r_bird_counts", "r_fake_news", "r_k401k", "r_mcas", "r_pitching", "airfoil_drag",
          "uci_kin8nm", "uci_power_plant", "uci_parkinsons", "uci_keggdirected", "mount_st_helens", "baja_bathymetry",
          "california_gps", "texas_wind", "heaton_satellite")  # fmt: skip
PARTS = {"auto_mpg": 60, "esl": 60, "lev": 100, "uci_kin8nm": 100, "uci_power_plant": 100}  # rows
MADE: dict[str, tuple[int, int, Callable[[Vector], Vector]]] = {  # rows, features, the function
    "waves 1-D": (40, 1, lambda X: np.sin(6 * X[:, 0])),
    "waves 2-D": (50, 2, lambda X: np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])),
    "kink": (50, 2, lambda X: abs(X[:, 0] - 0.5) + np.sin(3 * X[:, 1])),
    "squares": (80, 3, lambda X: np.sum(X**2, axis=1)),
    "products": (150, 4, lambda X: X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]),
    "sum of 2": (60, 2, lambda X: X.sum(axis=1)),
    "sum of 4": (100, 4, lambda X: X.sum(axis=1)),
    "sum of 5 integers": (120, 5, lambda X: np.round(10 * X).sum(axis=1)),
    "step": (120, 3, lambda X: (X[:, 0] > 0.5) + X[:, 1]),
}
EVERY = (*SHARED, *(f"{name}, {rows} rows" for name, rows in PARTS.items()), *VALUES, *MADE)


def table_rows(name: str, draw: int) -> Split:
    """Training rows and targets, and others, of a shared table, a part of one, or a function without noise."""
    rng, (table, _, part) = np.random.default_rng(draw), name.partition(", ")
    if name in MADE:
        train, features, function = MADE[name]
        X = rng.random((train + TESTED, features))
        X = np.round(10 * X) if "integers" in name else X
        y = function(X)
    elif table not in SHARED:
        return rows_of(name, draw)
    else:
        data = arrays(table)
        of_map = {"mount_st_helens": "height", "baja_bathymetry": "value", "california_gps": "up",
                  "texas_wind": "air_temperature"}  # fmt: skip
        X = data["X"] if "X" in data else np.stack([data["longitude"], data["latitude"]], axis=1)
        y = data[of_map.get(table, "y")]
        X, y = (values[np.isfinite(y)].astype(float) for values in (X, y))
        order = rng.permutation(len(y))
        train = PARTS[table] if part else min(MOST, int(SHARE * len(y)))
        X, y = X[order], y[order]
    return X[:train], y[:train], X[train : train + TESTED], y[train : train + TESTED]


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
    parser.add_argument("--tables", action="store_true", help="bars on all shared tables")
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--ways", default="", help="ways whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console = Console(width=150)
    kinds = (("Targets", VALUES, REGRESSORS, rows_of), ("Classes", CLASSES, CLASSIFIERS, rows_of))
    if options.tables:
        kinds = (("Targets of tables", EVERY, {"bars": bars}, table_rows),)
    for title, names, every, drawn in kinds:
        ways = {name: way for name, way in every.items() if re.search(options.ways, name)}
        rows = []
        for name in (name for name in names if re.search(options.only, name)):
            rows.append([name])
            for way in ways.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of models that stop a little before their tol
                    found = [way(*drawn(name, draw)) for draw in range(options.draws)]
                error = float(np.std(found)) / max(1, options.draws - 1) ** 0.5
                rows[-1].append(f"{np.mean(found):.3f} ({error:.3f})")
            print(*rows[-1], flush=True)
        if ways and rows:
            title = f"{title} that are covered, {options.draws} draws"
            show(console, title, ["set", *ways], rows)
            write(options.out, f"coverage-{names[0]}.md", markdown(title, ["set", *ways], rows))


if __name__ == "__main__":
    main()
