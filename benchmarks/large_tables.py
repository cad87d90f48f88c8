"""The machine that `rkhs fit` makes of a large table: in the span of landmarks beside all representers.

    python -m benchmarks.large_tables [--sets raetsch_ringnorm ..] [--rows 3000]

C = 10, and nu of the command's default; errors on the rows that are left.  Seconds are of the processor.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

import rkhs
from benchmarks.data import load
from benchmarks.timing import seconds, show
from rkhs._cli.learning import LABELED, LANDMARKS, OTHERS, Examples, Request
from rkhs.invariances import Sampled
from rkhs.invariances._graph import NAMED


def compared(name: str, invariance: str, rows: int) -> list[str]:
    """A line of the table."""
    X, numbers = load(name)
    y, order = numbers.astype(str), np.random.default_rng(0).permutation(len(numbers))
    learn, test = order[:rows], order[rows:]
    few = Examples(pd.DataFrame(X[learn]), y[learn], False).sample(LABELED, OTHERS)
    settings = Request(Path(), "", invariance=invariance)
    X_few = few.features.to_numpy()
    params = settings.chosen(settings.search(few.folds(), X_few).fit(X_few, few.y))
    pieces = {
        name: [replace(one, functional=Sampled(one.functional, LABELED + OTHERS)) for one in piece]
        for name, piece in settings.knowledge(params, rows).items()
    }
    line = [name, invariance]
    for approximation in (rkhs.Landmarks(LANDMARKS), None):
        machine: Any = settings.model(params, pieces, approximation=approximation, tol=1e-2)
        took = seconds(partial(machine.fit, X[learn], y[learn]), clock=process_time)
        line += [f"{np.mean(machine.predict(X[test]) != y[test]):.4f}", f"{took:.1f}"]
    return line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["raetsch_ringnorm", "raetsch_banana", "raetsch_waveform"])
    parser.add_argument("--rows", type=int, default=3000)
    given = parser.parse_args()
    lines = [compared(name, invariance, given.rows) for name in given.sets for invariance in (*NAMED, "none")]
    headings = ["set", "invariance", "landmarks: error", "s", "all: error", "s"]
    show(Console(width=120), f"{given.rows} rows", headings, lines)


if __name__ == "__main__":
    main()
