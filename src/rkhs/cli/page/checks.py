"""Sections about predictions for rows whose targets were left out: mistakes, and whether sureness is right."""

from __future__ import annotations

from html import escape

import numpy as np

from rkhs.cli.judging import HeldOut
from rkhs.cli.page.charts import Frame, dots, short, svg
from rkhs.cli.page.markup import figure, number, section, table, text

SHOWN = 40  # classes
BINS = 10  # of probabilities


def mistakes(ours: HeldOut, target: str) -> str:
    """The confusion matrix, or the residuals."""
    if ours.classes is None:
        return _residuals(ours, target)
    names = ours.classes[:SHOWN]
    counts = [[int(np.sum((ours.truth == a) & (ours.predicted == b))) for b in names] for a in names]
    rows = [
        [
            f"<b>{escape(short(name))}</b>",
            *(f'<span class="{"hit" if a == b else "miss"}">{number(count)}</span>' for b, count in enumerate(row)),
        ]
        for a, (name, row) in enumerate(zip(names, counts, strict=True))
    ]
    told = "Rows: the true class. Columns: the class that is predicted for the row without its label."
    return section(
        "mistakes", "Confusion matrix", text(told), table(["true", *(short(name) for name in names)], rows, "counts")
    )


def _residuals(ours: HeldOut, target: str) -> str:
    """Predicted against true values, and how large the differences are."""
    both = [*ours.truth.tolist(), *ours.predicted.tolist()]
    frame = Frame((min(both), max(both)), (min(both), max(both)))
    ends = frame.points(frame.x, frame.x)
    inside = frame.axes(f"true {target}", "predicted") + f'<polyline class="even" points="{ends}"/>'
    chart = svg(inside + dots(frame, ours.truth, ours.predicted), "predicted values over true ones")
    residuals = ours.predicted - ours.truth
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    rows = [[f"{100 * share:.0f} %", number(float(np.quantile(residuals, share)))] for share in shares]
    return section(
        "mistakes",
        "Residuals",
        figure(chart, "Each row predicted without its target; on the line predictions are right."),
        table(["share of rows", "predicted minus true is at most"], rows),
    )


def calibration(ours: HeldOut) -> str:
    """Are probabilities, or intervals, as often right as they say?"""
    rows = reliability(ours)
    if not rows:
        return ""
    frame = Frame((0.0, 1.0), (0.0, 1.0))
    said, right = [row[0] for row in rows], [row[1] for row in rows]
    inside = frame.axes("said", "found") + f'<polyline class="even" points="{frame.points((0, 1), (0, 1))}"/>'
    inside += f'<polyline class="line0" points="{frame.points(said, right)}"/>' + dots(
        frame, said, right, "dot fill0", 4
    )
    if ours.classes is not None:
        told = "How often predictions were right, by the probability of the predicted class; each label was left out."
        headings = ["probability said", "share that was right", "rows"]
    else:
        told = "Intervals of the model's own standard deviation: which share of targets was in them, each left out."
        headings = ["share said", "share found", "rows"]
    cells = [[number(a), number(b), number(count)] for a, b, count in rows]
    chart = figure(svg(inside, "said against found"), "On the line what is said is what is found.")
    return section("calibration", "Calibration", text(told), chart, table(headings, cells))


def reliability(ours: HeldOut) -> list[tuple[float, float, int]]:
    """What was said, what was found, and in how many rows; nothing where a model says nothing.

    Examples
    --------
    >>> yes = np.array(["yes", "yes"])
    >>> reliability(HeldOut(yes, yes, np.array(["no", "yes"]), np.array([[0.1, 0.9], [0.2, 0.8]])))
    [(0.8, 1.0, 1), (0.9, 1.0, 1)]
    """
    if ours.probabilities is not None:
        sure, right = ours.probabilities.max(axis=1), ours.predicted == ours.truth
        parts = np.minimum((sure * BINS).astype(int), BINS - 1)
        each = [parts == k for k in range(BINS)]
        return [(float(sure[own].mean()), float(right[own].mean()), int(own.sum())) for own in each if own.any()]
    if ours.deviation is None:
        return []
    from scipy.stats import norm

    size = np.abs(ours.predicted - ours.truth) / ours.deviation
    levels = [0.25, 0.5, 0.75, 0.9, 0.95]
    return [(level, float(np.mean(size <= norm.ppf((1 + level) / 2))), len(size)) for level in levels]
