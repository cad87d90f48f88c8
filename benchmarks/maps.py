"""Maps from many scattered points: a Fourier grid, and the packages that people use for maps.

    python -m benchmarks.maps [satellite | growth | space | outliers | blocks] [--out DIR]

satellite: 105,569 surface temperatures of a satellite, 42,740 others under clouds to predict (data set
    heaton_satellite; Heaton et al. 2019, A case study competition among methods for analyzing large spatial data, whose
    methods have mean absolute errors of 1.10 and more).  Ours is InvariantRegressorCV() with its defaults.  Peers:
    SciPy's RBFInterpolator with 100 neighbors, and the mean of ten neighbors of verde, if it is installed.  Kriging of
    PyKrige computes the distances of all pairs even for windows of 50 neighbors, and runs out of memory (83 GiB).
growth: noisy values and gradients at 10^5, 10^6 and 10^7 points of the plane, each in a process of its own.
space: noisy values and gradients at 10^6 points in space (--count).
outliers: 100,000 noisy values, 1 % of them moved by ten deviations, with squared and Huber losses.
blocks: values in the plane in Parquet files of 10^6 rows each, 10^8 rows in all (--rows), read once.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from scipy.interpolate import RBFInterpolator

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]


def surface(X: Matrix) -> tuple[Matrix, Matrix]:
    """Return the values (t,) and the gradients (t, 2) of a smooth function of the plane."""
    phase = 9 * X[:, 1] + 3 * X[:, 0]
    wave, slope = np.sin(12 * X[:, 0]), 12 * np.cos(12 * X[:, 0])
    gradient = np.stack([slope * np.cos(phase) - 3 * wave * np.sin(phase), -9 * wave * np.sin(phase)], axis=1)
    return wave * np.cos(phase), gradient


def peak() -> float:
    """Return the peak memory of the process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def satellite() -> Iterator[list[str]]:
    """Yield errors and seconds of all models on the satellite's temperatures."""
    data = arrays("heaton_satellite")
    X, y, train, test = data["X"], data["y"], data["train"], data["test"]

    def row(name: str, predicted: Matrix, seconds: float, std: Matrix | None = None, more: str = "") -> list[str]:
        error = predicted - y[test]
        cover = "" if std is None else f"{np.mean(np.abs(error) <= 1.96 * std):.3f}"
        return [name, f"{np.abs(error).mean():.3f}", f"{np.sqrt(np.mean(error**2)):.3f}", cover, f"{seconds:.0f}", more]

    start = perf_counter()
    model = rkhs.InvariantRegressorCV().fit(X[train], y[train])
    fitted = perf_counter() - start
    predicted, std = model.predict(X[test], return_std=True)
    yield row("ours", predicted, perf_counter() - start, std, f"fit {fitted:.0f} s, {model.solution_.span}")
    start = perf_counter()
    predicted = RBFInterpolator(X[train], y[train], neighbors=100)(X[test])
    yield row("RBFInterpolator, 100 neighbors", predicted, perf_counter() - start)
    if find_spec("verde") is not None:
        import verde

        start = perf_counter()
        nearest = verde.KNeighbors(k=10).fit((X[train, 0], X[train, 1]), y[train])
        predicted = nearest.predict((X[test, 0], X[test, 1]))
        yield row("verde, 10 neighbors", predicted, perf_counter() - start)


def growth(count: int, dimension: int = 2) -> str:
    """Return a line about values and gradients at `count` points; in space the function has the same third slope."""
    random = np.random.default_rng(0)

    def truth(X: Matrix) -> tuple[Matrix, Matrix]:
        values, gradients = surface(X[:, :2])
        if dimension == 3:
            values, gradients = values + X[:, 2], np.column_stack([gradients, np.ones(len(X))])
        return values, gradients

    X = random.uniform(size=(count, dimension))
    values, gradients = truth(X)
    values += 0.5 * random.standard_normal(count)
    gradients += 2.0 * random.standard_normal(gradients.shape)
    start = perf_counter()
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=values, weight=1 / (2 * 0.5**2)),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), target=gradients, weight=1 / (2 * 2.0**2)),
    ]
    solution = rkhs.Problem(rkhs.Matern(2.5, scale=0.2), terms, approximation=rkhs.FourierGrid()).solve(tol=1e-4)
    seconds = perf_counter() - start
    Z = random.uniform(size=(10_000, dimension))
    error = float(np.sqrt(np.mean((solution.function(Z) - truth(Z)[0]) ** 2)))
    cells = [f"{count:,}", f"{(1 + dimension) * count:,}", f"{seconds:.1f}", f"{peak():.2f}", f"{error:.5f}"]
    return "|".join([*cells, solution.status, solution.span])


