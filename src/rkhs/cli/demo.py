"""The demonstration: one unknown function, learnt from different things known about it.

The truth is a function of a Gaussian RKHS, so every functional of it is known exactly: L(truth).  It is
learnt in another space, that of a Matern kernel, as the function of least norm that agrees with what is
known: f = sum a_i z_i with <L, L> a = L(truth).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg

import rkhs
from rkhs.backend.arrays import Array

POINTS = 25  # where something is known
SIDE = 61  # of the grid on which the errors are measured
JITTER = 1e-10  # on the diagonal, relative to it


@dataclass(frozen=True, eq=False)
class Row:
    """One way of knowing, and what was learnt from it."""

    knowledge: str
    functional: rkhs.Functional
    learnt: rkhs.Function
    values: Array
    error: float


def run(out: Path) -> None:
    """Print both tables and write the picture."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        sys.exit("The demonstration needs rich and matplotlib: pip install 'rkhs[cli,plot]'.")
    console = Console()
    grid = _grid()
    truth = _truth()
    rows = [_learn(name, L, truth, grid) for name, L in _knowledge().items()]

    table = Table(title="One function, 25 points, different knowledge")
    for heading in ("known at the points", "facts", "norm of f", "error on a grid"):
        table.add_column(heading, justify="left" if heading.startswith("known") else "right")
    for row in rows:
        norm = f"{row.learnt.norm():.2f}"
        table.add_row(row.knowledge, str(row.functional.size), norm, f"{100 * row.error:.1f} %")
    console.print(table)

    with console.status("1,500 points in 241 dimensions, all partial derivatives ..."):
        console.print(_speed(Table))
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "demo.png"
    _draw(rows, truth(grid), picture)
    console.print(f"Picture: {picture}")


def _grid() -> Array:
    axis = np.linspace(0, 1, SIDE)
    return np.stack(np.meshgrid(axis, axis, indexing="xy"), axis=-1).reshape(-1, 2)


def _truth() -> rkhs.Function:
    rng = np.random.default_rng(4)
    centres = rng.uniform(0, 1, (40, 2))
    return rkhs.Function(rkhs.Gaussian(scale=0.13), rkhs.Evaluation(centres), rng.standard_normal(40))


def _knowledge() -> dict[str, rkhs.Functional]:
    X = np.random.default_rng(1).uniform(0, 1, (POINTS, 2))
    values, slopes = rkhs.Evaluation(X), rkhs.Gradient(X)
    neighbours = np.clip(X + 0.1, 0, 1)
    return {
        "values": values,
        "averages over N(x, 0.1^2)": rkhs.LocalAverage(X, width=0.1),
        "values, and differences to a neighbour": rkhs.stack([values, rkhs.Difference(neighbours, X)]),
        "values and slopes": rkhs.stack([values, slopes]),
        "values, slopes and curvatures": rkhs.stack([values, slopes, rkhs.Hessian(X)]),
    }


def _learn(name: str, L: rkhs.Functional, truth: rkhs.Function, grid: Array) -> Row:
    kernel = rkhs.Matern(nu=3.5, scale=0.4)
    G = rkhs.gram(kernel, L).dense()
    G[np.diag_indices_from(G)] *= 1 + JITTER
    # A Hessian's mixed derivatives stand in it twice: least squares is at ease with that.
    coefficients = scipy.linalg.lstsq(G, L(truth))[0]
    learnt = rkhs.Function(kernel, L, coefficients)
    values, target = learnt(grid), truth(grid)
    error = float(np.linalg.norm(values - target) / np.linalg.norm(target))
    return Row(name, L, learnt, values, error)


def _speed(table_class: Any) -> Any:
    t, n = 1500, 241
    rng = np.random.default_rng(0)
    X, A, P = rng.standard_normal((t, n)), rng.standard_normal((t, n)), rng.standard_normal((t, t))
    G = rkhs.gram(rkhs.Gaussian(scale=22.0), rkhs.Gradient(X))
    bare = _seconds(lambda: (X @ X.T, X @ A.T, P @ A, P @ X))
    ours = _seconds(lambda: G @ A.ravel())
    table = table_class(title=f"The Gram matrix of {t * n:,} partial derivatives, times a vector")
    for heading in ("", "seconds", "memory"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("this product", f"{ours:.3f}", "one tile")
    table.add_row("the four matrix products in it, bare", f"{bare:.3f}", "")
    table.add_row("the matrix, if it were dense", "", f"{8 * (t * n) ** 2 / 2**30:,.0f} GiB")
    return table


def _seconds(call: Any) -> float:
    times = []
    for _ in range(5):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


def _draw(rows: list[Row], truth: Array, path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 7.2), layout="constrained", sharex=True, sharey=True)
    panels = [("the truth", truth, None)] + [(f"{r.knowledge}\nerror {100 * r.error:.1f} %", r.values, r) for r in rows]
    axis = np.linspace(0, 1, SIDE)
    levels = np.linspace(truth.min() * 1.1, truth.max() * 1.1, 15)
    for ax, (title, values, row) in zip(axes.flat, panels, strict=True):
        shape = (SIDE, SIDE)
        ax.contourf(axis, axis, values.reshape(shape), levels=levels, cmap="RdBu_r", extend="both")
        ax.contour(axis, axis, values.reshape(shape), levels=[0.0], colors="k", linewidths=0.8)
        if row is not None:
            points = row.functional.prototype
            ax.plot(points[:, 0], points[:, 1], "o", color="k", markersize=3)
        ax.set_title(title, fontsize=10)
        ax.set_aspect("equal")
    figure.suptitle("One function, learnt from what is known about it at 25 points", fontsize=12)
    figure.savefig(path, dpi=110)
    plt.close(figure)
