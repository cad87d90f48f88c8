"""Sections of the report: the data, the settings tried, and errors compared."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from rkhs.cli.learning import Learnt
from rkhs.cli.page.charts import bars, short
from rkhs.cli.page.markup import figure, number, percent, section, table, text

Facts = dict[str, Any]
SHOWN = 40  # columns and classes of which tables tell


def data(facts: Facts) -> str:
    """What was read."""
    rows = [
        [
            escape(row["column"]),
            escape(row["kind"]),
            number(row["values"]),
            escape(row["cells"]),
            number(row["missing"]),
        ]
        for row in facts["table"][:SHOWN]
    ]
    known, unknown = facts["rows with a target"], facts["rows without a target"]
    told = f"{facts['rows']} rows, {known} with a target and {unknown} without."
    if facts["rows learnt from"] < facts["rows"]:
        told += f" The model learnt from {facts['rows learnt from']} of them, drawn at random."
    more = len(facts["table"]) - SHOWN
    headings = ["column", "kind", "different values", "cells", "missing"]
    return section(
        "data", "The data", text(told), table(headings, rows), text(f"And {more} more columns.") if more > 0 else ""
    )


def tried(facts: Facts, learnt: Learnt) -> str:
    """The settings that were compared, and the chosen ones."""
    search = learnt.search
    told = (
        f"{facts['settings tried']} settings were tried on {facts['rows for cross-validation']} rows. "
        f"Chosen: C = {facts['C']:.4g} (weight of a label), nu = {facts['nu']:.4g} (weight of the prior knowledge), "
        f"kernel {short(facts['kernel'], 80)}."
    )
    report = getattr(search, "knowledge_report_", None)
    candidates = ""
    if report:
        show = number if facts["regression"] else percent
        rows = [
            [escape(str(row["knowledge"])), show(row["error"]), number(row["C"]), number(row["nu"])]
            for row in report["candidates"]
        ]
        candidates = text(report["sentence"]) + table(
            ["prior knowledge", "error, each label left out", "C", "nu"], rows
        )
    return section("tried", "What was tried", text(told), candidates, _grid(search, facts["regression"]))


def _grid(search: Any, regression: bool) -> str:
    """The error over C and nu, other settings at their best; the chosen cell has a frame and its own number."""
    results, best = search.cv_results_, search.best_index_
    errors = -np.asarray(results["mean_test_score"], dtype=float)
    errors = np.sqrt(np.maximum(errors, 0)) if regression else 1 + errors
    cells: dict[tuple[float, float], float] = {}
    for params, error in zip(results["params"], errors, strict=True):
        place = (float(params["C"]), float(params["nu"]))
        cells[place] = min(float(error), cells.get(place, np.inf)) if np.isfinite(error) else cells.get(place, np.inf)
    if len(cells) < 2:
        return ""
    chosen = (float(results["params"][best]["C"]), float(results["params"][best]["nu"]))
    cells[chosen] = float(errors[best])
    Cs, nus = sorted({C for C, _ in cells}), sorted({nu for _, nu in cells})
    known = [error for error in cells.values() if np.isfinite(error)]
    low, high = min(known), max(known)
    body = ""
    for nu in nus[::-1]:
        body += f'<tr><th scope="row">{nu:.3g}</th>'
        for C in Cs:
            error = cells.get((C, nu), np.inf)
            if not np.isfinite(error):
                body += "<td></td>"
                continue
            shade = 0.08 + 0.72 * (high - error) / ((high - low) or 1.0)
            shown = f"{error:.3g}" if regression else f"{100 * error:.1f}"
            frame = ' class="chosen" aria-label="chosen"' if (C, nu) == chosen else ""
            body += f'<td{frame} style="--shade:{shade:.2f}">{number(error, shown)}</td>'
        body += "</tr>"
    head = "".join(f'<th scope="col">C = {C:.3g}</th>' for C in Cs)
    caption = "Error for each C (across) and nu (down), other settings at their best; the framed cell was chosen."
    unit = "" if regression else " In percent."
    return (
        f'<figure><div class="scroll" tabindex="0"><table class="grid"><thead><tr><th>nu</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><figcaption>{caption}{unit}</figcaption></figure>"
    )


def compared(facts: Facts) -> str:
    """Our error and the plain SVM's."""
    measure = list(facts["cross-validated"][0])[1]
    show = number if facts["regression"] else percent
    rows = [[escape(row["model"]), show(row[measure])] for row in facts["cross-validated"]]
    picture = [
        (row["model"], row[measure], f"{row[measure]:.4g}" if facts["regression"] else f"{100 * row[measure]:.1f} %")
        for row in facts["cross-validated"]
    ]
    note = (
        f"On {facts['rows for cross-validation']} rows. Each row is predicted by models that have not seen its "
        "target, the same folds for both; the plain SVM is the "
        "best of as wide a range of settings. Settings have seen all targets, for both, so both errors are a little "
        "too good."
    )
    chart = figure(bars(picture, f"{measure} of both models"), measure)
    return section(
        "compared",
        "Compared with a plain SVM",
        text(facts["compared"]),
        chart,
        table(["model", measure], rows),
        text(note),
    )


def gained(facts: Facts) -> str:
    """What each piece of prior knowledge is worth."""
    show = number if facts["regression"] else percent
    rows = [
        [escape(row["prior knowledge"]), show(row["error with it"]), show(row["error without it"])]
        for row in facts["gained"]
    ]
    if not rows:
        return section("gained", "What prior knowledge gained", text("The model that was chosen uses none."))
    headings = ["prior knowledge", "error with it", "error without it"]
    note = (
        ""
        if not facts["monotone"]
        else (
            "Monotone: "
            + ", ".join(f"{name} {'rises' if sign > 0 else 'falls'}" for name, sign in facts["monotone"].items())
        )
    )
    return section("gained", "What prior knowledge gained", table(headings, rows), text(note) if note else "")
