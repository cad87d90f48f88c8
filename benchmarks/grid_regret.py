"""Grids against separate solves: weights times 0.1, 1 and 10 and two folds, on the problems of `regret`.

    python -m benchmarks.grid_regret [--largest N] [--out DIR] [--only REGEX]

Seconds of the processor, each problem in a process of its own.  A separate solve is one of a fresh problem, as a user
would write it.  Cells that have not converged are counted on both sides.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from math import exp, log
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.regret import Case, apart, cases
from benchmarks.timing import markdown, show, write

FACTORS = (0.1, 1.0, 10.0)
FOLDS = 2
LIMIT = 120.0  # seconds for a problem


def measured(case: Case) -> dict[str, Any]:
    """Seconds of the grid and of its cells, one by one, and how many of them missed the tolerance."""
    problem = case.problem()
    size = problem.terms[0].size
    folds = [np.arange(k, size, FOLDS) for k in range(FOLDS)]
    start = process_time()
    cells = problem.grid({0: FACTORS}, {0: folds}, tol=case.tol)
    together = process_time() - start
    missed = sum(cell.status != "converged" for cell in cells.flat)
    start, alone_missed = process_time(), 0
    for factor in FACTORS:
        for held_out in folds:
            fresh = case.problem()
            first, *rest = fresh.terms
            weight = np.full(size, first.weight * factor)
            weight[held_out] = 0.0
            own = replace(fresh, terms=(first.changed(weight=weight), *rest))
            alone_missed += own.solve(tol=case.tol).status != "converged"
    return {"status": "", "grid": together, "apart": process_time() - start, "missed": missed, "alone": alone_missed}


def main() -> None:
    """Time all problems up to a size, print the table, the worst first, and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=3000, help="functionals")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--only", default="", help="problems whose names match")
    options = parser.parse_args()
    console, path = Console(width=150), options.out / "grid_regret.json"
    entries: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for case in cases():
        if case.size > options.largest or case.name in entries or not re.search(options.only, case.name):
            continue
        entries[case.name] = entry = apart(measured, case, limit=LIMIT)
        console.print(f"{case.name:70} {json.dumps(entry)}")
        write(options.out, "grid_regret.json", json.dumps(entries, indent=1))
    done = {name: entry for name, entry in entries.items() if "grid" in entry}
    rows = [
        [name, f"{e['grid']:.3g}", f"{e['apart']:.3g}", f"{e['grid'] / e['apart']:.2f}", f"{e['missed']}, {e['alone']}"]
        for name, e in sorted(done.items(), key=lambda item: -item[1]["grid"] / item[1]["apart"])
    ]
    mean = exp(sum(log(e["grid"] / e["apart"]) for e in done.values()) / max(len(done), 1))
    title = f"Grids of 6 cells against separate solves: geometric mean {mean:.2f}; {len(entries) - len(done)} not done"
    table = (title, ["problem", "grid, s", "apart, s", "ratio", "cells that missed"], rows)
    show(console, *table)
    write(options.out, "grid_regret.md", markdown(*table))


if __name__ == "__main__":
    main()
