"""Which nu?  Errors of the plain models with gradients, nothing else set, over nu; and with the old default.

    python -m benchmarks.weights [--labels 20 60] [--draws 10] [--rows 300] [--C 1] [--nus 0 0.1 ..]

Features are standardized; a random part of the rows, some of them labeled, the errors (percent, or shares of the
variance) at all others of that part.  "before" has the default of versions in which nu was the weight of a sum.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1, make_moons

import rkhs
from benchmarks.data import load
from benchmarks.timing import show

NUS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
CLASSES = ("moons", "ionosphere", "sonar", "heart", "australian", "digits", "cancer", "usps_ssl", "g241c")
NUMBERS = ("diabetes", "friedman")
Matrix = np.ndarray[Any, Any]


def rows_of(name: str) -> tuple[Matrix, Matrix]:
    """Points and classes 0 and 1, or targets."""
    if name == "moons":
        return make_moons(400, noise=0.15, random_state=0)
    if name == "cancer":
        return load_breast_cancer(return_X_y=True)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X, (y % 2).astype(int)
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    if name == "friedman":
        return make_friedman1(400, noise=1.0, random_state=0)
    X, y = load(name)
    return X, y if name in NUMBERS else (y > 0).astype(int)


def error(name: str, labels: int, rows: int, draw: int, C: float, nu: float | None) -> float:
    """Of one draw; None for the old default."""
    X, y = rows_of(name)
    some = np.random.default_rng(draw).permutation(len(X))[:rows]
    X, y = X[some], y[some]
    spread = X.std(axis=0)
    X = (X[:, spread > 0] - X[:, spread > 0].mean(axis=0)) / spread[spread > 0]
    few = np.arange(len(y)) < labels
    number = name in NUMBERS
    old = (0.01 if number else 0.1) * len(X) / rkhs.kernels.median_scale(X) ** 2
    own = {"C": C, "nu": old if nu is None else nu}
    if number:
        center, size = y[few].mean(), y[few].std()
        told = np.where(few, (y - center) / size, np.nan)
        model = rkhs.InvariantRegressor(unlabeled=np.nan, **own).fit(X, told)
        return float(np.mean((model.predict(X[~few]) * size + center - y[~few]) ** 2) / np.var(y))
    model = rkhs.InvariantClassifier(unlabeled=-1, **own).fit(X, np.where(few, y, -1))
    return 100 * float(np.mean(model.predict(X[~few]) != y[~few]))


def main() -> None:
    """A row for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--nus", type=float, nargs="+", default=NUS)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--sets", nargs="+", default=[*CLASSES, *NUMBERS])
    given = parser.parse_args()
    console, table = Console(), []
    for name in given.sets:
        for labels in given.labels:
            found = [
                np.mean([error(name, labels, given.rows, draw, given.C, nu) for draw in range(given.draws)])
                for nu in (*given.nus, None)
            ]
            table.append([name, str(labels), *(f"{one:.3g}" for one in found)])
            console.print(" ".join(table[-1]))
    show(console, "Errors over nu", ["set", "labels", *(f"{nu:g}" for nu in given.nus), "before"], table)


if __name__ == "__main__":
    main()
