"""Few labels on real data: InvSVM beside SVC, both with cross-validated weights and nothing tuned by hand.

    python -m benchmarks.few_labels [--sets sonar ionosphere ..] [--splits 3] [--loss hinge] [--out build/bench]

Features are standardized per column.  usps_ssl and g241c have their 12 official sets of 100 labels; sonar and
ionosphere 10 stratified sets of 90.  The error is that at all other points, which both models may see without
labels.  Both choose C from the same values by the same 5 folds, with the Gaussian kernel of the median scale.

With --out, each split is kept as it is done, and a later run does only those that are missing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC

import rkhs
from benchmarks.data import label_sets, load
from benchmarks.timing import markdown, show, write

SETS = ("usps_ssl", "g241c", "sonar", "ionosphere")
CS = [1.0, 10.0, 100.0, 1000.0]
Matrix = np.ndarray[Any, Any]
HEADINGS = ("set", "splits", "SVC error %", "InvSVM error %", "difference", "SVC s", "InvSVM s", "median nu")


def splits_of(name: str, y: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The labeled points of each split: the official ones, or 10 stratified sets of 90."""
    official = label_sets(name)
    if official is not None:
        return [np.sort(rows) for rows in official]
    rows = np.arange(len(y))
    return [np.sort(train_test_split(rows, train_size=90, stratify=y, random_state=seed)[0]) for seed in range(10)]


def compare(name: str, most: int | None, loss: str, kept: Kept, console: Console) -> list[str]:
    """A row of the table."""
    X, y = load(name)
    found = []
    for split, labeled in enumerate(splits_of(name, y)[:most]):
        known = kept.get(name, loss, split)
        one = known or kept.add(name, loss, split, measure(X, y, labeled, loss))
        console.print(f"{name} {split}: SVC {one['svc']:.2f}, InvSVM {one['ours']:.2f} with {one['chosen']}")
        found.append(one)
    svc, ours, first, second = (np.mean([one[key] for one in found]) for key in ("svc", "ours", "svc s", "ours s"))
    return [
        name,
        str(len(found)),
        f"{svc:.2f}",
        f"{ours:.2f}",
        f"{ours - svc:+.2f}",
        f"{first:.2f}",
        f"{second:.1f}",
        f"{np.median([one['chosen']['nu'] for one in found]):g}",
    ]


def measure(X: Matrix, y: Matrix, labeled: Matrix, loss: str) -> dict[str, Any]:
    """Errors in percent and seconds of both models on one split, and what ours chose."""
    rest = np.setdiff1d(np.arange(len(y)), labeled)
    few = np.full(len(y), 0)
    few[labeled] = np.where(y[labeled] > 0, 2, 1)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)  # those of InvariantClassifierCV
    plain = GridSearchCV(SVC(gamma=1 / (2 * rkhs.kernels.median_scale(X) ** 2)), {"C": CS}, cv=folds)
    ours = rkhs.InvariantClassifierCV(invariance="gradient", Cs=CS, loss=loss, unlabeled=0)
    times = [perf_counter()]
    plain.fit(X[labeled], few[labeled])
    times.append(perf_counter())
    ours.fit(X, few)
    times.append(perf_counter())
    truth = np.where(y[rest] > 0, 2, 1)
    svc, own = (100 * float(np.mean(model.predict(X[rest]) != truth)) for model in (plain, ours))
    seconds = np.diff(times).tolist()
    return {"svc": svc, "ours": own, "svc s": seconds[0], "ours s": seconds[1], "chosen": ours.best_params_}


class Kept:
    """Results of single splits in a file of JSON lines, so that a run that was stopped goes on where it was."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[Any, dict[str, Any]] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                one = json.loads(line)
                self.known[one["set"], one["loss"], one["split"]] = one

    def get(self, name: str, loss: str, split: int) -> dict[str, Any] | None:
        return self.known.get((name, loss, split))

    def add(self, name: str, loss: str, split: int, result: dict[str, Any]) -> dict[str, Any]:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps({"set": name, "loss": loss, "split": split, **result}) + "\n")
        return result


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description="Few labels on real data: InvSVM beside SVC.")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--splits", type=int, help="only the first so many splits of each set")
    parser.add_argument("--loss", default="squared_hinge", help="of InvariantClassifierCV")
    parser.add_argument("--out", type=Path, help="a folder for few_labels.md, and for the splits that are done")
    options = parser.parse_args()
    console = Console()
    kept = Kept(options.out and options.out / "few_labels.jsonl")
    rows = [compare(name, options.splits, options.loss, kept, console) for name in options.sets]
    title = f"Mean test error with 100 or 90 labels, InvSVM with {options.loss}"
    show(console, title, HEADINGS, rows)
    if options.out:
        write(options.out, "few_labels.md", markdown(title, HEADINGS, rows))


if __name__ == "__main__":
    main()
