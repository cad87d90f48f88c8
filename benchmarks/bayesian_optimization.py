"""Bayesian optimization with and without slopes, beside BoTorch if it is installed.

    python -m benchmarks.bayesian_optimization [--names branin hartmann] [--ways REGEX] [--seeds 5] [--out DIR]

Functions on the unit cube are minimized from n + 1 points of a Sobol sequence, the same for all ways.  Each step learns
all hyperparameters and maximizes the logarithm of the expected improvement.  "values and slopes" is given the gradient
of each evaluation, as an adjoint or automatic differentiation has it.  BoTorch is a SingleTaskGP with LogEI, with its
defaults, and sees values only.  The figures are the regrets, the smallest value so far minus the minimum, medians over
seeds, and seconds of the processor per step.

Each result is added to a journal, DIR/bayesian_optimization.jsonl, and not computed again.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import qmc

import rkhs
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
Suggest = Callable[[Matrix, Matrix, Matrix, int], Matrix]  # points, values, gradients, seed -> the next point

HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(x: Matrix) -> tuple[float, Matrix]:
    """A function of two inputs with three minima."""
    u, v = 15 * x[0] - 5, 15 * x[1]
    b, c, t = 5.1 / (4 * np.pi**2), 5 / np.pi, 10 * (1 - 1 / (8 * np.pi))
    a = v - b * u**2 + c * u - 6
    return float(a**2 + t * np.cos(u) + 10), 15 * np.array([2 * a * (c - 2 * b * u) - t * np.sin(u), 2 * a])


def hartmann(x: Matrix) -> tuple[float, Matrix]:
    """A function of six inputs with six minima."""
    away = x - HARTMANN_P
    bumps = np.array([1, 1.2, 3, 3.2]) * np.exp(-np.sum(HARTMANN_A * away**2, axis=1))
    return -float(bumps.sum()), 2 * bumps @ (HARTMANN_A * away)


FUNCTIONS = {"branin": (branin, 2, 0.39788735772973816, 20), "hartmann": (hartmann, 6, -3.322368011415515, 25)}
SHOWN = (8, 10, 12, 15, 20, 25)  # numbers of evaluations


def with_rkhs(slopes: bool) -> Suggest:
    """The suggestions of this library, from values, or from values and slopes."""

    def suggest(X: Matrix, y: Matrix, gradients: Matrix, seed: int) -> Matrix:
        measured = [rkhs.Measurement(rkhs.Evaluation(X), y - y.mean(), noise=1e-4 * y.std())]
        if slopes:
            measured.append(rkhs.Measurement(rkhs.Gradient(X), gradients, noise=1e-4 * gradients.std()))
        model = rkhs.FunctionalRegressor().fit(measured)
        return rkhs.acquisition.suggest(model, [(0, 1)] * X.shape[1], X[np.argmin(y)], random_state=seed + len(X))

    return suggest


def with_botorch(X: Matrix, y: Matrix, _: Matrix, seed: int) -> Matrix:
    """The suggestions of BoTorch, as in its documentation."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed + len(X))
    points, values = torch.asarray(X), -torch.asarray(y)[:, None]
    model = SingleTaskGP(points, values)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    best = LogExpectedImprovement(model, values.max())
    n = X.shape[1]
    box = torch.stack([torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)])
    found, _ = optimize_acqf(best, bounds=box, q=1, num_restarts=10, raw_samples=512)
    return found.numpy()[0]


WAYS: dict[str, Suggest] = {"rkhs, values": with_rkhs(False), "rkhs, values and slopes": with_rkhs(True)}
if find_spec("botorch") is not None:
    WAYS["BoTorch, values"] = with_botorch


def optimize(name: str, way: str, seed: int) -> dict[str, Any]:
    """Minimize a function; return the regret after each evaluation and the seconds per step."""
    function, n, minimum, count = FUNCTIONS[name]
    X = qmc.Sobol(n, rng=seed).random(n + 1)
    found = [function(x) for x in X]
    start = process_time()
    while len(X) < count:
        y, gradients = np.array([f for f, _ in found]), np.array([g for _, g in found])
        X = np.vstack([X, WAYS[way](X, y, gradients, seed)])
        found.append(function(X[-1]))
    seconds = (process_time() - start) / (count - n - 1)
    regret = np.minimum.accumulate([f for f, _ in found]) - minimum
    return {"name": name, "way": way, "seed": seed, "regret": regret.tolist(), "seconds": seconds}


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=list(FUNCTIONS), choices=list(FUNCTIONS))
    parser.add_argument("--ways", default="", help="ways whose names match")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    given.out.mkdir(parents=True, exist_ok=True)
    journal = given.out / "bayesian_optimization.jsonl"
    known = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    ways = [way for way in WAYS if re.search(given.ways, way)]
    for seed in range(given.seeds):
        for name in given.names:
            for way in ways:
                if not any((r["name"], r["way"], r["seed"]) == (name, way, seed) for r in known):
                    known.append(optimize(name, way, seed))
                    with journal.open("a") as file:
                        file.write(json.dumps(known[-1]) + "\n")
    rows = []
    for name in given.names:
        for way in ways:
            own = [r for r in known if (r["name"], r["way"]) == (name, way) and r["seed"] < given.seeds]
            median = np.median([r["regret"] for r in own], axis=0)
            after = [f"{median[k - 1]:.1g}" if k <= len(median) else "" for k in SHOWN]
            rows.append([name, way, *after, f"{np.median([r['seconds'] for r in own]):.1f} s"])
    title, headings = "Median regret by evaluations", ["function", "way", *(f"{k}" for k in SHOWN), "per step"]
    show(Console(), title, headings, rows)
    write(given.out, "bayesian_optimization.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
