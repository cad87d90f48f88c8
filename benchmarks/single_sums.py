"""Why sums are in float64: the objective of f from sums of products in float32, as fewer directions of K are left out.

    python -m benchmarks.single_sums [--rows 5000] [--landmarks 300] [--out DIR]

Squared loss of weight 10 at all points of R^10, squared gradients of weight 0.01, Gaussian kernel.  Directions of K
below UNITS of rounding of the sums are left out (`solvers/whitening.py`, 8 in float64).  J is computed in float64 at
the solution; `claimed` is what the sums in float32 say it is.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rkhs.solvers.spans.rotated import Rotated

import rkhs
from benchmarks.timing import markdown, show, write
from rkhs.finite.summary import Summary
from rkhs.problem.choice import choose
from rkhs.solvers.spans import whitening

FEATURES = 10
RATIO = float(np.finfo(np.float32).eps / np.finfo(np.float64).eps)


def in_single(summary: Summary, terms: list[rkhs.Term]) -> Summary:
    """The same sums with products of float32 rows."""
    found: list[Any] = []
    for own, term in zip(summary.terms, terms, strict=True):
        E = (np.sqrt(term.weight) * summary.span.rows(term.functional)).astype(np.float32)
        found.append(replace(own, square=(E.T @ E).astype(np.float64)[None]))
    return replace(summary, terms=tuple(found))


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--landmarks", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    random = np.random.default_rng(0)
    X = random.standard_normal((options.rows, FEATURES))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * random.standard_normal(options.rows)
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, 10.0),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.01),
    ]
    span = choose(rkhs.Gaussian(FEATURES**0.5), terms, None, rkhs.Landmarks(options.landmarks))
    right = Summary.of(span, None, terms, None)
    M, m, constant = (sum(getattr(own, name)[0] for own in right.terms) for name in ("square", "linear", "constant"))
    best = Rotated(right).solve(1e-6)[0].certificate.primal[0]
    rough = in_single(right, terms)
    lines = []
    for units in (8.0, 1.0, 0.1, 0.01, 0.001):
        whitening.UNITS = units * RATIO
        problem = Rotated(rough)
        kept = len(problem.small()[1])
        try:
            found = problem.solve(1e-6)[0]
        except np.linalg.LinAlgError:
            lines.append([f"{units:g}", f"{kept} of {span.size}", "not positive definite", "-"])
            continue
        tau = found.tau[:, 0]
        J = tau @ span.norm @ tau / 2 + tau @ M @ tau - 2 * m[:, 0] @ tau + constant[0]
        lines.append(
            [
                f"{units:g}",
                f"{kept} of {span.size}",
                f"{J / best - 1:.2g}",
                f"{found.certificate.primal[0] / best - 1:.2g}",
            ]
        )
    title = f"Sums in float32, {options.rows:,} points: J / J in float64 - 1"
    headings = ["UNITS", "directions kept", "J / best - 1", "claimed"]
    show(Console(), title, headings, lines)
    write(options.out, "single_sums.md", markdown(title, headings, lines))


if __name__ == "__main__":
    main()
