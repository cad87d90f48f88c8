"""Cross-validation in the span of p landmarks beside one fit: C x nu x folds from one pass over the rows.

    python -m benchmarks.landmark_grid [--rows 100000] [--landmarks 300] [--out DIR]

Points in R^20, a smooth target with noise, gradients penalized at all points, a grid of 5 values of C, 5 of nu and 5
folds (125 models), then the model with the best values.  The classifiers have squared hinge loss, on some labels
and on all.  `separate` is one fit times the number of models: what scikit-learn's GridSearchCV would take.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.timing import markdown, show, write

FEATURES = 20
CS, WEIGHTS, FOLDS = [0.1, 1.0, 10.0, 100.0, 1000.0], [0.0, 1e-3, 1e-2, 1e-1, 1.0], 5  # WEIGHTS of single slopes


def models(task: str, p: int, rows: int) -> tuple[Any, Any]:
    """One model, and the search over many."""
    unit = rows / FEATURES  # rows / scale^2
    own: dict[str, Any] = {"approximation": rkhs.Landmarks(p)}
    grid: dict[str, Any] = {
        "Cs": CS,
        "nus": [unit * one for one in WEIGHTS],
        "cv": FOLDS,
        "scales": FEATURES**0.5,
        **own,
    }
    own |= {"C": 10.0, "nu": 1e-2 * unit, "scale": FEATURES**0.5}
    if task == "regression":
        return rkhs.InvariantRegressor(**own), rkhs.InvariantRegressorCV(invariance="gradient", **grid)
    return rkhs.InvariantClassifier(loss="squared_hinge", **own), rkhs.InvariantClassifierCV(
        invariance="gradient", **grid
    )


def data(task: str, rows: int, labels: int) -> tuple[Any, Any]:
    """Points and what is known of them."""
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, FEATURES))
    f = np.sin(X[:, 0] + 0.5 * X[:, 1]) + 0.5 * np.cos(X[:, 2]) * X[:, 3] + 0.1 * random.standard_normal(rows)
    return X, f if task == "regression" else np.where(np.arange(rows) < labels, f > 0, -1)


def line(task: str, rows: int, labels: int, p: int) -> list[str]:
    """Seconds of one fit and of the search."""
    X, y = data(task, rows, labels)
    one, search = models(task, p, rows)
    one.fit(X[:1000], y[:1000])  # imports
    start = perf_counter()
    one.fit(X, y)
    middle = perf_counter()
    search.fit(X, y)
    fit, whole = middle - start, perf_counter() - middle
    count = len(CS) * len(WEIGHTS) * FOLDS + 1
    found = f"C = {search.C_:g}, nu = {search.nu_:g}: {search.best_score_:.4f}"
    numbers = [f"{fit:.1f}", f"{whole:.1f}", f"{whole / fit:.1f}", f"{count * fit:.0f}"]
    return [task, f"{rows:,}", f"{labels:,}", f"{p:,}", *numbers, found]


def main() -> None:
    """Run all tasks and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--landmarks", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    rows, p = options.rows, options.landmarks
    cases = [("regression", rows, rows), ("classification", rows, 1000), ("classification", rows // 5, rows // 5)]
    lines = [line(task, t, labels, p) for task, t, labels in cases]
    headings = ["task", "points", "labels", "p", "one fit, s", "search, s", "search / fit", "separate, s", "best"]
    title = "125 models and the best one, beside one fit"
    show(Console(), title, headings, lines)
    write(options.out, "landmark_grid.md", markdown(title, headings, lines))


if __name__ == "__main__":
    main()
