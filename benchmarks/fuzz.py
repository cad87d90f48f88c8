"""Random calls: estimators, options, sizes, kinds of arrays, weights and missing values drawn at random.

    python -m benchmarks.fuzz --calls 500

A call may end in a ValueError, a TypeError or an error of `rkhs.exceptions`, and in nothing else.  Where it ends in a
model of data that have a signal, errors at new rows are not above those of a constant by more than .02 (of the variance
of values, or of all rows).  The table has the calls that break this, the kinds of errors, and the seconds of processor.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier

import rkhs
from rkhs.exceptions import RkhsError

KERNELS = ["gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear", rkhs.Gaussian(), "nonsense"]
OPTIONS: dict[str, list[Any]] = {
    "kernel": KERNELS,
    "scale": ["auto", "median", "evidence", "loo", "cv", 1.0, [1.0, 2.0], -1.0],
    "scales": ["auto", "median", 1.0, [0.5, 2.0]],
    "loss": ["squared", "huber", "absolute", "hinge", "logistic", "squared_hinge", "epsilon_insensitive"],
    "C": [0.1, 1.0, 100.0, 1e6, 0.0, None],
    "Cs": [None, 3, [1.0, 10.0], [1e9]],
    "nus": [None, [0], [0.1]],
    "nu": [0.0, 0.1, 10.0],
    "invariance": ["gradient", None, "auto", "graph", "local_average"],
    "approximation": [None, rkhs.Landmarks(10), rkhs.FourierFeatures(20), rkhs.Neighbors(), rkhs.FourierGrid()],
    "class_weight": [None, "balanced"],
    "time_limit": [None, 1e-6, 0.01, 1.0],
    "shape": [None, {0: "increasing"}, {1: "convex"}],
    "tol": [1e-3, 1e-6],
    "fit_intercept": [True, False],
    "power": [None, 2.5],
    "cv": [2, 5],
    "quantiles": [(0.1, 0.9), (0.5, 0.6)],
    "coordinates": [None, "lonlat"],
}
ESTIMATORS = [
    rkhs.InvariantClassifierCV,
    rkhs.InvariantRegressorCV,
    rkhs.InvariantClassifier,
    rkhs.InvariantRegressor,
    rkhs.VirtualSampleSVC,
    rkhs.geometry.ThinPlateClassifier,
    rkhs.geometry.ThinPlateRegressor,
    rkhs.QuantileRegressor,
    rkhs.counts.KernelPoissonRegressor,
    rkhs.counts.OrdinalClassifier,
    rkhs.counts.PreferenceRegressor,
]


def table(rng: np.random.Generator, rows: int, features: int, estimator: Any) -> tuple[Any, Any]:
    """Return X and y of a function of the first feature."""
    X = rng.standard_normal((rows, features)) * 10.0 ** rng.choice([0, 0, 0, -6, 6])
    if rng.random() < 0.2:
        X = np.round(X / X.std(), 0)
    if rng.random() < 0.1:
        X[:, -1] = 3.0
    along = X[:, 0] / (X[:, 0].std() or 1.0) + 0.2 * rng.standard_normal(rows)
    if estimator is rkhs.counts.KernelPoissonRegressor:
        return X, rng.poisson(np.exp(along))
    if estimator is rkhs.counts.OrdinalClassifier or is_classifier(estimator()):
        levels = int(rng.integers(2, 5))
        return X, np.digitize(along, np.quantile(along, np.arange(1, levels) / levels))
    return X, along * 10.0 ** rng.choice([0, 0, -6, 6, 12])


def call(seed: int) -> tuple[str, str, float]:
    """Make a call; return what it was, its outcome, and the seconds of processor."""
    rng = np.random.default_rng(seed)
    estimator = ESTIMATORS[rng.integers(len(ESTIMATORS))]
    rows, features = int(rng.choice([3, 10, 40, 120, 300])), int(rng.choice([1, 2, 3, 8]))
    known = estimator().get_params()
    names = [name for name in OPTIONS if name in known and rng.random() < 0.25]
    options = {name: OPTIONS[name][rng.integers(len(OPTIONS[name]))] for name in names}
    X, y = table(rng, rows + 100, features, estimator)
    X, y, new, truth = X[:rows], y[:rows], X[rows:], y[rows:]
    broken, kind = (
        "",
        rng.choice(["float64", "float32", "list", "fortran", "nan", "inf", "object"], p=[0.5, *[0.5 / 6] * 6]),
    )
    given: Any = X
    if kind == "float32":
        given = X.astype(np.float32)
    elif kind == "list":
        given = X.tolist()
    elif kind == "fortran":
        given = np.asfortranarray(X)
    elif kind in ("nan", "inf"):
        given, broken = X.copy(), kind
        given[rng.integers(rows), 0] = np.nan if kind == "nan" else np.inf
    elif kind == "object":
        given = X.astype(object)
    fitting = {}
    if rng.random() < 0.3 and estimator in ESTIMATORS[:7]:
        fitting["sample_weight"] = rng.choice([0.0, 0.5, 1.0, 3.0], rows)
    what = f"{seed}: {estimator.__name__}({options}) {rows} x {features} {kind} {sorted(fitting)}"
    start = time.process_time()
    try:
        model = estimator(**options).fit(given, y, **fitting)
        predicted = np.asarray(model.predict(new))
    except (ValueError, TypeError, RkhsError) as error:
        return what, type(error).__name__, time.process_time() - start
    except Exception as error:
        return what, f"BROKEN {type(error).__name__}: {error}"[:200], time.process_time() - start
    seconds = time.process_time() - start
    if broken:
        return what, f"BROKEN: {broken} in X was accepted", seconds
    if rows < 40 or options.get("C") == 0.1 or options.get("time_limit") == 1e-6:
        return what, "fitted", seconds
    if is_classifier(model):
        error, constant = np.mean(predicted != truth), 1 - np.max(np.bincount(truth)) / len(truth)
    elif predicted.ndim == 2 or estimator is rkhs.counts.PreferenceRegressor:
        return what, "fitted", seconds
    else:
        spread = np.var(truth) or 1.0
        error, constant = np.mean((predicted - truth) ** 2) / spread, np.mean((np.mean(y) - truth) ** 2) / spread
    if not error <= constant + 0.02:
        return what, f"WORSE {error:.3f} than a constant {constant:.3f}", seconds
    return what, "fitted", seconds


def main() -> None:
    """Make the calls, and print those that break the rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first call")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found, seconds = Counter(), []
    for seed in range(arguments.first, arguments.first + arguments.calls):
        what, outcome, used = call(seed)
        found[outcome.split(":")[0].split(" than")[0].split(" ")[0]] += 1
        seconds.append((used, what))
        if outcome.startswith(("BROKEN", "WORSE")):
            print(f"{outcome}\n    {what}", flush=True)
    print(dict(found))
    fitted = sorted(seconds, reverse=True)
    print(f"median of seconds of processor: {np.median([used for used, _ in seconds]):.2f}; the slowest calls:")
    for used, what in fitted[:8]:
        print(f"    {used:.1f} s  {what}")


if __name__ == "__main__":
    main()
