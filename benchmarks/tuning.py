"""Settings of large problems by evidence: a scale for each feature, from 20,000 values in a span, and from slopes.

    python -m benchmarks.tuning [--time-limit SECONDS]

Two problems: 20,000 values of a function of ten features in the span of 1,000 landmarks, and 1,000 values with all
their slopes (11,000 functionals).  One scale for each feature and the noise of each term are left open.  Prints the
seconds of the clock and of the processor, what was found, and the error on 2,000 new points over the spread of f.
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time
from typing import Any

import numpy as np

import rkhs

Matrix = np.ndarray[Any, Any]
NOISE = 0.1


def wave(X: Matrix) -> Matrix:
    """A function of four of the features."""
    return np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(X[:, 3]) / 2


def slopes(X: Matrix) -> Matrix:
    """Its gradients."""
    G = np.zeros_like(X)
    G[:, 0], G[:, 1], G[:, 2], G[:, 3] = 2 * np.cos(2 * X[:, 0]), X[:, 2], X[:, 1], -np.sin(X[:, 3]) / 2
    return G


def problems() -> dict[str, rkhs.Problem]:
    """Both, by name."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (20_000, 10))
    y, few = wave(X) + NOISE * rng.standard_normal(len(X)), X[:1000]
    kernel = rkhs.Gaussian(scale=rkhs.Tunable(each=True))
    open_weight = rkhs.Tunable()
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, open_weight)
    some = rkhs.Term(rkhs.Evaluation(few), rkhs.Squared(), y[:1000], open_weight)
    gradients = slopes(few) + NOISE * rng.standard_normal(few.shape)
    sloped = rkhs.Term(rkhs.Gradient(few), rkhs.Squared(), gradients, open_weight)
    return {
        "20,000 values, 1,000 landmarks": rkhs.Problem(kernel, [values], approximation=rkhs.Landmarks(1000)),
        "1,000 values and 10,000 slopes": rkhs.Problem(kernel, [some, sloped]),
    }


def main() -> None:
    """Tune each and print a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=None)
    given = parser.parse_args()
    Z = np.random.default_rng(1).uniform(-2, 2, (2000, 10))
    for name, problem in problems().items():
        start, worked = perf_counter(), process_time()
        tuned = problem.tune(time_limit=given.time_limit)
        seconds, processor = perf_counter() - start, process_time() - worked
        f = tuned.solve().function(Z)
        error = float(np.sqrt(np.mean((f - wave(Z)) ** 2)) / np.std(wave(Z)))
        print(
            f"{name}: {seconds:.0f} s, {processor:.0f} of the processor; {tuned.kernel}; error {error:.4f}", flush=True
        )


if __name__ == "__main__":
    main()
