"""Rows that are added to a model and removed from it, against a fit to all rows.

    python -m benchmarks.updates [--sizes 500 2000 5000] [--repeats 5] [--out DIR]

An `InvariantRegressor` with ten features learns from m rows.  Measured are seconds of the processor, medians: of
`partial_fit` with one more row, of `forget` of the row in the middle, of the first `partial_fit`, which factorizes, and
of `fit` with the same settings.  The error is the largest difference of predictions from those of `fit`, over their
standard deviation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.base import clone

import rkhs
from benchmarks.timing import markdown, seconds, show, write


def measured(m: int, repeats: int) -> list[str]:
    """Return a row of the table."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m + repeats + 1, 10))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(len(X))
    model = rkhs.InvariantRegressor(C=10.0, scale=3.0, invariance=None, tol=1e-8).fit(X[:m], y[:m])
    rows = np.arange(m)

    def add(row: int) -> None:
        nonlocal rows
        rows = np.append(rows, row)
        model.partial_fit(X[[row]], y[[row]])

    def remove() -> None:
        nonlocal rows
        middle = len(rows) // 2
        rows = np.delete(rows, middle)
        model.forget([middle])

    first = seconds(lambda: add(m), process_time)
    times: dict[str, list[float]] = {"add": [], "remove": [], "fit": []}
    again: Any = clone(model)
    for k in range(repeats):
        times["add"].append(seconds(lambda k=k: add(m + 1 + k), process_time))
        times["remove"].append(seconds(remove, process_time))
        times["fit"].append(seconds(lambda: again.fit(X[rows], y[rows]), process_time))
    error = np.abs(model.predict(X) - again.predict(X)).max() / y.std()
    added, removed, fitted = (float(np.median(times[name])) for name in times)
    numbers = [f"{t:.3f} s" for t in (added, removed, first, fitted)]
    return [f"{m:,}", *numbers, f"{fitted / added:.1f}", f"{fitted / removed:.1f}", f"{error:.0e}"]


def main() -> None:
    """Measure, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[500, 2000, 5000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    rows = [measured(m, options.repeats) for m in options.sizes]
    title = "One row more or less"
    headings = ["rows", "add", "remove", "first add", "fit", "fit / add", "fit / remove", "error"]
    show(Console(), title, headings, rows)
    write(options.out, "updates.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
