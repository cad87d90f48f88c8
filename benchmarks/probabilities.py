"""Are probabilities and prediction sets right with few labels?  Beside an SVC that is calibrated by cross-validation.

    python -m benchmarks.probabilities [--each N] [--draws N] [--only REGEX] [--out DIR]

On the unlabeled rows of `benchmarks.development_sets`: the log loss; the calibration error, the mean difference between
the probability of the predicted class and the share of right predictions in ten bins; errors in percent; and for ours
the coverage and the mean size of `predict_set(coverage=0.9)`.  The SVC has the best of 25 settings on standardized
features, and `CalibratedClassifierCV` fits its sigmoid.

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
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rkhs
from benchmarks.development_sets import draw, draw_each, sets
from benchmarks.timing import markdown, show, write
from benchmarks.unlabeled import searched_svc

Vector = np.ndarray[Any, Any]
BINS = 10
TITLE = "Probabilities with few labels"


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


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--each", type=int, help="labels of every class, instead of 30 to 100 in all")
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "probabilities" if options.each is None else f"probabilities_each_{options.each}"
    journal, console = options.out / f"{stem}.jsonl", Console(width=150)
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["set"], one["draw"]) for one in found}
    wanted = [(name, seed) for seed in range(options.draws) for name in sets() if re.search(options.only, name)]
    with journal.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, seed in wanted:
            if (name, seed) not in done:
                X, y, labels = sets()[name]()
                rows = draw(y, labels, seed) if options.each is None else draw_each(y, options.each, seed)
                found.append({"set": name, "draw": seed, **measured(X, y, rows)})
                file.write(json.dumps(found[-1]) + "\n")
                file.flush()
    names = [name for name in found[0] if name not in ("set", "draw")]
    of = dict.fromkeys(one["set"] for one in found)
    means = {s: [float(np.mean([one[name] for one in found if one["set"] == s])) for name in names] for s in of}
    rows = [[s, *(f"{value:.3g}" for value in values)] for s, values in means.items()]
    rows.append(["mean", *(f"{value:.3g}" for value in np.mean(list(means.values()), axis=0))])
    show(console, TITLE, ["set", *names], rows)
    write(options.out, f"{stem}.md", markdown(TITLE, ["set", *names], rows))


if __name__ == "__main__":
    main()
