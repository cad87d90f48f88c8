"""Tables whose features are known to be monotone: shapes that are proved, compared with boosted trees.

    python -m benchmarks.monotone [--names auto_mpg compas esl lev] [--splits 10] [--pairs 1000000] [--out DIR]

Random splits, four fifths for training.  Errors are root mean squares of regression (auto_mpg, esl, lev, whose targets
are ordered grades), and the share of wrong labels (compas).  Ours is a sum of a function of each feature, or of each
monotone one, of it together with each other feature that is a number, and of all others together; where
cross-validation on the training rows likes it better, a Gaussian kernel of all of them; features are standardized
(counts that reach far, as logarithms), C is chosen there too.  Classes are told apart by squared loss, and their
settings chosen by it: shares of wrong labels say less.  The shape of sums is proved feature by feature.  The peers are
HistGradientBoosting and XGBoost with the same constraints, and learning rate and leaves (depth) chosen by the same
folds.  Then `pairs` random pairs of points of the box that are ordered in the monotone features and equal in the others
are looked at.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
MOST = 2000  # rows that settings are chosen on
FAR = 6.0  # deviations, beyond which counts are looked at as logarithms


def load(name: str) -> tuple[Matrix, Matrix, Matrix, bool]:
    """X with indicator columns for codes, y, the direction of each column, and whether y is a class."""
    data = arrays(name)
    X, y, direction = data["X"].astype(float), data["y"].astype(float), data["direction"].astype(int)
    codes = data.get("categorical", np.zeros(len(direction)))
    columns, directions = [], []
    for x, sign, code in zip(X.T, direction, codes, strict=True):
        own = [(x == value).astype(float) for value in np.unique(x)] if code else [x]
        columns += own
        directions += [sign] * len(own)
    table = np.stack(columns, axis=1)
    far = (table.min(axis=0) >= 0) & (table.max(axis=0) - table.mean(axis=0) > FAR * table.std(axis=0))
    return np.where(far, np.log1p(table), table), y, np.array(directions), name == "compas"


def grouped(scale: float, X: Matrix, direction: Matrix) -> Any:
    """A function of each monotone feature, of each with another number, and of all others together."""
    unit = np.eye(len(direction))
    numbers = [j for j in np.flatnonzero(direction == 0) if len(np.unique(X[:, j])) > 2]
    alone = [rkhs.Gaussian(scale) @ unit[[j]] for j in (*np.flatnonzero(direction), *numbers)]
    pairs = [rkhs.Gaussian(1.5 * scale) @ unit[[j, k]] for j in np.flatnonzero(direction) for k in numbers]
    return rkhs.kernels.Sum((*alone, *pairs, rkhs.Gaussian(2 * scale) @ unit[direction == 0]))


def fitted(model: Any, X: Matrix, y: Matrix) -> float:
    """Minus the mean squared loss of the scores of two classes, +1 and -1."""
    return -float(np.mean((model.decision_function(X) - np.where(y == model.classes_[1], 1.0, -1.0)) ** 2))


def ours(X: Matrix, y: Matrix, direction: Matrix, classes: bool) -> Any:
    """A model whose shape is proved, and its certificate."""
    n = X.shape[1]
    shape = {j: "increasing" if sign > 0 else "decreasing" for j, sign in enumerate(direction) if sign}
    make: Any = rkhs.InvariantClassifier if classes else rkhs.InvariantRegressor
    fixed: dict[str, Any] = {"invariance": None, "unlabeled": None, "tol": 1e-3}
    if classes:
        fixed["loss"] = "squared"
    kernels = [rkhs.kernels.additive(rkhs.Gaussian(s), n) for s in (1.0, 2.5)]
    if n > 10:
        kernels = [grouped(s, X, direction) for s in (1.0, 2.0)]
    if n <= 4:
        kernels += [rkhs.Gaussian(s) for s in (3.0, 6.0)]
    some = np.random.default_rng(0).permutation(len(X))[:MOST]
    score: Any = fitted if classes else "neg_root_mean_squared_error"
    grid = {"kernel": kernels, "C": [0.01, 0.1, 1.0] if classes else [0.3, 3.0, 30.0]}
    search = GridSearchCV(make(**fixed), grid, cv=3, scoring=score, refit=False).fit(X[some], y[some])
    return make(**fixed, **search.best_params_, shape=shape).fit(X, y)


def boosting(X: Matrix, y: Matrix, direction: Matrix, classes: bool) -> Any:
    """scikit-learn's boosted trees with the constraints."""
    make: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    score = "accuracy" if classes else "neg_root_mean_squared_error"
    grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 15]}
    return GridSearchCV(make(monotonic_cst=direction), grid, cv=3, scoring=score).fit(X, y)


