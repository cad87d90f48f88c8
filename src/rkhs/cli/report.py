"""The picture and the HTML report of `rkhs fit`: errors, settings that were tried, columns and their effects."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.decomposition import PCA

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._files import replacing
from rkhs.cli.assessment import Effect, HeldOut
from rkhs.cli.learning import Learnt
from rkhs.cli.markup import COLOURS, Axes, Markup, bars, figure, markup, number, section, short, svg, table
from rkhs.cli.outputs import write_figure
from rkhs.cli.terminal import finite
from rkhs.plotting import BoundaryDisplay, GridDisplay

Facts = dict[str, Any]
SHOWN = 40  # columns and classes in tables
EFFECTS_SHOWN = 30  # columns, those along which f changes most
HIDDEN = ("table", "classes", "cross-validated", "gained", "compared", "interval")  # facts that have sections


def draw(path: Path, learnt: Learnt, X: Vector, facts: Facts) -> None:
    """Draw errors compared with the plain SVM's, the settings tried if there are several, and the points."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    model, used, rows = learnt.model, learnt.chosen_on, facts["cross-validated"]
    measure, known = list(rows[0])[1], used.labelled
    several = len(learnt.search.cv_results_["params"]) > 1
    with mpl.rc_context({"text.parse_math": False}):  # a class may be called $b^{$
        canvas, axes = plt.subplots(1, 2 + several, figsize=(5 * (2 + several), 4.2), layout="constrained")
        names = [row["model"].replace(", ", "\n") for row in rows]
        axes[0].bar_label(axes[0].bar(names, [row[measure] for row in rows], color=["tab:blue", "0.7"]), fmt="%.3g")
        axes[0].set(ylabel=measure, title="cross-validated")
        if several:
            GridDisplay.from_estimator(learnt.search, ax=axes[1])
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
                members, colour = predicted == name, f"C{k % 10}"
                ax.scatter(*plane[members & ~known].T, s=8, color=colour, alpha=0.5)
                ax.scatter(*plane[members & known].T, s=30, color=colour, edgecolor="k", linewidth=0.5, label=name)
            ax.set_title("predicted classes (with a frame: labelled)")
            ax.legend(fontsize="small")
        write_figure(canvas, path)


def write_report(path: Path, name: str, facts: Facts, learnt: Learnt, ours: HeldOut, effects: list[Effect]) -> None:
    """Write the report on the table `name` as one HTML file, with the facts as JSON in it."""
    body = "".join(
        [
            _top(name, facts),
            _compared(facts),
            _gained(facts),
            _residuals(ours, facts["target"]) if facts["regression"] else _confusion(ours),
            _effects(effects, None if facts["regression"] else list(facts["classes"])),
            _calibration(ours),
            _tried(facts, learnt),
            _data(facts),
            _details(facts),
        ]
    )
    title = escape(f"{name}: {short(facts['target'])}")
    style = files("rkhs.cli").joinpath("style.css").read_text(encoding="utf-8")
    embedded = json.dumps(finite(facts)).replace("<", "\\u003c")  # no text of a cell ends the element
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write_text(
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<style>{style}</style></head><body><main>{body}</main>"
            f'<script type="application/json" id="facts">{embedded}</script></body></html>\n',
            encoding="utf-8",
        )


def _errors(facts: Facts) -> Callable[[float], Markup]:
    """Return how errors are shown: numbers as they are, shares of wrong classes in percent."""
    return markup if facts["regression"] else lambda value: number(value, f"{100 * value:.1f} %")


def _top(name: str, facts: Facts) -> str:
    measure = list(facts["cross-validated"][0])[1]
    ours, plain = (_errors(facts)(row[measure]) for row in facts["cross-validated"])
    cards = [
        (ours, f"{measure}, cross-validated"),
        (plain, "the same of a plain SVM"),
        (markup(facts["rows with a target"]), "rows with a target"),
        (markup(facts["rows without a target"]), "rows without one"),
    ]
    each = "".join(f"<li><strong>{value}</strong><span>{escape(label)}</span></li>" for value, label in cards)
    return (
        f"<header><p>{escape(name)}</p><h1>Predicting <em>{escape(facts['target'])}</em></h1>"
        f'<p>{escape(facts["compared"])}</p><ul class="cards">{each}</ul></header>'
    )


