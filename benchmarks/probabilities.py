"""Are probabilities and prediction sets right?  Beside a calibrated SVC and, with all labels, logistic regression.

    python -m benchmarks.probabilities [--all | --each N] [--draws N] [--only REGEX] [--out DIR]

On the unlabeled rows of `benchmarks.development_sets`: the log loss; the calibration error, the mean difference between
the probability of the predicted class and the share of right predictions in ten bins; errors in percent; and for ours
the coverage and the mean size of `predict_set(coverage=0.9)`.  The SVC has the best of 25 settings on standardized
features, and `CalibratedClassifierCV` fits its sigmoid.

With --all every row has its label: 400 rows are learned, or 60 % of smaller sets, and the others are predicted.  The
SVC is then calibrated by its temperature, and the log loss should be at most 10 % + 0.03 above the smaller one of both
peers ("allowed").

Each draw is added to a journal, DIR/probabilities.jsonl, and is not computed again.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rkhs
from benchmarks.data import arrays
from benchmarks.development_sets import draw, draw_each, sets
from benchmarks.timing import markdown, show, write
from benchmarks.unlabeled import searched_svc

Vector = np.ndarray[Any, Any]
BINS = 10
IMAGES = ("coil20", "umist")  # of 20 classes, in addition to the development sets
MOST, SHARE = 400, 0.6  # rows to learn from if all labels are known
TITLE, TITLE_ALL = "Probabilities with few labels", "Probabilities with all labels"


def calibration_error(probabilities: Vector, y: Vector) -> float:
    """Return the expected calibration error of the predicted classes (Naeini, Cooper and Hauskrecht 2015)."""
    top, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    return float(sum(abs(np.sum(top[bins == k] - right[bins == k])) for k in range(BINS)) / len(y))


def scores(probabilities: Vector, y: Vector) -> dict[str, float]:
    """Return the log loss, the calibration error and the share of errors in percent."""
    classes = np.arange(probabilities.shape[1])
    return {
        "log loss": float(log_loss(y, np.clip(probabilities, 1e-6, 1), labels=classes)),
        "calibration": calibration_error(probabilities, y),
        "error": 100 * float(np.mean(probabilities.argmax(axis=1) != y)),
    }


def measured(X: Vector, y: Vector, rows: Vector) -> dict[str, float]:
    """Return the figures of both models on the rows without a label."""
    few, rest = np.full(len(y), -1), np.setdiff1d(np.arange(len(y)), rows)
    few[rows] = y[rows]
    model = rkhs.InvariantClassifierCV().fit(X, few)
    found = scores(model.predict_proba(X[rest]), y[rest])
    members = model.predict_set(X[rest], coverage=0.9)
    found |= {"coverage": float(members[np.arange(len(rest)), y[rest]].mean()), "size": float(members.sum(1).mean())}
    Z = StandardScaler().fit_transform(X)
    folds = StratifiedKFold(max(2, min(5, int(np.bincount(y[rows]).min()))), shuffle=True, random_state=0)
    peer = CalibratedClassifierCV(SVC(**searched_svc(Z, y, rows).best_params_), cv=folds, ensemble=False)
    probabilities = peer.fit(Z[rows], y[rows]).predict_proba(Z[rest])
    return found | {f"SVC, {name}": value for name, value in scores(probabilities, y[rest]).items()}


def all_labels(name: str, seed: int) -> dict[str, float | bool]:
    """Return the figures of three models that learn from rows with labels."""
    if name in IMAGES:
        data = arrays(name)
        X, y = data["X"][:, ::4].astype(float), np.unique(data["y"], return_inverse=True)[1]
    else:
        X, y, _ = sets()[name]()
    order = np.random.default_rng(seed).permutation(len(y))
    learned, rest = np.split(order, [min(MOST, int(SHARE * len(y)))])
    classes = np.flatnonzero(np.bincount(y[learned]) > 1)  # that can be left out
    learned, rest = (rows[np.isin(y[rows], classes)] for rows in (learned, rest))
    y = np.searchsorted(classes, y)
    Z = StandardScaler().fit(X[learned]).transform(X)
    count = max(2, min(5, int(np.bincount(y[learned]).min())))
    folds = StratifiedKFold(count, shuffle=True, random_state=0)
    settings = searched_svc(Z, y, learned).best_params_
    models = {
        "": (rkhs.InvariantClassifierCV(unlabeled=None), X),
        "SVC, ": (CalibratedClassifierCV(SVC(**settings), cv=folds, ensemble=False, method="temperature"), Z),
        "logistic, ": (LogisticRegression(max_iter=2000), Z),
    }
    found: dict[str, float | bool] = {}
    for prefix, (model, points) in models.items():
        probabilities = model.fit(points[learned], y[learned]).predict_proba(points[rest])
        found |= {prefix + key: value for key, value in scores(probabilities, y[rest]).items()}
        if not prefix:
            found |= {"smallest": float(probabilities.min()), "discriminant": model.discriminant_ is not None}
    return found | {"allowed": 1.1 * min(found["SVC, log loss"], found["logistic, log loss"]) + 0.03}


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="all labels are known")
    parser.add_argument("--each", type=int, help="labels of every class, instead of 30 to 100 in all")
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "probabilities" if options.each is None else f"probabilities_each_{options.each}"
    stem = "probabilities_all" if options.all else stem
    every = [*sets(), *IMAGES] if options.all else list(sets())
    journal, console = options.out / f"{stem}.jsonl", Console(width=150)
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["set"], one["draw"]) for one in found}
    wanted = [(name, seed) for seed in range(options.draws) for name in every if re.search(options.only, name)]
    with journal.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, seed in wanted:
            if (name, seed) not in done and options.all:
                found.append({"set": name, "draw": seed, **all_labels(name, seed)})
            elif (name, seed) not in done:
                X, y, labels = sets()[name]()
                rows = draw(y, labels, seed) if options.each is None else draw_each(y, options.each, seed)
                found.append({"set": name, "draw": seed, **measured(X, y, rows)})
            else:
                continue
            file.write(json.dumps(found[-1]) + "\n")
            file.flush()
    names = [name for name in found[0] if name not in ("set", "draw")]
    of = dict.fromkeys(one["set"] for one in found)
    means = {s: [float(np.mean([one[name] for one in found if one["set"] == s])) for name in names] for s in of}
    rows = [[s, *(f"{value:.3g}" for value in values)] for s, values in means.items()]
    rows.append(["mean", *(f"{value:.3g}" for value in np.mean(list(means.values()), axis=0))])
    title = TITLE_ALL if options.all else TITLE
    show(console, title, ["set", *names], rows)
    write(options.out, f"{stem}.md", markdown(title, ["set", *names], rows))


if __name__ == "__main__":
    main()
