"""Condition numbers of values with derivatives, in the units of the user and in those of the norms of functionals.

    python -m benchmarks.conditioning [--out DIR]

Values, gradients and Hessians at 60 points, in units of the points from 1e-3 to 1e3 of a length scale.  Entries of the
Gram matrix of derivatives of order m grow as unit^-m, and so does the condition number of G + 1 / weight with equal
weights.  With weights divided by the squared norms of the functionals, as estimators do, the units cancel.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.timing import markdown, show, write


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    points, weight, rows = np.random.default_rng(0).uniform(size=(60, 2)), 1e4, []
    families = {"values and gradients": [rkhs.Gradient], "and Hessians": [rkhs.Gradient, rkhs.functionals.Hessian]}
    for name, others in families.items():
        cells = [name]
        for unit in (1e-3, 1.0, 1e3):
            X = unit * points
            functionals = rkhs.stack([rkhs.Evaluation(X), *(family(X) for family in others)])
            G = rkhs.gram(rkhs.Gaussian(scale=0.5 * unit), functionals).dense()
            size = np.sqrt(np.diag(G))
            raw = np.linalg.cond(G + np.eye(len(G)) / weight)
            scaled = np.linalg.cond(G / np.outer(size, size) + np.eye(len(G)) / weight)
            cells += [f"{raw:.0e}", f"{scaled:.0e}"]
        rows.append(cells)
        print(*cells, flush=True)
    headings = ["functionals", *(f"{what}, unit {unit:g}" for unit in (1e-3, 1.0, 1e3) for what in ("raw", "scaled"))]
    title = "Condition numbers of G + 1 / weight"
    show(Console(width=140), title, headings, rows)
    write(options.out, "conditioning.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