def _compared(facts: Facts) -> Markup:
    """Compare our error with the plain SVM's."""
    measure = list(facts["cross-validated"][0])[1]
    errors = [(row["model"], row[measure]) for row in facts["cross-validated"]]
    shown = "{:.4g}" if facts["regression"] else "{:.1f} %"
    chart = bars(
        [(name, e, shown.format(e if facts["regression"] else 100 * e)) for name, e in errors],
        f"{measure} of both models",
    )
    return section(
        "compared",
        "Compared with a plain SVM",
        facts["compared"],
        figure(chart, measure),
        table(["model", measure], [[name, _errors(facts)(error)] for name, error in errors]),
        f"On {facts['rows for cross-validation']} rows. Each row is predicted by models that have not seen its target, "
        "the same folds for both; the plain SVM is the best of as wide a range of settings. Settings have seen all "
        "targets, for both, so both errors are a little too good.",
    )


def _gained(facts: Facts) -> Markup:
    """Tell what each piece of prior knowledge is worth."""
    title = "What prior knowledge gained"
    if not facts["gained"]:
        return section("gained", title, "The model that was chosen uses none.")
    rows = [[name, *map(_errors(facts), errors)] for name, *errors in (row.values() for row in facts["gained"])]
    signs = [f"{name} {'rises' if sign > 0 else 'falls'}" for name, sign in (facts["monotone"] or {}).items()]
    note = "Monotone: " + ", ".join(signs) if signs else ""
    return section("gained", title, table(list(facts["gained"][0]), rows), note)


def _confusion(ours: HeldOut) -> Markup:
    """Count the predicted classes for each true class."""
    names = [] if ours.classes is None else ours.classes[:SHOWN].tolist()
    rows = []
    for true in names:
        counts = [(name, np.sum((ours.truth == true) & (ours.predicted == name))) for name in names]
        cells = [f'<span class="{"hit" if name == true else "miss"}">{markup(n)}</span>' for name, n in counts]
        rows.append([Markup(f"<b>{escape(short(true))}</b>"), *map(Markup, cells)])
    note = "Rows: the true class. Columns: the class that is predicted for the row without its label."
    return section("mistakes", "Confusion matrix", note, table(["true", *map(short, names)], rows, "counts"))


