"""The page as a whole: sections, style and the facts, in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import rkhs
from rkhs.cli.effects import Effect
from rkhs.cli.judging import Judged
from rkhs.cli.learning import Learnt
from rkhs.cli.page import checks, columns, sections
from rkhs.cli.page.charts import short
from rkhs.cli.page.markup import number, percent, section, table, text
from rkhs.cli.report import finite
from rkhs.writing import replacing

HIDDEN = ("table", "classes", "cross-validated", "gained", "compared", "interval")  # facts that have sections


@dataclass(frozen=True, eq=False)
class Findings:
    """All that a report tells of."""

    name: str
    facts: dict[str, Any]
    learnt: Learnt
    judged: Judged
    effects: list[Effect]


def write_page(path: Path, found: Findings) -> None:
    """Write the report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = page(found)
    with replacing(path) as file:
        file.write_text(content, encoding="utf-8")


def page(found: Findings) -> str:
    """The report as HTML."""
    facts, ours = found.facts, found.judged.ours
    classes = None if facts["regression"] else list(facts["classes"])
    body = "".join(
        [
            _top(found),
            sections.compared(facts),
            sections.gained(facts),
            checks.mistakes(ours, facts["target"]),
            columns.effects(found.effects, classes),
            checks.calibration(ours),
            sections.tried(facts, found.learnt),
            sections.data(facts),
            _details(facts),
        ]
    )
    title = escape(f"{found.name}: {short(facts['target'])}")
    style = files("rkhs.cli.page").joinpath("style.css").read_text(encoding="utf-8")
    held = json.dumps(finite(facts)).replace("<", "\\u003c")  # no text of a cell ends the element
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<style>{style}</style></head><body><main>{body}</main>"
        f'<script type="application/json" id="facts">{held}</script></body></html>\n'
    )


def _top(found: Findings) -> str:
    facts = found.facts
    measure = list(facts["cross-validated"][0])[1]
    show = number if facts["regression"] else percent
    ours, plain = (show(row[measure]) for row in facts["cross-validated"])
    cards = [
        (ours, f"{measure}, cross-validated"),
        (plain, "the same of a plain SVM"),
        (number(facts["rows with a target"]), "rows with a target"),
        (number(facts["rows without a target"]), "rows without one"),
    ]
    each = "".join(f"<li><strong>{value}</strong><span>{escape(name)}</span></li>" for value, name in cards)
    return (
        f"<header><p>{escape(found.name)}</p><h1>Predicting <em>{escape(facts['target'])}</em></h1>"
        f'{text(facts["compared"])}<ul class="cards">{each}</ul></header>'
    )


def _details(facts: dict[str, Any]) -> str:
    rows = [
        [escape(name), escape(short(", ".join(map(str, value)) if isinstance(value, list) else value, 200))]
        for name, value in facts.items()
        if name not in HIDDEN and value not in (None, [], {})
    ]
    told = f"Written by rkhs {rkhs.__version__}. All of these are in the model file too: rkhs inspect shows them."
    return section("details", "Details", text(told), table(["what", "value"], rows))
