"""Which geometries to label next: batches by the posterior of forces, beside random ones.

A force field starts from a few random geometries of a molecule of revised MD17, and gets further ones from the rest of
the training file: those of `rkhs.acquisition.select_batch`, or random ones.  After each batch it is fitted again, with
its kernel chosen again, and tested on 300 geometries of the test file.

    python -m benchmarks.active_learning                     # ethanol
    python -m benchmarks.active_learning --molecule toluene
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
TESTED = 300
LARGEST = 0.05  # the share of the geometries whose largest errors are reported


def errors(model: rkhs.geometry.ForceFieldRegressor, R: Matrix, F: Matrix) -> Matrix:
    """Return the mean absolute, the root mean square and the mean of the largest errors of forces, in meV/A."""
    left = 1000 * np.abs(model.predict_forces(R) - F).reshape(len(R), -1)
    largest = np.sort(left.max(axis=1))[-int(LARGEST * len(R)) :]
    return np.array([left.mean(), np.sqrt(np.mean(left**2)), largest.mean()])


def learned(data: dict[str, Matrix], options: argparse.Namespace, seed: int, chosen: bool) -> tuple[Matrix, Matrix]:
    """Return the errors (rounds + 1, 3) after each round, and the seconds (rounds,) of the choices."""
    R, F, z = data["R_train"], data["F_train"], data["z"]
    order = np.random.default_rng(seed).permutation(len(R))
    labeled, pool = np.split(order, [options.batch])
    found, seconds = [], []
    for _ in range(options.rounds + 1):
        model = rkhs.geometry.ForceFieldRegressor(atoms=z).fit(R[labeled], F[labeled])
        found.append(errors(model, data["R_test"][:TESTED], data["F_test"][:TESTED]))
        start = time.perf_counter()
        new = np.arange(options.batch)
        if chosen and len(found) <= options.rounds:
            candidates = rkhs.Gradient(R[pool].reshape(len(pool), -1))
            new = rkhs.acquisition.select_batch(model, candidates, options.batch)
        seconds.append(time.perf_counter() - start)
        labeled, pool = np.concatenate([labeled, pool[new]]), np.delete(pool, new)
        print(seed, chosen, len(labeled) - len(new), *np.round(found[-1], 1), f"{seconds[-1]:.0f} s", flush=True)
    return np.array(found), np.array(seconds[:-1])


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--molecule", default="ethanol", choices=["ethanol", "malonaldehyde", "toluene"])
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    data = arrays(f"rmd17_{options.molecule}")
    ways = {"random": False, "select_batch": True}
    results = {
        way: [learned(data, options, seed, chosen) for seed in range(options.seeds)] for way, chosen in ways.items()
    }
    rows = []
    for count in range(options.rounds + 1):
        for way, runs in results.items():
            means = np.mean([run[0][count] for run in runs], axis=0)
            least = min(run[0][count][0] for run in runs), max(run[0][count][0] for run in runs)
            seconds = np.mean([run[1][count - 1] for run in runs]) if count else 0.0
            figures = [f"{means[0]:.1f} ({least[0]:.1f} to {least[1]:.1f})", f"{means[1]:.1f}", f"{means[2]:.0f}"]
            rows.append([f"{(count + 1) * options.batch}", way, *figures, f"{seconds:.0f}"])
    title = f"{options.molecule}: errors of a force component, meV/A, over {options.seeds} starts"
    headings = [
        "geometries",
        "chosen by",
        "mean absolute (range)",
        "root mean square",
        "largest 5 %",
        "seconds to choose",
    ]
    show(Console(), title, headings, rows)
    write(options.out, f"active_learning_{options.molecule}.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
