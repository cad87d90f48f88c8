"""How good is the standard deviation of an approximation?  Beside the exact one, at points that were not learned from.

    python -m benchmarks.spread [--sets diabetes heart] [--out DIR]

Half of the points have targets (C = 10) and gradients (weight 0.01 each), Gaussian kernel of median scale, intercept;
the standard deviation is computed at the other half.  `diabetes` is scikit-learn's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_diabetes

import rkhs
from benchmarks.data import load
from benchmarks.timing import markdown, show, write

SIZES = [50, 100, 200, 400, 800]
WAYS = {
    "values only": lambda p: rkhs.Landmarks(p, derivatives=0.0),
    "values + derivatives": lambda p: rkhs.Landmarks(p),
    "Fourier features": lambda p: rkhs.FourierFeatures(p),
}


def lines(name: str) -> list[list[str]]:
    """All ways and sizes on one set: the smallest, median and largest ratio to the exact standard deviation."""
    X, y = load_diabetes(return_X_y=True) if name == "diabetes" else load(name)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(y))
    learned, new = np.array_split(order, 2)
    scale = rkhs.kernels.median_scale(X[learned])
    own: dict[str, Any] = {"scale": scale, "C": 10.0, "nu": 0.01 * len(learned) / scale**2}
    L = rkhs.Evaluation(X[new])

    def spread(model: rkhs.InvariantRegressor) -> np.ndarray[Any, Any]:
        """In units of the amplitude, without the noise of a new target."""
        posterior = model.fit(X[learned], y[learned]).solution_.posterior
        return posterior.std(L) / posterior.amplitude

    exact = spread(rkhs.InvariantRegressor(**own))
    found = []
    for p in SIZES:
        for way, make in WAYS.items():
            ratio = spread(rkhs.InvariantRegressor(**own, approximation=make(p))) / exact
            numbers = [f"{value:.3f}" for value in (ratio.min(), np.median(ratio), ratio.max())]
            found.append([name, f"{p}", way, *numbers])
    return found


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["diabetes", "heart"])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    found = [line for name in options.sets for line in lines(name)]
    title = "Standard deviation / exact standard deviation, at new points"
    headings = ["set", "p", "functions", "smallest", "median", "largest"]
    show(Console(), title, headings, found)
    write(options.out, "spread.md", markdown(title, headings, found))


if __name__ == "__main__":
    main()
