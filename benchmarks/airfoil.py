"""Drag of airfoils from 16 numbers: one scale for all, or a metric that is learned from the slopes of f.

    python -m benchmarks.airfoil [--rows 8000] [--slopes 0] [--C 500000] [--scale agop]
    python -m benchmarks.airfoil --rows 33631 --landmarks 3000 --C 5e6
    python -m benchmarks.airfoil --rows 33631 --model genn

Relative L2 error on the `test` rows of the shared data.  `--slopes` is from how many of the rows measured slopes are
learned as well; with `--landmarks` rows come in blocks, the metric from a sample of them.  C was chosen on 4,000 other
rows that are not for testing.  The peer is SMT's GENN, a small neural network of values and slopes, with the settings
of SMT's own example of this problem (two layers of six, five epochs).
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

import rkhs
from benchmarks.data import arrays

Matrix = np.ndarray[Any, Any]
EXAMPLE = {"alpha": 1e-3, "beta1": 0.9, "beta2": 0.99, "lambd": 0.1, "gamma": 1.0, "hidden_layer_sizes": [6, 6]}
EXAMPLE |= {"mini_batch_size": 256, "num_epochs": 5, "num_iterations": 10, "seed": 0}


def ours(given: argparse.Namespace, X: Matrix, y: Matrix, slopes: Matrix) -> Any:
    """The regressor, fitted."""
    near = rkhs.Landmarks(given.landmarks) if given.landmarks else None
    model = rkhs.InvariantRegressor(C=given.C, nu=0, scale=given.scale, approximation=near, tol=1e-3)
    if near is not None:
        return model.fit(rkhs.streams.blocks(X, y))
    measured = np.where(np.arange(len(X))[:, None] < given.slopes, slopes, np.nan)
    return model.fit(X, y, gradients=measured if given.slopes else None)


class Genn:
    """SMT's network of values and slopes."""

    def __init__(self, X: Matrix, y: Matrix, slopes: Matrix) -> None:
        from smt.surrogate_models import GENN

        self.model = GENN(print_global=False, **EXAMPLE)
        self.model.set_training_values(X, y[:, None])
        for j in range(X.shape[1]):
            self.model.set_training_derivatives(X, slopes[:, j : j + 1], j)
        self.model.train()

    def predict(self, X: Matrix) -> Matrix:
        return np.asarray(self.model.predict_values(X)[:, 0])


def main() -> None:
    """Fit and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--slopes", type=int, default=0)
    parser.add_argument("--C", type=float, default=5e5)
    parser.add_argument("--scale", default="agop", choices=["median", "agop"])
    parser.add_argument("--landmarks", type=int, default=0)
    parser.add_argument("--model", default="rkhs", choices=["rkhs", "genn"])
    given = parser.parse_args()
    data = arrays("airfoil_drag")
    X, y, slopes = (data[name].astype(np.float64) for name in ("X", "y", "dy"))
    train, test = data["pool"][: given.rows], data["test"]
    inputs, targets = StandardScaler().fit(X[train]), StandardScaler().fit(y[train, None])
    Z, t, along = inputs.transform(X), targets.transform(y[:, None])[:, 0], slopes * inputs.scale_ / targets.scale_
    rows = Z[train], t[train], along[train]
    start, worked = perf_counter(), process_time()
    model = Genn(*rows) if given.model == "genn" else ours(given, *rows)
    took, worked = perf_counter() - start, process_time() - worked
    found = targets.inverse_transform(model.predict(Z[test])[:, None])[:, 0]
    error = np.linalg.norm(found - y[test]) / np.linalg.norm(y[test])
    print(f"{given}: {100 * error:.2f} %, {took:.0f} s ({worked:.0f} s of the processor)")


if __name__ == "__main__":
    main()
