"""The report of `rkhs fit`: facts in, text for the terminal, an HTML page, a picture or JSON out.

`sections` turns facts into titles, sentences and tables.  The terminal and the page show the same sections; the page
adds charts (mistakes, effects of columns, calibration, and the settings that were tried), which repeat no sentence,
and holds the facts as JSON.  Everything on the page that is no markup is escaped.  Charts are SVG with few marks,
labels for screen readers, and colors from the style sheet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

import rkhs
from rkhs._command.comparison import Comparison, OutOfFold, format_error
from rkhs._command.effects import Effect
from rkhs._command.learning import Examples, Fit, Search, short_name
from rkhs._command.options import write_figure
from rkhs._command.terminal import as_text, finite, show_section
from rkhs.extend import Vector, replacing
from rkhs.plotting import BoundaryDisplay, GridDisplay

Facts = dict[str, Any]
COLUMNS = 40  # columns in the table of the data
DETAILS = ["rows learned from", "rows of the choice", "settings tried", "prior", "increasing", "decreasing"]
DETAILS += ["kernel", "C", "nu", "solution", "representers", "decision"]
Part = tuple[str, str]  # a title and HTML
SHOWN = 40  # classes in the confusion matrix
WIDTH = 520  # of charts, in units of the SVG
COLORS = 8  # color classes in the style sheet, which repeat


@dataclass(frozen=True)
class Section:
    """A part of the report: sentences, and a table of texts and numbers."""

    name: str
    title: str
    sentences: list[str]
    headings: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)


def sections(facts: Facts) -> list[Section]:
    """Return the sections of the report: first the verdict, last what would make the model better."""
    compared = facts["comparison"]
    measured = {"the model": compared["error"], compared["compared with"]: compared["its error"]}
    errors = [[name, Shown(error, format_error(error, facts["regression"]))] for name, error in measured.items()]
    drawn = f" of {facts['rows with a target']}" if facts["rows compared"] < facts["rows with a target"] else ""
    tuned = "both models are" if facts["settings tried"] > 1 else "only the plain SVM is"
    method = (
        f"Measured on {facts['rows compared']}{drawn} rows with a target. Each is predicted by models that have not "
        f"seen its target, neither in training nor in the choice of settings; {tuned} tuned. ± is one standard error, "
        "and a difference is called clear beyond two."
    )
    few = facts["rows with a target"] > 2 * facts["rows compared"]
    fewer = (
        f"These models have fewer targets than the final one, so the errors {'may be much' if few else 'are a little'} "
        "too large, most of all for a model that has nothing but targets to learn from."
    )
    learned, counts = facts["rows learned from"], (facts["rows with a target"], facts["rows without a target"])
    sizes = [f"{facts['rows']} rows, {counts[0]} with a target and {counts[1]} without."]
    if learned < facts["rows"]:
        sizes[0] += f" The model learned from {learned} of them, drawn at random."
    if len(facts["table"]) > COLUMNS:
        sizes.append(f"And {len(facts['table']) - COLUMNS} more columns.")
    columns = [list(row.values()) for row in facts["table"][:COLUMNS]]
    gained = [one["sentence"] for one in facts["priors"]] or [_no_prior(facts)]
    shown = facts if facts["choice"] is None else facts | {"nu": None}  # an automatic choice has no such weight
    settings = [[key, short(as_text(shown[key]), 200)] for key in DETAILS if shown[key] not in (None, [], ())]
    headings = ["column", "kind", "different values", "cells", "missing"]
    verdict = [compared["sentence"], method, fewer]
    found = [
        Section("compared", "Compared with a plain SVM", verdict, ["model", facts["measure"]], errors),
        Section("gained", "What the priors gained", gained),
        Section("data", "The data", sizes, headings, columns),
        Section("details", "The model", [], ["setting", "value"], settings),
        Section("better", "What would make it better", facts["advice"]),
    ]
    return [section for section in found if section.sentences or section.rows]


def _no_prior(facts: Facts) -> str:
    """Return why no prior is evaluated."""
    if facts["choice"] is None:
        return "The model uses no prior."
    if not facts["rows without a target"]:
        return "There are no unlabeled rows to learn from, and no prior was stated."
    return str(facts["choice"])


@dataclass(frozen=True)
class Shown:
    """A number with the text by which it is shown."""

    value: float
    text: str

    def __str__(self) -> str:
        return self.text


def print_report(facts: Facts) -> None:
    """Print the report to the terminal, and where the files are before the last section."""
    *first, last = sections(facts)
    for section in first:
        show_section(section.title, section.sentences, section.headings, section.rows)
    written = [[name, facts[name]] for name in ("model", "picture", "report")]
    show_section(f"Written in {facts['seconds']} s", [], ["file", "name"], written)
    show_section(last.title, last.sentences, last.headings, last.rows)


class Page(Template):
    """A page with names of its parts in it, such as ${error bars}."""

    braceidpattern = "[a-zA-Z -]+"


def write_report(path: Path, name: str, facts: Facts, charts: Mapping[str, tuple[str, str]]) -> None:
    """Write the report on the table `name` as one HTML file; `charts` are titles and HTML of additional sections."""
    shown = sections(facts)
    errors = shown[0].rows  # names and errors of both models
    chart = f"<figure>{bars(errors, 'errors of both models')}<figcaption>{facts['measure']}</figcaption></figure>"
    parts = {name: f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, (title, body) in charts.items()}
    parts |= {one.name: _html(one, chart if one.name == "compared" else "") for one in shown}
    order = ("compared", "gained", "mistakes", "effects", "calibration", "tried", "data", "details", "better")
    content = {
        "name": escape(name),
        "target": escape(facts["target"]),
        "short target": escape(short(facts["target"])),
        "verdict": escape(facts["comparison"]["sentence"]),
        "measure": facts["measure"],
        "our error": markup(errors[0][1]),
        "plain error": markup(errors[1][1]),
        "labeled": markup(Shown(facts["rows with a target"], str(facts["rows with a target"]))),
        "unlabeled": markup(Shown(facts["rows without a target"], str(facts["rows without a target"]))),
        "sections": "\n".join(parts[key] for key in order if key in parts),
        "version": rkhs.__version__,
        "facts": json.dumps(finite(facts)).replace("<", "\\u003c"),  # so that no text of a cell ends the element
    }
    page = Page(files("rkhs._command").joinpath("report.html").read_text(encoding="utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write_text(page.substitute(content), encoding="utf-8")


def _html(section: Section, chart: str) -> str:
    """Return a section as HTML, its chart between sentences and table."""
    if section.name == "better":
        text = "<ul>" + "".join(f"<li>{escape(one)}</li>" for one in section.sentences) + "</ul>"
    else:
        text = "".join(f"<p>{escape(one)}</p>" for one in section.sentences)
    body = table(section.headings, section.rows) if section.rows else ""
    return f'<section id="{section.name}"><h2>{section.title}</h2>{text}{chart}{body}</section>'


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
    note = "<p>Rows: the true class. Columns: the class that is predicted for a held-out row.</p>"
    return note + table(["true", *map(short, names)], rows, "counts")


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
    """Show the average slope and the partial dependence of each column; "" if all columns are sentences."""
    if not effects:
        return ""
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
    # of a normal distribution the share p is within q = Phi^-1((1 + p) / 2) deviations
    size = np.abs(ours.predicted - ours.truth) / ours.deviation
    levels = (0.25, 0.5, 0.75, 0.9, 0.95)
    return [(level, float(np.mean(size <= ndtri((1 + level) / 2))), len(size)) for level in levels]


def candidates_table(search: Search, regression: bool) -> str:
    """Show what an automatic choice has compared, from its report."""
    report = getattr(search, "selection_report_", None)
    if report is None:
        return ""
    rows = []
    for row in report["candidates"]:
        shown = {key: row[key] for key in report["columns"]}
        if "standard_error" in row:
            texts = (format_error(row[key], regression) for key in ("error", "standard_error"))
            shown["error"] = Shown(row["error"], " ± ".join(texts))
        rows.append([short_name(row["name"]), *shown.values(), row["C"], "chosen" if row["chosen"] else ""])
    headings = ["tried", *report["columns"].values(), "C", ""]
    return f"<p>{escape(report['sentence'])}</p>" + table(headings, rows)


def grid_chart(search: Search, regression: bool) -> str:
    """Show the error over C and nu, other settings at their best; the chosen cell has a frame and its exact number.

    An automatic choice is not made by this error, but by what `candidates_table` shows.
    """
    if hasattr(search, "selection_report_"):
        return ""
    grid = GridDisplay.from_estimator(search, ax=Figure().subplots())
    errors = np.sqrt(np.maximum(-grid.scores, 0)) if regression else 1 - grid.scores
    if errors.size < 2:
        return ""
    low, high, body = np.nanmin(errors), np.nanmax(errors), ""
    for j in reversed(range(len(grid.second))):
        body += f'<tr><th scope="row">{grid.second[j]:.3g}</th>'
        for i, error in enumerate(errors[j]):
            shade = 0.08 + 0.72 * (high - error) / ((high - low) or 1.0)
            shown = f"{error:.3g}" if regression else f"{100 * error:.1f}"
            frame = ' class="chosen" aria-label="chosen"' if (j, i) == grid.chosen else ""
            cell = f'<td{frame} style="--shade:{shade:.2f}">{markup(Shown(error, shown))}</td>'
            body += cell if np.isfinite(error) else "<td></td>"
        body += "</tr>"
    head = "".join(f'<th scope="col">C = {C:.3g}</th>' for C in grid.first)
    return (
        f'<figure><div class="scroll" tabindex="0"><table class="grid"><thead><tr><th>nu</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div><figcaption>Error for each C (across) and nu (down), other settings at "
        f"their best; the framed cell was chosen.{'' if regression else ' In percent.'}</figcaption></figure>"
    )


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def markup(value: Any) -> Markup:
    """Return a value as HTML: texts escaped, numbers with all their digits in an attribute, nothing for None."""
    if value is None or isinstance(value, Markup):
        return value or Markup()
    if isinstance(value, str):
        return Markup(escape(value))
    shown = value if isinstance(value, Shown) else Shown(value, f"{value:.4g}")
    return Markup(f'<data value="{float(shown.value)!r}">{escape(shown.text)}</data>')


def table(headings: Sequence[str], rows: Iterable[Iterable[Any]], kind: str = "") -> Markup:
    """Return a table, which scrolls on its own where the page is narrow."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{markup(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return Markup(
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def svg(inside: str, label: str, height: int = 300) -> str:
    """Return a picture with a description in words."""
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'


