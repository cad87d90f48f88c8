"""Surrogates from values and gradients: settings by evidence, compared with those of other packages.

    python -m benchmarks.surrogates [--names otl borehole] [--ways REGEX] [--repeats 5] [--out DIR]

Each function is learned from a Latin hypercube of values and gradients, with one scale for each input and a weight for
values and one for gradients, all found by `Problem.tune`.  The error is the root mean square at 10,000 random points,
over the standard deviation of the function there; medians over hypercubes, and seconds of the processor.  Peers, of
those that are installed: `benchmarks.surrogate_peers`.

Each result is added to a journal, DIR/surrogates.jsonl, and not computed again: it can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import qmc

import rkhs
from benchmarks.surrogate_peers import Fit, Predictor, peers
from benchmarks.timing import markdown, seconds, show, write

Matrix = np.ndarray[Any, Any]


def otl(x: Matrix) -> Matrix:
    """The voltage of a push-pull circuit."""
    r1, r2, rf, c1, c2, gain = x.T
    across, driven = 12 * r2 / (r1 + r2), gain * (c2 + 9)
    total = driven + rf
    return (across + 0.74) * driven / total + 11.35 * rf / total + 0.74 * rf * driven / (total * c1)


def borehole(x: Matrix) -> Matrix:
    """The flow of water through a borehole."""
    rw, r, tu, hu, tl, hl, length, kw = x.T
    log = np.log(r / rw)
    return 2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl))


def wing(x: Matrix) -> Matrix:
    """The weight of the wing of a light aircraft."""
    area, fuel, aspect, sweep, pressure, taper, thick, load, gross, paint = x.T
    cos = np.cos(sweep * np.pi / 180)
    structure = 0.036 * area**0.758 * fuel**0.0035 * (aspect / cos**2) ** 0.6 * pressure**0.006 * taper**0.04
    return structure * (100 * thick / cos) ** -0.3 * (load * gross) ** 0.49 + area * paint


def rosenbrock(x: Matrix) -> Matrix:
    """A bent valley."""
    return np.sum(100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2, axis=1)


BOREHOLE = [
    [0.05, 0.15],
    [100, 50000],
    [63070, 115600],
    [990, 1110],
    [63.1, 116],
    [700, 820],
    [1120, 1680],
    [9855, 12045],
]
WING = [
    [150, 200],
    [220, 300],
    [6, 10],
    [-10, 10],
    [16, 45],
    [0.5, 1],
    [0.08, 0.18],
    [2.5, 6],
    [1700, 2500],
    [0.025, 0.08],
]
# function, box, points
PROBLEMS: dict[str, tuple[Callable[[Matrix], Matrix], Matrix, int]] = {
    "otl": (otl, np.array([[50, 150], [25, 70], [0.5, 3], [1.2, 2.5], [0.25, 1.2], [50, 300]]), 40),
    "borehole": (borehole, np.array(BOREHOLE), 60),
    "wing": (wing, np.array(WING), 60),
    "rosenbrock": (rosenbrock, np.array([[-2.0, 2.0]] * 10), 150),
}


def sample(name: str, seed: int) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
    """Points of the unit cube with values and gradients, and new ones with values."""
    function, box, count = PROBLEMS[name]

    def on_cube(x: Matrix) -> Matrix:
        return function(box[:, 0] + x * (box[:, 1] - box[:, 0]))

    X = qmc.LatinHypercube(len(box), seed=seed).random(count)
    gradient = np.empty(X.shape)
    for j in range(X.shape[1]):  # a complex step, which has no rounding
        moved = X.astype(complex)
        moved[:, j] += 1e-30j
        gradient[:, j] = on_cube(moved).imag / 1e-30
    new = np.random.default_rng(10_000 + seed).random((10_000, len(box)))
    return X, on_cube(X), gradient, new, on_cube(new)


def ours(X: Matrix, y: Matrix, gradient: Matrix) -> Predictor:
    """Gaussian kernel, all settings by evidence."""
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, rkhs.Tunable()),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), gradient, rkhs.Tunable()),
    ]
    problem = rkhs.Problem(rkhs.Gaussian(scale=rkhs.Tunable(each=True)), terms, rkhs.Constant())
    return problem.tune().solve().function


def measured(name: str, seed: int, way: str, fit: Fit) -> dict[str, Any]:
    """The error of one model on one hypercube, and the processor seconds of its fit."""
    X, y, gradient, new, truth = sample(name, seed)
    fitted: list[Predictor] = []
    took = seconds(lambda: fitted.append(fit(X, y, gradient)), process_time)
    error = float(np.sqrt(np.mean((fitted[0](new) - truth) ** 2)) / truth.std())
    return {"function": name, "seed": seed, "way": way, "error": error, "seconds": took}


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--ways", default="", help="models whose names match")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "surrogates.jsonl"
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["function"], one["seed"], one["way"]) for one in found}
    ways = {name: fit for name, fit in ({"rkhs": ours} | peers()).items() if re.search(options.ways, name)}
    with journal.open("a") as file:
        for name, seed in product(options.names, range(options.repeats)):
            for way, fit in ways.items():
                if (name, seed, way) not in done:
                    found.append(measured(name, seed, way, fit))
                    file.write(json.dumps(found[-1]) + "\n")
                    file.flush()
                    print(found[-1], flush=True)
    rows = []
    for name, way in product(options.names, ways):
        own = [one for one in found if one["function"] == name and one["way"] == way and one["seed"] < options.repeats]
        errors, times = ([one[key] for one in own] for key in ("error", "seconds"))
        numbers = [f"{np.median(errors):.5f}", f"{max(errors):.5f}", f"{np.median(times):.1f}"]
        rows.append([name, str(len(PROBLEMS[name][1])), str(PROBLEMS[name][2]), way, *numbers])
    title = "Error at new points / standard deviation, from values and gradients"
    headings = ["function", "inputs", "points", "model", "median", "largest", "seconds"]
    show(Console(), title, headings, rows)
    write(options.out, "surrogates.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
