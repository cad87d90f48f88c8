"""Counts, preferences, survival times and ordered classes, next to the estimators that others use for them.

    python -m benchmarks.comparisons [--draws 3] [--only REGEX] [--out DIR]

Counts: visits to a doctor (randhie of statsmodels), and prior offenses (compas), from 1,000 rows; the mean Poisson
deviance on up to 5,000 others.  Preferences: miles per gallon (auto_mpg), of which only the order within random pairs
of training rows is known; the share of test pairs in the right order.  Survival: data sets of scikit-survival, the
concordance index.  Ordered classes: esl and lev, error and mean absolute error.  Splits are random, two thirds for
training; features are standardized.  C, and the weight of each peer, is chosen by five folds of the training rows.
Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
Result = tuple[str, dict[str, float], float]  # the model, its measures, seconds of the processor
TRAINED, TESTED = 1000, 5000
WEIGHTS = [10.0**k for k in range(-4, 3)]


def standardized(X: Matrix, Z: Matrix) -> tuple[Matrix, Matrix]:
    """Return training and test points in units of the training deviations."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return (X - mean) / spread, (Z - mean) / spread


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """Return a fitted model and the seconds of the processor."""
    start = process_time()
    return fit(), process_time() - start


def has(*packages: str) -> bool:
    """Return whether all packages are installed."""
    return all(find_spec(package) is not None for package in packages)


def counts(name: str, draw: int) -> Iterator[Result]:
    """Compare models of counts on one split."""
    if name == "randhie":
        from statsmodels.datasets import randhie

        table = randhie.load_pandas()
        X, y = table.exog.to_numpy(dtype=float), table.endog.to_numpy(dtype=float)
    else:
        data = arrays("compas")
        sex, race = data["X"][:, 6:7], data["X"][:, 5:6] == np.arange(6)
        X, y = np.hstack([data["X"][:, 1:5], race, sex]).astype(float), data["X"][:, 0]
    X, Z, y, target = train_test_split(X, y, train_size=TRAINED, random_state=draw)
    Z, target = Z[:TESTED], target[:TESTED]
    X, Z = standardized(X, Z)
    grid: dict[str, Callable[[], Any]] = {
        "KernelPoissonRegressor": lambda: rkhs.counts.KernelPoissonRegressor(C="cv").fit(X, y),
        'KernelPoissonRegressor, scale="cv"': lambda: rkhs.counts.KernelPoissonRegressor(C="cv", scale="cv").fit(X, y),
        "PoissonRegressor": lambda: GridSearchCV(PoissonRegressor(max_iter=1000), {"alpha": WEIGHTS}).fit(X, y),
        "HistGradientBoosting": lambda: GridSearchCV(
            HistGradientBoostingRegressor(loss="poisson", random_state=0),
            {"learning_rate": [0.02, 0.05, 0.1], "max_leaf_nodes": [4, 15]},
            scoring="neg_mean_poisson_deviance",
        ).fit(X, y),
        "a constant": lambda: DummyRegressor().fit(X, y),
    }
    for label, fit in grid.items():
        model, seconds = timed(fit)
        yield label, {"deviance": float(mean_poisson_deviance(target, model.predict(Z)))}, seconds


