"""Counts and quantiles with nothing set, next to scikit-learn's models whose settings are searched.

    python -m benchmarks.count_and_quantile_sets [counts|quantiles] [--draws 3] [--only REGEX] [--ours]

Made-up sets whose truth is known to be smooth, straight, rough, constant, or to depend on few features, in units of
1e-6 to 1e6, and two shared ones (compas, auto_mpg).  Counts are compared by the mean Poisson deviance of new rows,
weighted by their exposures; quantiles by the mean pinball loss at 0.1, 0.5 and 0.9, in standard deviations.  C and the
like of peers are chosen by five folds.  `--ours` leaves the peers out.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.metrics import make_scorer, mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from benchmarks.data import arrays

Vector = np.ndarray[Any, Any]
LEVELS = (0.1, 0.5, 0.9)
TESTED = 4000
WEIGHTS = [10.0**k for k in range(-5, 2)]
BOOSTED = {"learning_rate": [0.05, 0.1], "max_leaf_nodes": [4, 15]}


def daily(rng: Any, t: int, one_hot: bool) -> tuple[Vector, Vector, Vector]:
    """Rentals per day: a trend, a season, working days and weather."""
    day = rng.integers(0, 730, t)
    weekday, season = day % 7, np.sin(2 * np.pi * (day - 110) / 365)
    warm = 12 + 10 * season + 3 * rng.standard_normal(t)
    rain = np.maximum(0, rng.exponential(3, t) - 2)
    log_rate = 3.0 + 0.0006 * day + 0.5 * np.tanh((warm - 10) / 6) - 0.12 * rain + 0.5 * (weekday >= 5)
    log_rate += 0.4 * season
    weekdays = weekday[:, None] == np.arange(7) if one_hot else weekday[:, None]
    return np.column_stack([day, weekdays, warm, rain]), log_rate, np.ones(t)


def claims(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """Insurance claims in years at risk: few, with a U-shaped effect of age and a linear one of the bonus."""
    age, power, bonus = rng.uniform(18, 80, t), rng.integers(4, 12, t), 50 + rng.exponential(20, t)
    area = rng.integers(0, 6, t)
    log_rate = -1.5 + ((age - 50) / 30) ** 2 + 0.01 * (bonus - 50) + 0.1 * area
    return np.column_stack([age, power, bonus, area]), log_rate, rng.uniform(0.1, 1.0, t)


def few_of_ten(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """Ten features of which two matter."""
    X = rng.standard_normal((t, 10)) * np.exp(rng.normal(0, 2, 10))
    Z = X / X.std(axis=0)
    return X, 1 + np.sin(2 * Z[:, 0]) + 0.5 * Z[:, 1], np.ones(t)


def flat(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """Nothing to learn."""
    return rng.standard_normal((t, 4)), np.full(t, 0.7), np.ones(t)


def straight(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """A log-linear rate, in very different units."""
    X = rng.standard_normal((t, 5)) * [1e6, 1e-6, 1, 10, 1]
    return X, 1.5 + X / [1e6, 1e-6, 1, 10, 1] @ [0.4, 0.3, -0.3, 0.1, 0], np.ones(t)


def along(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """Accidents along a road."""
    x = rng.uniform(0, 1e3, (t, 1))
    return x, np.sin(x[:, 0] / 100) + 0.5, rng.uniform(0.5, 5, t)


def plane(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """A hill on a slope."""
    X = rng.uniform(0, 10, (t, 2))
    return X, 1 + 1.5 * np.exp(-np.sum((X - 3) ** 2, axis=1) / 4) - 0.1 * X[:, 1], np.ones(t)


def spread_out(rng: Any, t: int) -> tuple[Vector, Vector, Vector]:
    """Counts that vary more than a Poisson distribution allows."""
    X, log_rate, exposure = daily(rng, t, False)
    return X, log_rate + 0.5 * rng.standard_normal(t), exposure


COUNTS: dict[str, tuple[Callable[..., Any], int]] = {
    "daily": (lambda rng, t: daily(rng, t, False), 400),
    "daily, weekdays as columns": (lambda rng, t: daily(rng, t, True), 400),
    "daily, few": (lambda rng, t: daily(rng, t, False), 120),
    "daily, spread out": (spread_out, 400),
    "claims": (claims, 1000),
    "two of ten features": (few_of_ten, 300),
    "constant": (flat, 200),
    "log-linear": (straight, 200),
    "road": (along, 150),
    "plane": (plane, 300),
    "plane, 1500": (plane, 1500),
}  # fmt: skip


def count_set(name: str, draw: int) -> tuple[Vector, ...]:
    """Return training and test rows: X, rates, exposures, twice."""
    rng = np.random.default_rng(1000 * draw + sum(map(ord, name)))
    if name == "compas":
        data = arrays("compas")
        sex, race = data["X"][:, 6:7], data["X"][:, 5:6] == np.arange(6)
        X, y = np.hstack([data["X"][:, 1:5], race, sex]).astype(float), data["X"][:, 0].astype(float)
        rows = rng.permutation(len(y))
        train, test = rows[:600], rows[600 : 600 + TESTED]
        return X[train], y[train], np.ones(len(train)), X[test], y[test], np.ones(len(test))
    make, t = COUNTS[name]
    X, log_rate, exposure = make(rng, t + TESTED)
    y = rng.poisson(exposure * np.exp(log_rate)) / exposure
    return X[:t], y[:t], exposure[:t], X[t:], y[t:], exposure[t:]


def compared_counts(name: str, draw: int, ours: bool) -> Iterator[tuple[str, float, float]]:
    """Yield names of models, their deviances and seconds."""
    X, y, exposure, Z, target, tested = count_set(name, draw)
    models: dict[str, Callable[[], Any]] = {
        "KernelPoissonRegressor": lambda: rkhs.counts.KernelPoissonRegressor().fit(X, y, sample_weight=exposure)
    }
    if not ours:
        models |= {
            "with one scale and C = 1": lambda: rkhs.counts.KernelPoissonRegressor(
                "gaussian", scale="median", C=1.0
            ).fit(X, y, sample_weight=exposure),
            "PoissonRegressor": lambda: GridSearchCV(
                make_pipeline(StandardScaler(), PoissonRegressor(max_iter=1000)),
                {"poissonregressor__alpha": WEIGHTS},
            ).fit(X, y, poissonregressor__sample_weight=exposure),
            "boosting": lambda: GridSearchCV(
                HistGradientBoostingRegressor(loss="poisson", random_state=0),
                BOOSTED,
                scoring="neg_mean_poisson_deviance",
            ).fit(X, y, sample_weight=exposure),
        }
    for label, fit in models.items():
        start = perf_counter()
        model = fit()
        seconds = perf_counter() - start
        yield (
            label,
            float(mean_poisson_deviance(target, np.maximum(model.predict(Z), 1e-9), sample_weight=tested)),
            seconds,
        )


def _noise(rng: Any, t: int) -> Vector:
    return np.asarray(rng.standard_normal(t))


QUANTILES: dict[str, tuple[Callable[..., Any], int]] = {
    "straight": (lambda rng, x: (x, x[:, 0] + 0.5 * _noise(rng, len(x))), 100),
    "straight, 400": (lambda rng, x: (x, x[:, 0] + 0.5 * _noise(rng, len(x))), 400),
    "straight, millions": (lambda rng, x: (1e6 * x, 1e-6 * (2 * x[:, 0] + 0.3 * _noise(rng, len(x)))), 150),
    "nearly straight": (lambda rng, x: (x, x[:, 0] + 0.1 * np.sin(3 * x[:, 0]) + 0.3 * _noise(rng, len(x))), 200),
    "fan": (lambda rng, x: (x, x[:, 0] + 0.4 * (x[:, 0] + 2) * _noise(rng, len(x))), 200),
    "sine": (lambda rng, x: (x, np.sin(2 * x[:, 0]) + 0.3 * _noise(rng, len(x))), 150),
    "sine, wider": (lambda rng, x: (x, np.sin(2 * x[:, 0]) + (0.1 + 0.3 * np.abs(x[:, 0])) * _noise(rng, len(x))), 200),
    "skewed": (lambda rng, x: (x, np.sin(x[:, 0]) + rng.exponential(0.5, len(x))), 200),
    "step": (lambda rng, x: (x, 1.0 * (x[:, 0] > 0) + 0.2 * _noise(rng, len(x))), 150),
    "noise": (lambda rng, x: (x, _noise(rng, len(x))), 150),
}
QUANTILES |= {
    "five, straight": (lambda rng, x: _five(rng, x, lambda Z: Z @ [1, 0.5, -0.5, 0, 0]), 150),
    "five, curved": (lambda rng, x: _five(rng, x, lambda Z: np.sin(2 * Z[:, 0]) + Z[:, 1] ** 2 / 2 + Z[:, 2]), 300),
}


def _five(rng: Any, x: Vector, f: Callable[[Vector], Vector]) -> tuple[Vector, Vector]:
    Z = rng.standard_normal((len(x), 5))
    return Z * [1, 10, 1e3, 1, 1e-3], f(Z) + 0.3 * (1 + 0.5 * np.tanh(Z[:, 3])) * _noise(rng, len(x))


def quantile_set(name: str, draw: int) -> tuple[Vector, ...]:
    """Return training and test rows."""
    rng = np.random.default_rng(1000 * draw + sum(map(ord, name)))
    if name == "auto_mpg":
        data = arrays("auto_mpg")
        rows = rng.permutation(len(data["y"]))
        X, y = data["X"][rows].astype(float), data["y"][rows].astype(float)
        return X[:150], y[:150], X[150:], y[150:]
    make, t = QUANTILES[name]
    X, y = make(rng, rng.uniform(-2, 2, (t + TESTED, 1)))
    return X[:t], y[:t], X[t:], y[t:]


def compared_quantiles(name: str, draw: int, ours: bool) -> Iterator[tuple[str, float, float]]:
    """Yield names of models, their pinball losses and seconds."""
    X, y, Z, target = quantile_set(name, draw)

    def pinball(found: Vector) -> float:
        losses = [mean_pinball_loss(target, column, alpha=level) for level, column in zip(LEVELS, found.T, strict=True)]
        return float(np.mean(losses) / target.std())

    start = perf_counter()
    found = rkhs.QuantileRegressor().fit(X, y).predict(Z)
    yield "QuantileRegressor", pinball(found), perf_counter() - start
    if ours:
        return
    for label, model, grid in (
        (
            "linear",
            make_pipeline(StandardScaler(), QuantileRegressor(solver="highs")),
            {"quantileregressor__alpha": [0, *WEIGHTS]},
        ),
        ("boosting", HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0), BOOSTED),
    ):  # fmt: skip
        start, columns = perf_counter(), []
        for level in LEVELS:
            name_of_level = "quantile" if label == "boosting" else "quantileregressor__quantile"
            scoring = make_scorer(mean_pinball_loss, alpha=level, greater_is_better=False)
            scale = y.std()  # the weights of scikit-learn's are in units of y
            search = GridSearchCV(model.set_params(**{name_of_level: level}), grid, scoring=scoring).fit(X, y / scale)
            columns.append(scale * search.predict(Z))
        yield label, pinball(np.stack(columns, axis=1)), perf_counter() - start


def main() -> None:
    """Print the mean of each model on each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["counts", "quantiles"])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--ours", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [*COUNTS, "compas"] if options.what == "counts" else [*QUANTILES, "auto_mpg"]
    compared = compared_counts if options.what == "counts" else compared_quantiles
    for name in filter(re.compile(options.only).search, names):
        found: dict[str, list[tuple[float, float]]] = {}
        for draw in range(options.draws):
            for label, loss, seconds in compared(name, draw, options.ours):
                found.setdefault(label, []).append((loss, seconds))
        means = {label: np.mean(pairs, axis=0) for label, pairs in found.items()}
        shown = " | ".join(f"{label} {loss:.4f} ({seconds:.1f} s)" for label, (loss, seconds) in means.items())
        print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
