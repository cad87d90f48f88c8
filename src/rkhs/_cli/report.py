"""The picture and the HTML report of `rkhs fit`: errors, settings that were tried, columns and their effects."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._cli.assessment import Comparison, Effect, OutOfFold, format_error
from rkhs._cli.learning import Learned, Search
from rkhs._cli.markup import COLOURS, Axes, Markup, bars, markup, number, short, svg, table
from rkhs._cli.outputs import write_figure
from rkhs._cli.terminal import as_text, finite
from rkhs._files import replacing
from rkhs.plotting import BoundaryDisplay, GridDisplay

Facts = dict[str, Any]
SHOWN = 40  # columns and classes in tables
HIDDEN = ("table", "classes", "cross-validated", "gained", "compared", "interval")  # facts that have sections


def draw(path: Path, learned: Learned, X: Vector, facts: Facts) -> None:
    """Draw errors compared with the plain SVM's, the settings tried if there are several, and the points."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    model, used, rows = learned.model, learned.chosen_on, facts["cross-validated"]
    measure, known = list(rows[0])[1], used.labeled
    several = len(learned.search.cv_results_["params"]) > 1
    with mpl.rc_context({"text.parse_math": False}):  # a class may be called $b^{$
        canvas, axes = plt.subplots(1, 2 + several, figsize=(5 * (2 + several), 4.2), layout="constrained")
        names = [row["model"].replace(", ", "\n") for row in rows]
        axes[0].bar_label(axes[0].bar(names, [row[measure] for row in rows], color=["tab:blue", "0.7"]), fmt="%.3g")
        axes[0].set(ylabel=measure, title="cross-validated")
        if several:
            GridDisplay.from_estimator(learned.search, ax=axes[1])
            axes[1].set_title("settings tried; frame: chosen")
        ax = axes[-1]
        if used.regression:
            ax.plot(used.y[known], model.predict(X[known]), ".", markersize=4)
            ax.axline((float(used.y[known].mean()),) * 2, slope=1.0, color="0.6", linewidth=1)
            ax.set(xlabel=facts["target"], ylabel="predicted, with it in the training set")
        elif X.shape[1] == 2:
            BoundaryDisplay.from_estimator(model, X, used.y, ax=ax)
        else:  # the two directions in which the points vary most
            plane = PCA(2).fit_transform(X) if X.shape[1] > 1 else np.column_stack([X, np.zeros(len(X))])
            predicted = model.predict(X)
            for k, name in enumerate(model.classes_):
                members, color = predicted == name, f"C{k % 10}"
                ax.scatter(*plane[members & ~known].T, s=8, color=color, alpha=0.5)
                ax.scatter(*plane[members & known].T, s=30, color=color, edgecolor="k", linewidth=0.5, label=name)
            ax.set_title("predicted classes (with a frame: labeled)")
            ax.legend(fontsize="small")
        write_figure(canvas, path)


class Page(Template):
    """A page with names of facts in it, such as ${rows with a target}."""

    braceidpattern = "[a-zA-Z -]+"


