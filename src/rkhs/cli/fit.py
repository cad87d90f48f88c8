"""`rkhs fit`: from a table to a model file, a picture and a report, compared with a plain SVM."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

import rkhs
from rkhs._backend.arrays import Vector
from rkhs.cli.assessment import Comparison, compare, effects
from rkhs.cli.columns import Column
from rkhs.cli.learning import AUTO, LANDMARKS, NONE, UNLABELLED, Learnt, Points, Settings, learn
from rkhs.cli.outputs import check_outputs, check_picture
from rkhs.cli.report import draw, write_report
from rkhs.cli.tables import Format, Kinds, classify, describe, encoder, features_of, read
from rkhs.cli.terminal import CommandError, Problems, explain, finite, step, suggest
from rkhs.invariances.graph import NAMED

C = 10.0  # weight of labels, and
NU = {"gradient": 1.0, "local_average": 1.0, "laplacian": 30.0, "graph": 100.0}  # mild weights of prior knowledge
WIDTHS = (0.5, 1.0, 2.0)  # length scales to try with --cv, as multiples of the median distance
MANY_CLASSES = 50  # beyond which a numeric target is likely meant for --regression
SIGN = re.compile(r"\s*(?P<name>.+?)\s*=\s*(?P<sign>[+-]?1|[+-])\s*(,|$)")


@dataclass(frozen=True)
class Request:
    """The options of `rkhs fit`."""

    data: Path
    target: str
    out: Path = Path("model.skops")
    invariance: str = AUTO
    cv: bool = False
    C: float | None = None
    nu: float | None = None
    monotone: str = ""
    regression: bool = False
    ignore: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    form: Format = field(default_factory=Format)
    picture: Path | None = None
    report: Path | None = None
    force: bool = False

    def outputs(self) -> dict[str, Path]:
        """Return the files to write by their options; picture and report are beside the model by default."""
        stem = os.path.splitext(self.out)[0]
        picture, report = self.picture or Path(stem + ".png"), self.report or Path(stem + ".html")
        return {"--out": self.out, "--picture": picture, "--report": report}

    def check(self) -> None:
        """Refuse options that make no sense for any table, all at once."""
        problems, names = Problems(), (AUTO, *NAMED, NONE)
        problems.refuse(
            self.invariance not in names,
            f"--invariance must be one of {', '.join(names)}, got {self.invariance!r}."
            + suggest(self.invariance, names),
        )
        problems.refuse(
            self.C is not None and not 0 < self.C < inf,
            f"--C must be a finite number > 0, got {self.C}: 10 is a good start.",
        )
        problems.refuse(
            self.nu is not None and not 0 <= self.nu < inf,
            f"--nu must be a finite number >= 0, got {self.nu}: 1 is a good start.",
        )
        with problems.gathered():
            parse_signs(self.monotone)
        problems.check()

    def settings(self, kinds: Kinds, classes: int) -> Settings:
        """Return the settings to try; without --cv a named kind of prior knowledge has one."""
        problems, signs = Problems(), parse_signs(self.monotone)
        for name in signs:
            why = "is no column of numbers or dates" if name in kinds.features else "is no column to learn from"
            problems.refuse(
                name not in kinds.amounts,
                f"--monotone {name}: {name!r} {why}; those are {', '.join(kinds.amounts) or 'none'}."
                + suggest(name, kinds.amounts),
            )
        problems.refuse(
            bool(signs) and not self.regression and classes > 2,
            f"--monotone needs two classes or numbers to predict, and column {self.target!r} has {classes} classes: "
            "leave it out, or predict numbers with --regression.",
        )
        problems.check()
        numbered = {kinds.amounts.index(name): sign for name, sign in signs.items()}
        if self.invariance == AUTO:
            Cs, nus = (None if value is None else [value] for value in (self.C, self.nu))
            return Settings(self.regression, AUTO, Cs, nus, signs=numbered)
        nu = NU.get(self.invariance, 0.0) if self.nu is None else self.nu
        return Settings(
            self.regression,
            self.invariance,
            Cs=5 if self.cv else [C if self.C is None else self.C],
            nus=[0.0] if self.invariance == NONE else 5 if self.cv else [nu],
            widths=WIDTHS if self.cv else None,
            signs=numbered,
        )


def parse_signs(text: str) -> dict[str, int]:
    """Return the names of columns and their signs.

    Examples
    --------
    >>> parse_signs("age=+1, size, in cm=-1")
    {'age': 1, 'size, in cm': -1}
    """
    found: dict[str, int] = {}
    start = 0
    while start < len(text.rstrip()):
        match = SIGN.match(text, start)
        if match is None:
            raise CommandError(
                f"--monotone takes columns with +1 (f rises) or -1 (f falls), as in age=+1,income=-1, got {text!r}."
            )
        if match["name"] in found:
            raise CommandError(f"--monotone names column {match['name']!r} twice: give it one sign.")
        found[match["name"]] = -1 if match["sign"].startswith("-") else 1
        start = match.end()
    return found


def run(request: Request, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Read, tell what was read, learn, compare, save, draw and report; return all facts."""
    start = perf_counter()
    problems, outputs = Problems(), request.outputs()
    with problems.gathered():
        request.check()
    with problems.gathered():
        check_outputs(outputs, [request.data], request.force)
        check_picture(outputs["--picture"])
    with step("reading"), problems.gathered():
        points, kinds, found = points_of(request, folds=True)
        columns = encoder(kinds).fit(points.features)
        settings = request.settings(kinds, len(found["classes"] or ()))
    problems.check()
    tell(found)
    with step("choosing settings and learning"):
        learnt = learn(settings, points, columns)
    X = columns.transform(learnt.chosen_on.features)
    with step("comparing with a plain SVM"):
        comparison = compare(learnt, X)
    facts = found | _facts(request, learnt, comparison) | kinds.notes()
    with step("saving"):
        request.out.parent.mkdir(parents=True, exist_ok=True)
        pipeline = Pipeline([("columns", columns), ("machine", learnt.model)])
        rkhs.save(pipeline, request.out, notes=finite(facts))
    with step("drawing and writing the report"):
        seen = effects(learnt.model.function_, columns, learnt.chosen_on.features, kinds)
        try:
            draw(outputs["--picture"], learnt, X, facts)
            write_report(outputs["--report"], request.data.name, facts, learnt, comparison.ours, seen)
        except OSError as error:
            raise CommandError(f"The model is in {request.out}, but {explain(error)}.") from error
    written = {"model": str(request.out), "picture": str(outputs["--picture"]), "report": str(outputs["--report"])}
    return facts | written | {"seconds": round(perf_counter() - start, 1)}


