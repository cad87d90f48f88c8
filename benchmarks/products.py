"""What a structured product costs: beside its bare matrix products, beside the dense matrix, beside GPyTorch.

    python -m benchmarks.products [--quick] [--out DIR]

prints three tables and writes them as Markdown, with a plot, to DIR.  Seconds are minima over repeats in which the
things compared take turns.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks import gpytorch_peer, plots
from benchmarks.costs import Cost, Dense, Setting
from benchmarks.timing import interleaved, markdown, show, write

KERNELS: dict[str, Any] = {
    "Gaussian": lambda n: rkhs.Gaussian(scale=n**0.5),
    "Matern 5/2": lambda n: rkhs.Matern(nu=2.5, scale=n**0.5),
    "rational quadratic": lambda n: rkhs.kernels.RationalQuadratic(alpha=1.5, scale=n**0.5),
    "polynomial 3": lambda n: rkhs.kernels.Polynomial(degree=3),
    "polyharmonic 3": lambda n: rkhs.kernels.Polyharmonic(power=3),
}
FAMILIES = {"gradients": rkhs.Gradient, "values": rkhs.Evaluation}
Table = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True)
class Plan:
    """The sizes of one run."""

    settings: list[Setting]
    dense: list[tuple[int, int]]
    peer: list[tuple[int, int]]


def plan(quick: bool) -> Plan:
    """Few small sizes, or all."""
    if quick:
        sizes = [Setting(250, 50), Setting(500, 50), Setting(500, 10), Setting(500, 50, "torch")]
        return Plan([*sizes, Setting(500, 50, family="values")], [(30, 10), (100, 10)], [(50, 10)])
    sizes = []
    for library, dtype in (("numpy", "float64"), ("numpy", "float32"), ("torch", "float64"), ("torch", "float32")):
        sizes += [Setting(t, 241, library, dtype) for t in (250, 500, 1500, 5000)]
        sizes += [Setting(1500, n, library, dtype) for n in (10, 50, 800)]
    sizes += [Setting(t, 241, family="values") for t in (1500, 5000)]
    return Plan(sizes, [(30, 10), (100, 10), (100, 50), (250, 50)], [(20, 5), (100, 20), (200, 40), (300, 64)])


def costs(setting: Setting) -> list[Cost]:
    """The product of every kernel, and the bare matrix products: of a gradient four, of values two."""
    rng = np.random.default_rng(0)
    t, n = setting.t, setting.n
    X, A, P = (rng.standard_normal(shape).astype(setting.dtype) for shape in ((t, n), (t, n), (t, t)))
    if setting.library == "torch":
        import torch

        X, A, P = (torch.from_numpy(array) for array in (X, A, P))
    values = setting.family == "values"
    v = A[:, 0] if values else A.reshape(-1)
    calls: dict[str, Any] = {"bare": lambda: (X @ X.T, P @ v) if values else (X @ X.T, X @ A.T, P @ A, P @ X)}
    for name, kernel in KERNELS.items():
        G = rkhs.gram(kernel(n), FAMILIES[setting.family](X))
        calls[name] = lambda G=G: G @ v
    best = interleaved(calls, repeats=4 if t * t * n > 10**9 else 12)
    return [Cost(setting, name, best["bare"], best[name]) for name in KERNELS]


def beside_dense(t: int, n: int) -> Dense:
    """Gradients under the Gaussian kernel."""
    rng = np.random.default_rng(0)
    X, v = rng.standard_normal((t, n)), rng.standard_normal(t * n)
    G = rkhs.gram(KERNELS["Gaussian"](n), rkhs.Gradient(X))
    product, expected = G @ v, G.dense() @ v
    best = interleaved({"dense": lambda: G.dense() @ v, "ours": lambda: G @ v}, repeats=3)
    tracemalloc.start()
    G @ v
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    difference = float(np.linalg.norm(product - expected) / np.linalg.norm(expected))
    return Dense(t, n, best["dense"], best["ours"], 8 * (t * n) ** 2, peak, difference)


def beside_gpytorch(sizes: list[tuple[int, int]]) -> Iterator[gpytorch_peer.Comparison | str]:
    """One comparison for each size, or why there is none."""
    for t, n in sizes:
        missing = gpytorch_peer.missing_memory(t, n)
        yield f"{t} points in {n} dimensions: {missing}" if missing else gpytorch_peer.apart(t, n)


def cost_table(found: list[Cost]) -> Table:
    """One row for each setting, one column for each kernel."""
    rows = []
    for s, group in groupby(found, key=lambda cost: cost.setting):
        of_setting = list(group)
        size = s.t * s.n if s.family == "gradients" else s.t
        row = [s.family, s.library, s.dtype, f"{s.t:,}", f"{s.n}", f"{size:,}", f"{1e3 * of_setting[0].bare:.1f}"]
        rows.append(row + [f"{cost.ratio:.2f}" for cost in of_setting])
    headings = ["of", "library", "dtype", "points", "features", "functionals", "bare, ms", *KERNELS]
    return "One product, as a ratio to its bare matrix products", headings, rows


def dense_table(found: list[Dense]) -> Table:
    """One row for each size."""
    rows = [
        [
            f"{d.t}",
            f"{d.n}",
            f"{d.t * d.n:,}",
            f"{d.dense_bytes / 2**20:,.1f}",
            f"{d.our_bytes / 2**20:,.1f}",
            f"{d.dense:.3f}",
            f"{d.ours:.5f}",
            f"{d.dense / d.ours:,.0f}",
            f"{d.difference:.0e}",
        ]
        for d in found
    ]
    headings = ["points", "features", "functionals", "dense, MiB", "ours, MiB", "dense, s", "ours, s", "times faster"]
    return "Beside the dense matrix, build and product (gradients, Gaussian)", [*headings, "difference"], rows


def peer_table(found: list[gpytorch_peer.Comparison | str]) -> Table:
    """One row for each size, also for those that did not fit in memory."""
    rows = []
    for c in found:
        if isinstance(c, str):
            rows.append([f"skipped, {c}", *[""] * 7])
            continue
        size = [f"{c.points}", f"{c.dimensions}", f"{c.points * (c.dimensions + 1):,}", f"{c.peak_gib:.1f}"]
        seconds = [f"{c.theirs:.3f}", f"{c.ours:.5f}", f"{c.theirs / c.ours:,.0f}"]
        rows.append([*size, *seconds, f"{c.difference:.0e}"])
    headings = ["points", "features", "functionals", "its peak, GiB", "GPyTorch, s", "ours, s", "times faster"]
    title = "Beside GPyTorch's RBFKernelGrad, build and product (values and gradients, Gaussian)"
    return title, [*headings, "difference"], rows


def main() -> None:
    """Run all three comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="few small sizes: some seconds")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of products.md and products.png")
    options = parser.parse_args()
    console = Console(width=160)
    todo = plan(options.quick)

    found: list[Cost] = []
    with console.status("") as status:
        for step, s in enumerate(todo.settings, start=1):
            status.update(f"[{step}/{len(todo.settings)}] {s.family} at {s.t} points in R^{s.n}, {s.library} {s.dtype}")
            found += costs(s)
        status.update("the dense matrix")
        dense = [beside_dense(t, n) for t, n in todo.dense]
        status.update("GPyTorch (about a minute and 18 GiB for the largest size)")
        peers = list(beside_gpytorch(todo.peer))

    tables = [cost_table(found), dense_table(dense), peer_table(peers)]
    for table in tables:
        show(console, *table)
    write(options.out, "products.md", "".join(markdown(*table) for table in tables))
    compared = [c for c in peers if not isinstance(c, str)]
    plots.draw(found, dense, compared, options.out / "products.png")
    console.print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
