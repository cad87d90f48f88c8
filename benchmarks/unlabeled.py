"""Do unlabeled rows help?  `InvariantClassifierCV()` with nothing set, against peers that are searched.

    python -m benchmarks.unlabeled [--draws N] [--only REGEX] [--out DIR]

Errors at the unlabeled rows, in percent, means over draws of the labels.  Peers, in the same run: SVC over
5 C x 5 gamma, on features as they are and divided by their deviations; LabelSpreading on the graph of
5, 10 or 30 neighbors, whichever predicts held-out labels best; SelfTraining of the best SVC on features as they are;
500 extremely randomized trees; gradient boosting; LapRLS, the textbook's, with a choice by folds (`benchmarks.laprls`);
and our normalized Laplacian SVM with fixed settings, which chooses nothing: for those who believe in the graph.

Each result is added to a journal, DIR/unlabeled.jsonl, and not computed again: it can be stopped and goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn import datasets
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

import rkhs
from benchmarks.laprls import lap_rls
from benchmarks.lapsvm_peer import laplacian_svm
from benchmarks.timing import markdown, show, write
from rkhs.datasets import path_of

Vector = np.ndarray[Any, Any]
BOOK = ("usps_ssl", "g241c", "g241n", "bci")  # with labels drawn by others
TABLES = {"ionosphere": 60, "sonar": 60, "australian": 50, "raetsch_image": 100, "raetsch_splice": 100,
          "raetsch_banana": 50, "raetsch_german": 100, "raetsch_diabetes": 100, "raetsch_twonorm": 50,
          "keel_optdigits": 50, "keel_segment": 50}  # fmt: skip
OTHERS = {"digits": 30, "breast_cancer": 50, "wine": 30, "iris": 30}  # of scikit-learn
ROWS = 2000  # of a table, at most


def sets(draws: int) -> dict[str, tuple[Vector, Vector, list[Vector]]]:
    """Points, classes and the labeled rows of each draw."""
    found = {}
    for name in BOOK:
        with np.load(data_file(name)) as file:
            found[name] = file["X"], _codes(file["y"]), list(file["idx_lab100"][:draws])
    with np.load(data_file("usps_digits")) as file:
        found["usps_digits"] = _drawn(file["X_test"].astype(float), file["y_test"], 50, draws)
    with np.load(data_file("mnist")) as file:
        rows = np.random.default_rng(1).choice(60_000, 3000, replace=False)
        found["mnist"] = _drawn(file["X_train"][rows].reshape(3000, -1) / 255, file["y_train"][rows], 100, draws)
    for name, labels in TABLES.items():
        with np.load(data_file(name)) as file:
            X, y = file["X"], file["y"]
        rows = np.random.default_rng(2).permutation(len(y))[:ROWS]
        found[name] = _drawn(X[rows].astype(float), y[rows], labels, draws)
    for name, labels in OTHERS.items():
        both = getattr(datasets, f"load_{name}")()
        found[name] = _drawn(both.data, both.target, labels, draws)
    return found


def data_file(name: str) -> Path:
    """Where a file of the shared data is, or an exit that says that it is missing."""
    found = path_of(name)
    if found is None:
        sys.exit(f"{name} is missing: set RKHS_DATA to the folder of the data.")
    return found


def _codes(y: Vector) -> Vector:
    return np.unique(y, return_inverse=True)[1]


def _drawn(X: Vector, y: Vector, labels: int, draws: int) -> tuple[Vector, Vector, list[Vector]]:
    """Labels drawn at random, at least two of each class."""
    y, rng, found = _codes(y), np.random.default_rng(0), []
    while len(found) < draws:
        rows = rng.choice(len(y), labels, replace=False)
        if np.bincount(y[rows], minlength=y.max() + 1).min() >= 2:
            found.append(rows)
    return X, y, found


def ours(X: Vector, y: Vector, rows: Vector) -> Vector:
    """The classes that the default model predicts."""
    few = np.full(len(y), -1)
    few[rows] = y[rows]
    return rkhs.InvariantClassifierCV().fit(X, few).predict(X)


def laplacian(X: Vector, y: Vector, rows: Vector) -> Vector:
    """Return the predictions of the normalized Laplacian SVM with fixed settings."""
    few = np.full(len(y), -1)
    few[rows] = y[rows]
    return laplacian_svm().fit(X, few).predict(X)


def svc(X: Vector, y: Vector, rows: Vector) -> Vector:
    """Those of a searched SVC."""
    return searched_svc(X, y, rows).predict(X)


def self_training(X: Vector, y: Vector, rows: Vector) -> Vector:
    """Those of the best SVC, trained again and again with its own sure predictions."""
    few = np.full(len(y), -1)
    few[rows] = y[rows]
    base = SVC(probability=True, random_state=0, **searched_svc(X, y, rows).best_params_)
    return SelfTrainingClassifier(base).fit(X, few).predict(X)


def searched_svc(X: Vector, y: Vector, rows: Vector) -> GridSearchCV:
    """Return an SVC with the best of 25 settings by folds."""
    wide = X[rows].var() * X.shape[1]
    grid = {"C": [0.1, 1, 10, 100, 1000], "gamma": [g / wide for g in (0.05, 0.2, 0.5, 2, 5)]}
    return GridSearchCV(SVC(), grid, cv=_folds(y[rows])).fit(X[rows], y[rows])


def spreading(X: Vector, y: Vector, rows: Vector) -> Vector:
    """Those of label spreading."""

    def spread(k: int, kept: Vector) -> Vector:
        few = np.full(len(y), -1)
        few[kept] = y[kept]
        return LabelSpreading(kernel="knn", n_neighbors=k, max_iter=100).fit(X, few).transduction_

    def right(k: int) -> float:
        parts = _folds(y[rows]).split(X[rows], y[rows])
        return float(np.mean([np.mean(spread(k, rows[a])[rows[b]] == y[rows[b]]) for a, b in parts]))

    return spread(max((5, 10, 30), key=right), rows)


def _folds(y: Vector) -> StratifiedKFold:
    return StratifiedKFold(max(2, min(5, int(np.bincount(y)[np.bincount(y) > 0].min()))), shuffle=True, random_state=0)


def each(predict: Callable[[Vector, Vector, Vector], Vector]) -> Callable[..., Iterator[Vector]]:
    """From one draw to several."""
    return lambda X, y, draws: (predict(X, y, rows) for rows in draws)


def trees(X: Vector, y: Vector, rows: Vector) -> Vector:
    """Those of extremely randomized trees."""
    return ExtraTreesClassifier(500, random_state=0).fit(X[rows], y[rows]).predict(X)


def boosting(X: Vector, y: Vector, rows: Vector) -> Vector:
    """Those of gradient boosting, with leaves that may be as small as five rows."""
    model = HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0)
    return model.fit(X[rows], y[rows]).predict(X)


WAYS: dict[str, Any] = {
    "ours": each(ours),
    "SVC": each(svc),
    "SVC, scaled": each(svc),
    "spreading": each(spreading),
    "self-training": each(self_training),
    "trees": each(trees),
    "boosting": each(boosting),
    "LapRLS": lap_rls,
    "Laplacian SVM": each(laplacian),
}


def measured(X: Vector, y: Vector, draws: list[Vector], way: str) -> Iterator[tuple[float, float]]:
    """For each draw the error in percent at the rows without a label, and processor seconds."""
    points = StandardScaler().fit_transform(X) if way == "SVC, scaled" else X
    start = process_time()
    for rows, predicted in zip(draws, WAYS[way](points, y, draws), strict=True):
        rest = np.setdiff1d(np.arange(len(y)), rows)
        yield 100 * float(np.mean(predicted[rest] != y[rest])), process_time() - start
        start = process_time()


def table(found: list[dict[str, Any]], ways: list[str]) -> tuple[list[str], list[list[str]]]:
    """Means over the draws that all ways have, their mean over all sets, and processor seconds of ours."""
    rows, means = [], []
    for name in dict.fromkeys(one["set"] for one in found):
        own = {w: {one["draw"]: one for one in found if (one["set"], one["way"]) == (name, w)} for w in ways}
        draws = sorted(set.intersection(*(set(of) for of in own.values())))
        if draws:
            errors = [float(np.mean([own[w][k]["error"] for k in draws])) for w in ways]
            seconds = float(np.mean([own[ways[0]][k]["seconds"] for k in draws]))
            rows.append([name, str(len(draws)), *(f"{e:.1f}" for e in errors), f"{seconds:.1f}"])
            means.append(errors)
    if means:
        rows.append(["mean", "", *(f"{value:.1f}" for value in np.mean(means, axis=0)), ""])
    return ["set", "draws", *ways, f"seconds, {ways[0]}"], rows


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--ways", default="", help="models whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "unlabeled.jsonl"
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["set"], one["draw"], one["way"]) for one in found}
    ways = [way for way in WAYS if re.search(options.ways, way)]
    console, every = Console(width=130), sets(options.draws)
    with journal.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (X, y, draws) in every.items():
            for way in ways if re.search(options.only, name) else []:
                left = [draw for draw in range(options.draws) if (name, draw, way) not in done]
                results = measured(X, y, [draws[draw] for draw in left], way) if left else ()
                for draw, (error, seconds) in zip(left, results, strict=True):
                    found.append({"set": name, "draw": draw, "way": way, "error": error, "seconds": seconds})
                    file.write(json.dumps(found[-1]) + "\n")
                    file.flush()
                    console.print(found[-1])
    heads, rows = table(found, ways)
    show(console, "Few labels: errors in percent", heads, rows)
    write(options.out, "unlabeled.md", markdown("Few labels: errors in percent", heads, rows))


if __name__ == "__main__":
    main()
