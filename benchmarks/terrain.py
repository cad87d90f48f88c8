"""Mount St. Helens from a tenth of its heights with their slopes, compared with SciPy's thin plate.

    python -m benchmarks.terrain [--seeds 0 1 2] [--out DIR]

A random tenth of the 14,040 heights of the grid (data set mount_st_helens), each with its measured slopes, which were
taken at a finer scale and disagree with the heights here and there.  The error is the root mean square of heights at
the other nine tenths, in percent of their spread.  The power of the polyharmonic kernel, the weight of slopes and the
width of Huber's loss on them are chosen by a fifth of the training heights, left out.  The peer is
`scipy.interpolate.RBFInterpolator` with its thin plate (r^2 log r) on the same heights: slopes are not for it.
On a Fourier grid the kernel is a Matern kernel whose order, length scale and weights are those with the largest
evidence; the grid would take all 14,040 heights in the same time.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.interpolate import RBFInterpolator

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
HEIGHTS = 1e3  # their weight: f goes through them to a thousandth of what it bends
POWERS, WEIGHTS, WIDTHS = (2.2, 2.5), (0.3, 3.0), (10.0, 30.0)


def load() -> tuple[Matrix, Matrix, Matrix]:
    """Points in units of the grid, heights, and slopes in these units."""
    data = arrays("mount_st_helens")
    return data["X"] / 8.0, data["height"].astype(float), 8.0 * data["grad"].astype(float)


def fitted(X: Matrix, h: Matrix, slopes: Matrix | None, power: float, weight: float, width: float | None) -> Any:
    """f from heights and slopes; Huber's loss on the latter, where it has a width."""
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), h, HEIGHTS)]
    if slopes is not None:
        loss = rkhs.Squared() if width is None else rkhs.Huber(width)
        terms.append(rkhs.Term(rkhs.Gradient(X), loss, slopes, weight))
    return rkhs.Problem(rkhs.kernels.Polyharmonic(power), terms).solve(tol=1e-3).function


def on_grid(X: Matrix, h: Matrix, slopes: Matrix) -> Any:
    """f from heights and slopes on a Fourier grid, with the evidence of a sample; nothing is left out."""
    unit, learn = float(h.std()), rkhs.Tunable
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), (h - h.mean()) / unit, learn()),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), slopes / unit, learn()),
    ]
    kernels = [learn() * rkhs.Matern(nu, learn()) for nu in (1.5, 2.5)]
    tuned = [rkhs.Problem(k, terms, approximation=rkhs.FourierGrid()).tune(functionals=1500, starts=1) for k in kernels]
    best = max(tuned, key=lambda one: one.tuning.value)
    f = best.solve(tol=1e-3).function
    return lambda Z: h.mean() + unit * f(Z)


def chosen(X: Matrix, h: Matrix, slopes: Matrix) -> tuple[float, float, float | None]:
    """Settings by a fifth of the heights that is left out: power and weight first, then the width."""
    out, kept = np.arange(0, len(X), 5), np.setdiff1d(np.arange(len(X)), np.arange(0, len(X), 5))

    def error(power: float, weight: float, width: float | None) -> float:
        f = fitted(X[kept], h[kept], slopes[kept], power, weight, width)
        return float(np.sqrt(np.mean((f(X[out]) - h[out]) ** 2)))

    power, weight = min(product(POWERS, WEIGHTS), key=lambda own: error(*own, None))
    width = min((None, *WIDTHS), key=lambda own: error(power, weight, own))
    return power, weight, width


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    X, h, slopes = load()
    rows = []
    for seed in options.seeds:
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[: len(X) // 10], order[len(X) // 10 :]
        spread = float(np.linalg.norm(h[test] - h[train].mean()))
        start = time.process_time()
        settings = chosen(X[train], h[train], slopes[train])
        searching, start = time.process_time() - start, time.process_time()
        f = fitted(X[train], h[train], slopes[train], *settings)
        fitting, start = time.process_time() - start, time.process_time()
        grid = on_grid(X[train], h[train], slopes[train])(X[test])
        with_grid, start = time.process_time() - start, time.process_time()
        peer = RBFInterpolator(X[train], h[train], kernel="thin_plate_spline")
        theirs = peer(X[test])
        found = {
            f"rkhs, heights and slopes {settings}": (f(X[test]), fitting),
            "rkhs, heights and slopes on a Fourier grid": (grid, with_grid),
            "rkhs, heights": (fitted(X[train], h[train], None, settings[0], 0.0, None)(X[test]), 0.0),
            "scipy thin plate, heights": (theirs, time.process_time() - start),
        }
        for name, (values, seconds) in found.items():
            error = 100 * float(np.linalg.norm(values - h[test])) / spread
            rows.append([f"{seed}", name, f"{error:.2f}", f"{seconds:.1f}"])
            print(*rows[-1], f"(settings: {searching:.0f} s)", flush=True)
    title = "Mount St. Helens: error of heights, % of their spread"
    headings = ["seed", "model (power, weight of slopes, width of the loss)", "error %", "processor seconds"]
    show(Console(), title, headings, rows)
    write(options.out, "terrain.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
