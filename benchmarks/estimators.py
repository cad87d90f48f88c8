"""The estimators' figures: ten classes beside one, and LapSVM on two moons.

python -m benchmarks.estimators [--out build/bench]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.svm import SVC

import rkhs
from benchmarks import lapsvm_peer
from benchmarks.timing import interleaved, markdown, show, write


def digits() -> tuple[list[str], list[list[str]]]:
    """All digits with 100 labels: error beside SVC's, and processor time beside that of one class against the rest."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    scale = rkhs.kernels.median_scale(X)
    rows = []
    for seed in range(3):
        labeled, rest = next(StratifiedShuffleSplit(1, train_size=100, random_state=seed).split(X, y))
        few = np.full(len(y), -1)
        few[labeled] = y[labeled]
        one = np.where(few < 0, -1, few == 0)
        settings: dict[str, Any] = {"loss": "squared_hinge", "C": 10.0, "nu": 0.01 * len(y) / scale**2, "tol": 1e-2}
        all_classes, one_class = (rkhs.InvariantClassifier(**settings) for _ in range(2))
        calls = {"all": partial(all_classes.fit, X, few), "one": partial(one_class.fit, X, one)}
        seconds = interleaved(calls, 10, process_time)
        plain = SVC(C=10.0, gamma=1 / (2 * scale**2)).fit(X[labeled], y[labeled])
        errors = [100 * (1 - model.score(X[rest], y[rest])) for model in (all_classes, plain)]
        ratio = seconds["all"] / seconds["one"]
        times = [f"{seconds[name]:.2f}" for name in ("all", "one")]
        rows.append([str(seed), f"{errors[1]:.2f}", f"{errors[0]:.2f}", *times, f"{ratio:.2f}"])
    return ["seed", "SVC error %", "InvSVM error %", "10 classes CPU s", "1 class CPU s", "ratio"], rows


def moons() -> tuple[list[str], list[list[str]]]:
    """The Laplacian SVM on 3,000 points of two moons with two labels, beside LAMDA-SSL's where that is installed."""
    rows = []
    for seed in range(5):
        X, y = make_moons(3000, noise=0.05, random_state=seed)
        few = np.full(3000, -1)
        rng = np.random.default_rng(seed)
        for c in (0, 1):
            few[rng.choice(np.flatnonzero(y == c))] = c
        model: Any = lapsvm_peer.laplacian_svm(6, power=1, scale=0.2, nu=1e5)
        row = [str(seed), *_timed(model, partial(model.fit, X, few), X, y)]
        if lapsvm_peer.installed():
            peer = lapsvm_peer.lapsvm(model, 2, 3000)
            known = few >= 0
            row += _timed(peer, partial(peer.fit, X[known], y[known], X[~known]), X, y)
        rows.append(row)
        if lapsvm_peer.installed() and seed == 0:
            peer = lapsvm_peer.on_all_pairs(peer, X)
            times = _timed(peer, partial(peer.fit, X[known], y[known], X[~known]), X, y)
            rows.append(["0, its own graph", "", "", "", *times])
    headings = ["seed", "s", "CPU s", "accuracy %", "LAMDA-SSL s", "its CPU s", "its accuracy %"]
    return headings[: len(rows[0])], rows


def _timed(model: Any, fit: Callable[[], Any], X: Any, y: Any) -> list[str]:
    """Seconds of a fit, by the clock and of the processor, and the accuracy after it."""
    clock, processor = perf_counter(), process_time()
    fit()
    seconds = perf_counter() - clock, process_time() - processor
    return [*(f"{s:.2f}" for s in seconds), f"{100 * np.mean(model.predict(X) == y):.1f}"]


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description="The estimators' figures.")
    parser.add_argument("--out", type=Path, help="a folder for estimators.md")
    options = parser.parse_args()
    console = Console()
    pages = []
    for title, table in (
        ("Digits, 10 classes, 100 labels, 1,797 points", digits),
        ("Laplacian SVM, two moons, 3,000 points, 2 labels", moons),
    ):
        headings, rows = table()
        show(console, title, headings, rows)
        pages.append(markdown(title, headings, rows))
    if not lapsvm_peer.installed():
        console.print(lapsvm_peer.MISSING)
    if options.out:
        write(options.out, "estimators.md", "".join(pages))


if __name__ == "__main__":
    main()