def outliers() -> Iterator[list[str]]:
    """Yield errors with and without outliers, for squared and Huber losses."""
    random = np.random.default_rng(0)
    X, noise = random.uniform(size=(100_000, 2)), 0.1
    clean = surface(X)[0] + noise * random.standard_normal(len(X))
    moved = clean.copy()
    moved[random.choice(len(X), len(X) // 100, replace=False)] += 10 * float(np.std(clean))
    Z = random.uniform(size=(10_000, 2))
    for name, loss in {"squared": rkhs.Squared(), "Huber": rkhs.Huber(1.345 * noise)}.items():
        cells = [name]
        for target in (clean, moved):
            start = perf_counter()
            term = rkhs.Term(rkhs.Evaluation(X), loss, target=target, weight=1 / (2 * noise**2))
            solution = rkhs.Problem(rkhs.Matern(2.5, scale=0.2), [term], approximation=rkhs.FourierGrid()).solve(
                tol=1e-4
            )
            seconds = perf_counter() - start
            error = float(np.sqrt(np.mean((solution.function(Z) - surface(Z)[0]) ** 2)))
            cells += [f"{error:.5f}", f"{seconds:.1f}"]
        yield cells


def blocks(rows: int) -> list[str]:
    """Return a line about values in Parquet files."""
    import pandas as pd

    each = 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        for k in range(rows // each):
            random = np.random.default_rng(k)
            X = random.uniform(size=(each, 2)).astype(np.float32)
            y = surface(X.astype(float))[0] + 0.5 * random.standard_normal(each)
            pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "value": y.astype(np.float32)}).to_parquet(
                f"{folder}/{k:04d}.parquet"
            )
        stream = rkhs.streams.read_parquet(folder, target="value")

        def terms(block: Any) -> list[rkhs.Term]:
            return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y, weight=2.0)]

        start = perf_counter()
        grid = rkhs.FourierGrid(box=([0, 0], [1, 1]))
        problem = rkhs.streams.StreamedProblem(rkhs.Matern(2.5, scale=0.2), terms, stream, grid)
        solution = problem.solve(tol=1e-4)
        seconds = perf_counter() - start
    Z = np.random.default_rng(0).uniform(size=(10_000, 2))
    error = float(np.sqrt(np.mean((solution.function(Z) - surface(Z)[0]) ** 2)))
    return [f"{rows:,}", f"{seconds:.0f}", f"{peak():.2f}", f"{error:.5f}", solution.status]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="?", default="satellite", choices=["satellite", "growth", "space", "outliers", "blocks"]
    )
    parser.add_argument("--count", type=int, help="points of one process of `growth`")
    parser.add_argument("--rows", type=int, default=10**8, help="rows of `blocks`")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    if options.count:
        print(growth(options.count, 3 if options.what == "space" else 2))
        return
    if options.what == "satellite":
        headings = ["model", "mean absolute error", "root mean square", "within 95 % intervals", "seconds", ""]
        rows = list(satellite())
    elif options.what in ("growth", "space"):
        headings = ["points", "functionals", "seconds", "GiB", "error", "status", "grid"]
        command = [sys.executable, "-m", "benchmarks.maps", options.what, "--count"]
        counts = (10**5, 10**6, 10**7) if options.what == "growth" else (10**5, 10**6)
        runs = [subprocess.run([*command, str(n)], capture_output=True, text=True, check=True) for n in counts]
        rows = [run.stdout.strip().split("|") for run in runs]
    elif options.what == "outliers":
        headings, rows = ["loss", "error, clean", "seconds", "error, outliers", "seconds"], list(outliers())
    else:
        headings, rows = ["rows", "seconds", "GiB", "error", "status"], [blocks(options.rows)]
    title = f"Maps: {options.what}"
    show(Console(width=140), title, headings, rows)
    write(options.out, f"maps_{options.what}.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
