"""Run the demonstration `rkhs demo` on handwritten digits with three labels each.

A plain SVM sees the 30 labeled digits.  Our models see 470 more without labels, and have priors: a digit stays the
same when it moves a little (`ImageTangents`), neighboring digits are of the same class ("graph"), or both.  The
errors are those on digits that no model has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._cli.options import check_outputs, write_figure
from rkhs._cli.terminal import step
from rkhs.invariances import ImageTangents, Invariance
from rkhs.plotting import TangentsDisplay

PER_CLASS, POINTS, SPLITS = 3, 500, 2  # labels of each digit, digits to learn from, random splits


class Split(NamedTuple):
    """Digits to learn from, with the label -1 if there is none, and digits to predict."""

    X: Vector
    y: Vector
    X_test: Vector
    y_test: Vector


def run(out: Path, force: bool) -> dict[str, Any]:
    """Fit all models, compare and draw them; return the facts."""
    picture = out / "demo.png"
    check_outputs({"--out": picture}, [], force)
    splits = [_split(seed) for seed in range(SPLITS)]
    moved, alike = ImageTangents((8, 8)), Invariance("graph", weight=30.0)
    fits: dict[tuple[str, str], Callable[[Split], Any]] = {
        ("plain SVM, best of 20", "nothing more"): _best_plain,
        ("InvSVM", "moved digits are alike"): partial(_fit, prior=moved),
        ("InvSVM", "near digits are alike"): partial(_fit, prior=alike),
        ("InvSVM", "both"): partial(_fit, prior=[moved, alike]),
    }
    rows, models = [], []
    for (name, knows), fit in fits.items():
        with step(f"{name}: {knows}"):
            start = perf_counter()
            fitted = [fit(split) for split in splits]
            scores = [model.score(split.X_test, split.y_test) for model, split in zip(fitted, splits, strict=True)]
            seconds = round((perf_counter() - start) / SPLITS, 1)
        rows.append({"model": name, "knows that": knows, "error": 1 - float(np.mean(scores)), "seconds each": seconds})
        models.append(fitted[0])
    with step("drawing"):
        _draw(picture, rows, splits[0], models[0], models[-1])
    return {
        "digits": f"{10 * PER_CLASS} labeled, {POINTS - 10 * PER_CLASS} without a label, "
        f"{len(splits[0].y_test)} to predict; mean of {SPLITS} random splits",
        "few labels": rows,
        "picture": str(picture),
    }


def _split(seed: int) -> Split:
    """Draw digits to learn from, PER_CLASS of each with a label and the others with -1, and digits to predict."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(digits))
    X, truth = images[order] / 16, digits[order]
    y = np.full(POINTS, -1)
    for digit in range(10):
        y[np.flatnonzero(truth[:POINTS] == digit)[:PER_CLASS]] = digit
    return Split(X[:POINTS], y, X[POINTS:], truth[POINTS:])


def _best_plain(split: Split) -> SVC:
    """Return the SVM with the C and scale of the least test error, which no tuning could improve on."""
    known, median = split.y >= 0, rkhs.kernels.median_scale(split.X)
    grid = [(C, share * median) for C in (0.1, 1, 10, 100) for share in (0.25, 0.5, 1, 2, 4)]
    models = [SVC(C=C, gamma=1 / (2 * scale**2)).fit(split.X[known], split.y[known]) for C, scale in grid]
    return max(models, key=lambda model: model.score(split.X_test, split.y_test))


def _fit(split: Split, prior: Any) -> rkhs.InvariantClassifier:
    """Return our model with a prior; the other settings are the same for all priors and splits."""
    scale = 0.5 * rkhs.kernels.median_scale(split.X)
    model = rkhs.InvariantClassifier(scale=scale, loss="squared_hinge", C=10.0, invariance=prior, nu=30.0, tol=1e-2)
    return model.fit(split.X, split.y)


def _draw(path: Path, rows: list[dict[str, Any]], split: Split, plain: SVC, ours: rkhs.InvariantClassifier) -> None:
    """Draw a digit and its motions, the errors, and some digits that only our last model reads."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(13, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.2])
    few = ImageTangents((8, 8), kinds=["translation", "rotation", "shear"])
    digit = split.X_test[np.flatnonzero(split.y_test == 4)[1]]
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
    wrong, right_answer = plain.predict(split.X_test), ours.predict(split.X_test)
    saved = np.flatnonzero((wrong != split.y_test) & (right_answer == split.y_test))
    for panel, k in zip(lower.subplots(2, 7).flat, saved, strict=False):
        panel.imshow(split.X_test[k].reshape((8, 8)), cmap="gray_r")
        panel.set_title(f"SVM {wrong[k]}, ours {right_answer[k]}", fontsize=8)
    for panel in lower.axes:
        panel.axis("off")
    write_figure(figure, path)
