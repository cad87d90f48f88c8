"""The section about columns: average slopes, and f along each column."""

from __future__ import annotations

from html import escape

import numpy as np

from rkhs.cli.effects import Effect
from rkhs.cli.page.charts import COLOURS, Frame, dots, lines, short, svg
from rkhs.cli.page.markup import number, section, table, text

SHOWN = 30  # columns, those along which f changes most


def effects(found: list[Effect], classes: list[str] | None) -> str:
    """Average slope and partial dependence of each column."""
    outputs = [""] if classes is None else [f"towards {classes[-1]}"] if len(classes) == 2 else classes
    rows, charts = [], []
    for effect in found[:SHOWN]:
        slopes = [
            "" if effect.slope is None else number(value)
            for value in (effect.slope if effect.slope is not None else outputs)
        ]
        rows.append([escape(effect.column), *slopes, number(effect.size)])
        charts.append(f"<figure>{_dependence(effect)}</figure>")
    key = ""
    if len(outputs) > 1:
        marks = (
            f'<li><span class="key fill{k % COLOURS}"></span>{escape(short(name))}</li>'
            for k, name in enumerate(outputs)
        )
        key = f'<ul class="keys">{"".join(marks)}</ul>'
    told = (
        "The average slope is how much f changes for one unit more of a column, averaged over rows. A curve is f "
        "averaged over rows that all have one value in that column (partial dependence). "
    )
    told += "f is the prediction." if classes is None else "f is the decision: the larger, the surer of the class."
    headings = ["column", *(f"average slope {short(name, 18)}".strip() for name in outputs), "f changes by"]
    return section(
        "effects",
        "What each column does",
        text(told),
        table(headings, rows),
        key,
        f'<div class="charts">{"".join(charts)}</div>',
    )


def _dependence(effect: Effect) -> str:
    low, high = float(effect.dependence.min()), float(effect.dependence.max())
    label = f"f over {effect.column}"
    if effect.slope is not None:
        frame = Frame((effect.values[0], effect.values[-1]), (low, high), 240)
        axes = frame.axes(effect.column, "f", _dated(effect.values) if effect.dates else None)
        return lines(frame, effect.values, effect.dependence.T.tolist(), axes, label)
    places, room = list(range(len(effect.values))), 0.06 * (high - low)
    frame = Frame((-0.5, len(places) - 0.5), (low - room, high + room), 240)
    axes = frame.axes(
        effect.column, "f", [(k, name or "(empty)") for k, name in zip(places, effect.values, strict=True)]
    )
    marks = "".join(
        dots(frame, places, y, f"dot fill{k % COLOURS}", 5) for k, y in enumerate(effect.dependence.T.tolist())
    )
    return svg(axes + marks, label, 240)


def _dated(days: list[float]) -> list[tuple[float, str]]:
    """Some days of an axis and what they are called."""
    return [(day, str(np.datetime64(round(day), "D"))) for day in days[2:-1:5]]
