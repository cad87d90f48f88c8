"""What a structured product costs: beside its bare matrix products, beside the dense matrix, beside GPyTorch.

    python -m benchmarks.products [--quick] [--out DIR]

prints three tables and writes them as Markdown, with a plot, to DIR.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks import gpytorch_peer
from benchmarks.timing import interleaved, markdown, show, write
from rkhs.backend.memory import free_memory

KERNELS: dict[str, Any] = {
    "Gaussian": lambda n: rkhs.Gaussian(scale=(2.0 * n) ** 0.5),
    "Matern 5/2": lambda n: rkhs.Matern(nu=2.5, scale=(2.0 * n) ** 0.5),
    "rational quadratic": lambda n: rkhs.RationalQuadratic(alpha=1.0, scale=(2.0 * n) ** 0.5),
    "polynomial 3": lambda n: rkhs.Polynomial(degree=3),
    "polyharmonic 3": lambda n: rkhs.Polyharmonic(power=3),
}
SIZES = [(500, 50), (1500, 20), (1500, 241), (1500, 784), (5000, 50), (5000, 200)]


def bare_ratio(name: str, t: int, n: int, dtype: Any, library: str) -> tuple[float, float]:
    """Seconds of the four bare t x t x n products, and of ours."""
    rng = np.random.default_rng(0)
    X, A, P = (rng.standard_normal(shape).astype(dtype) for shape in ((t, n), (t, n), (t, t)))
    if library == "torch":
        import torch

        X, A, P = (torch.from_numpy(a) for a in (X, A, P))
    G = rkhs.gram(KERNELS[name](n), rkhs.Gradient(X))
    v = A.reshape(-1)
    calls = {"bare": lambda: (X @ X.T, X @ A.T, P @ A, P @ X), "ours": lambda: G @ v}
    best = interleaved(calls, repeats=3 if t > 2000 else 7)
    return best["bare"], best["ours"]


def against_bare(sizes: list[tuple[int, int]], console: Console) -> list[list[str]]:
    """One row for each size: seconds of the bare products, and ratios for each kernel, dtype and library."""
    rows = []
    for t, n in sizes:
        with console.status(f"{t} points in {n} dimensions"):
            found = [bare_ratio(name, t, n, np.float64, "numpy") for name in KERNELS]
            single = bare_ratio("Gaussian", t, n, np.float32, "numpy")
            tensor = bare_ratio("Gaussian", t, n, np.float64, "torch")
        row = [f"{t:,}", f"{n}", f"{t * n:,}", f"{found[0][0]:.3f}"]
        rows.append(row + [f"{ours / bare:.2f}" for bare, ours in (*found, single, tensor)])
    return rows


def against_dense(sizes: list[tuple[int, int]]) -> list[list[str]]:
    """Build and product of the dense matrix, beside the structured product."""
    rows = []
    for t, n in sizes:
        X = np.random.default_rng(0).standard_normal((t, n))
        G = rkhs.gram(rkhs.Gaussian(scale=(2.0 * n) ** 0.5), rkhs.Gradient(X))
        v = np.ones(t * n)
        best = interleaved({"dense": lambda G=G, v=v: G.dense() @ v, "ours": lambda G=G, v=v: G @ v}, repeats=3)
        memory = f"{8 * (t * n) ** 2 / 2**30:.2f}"
        ratio = f"{best['dense'] / best['ours']:,.0f}"
        rows.append([f"{t:,}", f"{n}", memory, f"{best['dense']:.3f}", f"{best['ours']:.4f}", ratio])
    return rows


def against_gpytorch(sizes: list[tuple[int, int]], console: Console) -> list[list[str]]:
    """RBFKernelGrad, build and product, each size in a process of its own."""
    rows = []
    for t, n in sizes:
        if t * n >= 300 * 64 and free_memory(np.zeros(1)) < gpytorch_peer.GIGABYTES * 2**30:
            rows.append([f"{t}", f"{n}", "skipped: not enough free memory", "", "", "", ""])
            continue
        with console.status(f"GPyTorch, {t} points in {n} dimensions"):
            r = gpytorch_peer.apart(t, n)
        row = [f"{t}", f"{n}", f"{r['theirs']:.2f}", f"{r['ours']:.5f}", f"{r['theirs'] / r['ours']:,.0f}"]
        rows.append([*row, f"{r['error']:.0e}", f"{r['peak']:.1f}"])
    return rows


def draw(rows: list[list[str]], path: Path) -> None:
    """The ratios to the bare products, as bars."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    names = [*KERNELS, "Gaussian, float32", "Gaussian, torch"]
    for k, name in enumerate(names):
        heights = [float(row[4 + k]) for row in rows]
        axes.bar(np.arange(len(rows)) + k / (len(names) + 1.5), heights, 1 / (len(names) + 1.5), label=name)
    axes.axhline(1.0, color="k", linewidth=0.8)
    axes.set_xticks(np.arange(len(rows)) + 0.4, [f"t = {row[0]}\nn = {row[1]}" for row in rows])
    axes.set_ylabel("seconds / seconds of bare products")
    axes.set_title("The Gram product of all partial derivatives, beside its bare matrix products")
    axes.legend(fontsize=8, ncols=4)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run all three comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console = Console(width=150)
    few = slice(0, 1 if options.quick else None)
    tables = []
    headings = ["points", "features", "functionals", "bare, s", *KERNELS, "Gaussian float32", "Gaussian torch"]
    bare = against_bare(SIZES[few], console)
    tables.append(("Gradient Gram product, as a ratio to its bare matrix products", headings, bare))
    dense = against_dense([(50, 10), (200, 20), (300, 40)][few])
    headings = ["points", "features", "dense GiB", "dense build + product, s", "ours, s", "times faster"]
    tables.append(("Beside the dense matrix", headings, dense))
    peer = against_gpytorch([(20, 5), (100, 20), (300, 64)][few], console)
    headings = ["points", "features", "GPyTorch, s", "ours, s", "times faster", "difference", "its peak, GiB"]
    tables.append(("Beside GPyTorch's RBFKernelGrad, build + product of values and gradients", headings, peer))
    for table in tables:
        show(console, *table)
    write(options.out, "products.md", "".join(markdown(*table) for table in tables))
    draw(bare, options.out / "products.png")
    console.print(f"Written to {options.out}")


if __name__ == "__main__":
    main()
