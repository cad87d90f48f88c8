"""Tables of 10,000 to 200,000 labeled rows: the default estimators, SVC and gradient boosting.

    python -m benchmarks.middle_sizes [--sets classes values] [--rows 10000 50000 200000] [--svc] [--out DIR]

The tables have 20 features: `make_classification` with ten informative features and four clusters per class, and
Friedman's first function with noise of deviation one.  Scores are those of 5,000 new rows: right classes, or R^2.
Each fit runs in a process of its own, whose peak memory is shown.  With `--svc`, SVC and SVR are fitted for C in 1, 10
and gamma in 1/20, 1/10, 1/5 (standardized features), and the best score on the new rows counts, in favor of the peer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import rkhs
from benchmarks.timing import markdown, show, write

NEW = 5000  # rows on which models are scored


def table(name: str, rows: int) -> tuple[Any, Any]:
    """Return features and targets, the new rows last."""
    if name == "values":
        return make_friedman1(rows + NEW, 20, noise=1.0, random_state=0)
    shape = {"n_informative": 10, "n_redundant": 5, "n_clusters_per_class": 4}
    return make_classification(rows + NEW, 20, random_state=0, **shape)


def models(name: str, svc: bool) -> dict[str, list[Any]]:
    """Return the models to compare, several with different settings of a peer that is searched."""
    classes = name == "classes"
    found = {
        "rkhs": [rkhs.InvariantClassifierCV() if classes else rkhs.InvariantRegressorCV()],
        "boosting": [HistGradientBoostingClassifier() if classes else HistGradientBoostingRegressor()],
    }
    if svc:
        machine = SVC if classes else SVR
        settings = [(C, gamma) for C in (1.0, 10.0) for gamma in (0.05, 0.1, 0.2)]
        found["SVC" if classes else "SVR"] = [
            make_pipeline(StandardScaler(), machine(C=C, gamma=gamma, cache_size=1000)) for C, gamma in settings
        ]
    return found


def fitted(job: tuple[str, int, Any]) -> tuple[float, float, float, str]:
    """Return the score, the seconds of the fit, the peak memory in GiB, and what the fit warned of."""
    name, rows, model = job
    X, y = table(name, rows)
    start = perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X[:rows], y[:rows])
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return float(model.score(X[rows:], y[rows:])), seconds, peak, "; ".join(str(item.message) for item in told)


def main() -> None:
    """Fit all models, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["classes", "values"], choices=["classes", "values"])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 50_000, 200_000])
    parser.add_argument("--svc", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    console, lines = Console(), []
    for name in options.sets:
        for rows in options.rows:
            for way, several in models(name, options.svc).items():
                results = []
                for model in several:
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        results.append(pool.apply(fitted, [(name, rows, model)]))
                score, _, peak, told = max(results)
                total = float(np.sum([seconds for _, seconds, _, _ in results]))
                landmarks = told.split(" landmarks")[0].split()[-1] if " landmarks" in told else "-"
                lines.append([name, f"{rows:,}", way, f"{score:.4f}", f"{total:.0f} s", f"{peak:.1f} GiB", landmarks])
                console.print(*lines[-1])
    headings = ["table", "rows", "model", "score", "fit", "memory", "landmarks"]
    show(console, "Middle sizes", headings, lines)
    write(options.out, "middle_sizes.md", markdown("Middle sizes", headings, lines))


if __name__ == "__main__":
    main()
