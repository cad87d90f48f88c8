"""`rkhs fit`: from a table to a model file, a picture and a report, compared with a plain SVM."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import rkhs
from rkhs.cli.cells import Column
from rkhs.cli.columns import Kinds, encoder, kinds, prepared
from rkhs.cli.effects import effects
from rkhs.cli.errors import CommandError, Problems, reason
from rkhs.cli.judging import Judged, judge
from rkhs.cli.learning import AUTO, FOLDS, LANDMARKS, NONE, Learnt, learn
from rkhs.cli.options import Request, signs_in
from rkhs.cli.outputs import check_outputs
from rkhs.cli.page import Findings, write_page
from rkhs.cli.picture import check_format, draw
from rkhs.cli.progress import step
from rkhs.cli.report import finite
from rkhs.cli.sample import Points
from rkhs.cli.summary import columns_read
from rkhs.cli.tables import Table, labels, read

MANY = 50  # classes, beyond which a numeric target is likely meant for --regression


def run(request: Request, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Read, tell what was read, learn, compare, save, draw, report; all facts."""
    start = perf_counter()
    problems, outputs = Problems(), request.outputs()
    with problems.gathered():
        request.check()
    with problems.gathered():
        check_outputs(outputs, [request.data], request.force)
        check_format(outputs["--picture"])
    with step("reading"), problems.gathered():
        points, names, found = points_of(request, FOLDS)
        columns = encoder(names).fit(points.features)
        settings = request.settings(names, len(found["classes"] or ()))
    problems.check()
    tell(found)
    with step("choosing settings and learning"):
        learnt = learn(settings, points, columns.transform)
    encoded = columns.transform(learnt.chosen_on.features)
    with step("comparing with a plain SVM"):
        judged = judge(learnt, encoded)
    facts = found | _facts(request, learnt, judged) | names.notes()
    with step("saving"):
        request.out.parent.mkdir(parents=True, exist_ok=True)
        pipeline = Pipeline([("columns", columns), ("machine", learnt.machine)])
        rkhs.save(pipeline, request.out, notes=finite(facts))
    with step("drawing and writing the report"):
        seen = effects(learnt.machine.function_, columns, learnt.chosen_on.features, names)
        try:
            draw(outputs["--picture"], learnt, encoded, facts)
            write_page(outputs["--report"], Findings(request.data.name, facts, learnt, judged, seen))
        except OSError as error:
            raise CommandError(f"The model is in {request.out}, but {reason(error)}.") from error
    written = {"model": str(request.out), "picture": str(outputs["--picture"]), "report": str(outputs["--report"])}
    return facts | written | {"seconds": round(perf_counter() - start, 1)}


def points_of(request: Request, folds: int | None = None) -> tuple[Points, Kinds, dict[str, Any]]:
    """The rows of the table, the kinds of its columns, and what to tell about them; all its problems at once.

    With `folds` also those of tables that cannot be split into so many.
    """
    table, problems = read(request.data, request.form), Problems()
    with problems.gathered():
        names = kinds(table, (request.target, *request.ignore), request.as_text, request.ids)
        ready = prepared(table, names)
    with problems.gathered():
        y = _answers(table, request)
        if folds is not None:
            Points(None, y, request.regression).check_folds(request.target, folds)
    problems.check()
    points = Points(ready, y, request.regression)
    if folds is not None and len(ready.drop_duplicates()) < 2:
        raise CommandError(
            f"All rows of {request.data} are the same in the columns to learn from: add a column in which they differ."
        )
    known = int(points.labelled.sum())
    found = {
        "table": columns_read(table, names, ready, request.target),
        "rows": points.size,
        "rows with a target": known,
        "rows without a target": points.size - known,
        "classes": None if request.regression else points.counts(),
    }
    return points, names, found


def _answers(table: Table, request: Request) -> np.ndarray[Any, Any]:
    """The targets of all rows."""
    column = table.column(request.target)
    if request.regression:
        return _amounts(column)
    y = labels(column)
    count = len(set(y.tolist()) - {""})
    if count > MANY and _numeric(y):
        raise CommandError(f"Column {request.target!r} has {count} different numbers: predict it with --regression.")
    return y


def _amounts(answers: Column) -> np.ndarray[Any, Any]:
    try:
        return answers.numbers()
    except CommandError as error:
        raise CommandError(f"{error} Without --regression classes are predicted.") from error


def _numeric(y: np.ndarray[Any, Any]) -> bool:
    try:
        np.array([text for text in y if text], dtype=float)
    except ValueError:
        return False
    return True


def _facts(request: Request, learnt: Learnt, judged: Judged) -> dict[str, Any]:
    """What is printed, and kept in the model file."""
    machine, params = learnt.machine, learnt.params
    measure = "root mean squared error" if request.regression else "error"
    solution, span = machine.solution_, f", in the span of {LANDMARKS} landmarks" if learnt.in_span else ""
    report = getattr(learnt.search, "knowledge_report_", None)
    return {
        "target": request.target,
        "regression": request.regression,
        "missing": list(request.form.missing),
        "rows learnt from": learnt.learnt_from.size,
        "rows for cross-validation": learnt.chosen_on.size,
        "kernel": repr(machine.function_.kernel),
        "invariance": request.invariance if request.invariance in (AUTO, NONE) or params["nu"] > 0 else NONE,
        "prior knowledge": list(learnt.pieces) or None,
        "monotone": signs_in(request.monotone) or None,
        "C": float(params["C"]),
        "nu": float(params["nu"]),
        "settings tried": len(learnt.search.cv_results_["params"]),
        "unlabelled rows": report["sentence"] if report else None,
        "solution": f"{solution.status}, relative gap {solution.relative_gap:.1e}{span}",
        "representers": int(machine.function_.active),
        "cross-validated": [
            {"model": ours(learnt), measure: judged.ours.error},
            {"model": "plain SVM", measure: judged.plain.error},
        ],
        "compared": judged.sentence(measure),
        "gained": judged.gains,
        "interval": judged.ours.interval() if request.regression else None,
    }


def ours(learnt: Learnt) -> str:
    """Our model by what it knows."""
    return f"rkhs, with {' and '.join(learnt.pieces)}" if learnt.pieces else "rkhs, without prior knowledge"
