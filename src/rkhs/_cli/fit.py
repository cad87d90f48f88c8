"""`rkhs fit`: from a table to a model file, a picture and a report, compared with a plain SVM."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._cli.assessment import Comparison, compare, effects
from rkhs._cli.columns import TableColumn
from rkhs._cli.learning import AUTO, LANDMARKS, NONE, UNLABELED, Examples, Learned, Request, learn, parse_signs
from rkhs._cli.outputs import check_outputs, check_picture
from rkhs._cli.report import draw, write_report
from rkhs._cli.tables import NOTES, Kinds, classify, describe, encoder, features_of, read
from rkhs._cli.terminal import CommandError, Problems, finite, step


def run(request: Request, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Read, tell what was read, learn, compare, save, draw and report; return all facts."""
    start = perf_counter()
    problems, stem = Problems(), os.path.splitext(request.out)[0]
    picture, report = request.picture or Path(stem + ".png"), request.report or Path(stem + ".html")
    with problems.gathered():
        request.check()
    with problems.gathered():
        check_outputs({"--out": request.out, "--picture": picture, "--report": report}, [request.data], request.force)
        check_picture(picture)
    with step("reading"), problems.gathered():
        points, kinds, found = points_of(request, folds=True)
        columns = encoder(kinds).fit(points.features)
        request = request.with_signs(kinds, len(found["classes"] or ()))
    problems.check()
    tell(found)
    with step("choosing settings and learning"):
        learned = learn(request, points, columns)
    X = columns.transform(learned.chosen_on.features)
    with step("comparing with a plain SVM"):
        comparison = compare(learned, X)
    facts = found | _facts(request, learned, comparison) | {note: getattr(kinds, kind) for note, kind in NOTES.items()}
    with step("saving"):
        request.out.parent.mkdir(parents=True, exist_ok=True)
        pipeline = Pipeline([("columns", columns), ("machine", learned.model)])
        rkhs.save(pipeline, request.out, notes=finite(facts))
    with step("drawing and writing the report"):
        seen = effects(learned.model.function_, columns, learned.chosen_on.features, kinds)
        try:
            draw(picture, learned, X, facts)
            write_report(report, request.data.name, facts, learned, comparison, seen)
        except OSError as error:
            raise CommandError(f"The model is in {request.out}, but {error.strerror or error}.") from error
    written = {"model": str(request.out), "picture": str(picture), "report": str(report)}
    return facts | written | {"seconds": round(perf_counter() - start, 1)}


def points_of(request: Request, folds: bool = False) -> tuple[Examples, Kinds, dict[str, Any]]:
    """Return rows, kinds of columns and facts; refuse all problems at once, with `folds` those of folds too."""
    table, problems = read(request.data, request.form), Problems()
    with problems.gathered():
        kinds = classify(table, (request.target, *request.ignore), request.as_text, request.ids)
        features = features_of(table, kinds)
    with problems.gathered():
        y = _targets(table.column(request.target), request.regression)
        if folds:
            Examples(None, y, request.regression).check_folds(request.target)
    problems.check()
    if folds and len(features.drop_duplicates()) < 2:
        raise CommandError(
            f"All rows of {request.data} are the same in the columns to learn from: add a column in which they differ."
        )
    points = Examples(features, y, request.regression)
    known = int(points.labeled.sum())
    found = {
        "table": describe(table, kinds, features, request.target),
        "rows": len(y),
        "rows with a target": known,
        "rows without a target": len(y) - known,
        "classes": None if request.regression else points.counts(),
    }
    return points, kinds, found


def _targets(column: TableColumn, regression: bool) -> Vector:
    """Return the targets of all rows; more than 50 different numbers are no classes."""
    if regression:
        try:
            return column.numbers()
        except CommandError as error:
            raise CommandError(f"{error} Without --regression classes are predicted.") from error
    y = column.labels()
    values = np.unique(y[y != UNLABELED])
    if len(values) > 50 and not np.isnan(pd.to_numeric(values, errors="coerce")).any():
        raise CommandError(f"Column {column.name!r} has {len(values)} different numbers: predict it with --regression.")
    return y


def _facts(request: Request, learned: Learned, comparison: Comparison) -> dict[str, Any]:
    """Return what is printed, and kept in the model file."""
    model, params = learned.model, learned.params
    measure = "root mean squared error" if request.regression else "error"
    in_span = f", in the span of {LANDMARKS} landmarks" if learned.learned_from is not learned.chosen_on else ""
    knowledge = list(learned.knowledge)
    report = getattr(learned.search, "selection_report_", None)
    return {
        "target": request.target,
        "regression": request.regression,
        "missing": list(request.form.missing),
        "rows learned from": len(learned.learned_from.y),
        "rows for cross-validation": len(learned.chosen_on.y),
        "kernel": repr(model.function_.kernel),
        "invariance": request.invariance if request.invariance in (AUTO, NONE) or params["nu"] > 0 else NONE,
        "prior knowledge": knowledge or None,
        "monotone": parse_signs(request.monotone) or None,
        "C": float(params["C"]),
        "nu": float(params["nu"]),
        "settings tried": len(learned.search.cv_results_["params"]),
        "unlabeled rows": report["sentence"] if report else None,
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
