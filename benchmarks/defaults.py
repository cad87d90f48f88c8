"""Seconds of the processor, and errors, of the default estimators from small tables to maps.

    python -m benchmarks.defaults [--only REGEX] [--repeats N] [--out DIR]

values, classes: `rows` x `features` standard normal features, and sin(2 x_1) + x_2 x_3 + x_4 / 2 + 0.1 noise or the
    sign of it; 10,000 x 20 with noise of one half.
map: 11,000 soundings by ships (baja_bathymetry), and 41,000 temperatures of a satellite (heaton_satellite), from random
    rows to the others.

Errors are those of 2,000 other rows, in percent: of wrong classes, or of the root mean square, in deviations.  Seconds
are medians of the repeats, of all threads together, with one BLAS thread if OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import arrays
from benchmarks.maps import survey
from benchmarks.timing import markdown, show, write

Vector = np.ndarray[Any, Any]
TABLES = ((100, 5, 0.1), (300, 10, 0.1), (1000, 10, 0.1), (10_000, 20, 0.5))  # rows, features, noise
MAPS = (("ships", 11_000), ("satellite", 41_000))
OTHERS = 2000


def table(rows: int, features: int, noise: float) -> tuple[Vector, Vector]:
    """Return features and values, with `OTHERS` further rows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((rows + OTHERS, features))
    truth = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] / 2
    return X, truth + noise * random.standard_normal(len(X))


def some(name: str, rows: int) -> tuple[Vector, Vector]:
    """Return random points of a survey and their values, with at most `OTHERS` further ones."""
    if name == "ships":
        X, y = survey(name, 0)
    else:
        data = arrays("heaton_satellite")
        X, y = data["X"][np.isfinite(data["y"])].astype(float), data["y"][np.isfinite(data["y"])].astype(float)
    chosen = np.random.default_rng(0).permutation(len(y))[: rows + OTHERS]
    return X[chosen], y[chosen]


def measured(X: Vector, y: Vector, rows: int, classes: bool) -> tuple[float, float]:
    """Return the seconds of the fit, and the error in percent."""
    target = y > np.median(y) if classes else y
    model: Any = rkhs.InvariantClassifierCV() if classes else rkhs.InvariantRegressorCV()
    start = process_time()
    model.fit(X[:rows], target[:rows])
    seconds = process_time() - start
    found, truth = model.predict(X[rows:]), target[rows:]
    if classes:
        return seconds, 100 * float(np.mean(found != truth))
    return seconds, 100 * float(np.sqrt(np.mean((found - truth) ** 2)) / np.std(truth))


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="jobs whose names match, such as 'values 1,000'")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    jobs: dict[str, tuple[int, bool, Callable[[], tuple[Vector, Vector]]]] = {}
    for kind in ("values", "classes"):
        for rows, features, noise in TABLES:
            load = lambda size=(rows, features, noise): table(*size)  # noqa: E731
            jobs[f"{kind} {rows:,} x {features}"] = rows, kind == "classes", load
    for name, rows in MAPS:
        jobs[f"map {name} {rows:,}"] = rows, False, lambda job=(name, rows): some(*job)
    console, lines = Console(width=100), []
    for name, (rows, classes, load) in jobs.items():
        if re.search(options.only, name):
            X, y = load()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = np.array([measured(X, y, rows, classes) for _ in range(options.repeats)])
            lines.append([name, *(f"{value:.2f}" for value in np.median(found, axis=0))])
            console.print(*lines[-1])
    heads, title = ["data", "seconds", "error, %"], "Defaults: seconds of the processor, and errors"
    show(console, title, heads, lines)
    write(options.out, "defaults.md", markdown(title, heads, lines))


if __name__ == "__main__":
    main()
