"""Things to try: a sample table for `rkhs fit`, and the demonstration `rkhs demo`.

The demonstration is about handwritten digits with three labels each.  A plain SVM sees the 30 labeled digits.  Our
models see 470 more without labels, and know something: that a digit stays the same when it moves a little
(`ImageTangents`), that near digits are alike ("laplacian"), or both.  The errors are on digits that no model has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.svm import SVC

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._cli.outputs import check_outputs, write_figure, write_table
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


def write_sample(out: Path, new: Path | None, force: bool) -> dict[str, Any]:
    """Write a table of customers to learn from, most of them without a label, and one of later customers to predict."""
    later = new or out.with_name("new" + (out.suffix or ".csv"))
    check_outputs({"OUT": out, "--new": later}, [], force)
    frame = pd.DataFrame(customers(350)).astype({"age": "Int64"})
    write_table(frame[250:], later)
    unknown = np.random.default_rng(1).random(350)[:250] < 0.8
    write_table(frame[:250].assign(churn=frame["churn"][:250].mask(unknown, None)), out)
    return {
        "table": str(out),
        "rows": 250,
        "rows with a label": int(np.sum(~unknown)),
        "new rows": str(later),
        "next": f"rkhs fit {out} --target churn --out churn.skops",
    }


def customers(count: int) -> dict[str, list[Any]]:
    """Draw customers of a telephone company, and whether they left: columns with None for empty cells.

    Customers are of three groups, which the columns show; who leaves depends on the group, contract and complaints.
    """
    rng = np.random.default_rng(0)
    group = rng.choice(3, count, p=[0.4, 0.35, 0.25])  # young and thrifty, families, heavy users
    age = np.clip(rng.normal(np.array([26, 47, 58])[group], 6), 18, 90).round().astype(int)
    days = np.clip(rng.normal(np.array([400, 1500, 900])[group], 250), 30, 2200).astype(int)
    fee = np.round(np.clip(rng.normal(np.array([19, 39, 62])[group], 5), 7, None), 2)
    hours = np.round(np.clip(rng.normal(np.array([4, 9, 21])[group], 3), 0, None), 1)
    contract = np.minimum(rng.binomial(2, np.array([0.15, 0.6, 0.4])[group]), 2)
    channel = rng.choice(4, count, p=[0.3, 0.4, 0.2, 0.1])
    complaints = rng.poisson(np.array([0.9, 0.7, 1.1])[group])
    leans = np.array([1.2, -1.6, -0.4])[group] + 0.9 * (complaints - 0.9) - 0.7 * (contract - 0.7)
    leans += 0.25 * rng.logistic(size=count)
    columns: dict[str, list[Any]] = {
        "customer": [f"C{1001 + k}" for k in range(count)],
        "joined": [(date(2025, 6, 30) - timedelta(days=d)).isoformat() for d in days.tolist()],
        "age": age.tolist(),
        "contract": np.array(["monthly", "yearly", "two years"])[contract].tolist(),
        "channel": np.array(["shop", "web", "phone", "friend"])[channel].tolist(),
        "fee [EUR/month]": fee.tolist(),
        "hours used": hours.tolist(),
        "complaints": complaints.tolist(),
        "churn": np.where(leans > 0, "yes", "no").tolist(),
    }
    for name, share in (("age", 0.05), ("channel", 0.08), ("hours used", 0.04)):
        empty = rng.random(count) < share
        columns[name] = [None if gone else cell for cell, gone in zip(columns[name], empty, strict=True)]
    return columns


def run(out: Path, force: bool) -> dict[str, Any]:
    """Learn from few labels, compare with a plain SVM, and draw; return the facts."""
    picture = out / "demo.png"
    check_outputs({"--out": picture}, [], force)
    splits = [_split(seed) for seed in range(SPLITS)]
    moved, alike = ImageTangents((8, 8)), Invariance("laplacian", weight=10.0)
    fits: dict[tuple[str, str], Callable[[Split], Any]] = {
        ("plain SVM, best of 20", "nothing more"): _best_plain,
        ("InvSVM", "moved digits are alike"): partial(_fit, knowledge=moved),
        ("InvSVM", "near digits are alike"): partial(_fit, knowledge=alike),
        ("InvSVM", "both"): partial(_fit, knowledge=[moved, alike]),
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
    """Return the SVM whose C and scale suit best the very digits it is asked about: no tuning could do better."""
    known, median = split.y >= 0, rkhs.kernels.median_scale(split.X)
    grid = [(C, share * median) for C in (0.1, 1, 10, 100) for share in (0.25, 0.5, 1, 2, 4)]
    models = [SVC(C=C, gamma=1 / (2 * scale**2)).fit(split.X[known], split.y[known]) for C, scale in grid]
    return max(models, key=lambda model: model.score(split.X_test, split.y_test))


def _fit(split: Split, knowledge: Any) -> rkhs.InvariantClassifier:
    """Return our model with some prior knowledge; the other settings are the same for all of it and all splits."""
    scale = 0.5 * rkhs.kernels.median_scale(split.X)
    model = rkhs.InvariantClassifier(scale=scale, loss="squared_hinge", C=10.0, invariance=knowledge, nu=30.0, tol=1e-2)
    return model.fit(split.X, split.y)


def _draw(path: Path, rows: list[dict[str, Any]], split: Split, plain: SVC, ours: rkhs.InvariantClassifier) -> None:
    """Draw a digit and where it moves, the errors, and some digits that only our last model reads."""
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
