"""Tables with all labels: `InvariantClassifierCV()` and `InvariantRegressorCV()` with nothing set, against peers.

    python -m benchmarks.tables [--draws N] [--only REGEX] [--ways REGEX] [--out DIR]

Classification: the error in percent on the other rows, from at most 400 rows (60 % of smaller sets).  Regression:
100 times the root mean squared error, in units of the targets' deviation, on 2,000 other rows, from 200 (of diabetes
300, and the others).  Peers in the same run: SVC or SVR over 5 C x 5 gamma by five folds, on standardized features; a
Gaussian process of scikit-learn with a scale for each feature; HistGradientBoosting; 300 extremely randomized trees;
xRFM where it is installed.

Each result is added to a journal, DIR/tables.jsonl, and not computed again: it can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn import datasets
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import rkhs
from benchmarks.timing import markdown, show, write
from benchmarks.unlabeled import data_file

Vector = np.ndarray[Any, Any]
Split = tuple[Vector, Vector, Vector, Vector]
RAETSCH = ("banana", "breast_cancer", "diabetes", "flare_solar", "german", "heart", "image", "ringnorm", "splice",
           "thyroid", "twonorm", "waveform")  # fmt: skip
CLASSES = (*(f"raetsch_{name}" for name in RAETSCH), "sonar", "ionosphere", "australian", "bupa")
NOISE = {"friedman1": 1.0, "friedman2": 125.0, "friedman3": 0.1}
VALUES = (*NOISE, "wing", "borehole", "diabetes")
WING = ([150, 220, 6, -10, 16, 0.5, 0.08, 2.5, 1700, 0.025], [200, 300, 10, 10, 45, 1, 0.18, 6, 2500, 0.08])
BOREHOLE = ([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855], [0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
MOST, SHARE, TESTED = 400, 0.6, 3000


def split(name: str, draw: int) -> Split:
    """Training rows and their targets, and other rows."""
    rng = np.random.default_rng(draw)
    if name in CLASSES:
        with np.load(data_file(name)) as file:
            X, y = file["X"].astype(float), file["y"]
        order = rng.permutation(len(y))
        train = min(MOST, int(SHARE * len(y)))
        order = order[: train + TESTED]
    else:
        X, y = _values(name, draw, rng)
        train, order = (300, rng.permutation(len(y))) if name == "diabetes" else (200, np.arange(len(y)))
    return X[order[:train]], y[order[:train]], X[order[train:]], y[order[train:]]


def _values(name: str, draw: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    if name in NOISE:
        return getattr(datasets, f"make_{name}")(2200, noise=NOISE[name], random_state=draw)
    if name == "diabetes":
        return datasets.load_diabetes(return_X_y=True)
    low, high = map(np.array, WING if name == "wing" else BOREHOLE)
    X = low + rng.random((2200, len(low))) * (high - low)
    return X, (wing_weight if name == "wing" else borehole)(X)


def wing_weight(X: Vector) -> Vector:
    """The weight of a wing (Forrester, Sobester and Keane 2008)."""
    area, fuel, aspect, sweep, pressure, taper, thickness, load, weight, paint = X.T
    cos = np.cos(np.deg2rad(sweep))
    return (
        0.036 * area**0.758 * fuel**0.0035 * (aspect / cos**2) ** 0.6 * pressure**0.006 * taper**0.04
        * (100 * thickness / cos) ** -0.3 * (load * weight) ** 0.49 + area * paint
    )  # fmt: skip


def borehole(X: Vector) -> Vector:
    """The flow through a borehole (Morris, Mitchell and Ylvisaker 1993)."""
    radius, reach, upper, head, lower, foot, length, conductivity = X.T
    ratio = np.log(reach / radius)
    below = ratio * (1 + 2 * length * upper / (ratio * radius**2 * conductivity) + upper / lower)
    return 2 * np.pi * upper * (head - foot) / below


def ours(X: Vector, y: Vector, classes: bool) -> Any:
    """The default model."""
    return (rkhs.InvariantClassifierCV(unlabeled=None) if classes else rkhs.InvariantRegressorCV()).fit(X, y)


def searched_svm(X: Vector, y: Vector, classes: bool) -> Any:
    """SVC or SVR with the best of 25 settings."""
    name = "svc" if classes else "svr"
    wide = StandardScaler().fit_transform(X).var() * X.shape[1]
    grid = {f"{name}__C": [0.1, 1, 10, 100, 1000], f"{name}__gamma": [g / wide for g in (0.05, 0.2, 0.5, 2, 5)]}
    model = make_pipeline(StandardScaler(), SVC() if classes else SVR(epsilon=0.01))
    return GridSearchCV(model, grid, cv=5).fit(X, y)


def process(X: Vector, y: Vector, classes: bool) -> Any:
    """A Gaussian process with a scale for each feature, on targets -1 and 1 for classes."""
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(1e-2, (1e-8, 1e1))
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    return make_pipeline(StandardScaler(), model).fit(X, y)


def boosting(X: Vector, y: Vector, classes: bool) -> Any:
    """Gradient boosting."""
    return (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=0).fit(X, y)


def trees(X: Vector, y: Vector, classes: bool) -> Any:
    """Extremely randomized trees."""
    return (ExtraTreesClassifier if classes else ExtraTreesRegressor)(300, random_state=0).fit(X, y)


def xrfm(X: Vector, y: Vector, classes: bool) -> Any:
    """The recursive feature machine, a fifth of the rows held back for its own choices."""
    from xrfm import xRFM

    scaler, keep = StandardScaler().fit(X), np.random.default_rng(0).permutation(len(y))
    Z, center, spread = scaler.transform(X), 0.0 if classes else float(y.mean()), 1.0 if classes else float(y.std())
    target = ((y > 0) if classes else (y - center) / spread).astype(np.float32)[:, None]
    back = len(y) // 5
    model = xRFM(device="cpu", tuning_metric="accuracy" if classes else "mse")
    parts = [a[rows].astype(np.float32) for rows in (keep[back:], keep[:back]) for a in (Z, target)]
    model.fit(*parts)
    return _Scaled(model, scaler, classes, center, spread)


class _Scaled:
    """xRFM with scaled features, and -1 and 1 for classes."""

    def __init__(self, model: Any, scaler: Any, classes: bool, center: float, spread: float) -> None:
        self.model, self.scaler, self.classes, self.center, self.spread = model, scaler, classes, center, spread

    def predict(self, X: Vector) -> Vector:
        found = np.asarray(self.model.predict(self.scaler.transform(X).astype(np.float32))).reshape(len(X))
        return np.where(found > 0.5, 1, -1) if self.classes else self.center + self.spread * found


WAYS: dict[str, Callable[[Vector, Vector, bool], Any]] = {
    "ours": ours,
    "SVM": searched_svm,
    "GPR": process,
    "boosting": boosting,
    "trees": trees,
    "xRFM": xrfm,
}


def measured(name: str, draw: int, way: str) -> dict[str, Any]:
    """The error of one way on one split, and the processor seconds of its fit."""
    X, y, others, truth = split(name, draw)
    classes = name in CLASSES
    start = process_time()
    model = WAYS[way](X, y, classes)
    seconds = process_time() - start
    found = model.predict(others)
    if classes:
        error = 100 * float(np.mean((found > 0) != (truth > 0)))
    else:
        error = 100 * float(np.sqrt(np.mean((found - truth) ** 2)) / truth.std())
    told = {"set": name, "draw": draw, "way": way, "error": error, "seconds": seconds}
    return told | ({"kernel": str(model.best_params_["kernel"])} if way == "ours" else {})


def table(found: list[dict[str, Any]], ways: list[str]) -> tuple[list[str], list[list[str]]]:
    """Means over draws, and means over all sets of classes; seconds of ours and of the SVM."""
    heads = ["set", *ways, *(f"seconds, {way}" for way in ways if way in ("ours", "SVM"))]
    rows, means = [], []
    for name in (*CLASSES, *VALUES):
        own = {way: [one for one in found if one["set"] == name and one["way"] == way] for way in ways}
        if not all(own.values()):
            continue
        errors = [float(np.mean([one["error"] for one in own[way]])) for way in ways]
        times = [float(np.mean([one["seconds"] for one in own[way]])) for way in ways if way in ("ours", "SVM")]
        rows.append([name, *(f"{e:.2f}" for e in errors), *(f"{t:.1f}" for t in times)])
        if name in CLASSES:
            means.append(errors + times)
    if means:
        rows.append(["mean of classes", *(f"{value:.2f}" for value in np.mean(means, axis=0))])
    return heads, rows


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--ways", default="ours|SVM|GPR|boosting|trees", help="models whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "tables.jsonl"
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["set"], one["draw"], one["way"]) for one in found}
    ways = [way for way in WAYS if re.search(options.ways, way)]
    console = Console(width=130)
    with journal.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for draw in range(options.draws):
            for name in (*CLASSES, *VALUES):
                for way in ways:
                    if re.search(options.only, name) and (name, draw, way) not in done:
                        found.append(measured(name, draw, way))
                        file.write(json.dumps(found[-1]) + "\n")
                        file.flush()
                        console.print(found[-1])
    heads, rows = table(found, ways)
    title = f"Tables: errors in percent, {options.draws} draws"
    show(console, title, heads, rows)
    write(options.out, "tables.md", markdown(title, heads, rows))


if __name__ == "__main__":
    main()
