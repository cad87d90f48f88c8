"""Data to try the command with: the demonstration `rkhs demo`, and the tables of `rkhs sample`.

The demonstration learns handwritten digits from three labels each.

A plain SVM sees the 30 labeled digits.  Our models see 470 more without labels, and have priors: a digit stays the
same when it moves a little (`ImageTangents`), neighboring digits are of the same class ("graph"), or both.  The
errors are those on digits that no model has seen.

The sample tables hold customers of a telephone company, most of them without a label.  There are six kinds of
customers, by when in the year they use most data, and who leaves depends on the kind.  A few labels do not reveal the
kinds in sixteen noisy columns; hundreds of rows without a label do.  In addition, customers leave the more readily the
more often they complained.
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
from rkhs._command.options import check_outputs, write_figure, write_table
from rkhs._command.terminal import step
from rkhs.extend import Vector
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


ROWS, LABELED, NEW = 500, 60, 100  # customers in the table, those whose answer is known, and later ones to predict
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def write_sample(out: Path, new: Path | None, force: bool) -> dict[str, Any]:
    """Write a table of customers to learn from, and one of later customers to predict."""
    later = new or out.with_name("new" + (out.suffix or ".csv"))
    check_outputs({"OUT": out, "--new": later}, [], force)
    frame = customers(ROWS + NEW)
    write_table(frame[ROWS:], later)
    write_table(unlabeled(frame[:ROWS]), out)
    return {
        "table": str(out),
        "rows": ROWS,
        "rows with a label": LABELED,
        "new rows": str(later),
        "next": f"rkhs fit {out} --target churn --out churn.skops",
    }


def unlabeled(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return the customers with all but LABELED of their labels removed at random."""
    kept = np.random.default_rng(seed).permutation(len(frame))[:LABELED]
    return frame.assign(churn=frame["churn"].where(np.isin(np.arange(len(frame)), kept), None))


def customers(count: int, seed: int = 0) -> pd.DataFrame:
    """Draw customers, and whether they left."""
    rng = np.random.default_rng(seed)
    year = 2 * np.pi * np.arange(12) / 12
    trend = np.linspace(-1, 1, 12)
    for wave in (np.cos(year), np.sin(year)):
        trend = trend - (trend @ wave) / (wave @ wave) * wave
    # Use peaks in January, July, April or October, grows or fades; the patterns have norm one.
    shapes = np.stack([np.cos(year), -np.cos(year), np.sin(year), -np.sin(year), trend, -trend])
    shapes /= np.linalg.norm(shapes, axis=1, keepdims=True)
    leaves = np.array([1.0, 1.0, -1.0, -1.0, -1.0, 1.0])
    kind = rng.integers(6, size=count)
    use = np.clip(10 + 6 * shapes[kind] + 2 * rng.standard_normal((count, 12)), 0, None).round(1)
    days = np.clip(rng.gamma(2.0, 450, count), 30, 3000).astype(int)
    contract, channel = rng.choice(3, count, p=[0.5, 0.3, 0.2]), rng.choice(4, count, p=[0.3, 0.4, 0.2, 0.1])
    complaints = rng.poisson(0.8, count)
    lean = leaves[kind] + 0.25 * (complaints - 0.8) - 0.2 * (contract - 0.7) + 0.2 * rng.logistic(size=count)
    frame = pd.DataFrame(
        {
            "customer": [f"C{1001 + k}" for k in range(count)],
            "joined": [(date(2025, 6, 30) - timedelta(days=d)).isoformat() for d in days.tolist()],
            "age": pd.array(np.clip(rng.normal(44, 14, count), 18, 90).round(), dtype="Int64"),
            "contract": np.array(["monthly", "yearly", "two years"], dtype=object)[contract],
            "channel": np.array(["shop", "web", "phone", "friend"], dtype=object)[channel],
            "fee [EUR/month]": np.clip(rng.normal(35, 12, count), 7, None).round(2),
            **{f"{month} [GB]": use[:, k] for k, month in enumerate(MONTHS)},
            "complaints": complaints,
            "churn": np.where(lean > 0, "yes", "no").astype(object),
        }
    )
    for name, share in (("age", 0.05), ("channel", 0.08), ("Mar [GB]", 0.04)):
        frame[name] = frame[name].mask(rng.random(count) < share, None)
    return frame
