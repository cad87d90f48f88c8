"""The speed of two versions: the same jobs in two checkouts, in turns, on one computer.

    git worktree add ../before v0.2.0
    python -m benchmarks.compare ../before [--only REGEX] [--out DIR]

Seconds of the processor on one thread, each version in a process of its own; the better of two runs, or one of a job
that takes more than ten seconds.  Jobs use the public API alone, so that they mean the same in both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_digits

import rkhs
from benchmarks.data import load
from benchmarks.race import FOLDS, LAMBDAS, NUS, TOL, Setting
from benchmarks.timing import markdown, show, write

HERE = Path(__file__).resolve().parents[1]
LONG = 10.0  # seconds, from which on a job runs once


def jobs() -> dict[str, Callable[[], Any]]:
    """Return what is timed, by name; data are made or read once."""
    return {**products(), **races(), **approximations(), **estimators()}


def products() -> dict[str, Callable[[], Any]]:
    """Return Gram products of gradients and of values."""
    rng = np.random.default_rng(0)
    slopes = rkhs.gram(rkhs.Gaussian(3.0), rkhs.Gradient(rng.standard_normal((2000, 10))))
    values = rkhs.gram(rkhs.Matern(nu=2.5, scale=5.0), rkhs.Evaluation(rng.standard_normal((6000, 20))))
    V, W = rng.standard_normal((20000, 8)), rng.standard_normal((6000, 4))
    return {
        "product: 2,000 gradients in R^10, 8 columns": lambda: slopes @ V,
        "product: 6,000 values, Matern, 4 columns": lambda: values @ W,
    }


def races() -> dict[str, Callable[[], Any]]:
    """Return labels with gradients: one problem, ten classes, and grids of 125 cells."""
    found: dict[str, Callable[[], Any]] = {}
    losses = (rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Hinge())
    for name in ("australian", "bci", "usps_ssl"):
        setting = Setting.of(name)
        for loss in losses:
            problem = setting.problem(loss, 1.0, 0.1)
            found[f"labels and gradients: {name}, {loss!r}"] = lambda problem=problem: problem.solve(tol=TOL)
        for loss in losses[::2] if name == "australian" else losses[:1]:
            found[f"grid of 125: {name}, {loss!r}"] = lambda setting=setting, loss=loss: grid(setting, loss)
    X, y = load("usps_digits")
    X, target = X[:1500], np.where(y[:100, None] == np.unique(y), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(X[:100]), rkhs.SquaredHinge(), target)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    ten = rkhs.Problem(rkhs.Gaussian(rkhs.kernels.median_scale(X)), [labels, flat], rkhs.Constant())
    return {**found, "labels and gradients: ten digits": lambda: ten.solve(rkhs.solvers.Galerkin(), tol=1e-3)}


def grid(setting: Setting, loss: rkhs.extend.Loss) -> Any:
    """Solve a problem for all weights and folds."""
    problem = setting.problem(loss)
    labels, flat = problem.terms
    return problem.grid({labels: LAMBDAS, flat: NUS}, held_out={labels: FOLDS}, tol=TOL)


def approximations() -> dict[str, Callable[[], Any]]:
    """Return 20,000 rows with landmarks, Fourier features and in blocks."""
    X = np.random.default_rng(0).standard_normal((20000, 20))
    y = np.sin(X[:, 0])

    def solve(loss: rkhs.extend.Loss, target: Any, approximation: Any, slopes: bool) -> Any:
        terms = [rkhs.Term(rkhs.Evaluation(X), loss, target)]
        if slopes:
            terms.append(rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.01))
        return rkhs.Problem(rkhs.Gaussian(5.0), terms, rkhs.Constant(), approximation=approximation).solve()

    streamed = rkhs.InvariantRegressor(approximation=rkhs.Landmarks(300))
    return {
        "400 landmarks, with gradients": lambda: solve(rkhs.Squared(), y, rkhs.Landmarks(400), True),
        "200 landmarks, Logistic": lambda: solve(rkhs.Logistic(), np.sign(y + 0.1), rkhs.Landmarks(200), False),
        "400 Fourier features, with gradients": lambda: solve(rkhs.Squared(), y, rkhs.FourierFeatures(400), True),
        "rows in blocks, 300 landmarks": lambda: streamed.fit(rkhs.streams.blocks(X, y, rows=2000)),
    }


def estimators() -> dict[str, Callable[[], Any]]:
    """Return searches, settings learned from data, few labels, shapes and forces."""
    rng = np.random.default_rng(0)
    X, P = rng.uniform(size=(300, 6)), rng.standard_normal((150, 27))
    y = np.sin(6 * X[:, 1]) + X[:, 0]
    D, L = load_digits(return_X_y=True)
    few = np.where(np.arange(600) < 60, L[:600], -1)
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, rkhs.Tunable())
    forces = rkhs.Term(rkhs.Gradient(P), rkhs.Squared(), np.cos(P), 1e4)
    tuned = rkhs.Problem(rkhs.Gaussian(rkhs.Tunable(each=True)), [values], rkhs.Constant())
    return {
        "tuning by evidence, 300 x 6": lambda: tuned.tune(verbose=False),
        "InvariantClassifierCV, 300 digits": lambda: rkhs.InvariantClassifierCV().fit(D[:300], L[:300]),
        "InvariantRegressorCV, 300 x 6": lambda: rkhs.InvariantRegressorCV().fit(X, y),
        "InvariantClassifier, 600 digits, 60 labels": lambda: rkhs.InvariantClassifier(scale=30.0, nu=0.1).fit(
            D[:600], few
        ),
        "increasing in a feature, 150 rows": lambda: rkhs.InvariantRegressor(shape={0: "increasing"}).fit(
            X[:150, :2], y[:150]
        ),
        "150 x 27 forces": lambda: rkhs.Problem(rkhs.Gaussian(6.0), [forces]).solve(),
    }


def answer() -> None:
    """Time the jobs whose names come in, one a line, for the process that compares."""
    known = jobs()
    for name in sys.stdin:
        start = process_time()
        known[name.strip()]()
        print(json.dumps(process_time() - start), flush=True)


def main() -> None:
    """Time all jobs in both checkouts, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="checkout of the other version")
    parser.add_argument("--only", default="", help="jobs whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    servers = [_server(checkout) for checkout in (options.before.resolve(), HERE)]
    rows = []
    for name in (name for name in jobs() if re.search(options.only, name)):
        times: list[list[float]] = [[], []]
        for _ in range(2):
            for own, server in zip(times, servers, strict=True):
                if not own or own[0] <= LONG:
                    own.append(_asked(server, name))
        before, after = map(min, times)
        rows.append([name, f"{before:.3g}", f"{after:.3g}", f"{after / before:.2f}"])
        print(*rows[-1], flush=True)
    table = ("Processor seconds before and after", ["job", "before", "after", "ratio"], rows)
    show(Console(), *table)
    write(options.out, "compare.md", markdown(*table))


def _server(checkout: Path) -> subprocess.Popen[str]:
    """Start a process that times jobs with the package, and the data sets, of a checkout."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join([str(checkout / "src"), str(checkout)])
    code = f"import runpy; runpy.run_path({__file__!r})['answer']()"
    command = [sys.executable, "-P", "-W", "ignore", "-c", code]  # -P: not the packages of this folder
    environment = {**os.environ, **one_thread, "PYTHONPATH": path}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _asked(server: subprocess.Popen[str], name: str) -> float:
    assert server.stdin is not None
    assert server.stdout is not None
    print(name, file=server.stdin, flush=True)
    return float(json.loads(server.stdout.readline()))


if __name__ == "__main__":
    main()
