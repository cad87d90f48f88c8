"""Repeat the two examples of docs/tutorial.md with other seeds.

    python -m benchmarks.tutorial [--draws N] [--out DIR]

The code is that of the page: its blocks are executed with other seeds in `np.random.default_rng`, without the
cross-validation of the first example.  Errors are those on rows that no model has seen.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.timing import markdown, show, write

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"


def run(draw: int) -> list[float]:
    """Execute the page with one seed; return the errors of both examples, in percent and in percent of capacity."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for block in [block for block in blocks if "rkhs.save" not in block]:
            code = re.sub(r"default_rng\(\d\)", f"default_rng({draw})", block)
            exec(re.sub(r"^for train, test .*?(?=^for name)", "", code, flags=re.MULTILINE | re.DOTALL), names)
    unseen, loss = names["unseen"], names["loss"]
    fitted = names["svr"], names["search"], names["model"]
    numbers = [np.sqrt(np.mean((one.predict(unseen) - loss(unseen)) ** 2)) for one in fitted]
    return [*(100 * share for share in names["wrong"]), *numbers]


def main() -> None:
    """Print and write one row for each draw, then the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    found = np.array([run(draw) for draw in range(options.draws)])
    rows = [[f"{draw}", *(f"{value:.2f}" for value in row)] for draw, row in enumerate(found)]
    rows.append(["mean", *(f"{value:.2f}" for value in found.mean(axis=0))])
    heads = ["seed", "boards: SVM, %", "with unlabeled rows, %", "cells: SVR", "kernel model", "with slopes and shape"]
    show(Console(width=130), "The tutorial with other seeds", heads, rows)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out, "tutorial.md", markdown("The tutorial with other seeds", heads, rows))


if __name__ == "__main__":
    main()