def points_of(request: Request, folds: bool = False) -> tuple[Points, Kinds, dict[str, Any]]:
    """Return the rows of the table, the kinds of its columns, and facts about them; refuse all its problems at once.

    With `folds` tables that cannot be cross-validated are refused too.
    """
    table, problems = read(request.data, request.form), Problems()
    with problems.gathered():
        kinds = classify(table, (request.target, *request.ignore), request.as_text, request.ids)
        features = features_of(table, kinds)
    with problems.gathered():
        y = _targets(table.column(request.target), request.regression)
        if folds:
            Points(None, y, request.regression).check_folds(request.target)
    problems.check()
    if folds and len(features.drop_duplicates()) < 2:
        raise CommandError(
            f"All rows of {request.data} are the same in the columns to learn from: add a column in which they differ."
        )
    points = Points(features, y, request.regression)
    known = int(points.labelled.sum())
    found = {
        "table": describe(table, kinds, features, request.target),
        "rows": len(y),
        "rows with a target": known,
        "rows without a target": len(y) - known,
        "classes": None if request.regression else points.counts(),
    }
    return points, kinds, found


def _targets(column: Column, regression: bool) -> Vector:
    """Return the targets of all rows; many different numbers are no classes."""
    if regression:
        try:
            return column.numbers()
        except CommandError as error:
            raise CommandError(f"{error} Without --regression classes are predicted.") from error
    y = column.labels()
    values = np.unique(y[y != UNLABELLED])
    if len(values) > MANY_CLASSES and not np.isnan(pd.to_numeric(values, errors="coerce")).any():
        raise CommandError(f"Column {column.name!r} has {len(values)} different numbers: predict it with --regression.")
    return y


def _facts(request: Request, learnt: Learnt, comparison: Comparison) -> dict[str, Any]:
    """Return what is printed, and kept in the model file."""
    model, params = learnt.model, learnt.params
    measure = "root mean squared error" if request.regression else "error"
    in_span = f", in the span of {LANDMARKS} landmarks" if learnt.learnt_from is not learnt.chosen_on else ""
    knowledge = list(learnt.knowledge)
    report = getattr(learnt.search, "knowledge_report_", None)
    return {
        "target": request.target,
        "regression": request.regression,
        "missing": list(request.form.missing),
        "rows learnt from": len(learnt.learnt_from.y),
        "rows for cross-validation": len(learnt.chosen_on.y),
        "kernel": repr(model.function_.kernel),
        "invariance": request.invariance if request.invariance in (AUTO, NONE) or params["nu"] > 0 else NONE,
        "prior knowledge": knowledge or None,
        "monotone": parse_signs(request.monotone) or None,
        "C": float(params["C"]),
        "nu": float(params["nu"]),
        "settings tried": len(learnt.search.cv_results_["params"]),
        "unlabelled rows": report["sentence"] if report else None,
        "solution": f"{model.solution_.status}, relative gap {model.solution_.relative_gap:.1e}{in_span}",
        "representers": int(model.function_.active),
        "cross-validated": [
            {
                "model": f"rkhs, with {' and '.join(knowledge)}" if knowledge else "rkhs, without prior knowledge",
                measure: comparison.ours.error,
            },
            {"model": "plain SVM", measure: comparison.plain.error},
        ],
        "compared": comparison.sentence(measure),
        "gained": comparison.gains,
        "interval": comparison.ours.interval() if request.regression else None,
    }
