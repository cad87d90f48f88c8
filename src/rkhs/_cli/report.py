"""The report of `rkhs fit`: facts in, text for the terminal, an HTML page or JSON out.

`sections` turns facts into titles, sentences and tables.  The terminal and the page show the same sections; the page
adds charts, which repeat no sentence, and holds the facts as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import rkhs
from rkhs._cli.comparison import format_error
from rkhs._cli.markup import bars, number, short, table
from rkhs._cli.terminal import as_text, finite, show_section
from rkhs._files import replacing

Facts = dict[str, Any]
SHOWN = 40  # columns in the table of the data
DETAILS = (
    "rows learned from",
    "rows of the choice",
    "settings tried",
    "prior",
    "increasing",
    "decreasing",
    "kernel",
    "C",
    "nu",
    "solution",
    "representers",
    "decision",
)


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
    compared, regression = facts["comparison"], facts["regression"]
    errors = [["the model", compared["error"]], [compared["compared with"], compared["its error"]]]
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
    rows = f"{facts['rows']} rows, {counts[0]} with a target and {counts[1]} without."
    if learned < facts["rows"]:
        rows += f" The model learned from {learned} of them, drawn at random."
    more = len(facts["table"]) - SHOWN
    shown = facts if facts["choice"] is None else facts | {"nu": None}  # an automatic choice has no such weight
    found = [
        Section(
            "compared",
            "Compared with a plain SVM",
            [compared["sentence"], method, fewer],
            ["model", facts["measure"]],
            [[name, Shown(error, format_error(error, regression))] for name, error in errors],
        ),
        Section("gained", "What the priors gained", [one["sentence"] for one in facts["priors"]] or [_no_prior(facts)]),
        Section(
            "data",
            "The data",
            [rows, *([f"And {more} more columns."] if more > 0 else [])],
            ["column", "kind", "different values", "cells", "missing"],
            [list(row.values()) for row in facts["table"][:SHOWN]],
        ),
        Section(
            "details",
            "The model",
            [],
            ["setting", "value"],
            [[key, short(as_text(shown[key]), 200)] for key in DETAILS if shown[key] not in (None, [], ())],
        ),
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


class Shown(float):
    """A number with the text by which it is shown."""

    text: str

    def __new__(cls, value: float, text: str) -> Shown:
        """Make a float that also has a text."""
        made = super().__new__(cls, value)
        made.text = text
        return made

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
    compared, regression = facts["comparison"], facts["regression"]
    errors = [compared["error"], compared["its error"]]
    shown = [format_error(error, regression) for error in errors]
    models = list(zip(("the model", compared["compared with"]), errors, shown, strict=True))
    chart = f"<figure>{bars(models, 'errors of both models')}<figcaption>{facts['measure']}</figcaption></figure>"
    parts = {name: f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, (title, body) in charts.items()}
    parts |= {one.name: _html(one, chart if one.name == "compared" else "") for one in sections(facts)}
    order = ("compared", "gained", "mistakes", "effects", "calibration", "tried", "data", "details", "better")
    content = {
        "name": escape(name),
        "target": escape(facts["target"]),
        "short target": escape(short(facts["target"])),
        "verdict": escape(compared["sentence"]),
        "measure": facts["measure"],
        "our error": number(errors[0], shown[0]),
        "plain error": number(errors[1], shown[1]),
        "labeled": number(facts["rows with a target"], str(facts["rows with a target"])),
        "unlabeled": number(facts["rows without a target"], str(facts["rows without a target"])),
        "sections": "\n".join(parts[key] for key in order if key in parts),
        "version": rkhs.__version__,
        "facts": json.dumps(finite(facts)).replace("<", "\\u003c"),  # so that no text of a cell ends the element
    }
    page = Page(files("rkhs._cli").joinpath("report.html").read_text(encoding="utf-8"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write_text(page.substitute(content), encoding="utf-8")


def _html(section: Section, chart: str) -> str:
    """Return a section as HTML, its chart between sentences and table."""
    if section.name == "better":
        text = "<ul>" + "".join(f"<li>{escape(one)}</li>" for one in section.sentences) + "</ul>"
    else:
        text = "".join(f"<p>{escape(one)}</p>" for one in section.sentences)
    rows = ([number(cell, cell.text) if isinstance(cell, Shown) else cell for cell in row] for row in section.rows)
    body = table(section.headings, rows) if section.rows else ""
    return f'<section id="{section.name}"><h2>{section.title}</h2>{text}{chart}{body}</section>'
