"""The demonstration: handwritten digits with three labels each.

A plain SVM sees the 30 labelled digits.  Our models see 470 more without labels, and know something: that a digit
stays the same when it moves a little (`ImageTangents`), that near digits are alike ("laplacian"), or both.  The errors
are on digits that no model has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import rkhs
from rkhs._backend.arrays import Vector
from rkhs.cli.outputs import check_outputs
from rkhs.cli.picture import write_figure
from rkhs.cli.progress import step
from rkhs.invariances import ImageTangents, Invariance
from rkhs.plotting import TangentsDisplay

PER_CLASS, POINTS, SPLITS = 3, 500, 2
SHAPE = (8, 8)
SCALE, C, NU = 0.5, 10.0, 30.0  # SCALE is a share of the median distance; the same for all models and splits
ALIKE = Invariance("laplacian", weight=10.0)
KNOWLEDGE: dict[str, Any] = {
    "moved digits are alike": ImageTangents(SHAPE),
    "near digits are alike": ALIKE,
    "both": [ImageTangents(SHAPE), ALIKE],
}


@dataclass(frozen=True, eq=False)
class Split:
    """Digits to learn from, -1 for no label, and digits to predict."""

    X: Vector
    y: Vector
    asked: Vector
    truth: Vector

    @classmethod
    def of(cls, seed: int) -> Split:
        """A random one with PER_CLASS labels of each digit."""
        images, digits = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(digits))
        X, truth = images[order] / 16, digits[order]
        y = np.full(POINTS, -1)
        for digit in range(10):
            chosen = np.flatnonzero(truth[:POINTS] == digit)[:PER_CLASS]
            y[chosen] = digit
        return cls(X[:POINTS], y, X[POINTS:], truth[POINTS:])

    def error(self, machine: Any) -> float:
        """The share of wrong answers."""
        return float(np.mean(machine.predict(self.asked) != self.truth))


def run(out: Path, force: bool) -> dict[str, Any]:
    """Learn, compare, draw; the facts to print."""
    picture = out / "demo.png"
    check_outputs({"--out": picture}, [], force)
    splits = [Split.of(seed) for seed in range(SPLITS)]
    rows = []
    with step("the plain SVM, with the settings that are best for it"):
        start = perf_counter()
        plain = [_best_plain(split) for split in splits]
        errors = [split.error(machine) for split, machine in zip(splits, plain, strict=True)]
        rows.append(_row("plain SVM, best of 20", "nothing more", errors, start))
    for name, knowledge in KNOWLEDGE.items():
        with step(f"InvSVM: {name}"):
            start = perf_counter()
            fitted = [_learn(split, knowledge) for split in splits]
            errors = [split.error(machine) for split, machine in zip(splits, fitted, strict=True)]
            rows.append(_row("InvSVM", name, errors, start))
    with step("drawing"):
        _draw(picture, rows, splits[0], plain[0], fitted[0])
    return {
        "digits": f"{10 * PER_CLASS} labelled, {POINTS - 10 * PER_CLASS} without a label, "
        f"{len(splits[0].truth)} to predict; mean of {SPLITS} random splits",
        "few labels": rows,
        "picture": str(picture),
    }


def _row(model: str, knows: str, errors: list[float], start: float) -> dict[str, Any]:
    seconds = round((perf_counter() - start) / SPLITS, 1)
    return {"model": model, "knows that": knows, "error": float(np.mean(errors)), "seconds each": seconds}


def _best_plain(split: Split) -> Any:
    """The SVM whose C and scale suit best the very digits it is asked about: no tuning could do better."""
    known = split.y >= 0
    median = rkhs.median_scale(split.X)
    grid = [(C, share * median) for C in (0.1, 1, 10, 100) for share in (0.25, 0.5, 1, 2, 4)]
    machines = [SVC(C=C, gamma=1 / (2 * scale**2)).fit(split.X[known], split.y[known]) for C, scale in grid]
    return min(machines, key=split.error)


def _learn(split: Split, knowledge: Any) -> Any:
    scale = SCALE * rkhs.median_scale(split.X)
    machine = rkhs.InvariantClassifier(scale=scale, loss="squared_hinge", C=C, invariance=knowledge, nu=NU, tol=1e-2)
    return machine.fit(split.X, split.y)


def _draw(path: Path, rows: list[dict[str, Any]], split: Split, plain: Any, ours: Any) -> None:
    """A digit and where it moves; the errors; and some digits that only our last model reads."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(13, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.2])
    few = ImageTangents(SHAPE, kinds=["translation", "rotation", "shear"])
    digit = split.asked[np.flatnonzero(split.truth == 4)[1]]
    TangentsDisplay.from_image(few, digit, amounts=(-1, -0.5, 0, 0.5, 1), figure=left)
    left.suptitle("a digit, its tangents, and where they lead")
    upper, lower = right.subfigures(2, 1)
    ax = upper.subplots()
    names = [f"{row['model'].split(',')[0]}: {row['knows that']}" for row in rows]
    bars = ax.barh(names[::-1], [100 * row["error"] for row in rows[::-1]], color=["tab:blue"] * 3 + ["0.6"])
    ax.bar_label(bars, fmt="%.1f %%", padding=3)
    ax.set_title(f"errors on new digits, {PER_CLASS} labels of each")
    ax.spines[["top", "right"]].set_visible(False)
    lower.suptitle("new digits that the plain SVM misreads and InvSVM does not")
    wrong, right_answer = plain.predict(split.asked), ours.predict(split.asked)
    saved = np.flatnonzero((wrong != split.truth) & (right_answer == split.truth))
    for panel, k in zip(lower.subplots(2, 7).flat, saved, strict=False):
        panel.imshow(split.asked[k].reshape(SHAPE), cmap="gray_r")
        panel.set_title(f"SVM {wrong[k]}, ours {right_answer[k]}", fontsize=8)
    for panel in lower.axes:
        panel.axis("off")
    write_figure(figure, path)