def bars(rows: Sequence[Sequence[Any]], label: str) -> str:
    """Return horizontal bars of rows that hold a name and a number >= 0 with its text."""
    most = max(shown.value for _, shown in rows) or 1.0
    parts = []
    for k, (name, shown) in enumerate(rows):
        y, width = 8 + 44 * k, (WIDTH - 110) * shown.value / most
        parts.append(f'<text class="tick" x="4" y="{y + 12}">{escape(short(name, 60))}</text>')
        parts.append(f'<rect class="fill{k % COLORS}" x="4" y="{y + 17}" width="{width:.1f}" height="14" rx="3"/>')
        parts.append(f'<text class="tick" x="{width + 12:.1f}" y="{y + 29}">{escape(shown.text)}</text>')
    return svg("".join(parts), label, 26 + 44 * len(rows))


class Axes:
    """Axes of a chart: from values to positions in the SVG, with ticks at round numbers."""

    left, right, top = 62, WIDTH - 14, 14  # the edges of the plot, besides `bottom`

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: int = 300) -> None:
        self.x, self.y = ((a, b) if b > a else (a - (abs(a) / 2 or 0.5), b + (abs(a) / 2 or 0.5)) for a, b in (x, y))
        self.bottom = height - 46

    def positions(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[str, str]]:
        """Return the positions of some values."""
        across = (self.right - self.left) / (self.x[1] - self.x[0])
        down = (self.top - self.bottom) / (self.y[1] - self.y[0])
        values = zip(x, y, strict=True)
        positions = [(self.left + (a - self.x[0]) * across, self.bottom + (b - self.y[0]) * down) for a, b in values]
        return [(f"{u:.1f}", f"{v:.1f}") for u, v in positions]

    def line(self, x: Iterable[float], y: Iterable[float], kind: str) -> str:
        """Return a line through some points."""
        return f'<polyline class="{kind}" points="{" ".join(",".join(place) for place in self.positions(x, y))}"/>'

    def dots(self, x: Iterable[float], y: Iterable[float], kind: str = "dot", size: float = 2.6) -> str:
        """Return a dot for each pair."""
        return "".join(f'<circle class="{kind}" cx="{u}" cy="{v}" r="{size}"/>' for u, v in self.positions(x, y))

    def frame(self, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]] | None = None) -> str:
        """Return lines at round numbers with their values, and the names of both axes."""

        def ticks(low: float, high: float) -> list[float]:
            room = 1e-9 * (high - low)
            values = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
            return [float(value) for value in values if low - room <= value <= high + room]

        parts = []
        for value in ticks(*self.y):
            ((_, v),) = self.positions([self.x[0]], [value])
            place = f'x="{self.left - 6}" y="{float(v) + 4:.1f}"'
            parts.append(f'<line class="rule" x1="{self.left}" x2="{self.right}" y1="{v}" y2="{v}"/>')
            parts.append(f'<text class="tick" {place} text-anchor="end">{value:.4g}</text>')
        for value, name in x_ticks or [(value, f"{value:.4g}") for value in ticks(*self.x)]:
            ((u, _),) = self.positions([value], [self.y[0]])
            place = f'x="{u}" y="{self.bottom + 17}"'
            parts.append(f'<text class="tick" {place} text-anchor="middle">{escape(short(name, 12))}</text>')
        below = f'x="{(WIDTH + self.left) / 2}" y="{self.bottom + 38}"'
        middle = (self.bottom + self.top) / 2
        turned = f'transform="rotate(-90 14 {middle})" x="14" y="{middle}"'
        for place, label in ((below, x_label), (turned, y_label)):
            parts.append(f'<text class="name" {place}>{escape(short(label))}</text>')
        return "".join(parts)


