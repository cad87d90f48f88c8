"""Drag of airfoils from 16 numbers: one scale for all, or a metric that is learnt from the slopes of f.

    python -m benchmarks.airfoil [--rows 8000] [--slopes 0] [--C 500000] [--metric agop]

Relative L2 error on the `test` rows of the shared data.  `--slopes` is from how many of the rows measured slopes are
learnt as well.  C was chosen on 4,000 other rows that are not for testing.
"""

from __future__ import annotations

import argparse
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

import rkhs
from benchmarks.data import arrays


def main() -> None:
    """Fit and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--slopes", type=int, default=0)
    parser.add_argument("--C", type=float, default=5e5)
    parser.add_argument("--metric", default="agop", choices=["none", "agop", "agop-diagonal"])
    given = parser.parse_args()
    data = arrays("airfoil_drag")
    X, y, slopes = (data[name].astype(np.float64) for name in ("X", "y", "dy"))
    train, test = data["pool"][: given.rows], data["test"]
    inputs, targets = StandardScaler().fit(X[train]), StandardScaler().fit(y[train, None])
    fit: dict[str, Any] = {}
    if given.slopes:
        measured = slopes[train] * inputs.scale_ / targets.scale_
        measured[given.slopes :] = np.nan
        fit["gradients"] = measured
    model = rkhs.InvariantRegressor(C=given.C, nu=0, metric=None if given.metric == "none" else given.metric)
    start, worked = perf_counter(), process_time()
    model.fit(inputs.transform(X[train]), targets.transform(y[train, None])[:, 0], **fit)
    took, worked = perf_counter() - start, process_time() - worked
    found = targets.inverse_transform(model.predict(inputs.transform(X[test]))[:, None])[:, 0]
    error = np.linalg.norm(found - y[test]) / np.linalg.norm(y[test])
    print(f"{given}: {100 * error:.2f} %, {took:.0f} s ({worked:.0f} s of the processor), {model.solution_.status}")


if __name__ == "__main__":
    main()
