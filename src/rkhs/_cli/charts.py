"""Draw the charts of the HTML report: mistakes, effects of columns, calibration, and the settings that were tried."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.metrics import confusion_matrix

from rkhs._cli.comparison import Comparison, OutOfFold, format_error
from rkhs._cli.effects import Effect
from rkhs._cli.learning import Fit, Search, Tried
from rkhs._cli.markup import COLORS, Axes, Markup, markup, number, short, svg, table

Part = tuple[str, str]  # a title and HTML
SHOWN = 40  # classes in the confusion matrix


def charts(comparison: Comparison, effects: list[Effect], fit: Fit, classes: list[str] | None) -> dict[str, Part]:
    """Return the title and the HTML of each chart by the name of its section; charts without content are left out."""
    regression, search = classes is None, fit.search
    found = {
        "mistakes": ("Residuals", residuals_chart(comparison.ours, fit.request.target))
        if regression
        else ("Confusion matrix", confusion_table(comparison.ours)),
        "effects": ("What each column does", effects_chart(effects, classes)),
        "calibration": ("Calibration", calibration_chart(comparison.ours)),
        "tried": ("Settings tried", candidates_table(search, regression) + grid_chart(search, regression)),
    }
    return {name: part for name, part in found.items() if part[1]}


def confusion_table(ours: OutOfFold) -> str:
    """Count the predicted classes for each true class."""
    assert ours.classes is not None
    names = ours.classes[:SHOWN].tolist()
    rows = []
    for k, counts in enumerate(confusion_matrix(ours.truth, ours.predicted, labels=names)):
        cells = [f'<span class="{"hit" if j == k else "miss"}">{markup(n)}</span>' for j, n in enumerate(counts)]
        rows.append(map(Markup, [f"<b>{escape(short(names[k]))}</b>", *cells]))
    return "<p>Rows: the true class. Columns: the class that is predicted for a held-out row.</p>" + table(
        ["true", *map(short, names)], rows, "counts"
    )


def residuals_chart(ours: OutOfFold, target: str) -> str:
    """Draw predicted against true values, and tabulate the quantiles of the differences."""
    both = np.concatenate([ours.truth, ours.predicted])
    axes = Axes((both.min(), both.max()), (both.min(), both.max()))
    inside = axes.frame(f"true {target}", "predicted") + axes.line(axes.x, axes.x, "even")
    chart = svg(inside + axes.dots(ours.truth, ours.predicted), "predicted values over true ones")
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    quantiles = np.quantile(ours.predicted - ours.truth, shares)
    rows = [[f"{100 * share:.0f} %", value] for share, value in zip(shares, quantiles, strict=True)]
    return (
        f"<figure>{chart}<figcaption>Held-out rows; on the line predictions are right.</figcaption></figure>"
        f"{table(['share of rows', 'predicted minus true is at most'], rows)}"
    )


def effects_chart(effects: list[Effect], classes: list[str] | None) -> str:
    """Show the average slope and the partial dependence of each column."""
    outputs = [""] if classes is None else [f"towards {classes[-1]}"] if len(classes) == 2 else classes
    rows, charts = [], []
    for effect in effects[:30]:  # those along which f changes most
        slopes = [None] * len(outputs) if effect.slopes is None else effect.slopes.mean(axis=0)
        rows.append([effect.column, *slopes, effect.size])
        low, high = float(effect.dependence.min()), float(effect.dependence.max())
        series = list(enumerate(effect.dependence.T.tolist()))
        if effect.slopes is not None:
            axes = Axes((effect.values[0], effect.values[-1]), (low, high), 240)
            days = [(day, str(np.datetime64(round(day), "D"))) for day in effect.values[2:-1:5]]
            inside = axes.frame(effect.column, "f", days if effect.dates else None)
            inside += "".join(axes.line(effect.values, y, f"line{k % COLORS}") for k, y in series)
        else:
            positions, margin = range(len(effect.values)), 0.06 * (high - low)
            axes = Axes((-0.5, len(positions) - 0.5), (low - margin, high + margin), 240)
            inside = axes.frame(effect.column, "f", [(k, text or "(empty)") for k, text in enumerate(effect.values)])
            inside += "".join(axes.dots(positions, y, f"dot fill{k % COLORS}", 5) for k, y in series)
        charts.append(f"<figure>{svg(inside, f'f over {effect.column}', 240)}</figure>")
    headings = ["column", *(f"average slope {short(name, 18)}".strip() for name in outputs), "f changes by"]
    keys = "".join(
        f'<li><span class="key fill{k % COLORS}"></span>{escape(short(name))}</li>' for k, name in enumerate(outputs)
    )
    meaning = "the prediction" if classes is None else "the score of a class"
    return (
        "<p>The average slope is the change of f for one unit more of a column, averaged over rows. A curve is f "
        f"averaged over rows that all have one value in that column (partial dependence). f is {meaning}.</p>"
        f"{table(headings, rows)}"
        + (f'<ul class="keys">{keys}</ul>' if len(outputs) > 1 else "")
        + f'<div class="charts">{"".join(charts)}</div>'
    )


def calibration_chart(ours: OutOfFold) -> str:
    """Draw how often probabilities, or intervals, are right against how often they should be; "" if there are none."""
    rows = reliability(ours)
    if not rows:
        return ""
    axes = Axes((0.0, 1.0), (0.0, 1.0))
    stated, observed, _ = zip(*rows, strict=True)
    inside = axes.frame("stated", "observed") + axes.line((0, 1), (0, 1), "even")
    inside += axes.line(stated, observed, "line0") + axes.dots(stated, observed, "dot fill0", 4)
    if ours.classes is not None:
        note = "How often held-out predictions were right, by the stated probability of the predicted class."
        headings = ["stated probability", "share that was right", "rows"]
    else:
        note = "The share of held-out targets in intervals of the stated level."
        headings = ["stated level", "observed share", "rows"]
    caption = "On the line both agree."
    figure = f"<figure>{svg(inside, 'stated against observed')}<figcaption>{caption}</figcaption></figure>"
    return f"<p>{note}</p>{figure}{table(headings, rows)}"


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
    return [(level, float(np.mean(size <= ndtri((1 + level) / 2))), len(size)) for level in levels]


def candidates_table(search: Search, regression: bool) -> str:
    """Show what an automatic choice has compared: the best settings for each kind of prior, or kernels."""
    tried = Tried.by(search)
    if tried is None:
        return ""
    report, rows = search.selection_report_, []
    evidence = "evidence" in report["candidates"][0]
    for k, (row, name, value) in enumerate(zip(report["candidates"], tried.names, tried.values, strict=True)):
        shown = f"{row['evidence']:.1f}" if evidence else format_error(row["error"], regression)
        measured = number(row["evidence" if evidence else "error"], shown)
        rows.append([name, measured, number(value, f"{value:.4g}"), row["C"], "chosen" if k == tried.chosen else ""])
    what, measure = ("kernel", "logarithm of the evidence") if evidence else ("prior", "leave-one-out error")
    note = f"{'Kernels' if evidence else 'The best settings of each kind'} are compared by the {tried.criterion}."
    if not evidence and tried.values[tried.chosen] > min(tried.values):
        note = report["sentence"]  # too few labels to compare errors
    return f"<p>{escape(note)}</p>" + table([what, measure, tried.criterion, "C", ""], rows)


def grid_chart(search: Search, regression: bool) -> str:
    """Show the error over C and nu, other settings at their best; the chosen cell has a frame and its exact number.

    An automatic choice is not made by this error, but by what `candidates_table` shows.
    """
    if Tried.by(search) is not None:
        return ""
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
