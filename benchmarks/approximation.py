"""How good is f in the span of p functions?  Objective and predictions beside the exact solution, as p grows.

    python -m benchmarks.approximation [--sets australian usps_ssl] [--out DIR]

100 labels (usps_ssl: its first official split; others: at random), logistic loss of weight 10, squared gradients of
weight 0.1 at all points, Gaussian kernel of median scale, constant basis.  The excess is J(f) / min J - 1, with the
minimum certified to 1e-7; predictions are compared at all points, relative to the largest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import label_sets, load
from benchmarks.timing import markdown, show, write

LABELS = 100
SIZES = [50, 100, 200, 400, 800]
WAYS = {
    "values only": lambda p: rkhs.Landmarks(p, derivatives=0.0),
    "values + derivatives": lambda p: rkhs.Landmarks(p),
    "half derivatives": lambda p: rkhs.Landmarks(p, derivatives=0.5),
    "Fourier features": lambda p: rkhs.FourierFeatures(p),
}


def measured(name: str) -> list[dict[str, Any]]:
    """All ways and sizes on one set."""
    X, y = load(name)
    official = label_sets(name)
    rows = np.random.default_rng(0).choice(len(y), LABELS, replace=False) if official is None else official[0]
    terms = [
        rkhs.Term(rkhs.Evaluation(X[rows]), rkhs.Logistic(), target=y[rows], weight=10.0),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1),
    ]
    kernel, basis = rkhs.Gaussian(rkhs.kernels.median_scale(X)), rkhs.Constant()
    start = perf_counter()
    exact = rkhs.Problem(kernel, terms, basis).solve(tol=1e-7)
    found = [_line(name, "exact", sum(term.size for term in terms), exact, exact, X, y, perf_counter() - start)]
    for p in SIZES:
        for way, make in WAYS.items():
            start = perf_counter()
            near = rkhs.Problem(kernel, terms, basis, approximation=make(p)).solve()
            found.append(_line(name, way, p, near, exact, X, y, perf_counter() - start))
    return found


def _line(name: str, way: str, p: int, near: Any, exact: Any, X: Any, y: Any, seconds: float) -> dict[str, Any]:
    right, values = exact.function(X), near.function(X)
    return {
        "set": name,
        "way": way,
        "p": p,
        "excess": near.primal / exact.primal - 1,
        "difference": float(np.abs(values - right).max() / np.abs(right).max()),
        "error": float(np.mean(np.sign(values) != y)),
        "seconds": seconds,
    }


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Excess and difference of predictions against p."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    sets = list(dict.fromkeys(one["set"] for one in found))
    figure, panels = plt.subplots(len(sets), 2, figsize=(11, 4 * len(sets)), layout="constrained", squeeze=False)
    for name, row in zip(sets, panels, strict=True):
        for axes, what in zip(row, ("excess", "difference"), strict=True):
            for way in WAYS:
                own = [(one["p"], one[what]) for one in found if one["set"] == name and one["way"] == way]
                axes.plot(*zip(*own, strict=True), "o-", label=way)
            axes.set(xscale="log", yscale="log", xlabel="p")
        row[0].set(title=f"{name}: J(f) / min J - 1")
        row[1].set(title=f"{name}: predictions, largest difference")
    panels[0, 0].legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["australian", "usps_ssl"])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    found = [one for name in options.sets for one in measured(name)]
    headings = ["set", "way", "p", "J / min J - 1", "predictions differ by", "error", "seconds"]
    lines = [
        [
            one["set"],
            one["way"],
            f"{one['p']:,}",
            f"{one['excess']:.1e}",
            f"{one['difference']:.1e}",
            f"{one['error']:.3f}",
            f"{one['seconds']:.1f}",
        ]
        for one in found
    ]
    title = "f in the span of p functions, beside the exact solution"
    show(Console(), title, headings, lines)
    write(options.out, "approximation.md", markdown(title, headings, lines))
    draw(found, options.out / "approximation.png")


if __name__ == "__main__":
    main()