def xgboost(X: Matrix, y: Matrix, direction: Matrix, classes: bool) -> Any:
    """XGBoost with the constraints."""
    from xgboost import XGBClassifier, XGBRegressor

    make: Any = XGBClassifier if classes else XGBRegressor
    score = "accuracy" if classes else "neg_root_mean_squared_error"
    grid = {"learning_rate": [0.03, 0.1], "max_depth": [2, 4]}
    model = make(monotone_constraints=tuple(direction.tolist()), n_jobs=1)
    return GridSearchCV(model, grid, cv=3, scoring=score).fit(X, y)


def violated(predict: Any, box: Matrix, direction: Matrix, count: int) -> int:
    """How many random ordered pairs of the box are predicted the other way round."""
    rng, wrong = np.random.default_rng(0), 0
    for start in range(0, count, 50_000):
        a, b = rng.uniform(*box, (2, min(50_000, count - start), box.shape[1]))
        b = np.where(direction == 0, a, b)
        low = np.where(direction > 0, np.minimum(a, b), np.maximum(a, b))
        high = np.where(direction > 0, np.maximum(a, b), np.minimum(a, b))
        wrong += int(np.sum(predict(low) > predict(high) + 1e-12))
    return wrong


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="+", default=["auto_mpg", "esl", "lev", "compas"])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    ways = {"rkhs, shape proved": ours, "HistGradientBoosting": boosting}
    if find_spec("xgboost") is not None:
        ways["XGBoost"] = xgboost
    rows = []
    for name in options.names:
        X, y, direction, classes = load(name)
        for way, fit in ways.items():
            errors, shares, start, wrong = [], [], time.process_time(), 0
            for split in range(options.splits):
                order = np.random.default_rng(split).permutation(len(X))
                train, test = order[len(X) // 5 :], order[: len(X) // 5]
                mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
                Z = (X - mean) / np.where(spread > 0, spread, 1.0)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = fit(Z[train], y[train], direction, classes)
                found = model.predict(Z[test])
                errors.append(np.mean(found != y[test]) if classes else np.sqrt(np.mean((found - y[test]) ** 2)))
                if way.startswith("rkhs"):
                    certificate = model.shape_certificate_
                    shares.append(min(proof.share for proof in certificate.proofs))
                    if split == 0:
                        predict = model.decision_function if classes else model.predict
                        wrong = violated(predict, certificate.box, direction, options.pairs)
                    print(name, split, f"{errors[-1]:.4f}", model.kernel, model.C, certificate.proved, flush=True)
            used = (time.process_time() - start) / options.splits
            proved = f"{np.mean(np.array(shares) == 1.0):.0%}, {wrong} pairs" if shares else "by construction"
            error = f"{np.mean(errors):.4f} +- {np.std(errors) / len(errors) ** 0.5:.4f}"
            rows.append([name, f"{len(X)} x {X.shape[1]}", way, error, proved, f"{used:.1f}"])
            print(*rows[-1], flush=True)
    title = "Monotone tables: mean test error over random splits"
    headings = [
        "data",
        "rows x columns",
        "model",
        "error",
        "fits proved on the box, pairs violated",
        "processor seconds",
    ]
    show(Console(), title, headings, rows)
    write(options.out, "monotone.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