def preferences(name: str, draw: int) -> Iterator[Result]:
    """Compare models of pairs on one split."""
    data, size = arrays("auto_mpg"), int(name.split()[0])
    X, Z, y, target = train_test_split(data["X"], data["y"], train_size=2 / 3, random_state=draw)
    X, Z = standardized(X, Z)
    rng = np.random.default_rng(draw)
    pairs = rng.integers(0, len(y), (8 * size, 2))
    pairs = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]][:size]
    pairs = np.where((y[pairs[:, 0]] > y[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    model, seconds = timed(lambda: rkhs.counts.PreferenceRegressor(C="cv").fit(X, pairs=pairs))
    yield "PreferenceRegressor", {"right pairs": model.score(Z, target)}, seconds

    def linear() -> Any:
        differences = X[pairs[:, 0]] - X[pairs[:, 1]]
        signs = np.where(np.arange(len(pairs)) % 2, 1.0, -1.0)
        model = GridSearchCV(LogisticRegression(fit_intercept=False), {"C": [10.0**k for k in range(-3, 4)]})
        return model.fit(signs[:, None] * differences, signs)

    fitted, seconds = timed(linear)
    utilities = fitted.decision_function(Z)
    larger = target[:, None] > target
    share = np.sum((np.sign(utilities[:, None] - utilities) + 1) / 2, where=larger) / larger.sum()
    yield "LogisticRegression of differences", {"right pairs": float(share)}, seconds
    whole, seconds = timed(lambda: rkhs.counts.PreferenceRegressor(C="cv").fit(X, y))
    yield "PreferenceRegressor, all targets", {"right pairs": whole.score(Z, target)}, seconds


def survival(name: str, draw: int) -> Iterator[Result]:
    """Compare models of survival times on one split."""
    from sksurv import datasets
    from sksurv.ensemble import RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.preprocessing import OneHotEncoder
    from sksurv.svm import FastKernelSurvivalSVM

    table, y = getattr(datasets, f"load_{name}")()
    table = table.apply(lambda column: column.astype("category") if column.dtype.kind in "OSU" else column)
    X = OneHotEncoder().fit_transform(table).to_numpy(dtype=float)
    X, Z, y, target = train_test_split(X, y, train_size=2 / 3, random_state=draw)
    X, Z = standardized(X, Z)
    gamma = 1 / (2 * rkhs.kernels.median_scale(X) ** 2)
    models = {
        "SurvivalRanker": lambda: rkhs.counts.SurvivalRanker(C="cv").fit(X, y),
        "FastKernelSurvivalSVM": lambda: GridSearchCV(
            FastKernelSurvivalSVM(kernel="rbf", gamma=gamma, random_state=0),
            {"alpha": [10.0**k for k in range(-4, 3)]},
        ).fit(X, y),
        "CoxPHSurvivalAnalysis": lambda: GridSearchCV(CoxPHSurvivalAnalysis(), {"alpha": [0.1, 1, 10, 100]}).fit(X, y),
        "RandomSurvivalForest": lambda: RandomSurvivalForest(200, min_samples_leaf=10, random_state=0).fit(X, y),
    }
    for label, fit in models.items():
        model, seconds = timed(fit)
        yield label, {"concordance": float(model.score(Z, target))}, seconds


def ordinal(name: str, draw: int) -> Iterator[Result]:
    """Compare models of ordered classes on one split."""
    data = arrays(name)
    X, Z, y, target = train_test_split(data["X"], data["y"].astype(int), train_size=2 / 3, random_state=draw)
    X, Z = standardized(X.astype(float), Z.astype(float))
    gammas = [g / (2 * rkhs.kernels.median_scale(X) ** 2) for g in (0.25, 1, 4)]
    models: dict[str, Callable[[], Any]] = {
        "OrdinalClassifier": lambda: rkhs.counts.OrdinalClassifier(C="cv").fit(X, y),
        'OrdinalClassifier, scale="cv"': lambda: rkhs.counts.OrdinalClassifier(C="cv", scale="cv").fit(X, y),
        "SVC": lambda: GridSearchCV(SVC(), {"C": [10.0**k for k in range(-1, 4)], "gamma": gammas}).fit(X, y),
        "HistGradientBoosting": lambda: GridSearchCV(
            HistGradientBoostingClassifier(random_state=0, max_iter=50), {"max_leaf_nodes": [4, 15]}, cv=3
        ).fit(X, y),
    }
    if has("mord"):
        import mord

        models["mord.LogisticAT"] = lambda: GridSearchCV(
            mord.LogisticAT(), {"alpha": WEIGHTS}, scoring="neg_mean_absolute_error"
        ).fit(X, y)
    for label, fit in models.items():
        model, seconds = timed(fit)
        yield label, _ordinal_errors(model.predict(Z), target), seconds
    if has("statsmodels"):
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        fitted, seconds = timed(lambda: OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=False))
        predicted = np.unique(y)[np.argmax(np.asarray(fitted.predict(Z)), axis=1)]
        yield "statsmodels OrderedModel", _ordinal_errors(predicted, target), seconds


def _ordinal_errors(predicted: Matrix, target: Matrix) -> dict[str, float]:
    return {
        "error in percent": 100 * float(np.mean(predicted != target)),
        "mean absolute error": float(np.mean(abs(predicted - target))),
    }


PARTS: dict[str, tuple[Callable[[str, int], Iterator[Result]], tuple[str, ...], tuple[str, ...]]] = {
    "counts": (counts, ("randhie", "compas"), ()),
    "preferences": (preferences, ("100 pairs", "400 pairs", "1600 pairs"), ()),
    "survival": (survival, ("veterans_lung_cancer", "whas500", "gbsg2"), ("sksurv",)),
    "ordinal": (ordinal, ("esl", "lev"), ()),
}


def main() -> None:
    """Run the parts that are asked for, and print a table of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    console, page = Console(), ""
    for part, (run, names, needed) in PARTS.items():
        for name in names:
            if not re.search(options.only, f"{part} {name}") or not has(*needed):
                continue
            if name == "randhie" and not has("statsmodels"):
                continue
            found: dict[str, list[tuple[dict[str, float], float]]] = {}
            for draw in range(options.draws):
                for label, measures, seconds in run(name, draw):
                    found.setdefault(label, []).append((measures, seconds))
            columns = list(next(iter(found.values()))[0][0])
            rows = []
            for label, results in found.items():
                cells = [np.array([measures[column] for measures, _ in results]) for column in columns]
                shown = [f"{cell.mean():.3f} ± {cell.std() / max(len(cell) - 1, 1) ** 0.5:.3f}" for cell in cells]
                rows.append([label, *shown, f"{np.mean([seconds for _, seconds in results]):.1f}"])
            headings = ["model", *columns, "seconds"]
            title = f"{part}: {name}, {options.draws} splits"
            show(console, title, headings, rows)
            page += markdown(title, headings, rows)
    if options.out is not None:
        write(options.out, "comparisons.md", page)


if __name__ == "__main__":
    main()