def short(text: Any, most: int = 34) -> str:
    """Return a text on one line, cut off if it is longer than `most`."""
    words = " ".join(str(text).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def draw(path: Path, fit: Fit, examples: Examples, X: Vector, facts: dict[str, Any]) -> None:
    """Draw the examples, by which settings were chosen, and their predictions."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    compared, known = facts["comparison"], examples.labeled
    report, several = getattr(fit.search, "selection_report_", None), len(fit.search.cv_results_["params"]) > 1
    with mpl.rc_context({"text.parse_math": False}):  # a class may be called $b^{$
        canvas, axes = plt.subplots(1, 2 + several, figsize=(5 * (2 + several), 4.2), layout="constrained")
        heights = [compared["error"], compared["its error"]]
        bars = axes[0].bar(["the model", compared["compared with"]], heights, color=["tab:blue", "0.7"])
        axes[0].bar_label(bars, fmt="%.3g")
        axes[0].set(ylabel=facts["measure"], title="cross-validated")
        if several and report is not None:
            _draw_tried(axes[1], report)
        elif several:
            GridDisplay.from_estimator(fit.search, ax=axes[1])
            axes[1].set_title("settings tried; frame: chosen")
        ax = axes[-1]
        if examples.regression:
            ax.plot(examples.y[known], fit.model.predict(X[known]), ".", markersize=4)
            ax.axline((float(examples.y[known].mean()),) * 2, slope=1.0, color="0.6", linewidth=1)
            ax.set(xlabel=facts["target"], ylabel="fitted")
        elif X.shape[1] == 2:
            BoundaryDisplay.from_estimator(fit.model, X, examples.y, ax=ax)
        else:  # the two directions in which the points vary most
            plane = PCA(2).fit_transform(X) if X.shape[1] > 1 else np.column_stack([X, np.zeros(len(X))])
            predicted = fit.model.predict(X)
            for k, name in enumerate(fit.model.classes_):
                members, color = predicted == name, f"C{k % 10}"
                ax.scatter(*plane[members & ~known].T, s=8, color=color, alpha=0.5)
                ax.scatter(*plane[members & known].T, s=30, color=color, edgecolor="k", linewidth=0.5, label=name)
            ax.set_title("predicted classes (with a frame: labeled)")
            ax.legend(fontsize="small")
        write_figure(canvas, path)


def _draw_tried(ax: Any, report: dict[str, Any]) -> None:
    """Draw the values by which an automatic choice was made, with the chosen one in another color."""
    (*_, (key, criterion)), rows = report["columns"].items(), report["candidates"]
    places = range(len(rows))
    ax.scatter([row[key] for row in rows], places, color=["tab:blue" if row["chosen"] else "0.7" for row in rows])
    ax.set_yticks(places, [fill(short(short_name(row["name"]), 72), 24) for row in rows], fontsize="small")
    ax.set(xlabel=fill(criterion, 48), title="candidates (blue: chosen)")
    ax.invert_yaxis()