def _residuals(ours: HeldOut, target: str) -> Markup:
    """Draw predicted against true values, and tell how large the differences are."""
    both = np.concatenate([ours.truth, ours.predicted])
    axes = Axes((both.min(), both.max()), (both.min(), both.max()))
    inside = axes.frame(f"true {target}", "predicted") + axes.line(axes.x, axes.x, "even")
    chart = svg(inside + axes.dots(ours.truth, ours.predicted), "predicted values over true ones")
    residuals = ours.predicted - ours.truth
    rows = [[f"{100 * share:.0f} %", np.quantile(residuals, share)] for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
    return section(
        "mistakes",
        "Residuals",
        figure(chart, "Each row predicted without its target; on the line predictions are right."),
        table(["share of rows", "predicted minus true is at most"], rows),
    )


def _effects(effects: list[Effect], classes: list[str] | None) -> Markup:
    """Show the average slope and the partial dependence of each column."""
    outputs = [""] if classes is None else [f"towards {classes[-1]}"] if len(classes) == 2 else classes
    rows, charts = [], []
    for effect in effects[:EFFECTS_SHOWN]:
        slopes = [None] * len(outputs) if effect.slope is None else effect.slope
        rows.append([effect.column, *slopes, effect.size])
        low, high = float(effect.dependence.min()), float(effect.dependence.max())
        series = list(enumerate(effect.dependence.T.tolist()))
        if effect.slope is not None:
            axes = Axes((effect.values[0], effect.values[-1]), (low, high), 240)
            days = (
                [(day, str(np.datetime64(round(day), "D"))) for day in effect.values[2:-1:5]] if effect.dates else None
            )
            inside = axes.frame(effect.column, "f", days)
            inside += "".join(axes.line(effect.values, y, f"line{k % COLOURS}") for k, y in series)
        else:
            places, room = range(len(effect.values)), 0.06 * (high - low)
            axes = Axes((-0.5, len(places) - 0.5), (low - room, high + room), 240)
            inside = axes.frame(effect.column, "f", [(k, text or "(empty)") for k, text in enumerate(effect.values)])
            inside += "".join(axes.dots(places, y, f"dot fill{k % COLOURS}", 5) for k, y in series)
        charts.append(figure(svg(inside, f"f over {effect.column}", 240)))
    keys = [
        f'<li><span class="key fill{k % COLOURS}"></span>{escape(short(name))}</li>' for k, name in enumerate(outputs)
    ]
    return section(
        "effects",
        "What each column does",
        "The average slope is how much f changes for one unit more of a column, averaged over rows. A curve is f "
        "averaged over rows that all have one value in that column (partial dependence). "
        + ("f is the prediction." if classes is None else "f is the decision: the larger, the surer of the class."),
        table(["column", *(f"average slope {short(name, 18)}".strip() for name in outputs), "f changes by"], rows),
        Markup(f'<ul class="keys">{"".join(keys)}</ul>' if len(outputs) > 1 else ""),
        Markup(f'<div class="charts">{"".join(charts)}</div>'),
    )


def _calibration(ours: HeldOut) -> str:
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
    chart = figure(svg(inside, "said against found"), "On the line what is said is what is found.")
    return section("calibration", "Calibration", note, chart, table(headings, rows))


def reliability(ours: HeldOut) -> list[tuple[float, float, int]]:
    """Return the share of right predictions that is said, the share found, and the number of rows, where a model says.

    Examples
    --------
    >>> yes = np.array(["yes", "yes"])
    >>> reliability(HeldOut(yes, yes, np.array(["no", "yes"]), np.array([[0.1, 0.9], [0.2, 0.8]])))
    [(0.8, 1.0, 1), (0.9, 1.0, 1)]
    """
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


def _tried(facts: Facts, learnt: Learnt) -> Markup:
    """Show the settings that were compared, and the chosen ones."""
    note = (
        f"{facts['settings tried']} settings were tried on {facts['rows for cross-validation']} rows. "
        f"Chosen: C = {facts['C']:.4g} (weight of a label), nu = {facts['nu']:.4g} (weight of the prior knowledge), "
        f"kernel {short(facts['kernel'], 80)}."
    )
    report = getattr(learnt.search, "knowledge_report_", None)
    candidates: list[str] = []
    if report:
        rows = [
            [str(row["knowledge"]), _errors(facts)(row["error"]), row["C"], row["nu"]] for row in report["candidates"]
        ]
        headings = ["prior knowledge", "error, each label left out", "C", "nu"]
        candidates = [report["sentence"], table(headings, rows)]
    return section("tried", "What was tried", note, *candidates, _grid(learnt.search, facts["regression"]))


def _grid(search: Any, regression: bool) -> Markup:
    """Show the error over C and nu, other settings at their best; the chosen cell has a frame and its own number."""
    results, best = search.cv_results_, search.best_index_
    errors = -np.asarray(results["mean_test_score"], dtype=float)
    errors = np.sqrt(np.maximum(errors, 0)) if regression else 1 + errors
    settings = [(float(params["C"]), float(params["nu"])) for params in results["params"]]
    cells: dict[tuple[float, float], float] = {}
    for setting, error in zip(settings, errors.tolist(), strict=True):
        if np.isfinite(error):
            cells[setting] = min(error, cells.get(setting, np.inf))
    if len(set(settings)) < 2:
        return Markup()
    chosen = settings[best]
    cells[chosen] = float(errors[best])
    Cs, nus = sorted({C for C, _ in settings}), sorted({nu for _, nu in settings}, reverse=True)
    low, high = min(cells.values()), max(cells.values())
    body = ""
    for nu in nus:
        body += f'<tr><th scope="row">{nu:.3g}</th>'
        for C in Cs:
            error = cells.get((C, nu))
            if error is None:
                body += "<td></td>"
                continue
            shade = 0.08 + 0.72 * (high - error) / ((high - low) or 1.0)
            shown = f"{error:.3g}" if regression else f"{100 * error:.1f}"
            frame = ' class="chosen" aria-label="chosen"' if (C, nu) == chosen else ""
            body += f'<td{frame} style="--shade:{shade:.2f}">{number(error, shown)}</td>'
        body += "</tr>"
    head = "".join(f'<th scope="col">C = {C:.3g}</th>' for C in Cs)
    caption = "Error for each C (across) and nu (down), other settings at their best; the framed cell was chosen."
    return figure(
        f'<div class="scroll" tabindex="0"><table class="grid"><thead><tr><th>nu</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>",
        caption + ("" if regression else " In percent."),
    )


def _data(facts: Facts) -> Markup:
    """Describe the table that was read."""
    known, unknown, learnt_from = (
        facts[name] for name in ("rows with a target", "rows without a target", "rows learnt from")
    )
    note = f"{facts['rows']} rows, {known} with a target and {unknown} without."
    if learnt_from < facts["rows"]:
        note += f" The model learnt from {learnt_from} of them, drawn at random."
    more = len(facts["table"]) - SHOWN
    rows = [list(row.values()) for row in facts["table"][:SHOWN]]
    headings = ["column", "kind", "different values", "cells", "missing"]
    return section("data", "The data", note, table(headings, rows), f"And {more} more columns." if more > 0 else "")


def _details(facts: Facts) -> Markup:
    rows = [
        [name, short(", ".join(map(str, value)) if isinstance(value, list) else value, 200)]
        for name, value in facts.items()
        if name not in HIDDEN and value not in (None, [], {})
    ]
    note = f"Written by rkhs {rkhs.__version__}. All of these are in the model file too: rkhs inspect shows them."
    return section("details", "Details", note, table(["what", "value"], rows))