def write_report(
    path: Path, name: str, facts: Facts, learned: Learned, comparison: Comparison, effects: list[Effect]
) -> None:
    """Write the report on the table `name` as one HTML file, with the facts as JSON in it."""
    regression, measure = facts["regression"], list(facts["cross-validated"][0])[1]
    models = [(row["model"], row[measure], format_error(row[measure], regression)) for row in facts["cross-validated"]]
    errors = [[model, number(error, shown)] for model, error, shown in models]
    details = [
        [key, short(", ".join(map(str, value)) if isinstance(value, list) else value, 200)]
        for key, value in facts.items()
        if key not in HIDDEN and value not in (None, [], {})
    ]
    seen, more = facts["rows learned from"], len(facts["table"]) - SHOWN
    content = {key: escape(as_text(value)) for key, value in facts.items()} | {
        "name": escape(name),
        "short target": escape(short(facts["target"])),
        "short kernel": escape(short(facts["kernel"], 80)),
        "measure": measure,
        "our error": errors[0][1],
        "plain error": errors[1][1],
        "error bars": bars(models, f"{measure} of both models"),
        "error table": table(["model", measure], errors),
        "gained": _gained(facts),
        "mistakes": _residuals(comparison.ours, facts["target"]) if regression else _confusion(comparison.ours),
        "effects": _effects(effects, None if regression else list(facts["classes"])),
        "calibration": _calibration(comparison.ours),
        "tried": _candidates(learned.search, regression) + _grid(learned.search, regression),
        "column table": table(
            ["column", "kind", "different values", "cells", "missing"], [row.values() for row in facts["table"][:SHOWN]]
        ),
        "drawn": f" The model learned from {seen} of them, drawn at random." if seen < facts["rows"] else "",
        "more columns": f"<p>And {more} more columns.</p>" if more > 0 else "",
        "version": rkhs.__version__,
        "details": table(["what", "value"], details),
        "facts": json.dumps(finite(facts)).replace("<", "\\u003c"),  # no text of a cell ends the element
    }
    page = Page(files("rkhs._cli").joinpath("report.html").read_text(encoding="utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write_text(page.substitute(content), encoding="utf-8")


def _gained(facts: Facts) -> str:
    """Tell what each piece of prior knowledge is worth."""
    if not facts["gained"]:
        return "<p>The model that was chosen uses none.</p>"
    rows = []
    for name, *errors in (row.values() for row in facts["gained"]):
        rows.append([name, *(number(error, format_error(error, facts["regression"])) for error in errors)])
    signs = [f"{name} {'rises' if sign > 0 else 'falls'}" for name, sign in (facts["monotone"] or {}).items()]
    note = f"<p>Monotone: {escape(', '.join(signs))}</p>" if signs else ""
    return table(list(facts["gained"][0]), rows) + note


def _confusion(ours: OutOfFold) -> str:
    """Count the predicted classes for each true class."""
    assert ours.classes is not None
    names = ours.classes[:SHOWN].tolist()
    rows = []
    for k, counts in enumerate(confusion_matrix(ours.truth, ours.predicted, labels=names)):
        cells = [f'<span class="{"hit" if j == k else "miss"}">{markup(n)}</span>' for j, n in enumerate(counts)]
        rows.append(map(Markup, [f"<b>{escape(short(names[k]))}</b>", *cells]))
    return (
        "<h2>Confusion matrix</h2>"
        "<p>Rows: the true class. Columns: the class that is predicted for the row without its label.</p>"
        + table(["true", *map(short, names)], rows, "counts")
    )


def _residuals(ours: OutOfFold, target: str) -> str:
    """Draw predicted against true values, and tell how large the differences are."""
    both = np.concatenate([ours.truth, ours.predicted])
    axes = Axes((both.min(), both.max()), (both.min(), both.max()))
    inside = axes.frame(f"true {target}", "predicted") + axes.line(axes.x, axes.x, "even")
    chart = svg(inside + axes.dots(ours.truth, ours.predicted), "predicted values over true ones")
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    quantiles = np.quantile(ours.predicted - ours.truth, shares)
    rows = [[f"{100 * share:.0f} %", value] for share, value in zip(shares, quantiles, strict=True)]
    return (
        f"<h2>Residuals</h2><figure>{chart}<figcaption>Each row predicted without its target; on the line predictions "
        f"are right.</figcaption></figure>{table(['share of rows', 'predicted minus true is at most'], rows)}"
    )


def _effects(effects: list[Effect], classes: list[str] | None) -> str:
    """Show the average slope and the partial dependence of each column."""
    outputs = [""] if classes is None else [f"towards {classes[-1]}"] if len(classes) == 2 else classes
    rows, charts = [], []
    for effect in effects[:30]:  # those along which f changes most
        rows.append(
            [effect.column, *(effect.slope if effect.slope is not None else [None] * len(outputs)), effect.size]
        )
        low, high = float(effect.dependence.min()), float(effect.dependence.max())
        series = list(enumerate(effect.dependence.T.tolist()))
        if effect.slope is not None:
            axes = Axes((effect.values[0], effect.values[-1]), (low, high), 240)
            days = [(day, str(np.datetime64(round(day), "D"))) for day in effect.values[2:-1:5]]
            inside = axes.frame(effect.column, "f", days if effect.dates else None)
            inside += "".join(axes.line(effect.values, y, f"line{k % COLOURS}") for k, y in series)
        else:
            places, room = range(len(effect.values)), 0.06 * (high - low)
            axes = Axes((-0.5, len(places) - 0.5), (low - room, high + room), 240)
            inside = axes.frame(effect.column, "f", [(k, text or "(empty)") for k, text in enumerate(effect.values)])
            inside += "".join(axes.dots(places, y, f"dot fill{k % COLOURS}", 5) for k, y in series)
        charts.append(f"<figure>{svg(inside, f'f over {effect.column}', 240)}</figure>")
    headings = ["column", *(f"average slope {short(name, 18)}".strip() for name in outputs), "f changes by"]
    keys = "".join(
        f'<li><span class="key fill{k % COLOURS}"></span>{escape(short(name))}</li>' for k, name in enumerate(outputs)
    )
    meaning = "prediction" if classes is None else "decision: the larger, the surer of the class"
    return (
        f"f is the {meaning}.</p>{table(headings, rows)}"
        + (f'<ul class="keys">{keys}</ul>' if len(outputs) > 1 else "")
        + f'<div class="charts">{"".join(charts)}</div>'
    )


def _calibration(ours: OutOfFold) -> str:
    """Tell whether probabilities, or intervals, are as often right as they say."""
    rows = reliability(ours)
    if not rows:
        return ""
    axes = Axes((0.0, 1.0), (0.0, 1.0))
    said, right, _ = zip(*rows, strict=True)
    inside = axes.frame("said", "found") + axes.line((0, 1), (0, 1), "even")
    inside += axes.line(said, right, "line0") + axes.dots(said, right, "dot fill0", 4)
    if ours.classes is not None:
        note = "How often predictions were right, by the probability of the predicted class; each label was left out."
        headings = ["probability said", "share that was right", "rows"]
    else:
        note = "Intervals of the model's own standard deviation: which share of targets was in them, each left out."
        headings = ["share said", "share found", "rows"]
    return (
        f'<section id="calibration"><h2>Calibration</h2><p>{escape(note)}</p>'
        f"<figure>{svg(inside, 'said against found')}"
        "<figcaption>On the line what is said is what is found.</figcaption></figure>"
        f"{table(headings, rows)}</section>"
    )


def reliability(ours: OutOfFold) -> list[tuple[float, float, int]]:
    """Return the stated and the observed share of right predictions and the number of rows, [] if none is stated."""
    if ours.probabilities is not None:
        sure, right = ours.probabilities.max(axis=1), ours.predicted == ours.truth
        bins = np.minimum((10 * sure).astype(int), 9)
        each = [bins == k for k in np.unique(bins)]
        return [(float(sure[own].mean()), float(right[own].mean()), int(own.sum())) for own in each]
    if ours.deviation is None:
        return []
    size = np.abs(ours.predicted - ours.truth) / ours.deviation
    levels = (0.25, 0.5, 0.75, 0.9, 0.95)
    return [(level, float(np.mean(size <= norm.ppf((1 + level) / 2))), len(size)) for level in levels]


def _candidates(search: Search, regression: bool) -> str:
    """Show the best settings for each kind of prior knowledge, if there were several kinds."""
    report = getattr(search, "selection_report_", None)
    if not report:
        return ""
    rows = []
    for row in report["candidates"]:
        error = number(row["error"], format_error(row["error"], regression))
        rows.append([str(row["knowledge"]), error, row["C"], row["nu"]])
    headings = ["prior knowledge", "error, each label left out", "C", "nu"]
    return f"<p>{escape(report['sentence'])}</p>" + table(headings, rows)


def _grid(search: Search, regression: bool) -> str:
    """Show the error over C and nu, other settings at their best; the chosen cell has a frame and its own number."""
    results, best = search.cv_results_, search.best_index_
    errors = -np.asarray(results["mean_test_score"], dtype=float)
    errors = np.sqrt(np.maximum(errors, 0)) if regression else 1 + errors
    settings = pd.DataFrame(results["params"])[["C", "nu"]].astype(float).assign(error=errors)
    grid = settings.groupby(["nu", "C"])["error"].min().unstack().sort_index(ascending=False)
    if grid.size < 2:
        return ""
    chosen = settings.loc[best, "nu"], settings.loc[best, "C"]
    grid.loc[chosen] = errors[best]
    low, high, body = np.nanmin(grid), np.nanmax(grid), ""
    for nu, row in grid.iterrows():
        body += f'<tr><th scope="row">{nu:.3g}</th>'
        for C, error in row.items():
            shade = 0.08 + 0.72 * (high - error) / ((high - low) or 1.0)
            shown = f"{error:.3g}" if regression else f"{100 * error:.1f}"
            frame = ' class="chosen" aria-label="chosen"' if (nu, C) == chosen else ""
            cell = f'<td{frame} style="--shade:{shade:.2f}">{number(error, shown)}</td>'
            body += cell if np.isfinite(error) else "<td></td>"
        body += "</tr>"
    head = "".join(f'<th scope="col">C = {C:.3g}</th>' for C in grid.columns)
    return (
        f'<figure><div class="scroll" tabindex="0"><table class="grid"><thead><tr><th>nu</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><figcaption>Error for each C (across) and nu (down), other settings at "
        f"their best; the framed cell was chosen.{'' if regression else ' In percent.'}</figcaption></figure>"
    )
