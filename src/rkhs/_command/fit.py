"""`rkhs fit`: from a table to a model file, a picture and a report."""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

import rkhs
from rkhs._command import comparison
from rkhs._command.comparison import Comparison, compare
from rkhs._command.effects import advise, effects
from rkhs._command.learning import LABELED, LANDMARKS, MOST, OTHERS, UNLABELED, Examples, Fit, short_name
from rkhs._command.options import AUTO, Request, check_picture
from rkhs._command.report import charts, draw, write_report
from rkhs._command.tables import NOTES, Kinds, TableColumn, classify, describe, features_of, read
from rkhs._command.terminal import CommandError, Problems, finite, step, suggest
from rkhs.extend import Vector, single_blas


def run(request: Request, problems: Problems) -> dict[str, Any]:
    """Read, fit, compare, save, draw and write the report; return all facts.

    `problems` are those of the options, which are reported with those of the table.
    """
    start = perf_counter()
    with problems.gathered():
        check_picture(request.outputs["--picture"])
    with step("reading"), problems.gathered():
        examples, kinds, found = examples_of(request, folds=True)
        request = with_signs(request, kinds, len(found["classes"] or ()))
    problems.check()
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # the report has the status of the solution
        facts = _fit_and_write(request, examples, kinds, found)
    return facts | {"seconds": round(perf_counter() - start, 1)}


def _fit_and_write(request: Request, examples: Examples, kinds: Kinds, found: dict[str, Any]) -> dict[str, Any]:
    """Fit, compare, save, draw and write the report; return all facts."""
    model, picture, report = request.outputs.values()
    columns = kinds.encoder().fit(examples.features)
    few = examples.sample(LABELED, OTHERS)
    X = columns.transform(few.features)
    with step("choosing settings and fitting"):
        fit, learned_from = Fit.of(request, X, few), few
        if len(few.y) < len(examples.y):
            learned_from = examples.sample(MOST, OTHERS)
            # in the span of landmarks, with the settings that the sample has chosen
            points, landmarks = columns.transform(learned_from.features), rkhs.Landmarks(LANDMARKS)
            fit = fit.refit(points, learned_from, approximation=landmarks, tol=1e-2)
    # The matrices of the folds are small: BLAS threads gain nothing there, and wait for each other on a busy computer.
    with step("comparing with a plain SVM") as update, single_blas():
        compared_on = few.sample(comparison.LABELED, comparison.OTHERS)
        compared = compare(fit, compared_on, columns.transform(compared_on.features), update)
    seen = effects(fit.model.function_, columns, few.features, kinds)
    facts = found | _facts(request, fit, compared, learned_from) | {"rows of the choice": len(few.y)}
    facts |= {note: getattr(kinds, kind) for note, kind in NOTES.items()}
    facts["advice"] = advise(fit, few, X, compared.labels, seen, found)
    if not request.regression:
        fit.model.predict_proba(X[:1])  # fits the probabilities, so that the model file holds them
    with step("saving"):
        model.parent.mkdir(parents=True, exist_ok=True)
        rkhs.save(Pipeline([("columns", columns), ("model", fit.model)]), model, notes=finite(facts))
    with step("drawing and writing the report"):
        try:
            draw(picture, fit, few, X, facts)
            classes = None if request.regression else list(found["classes"])
            write_report(report, request.data.name, facts, charts(compared, seen, fit, classes))
        except OSError as error:
            raise CommandError(f"The model is in {model}, but {error.strerror or error}.") from error
    return facts | {"model": str(model), "picture": str(picture), "report": str(report)}


def examples_of(request: Request, folds: bool = False) -> tuple[Examples, Kinds, dict[str, Any]]:
    """Return rows, kinds of columns and facts; report all problems at once, with `folds` those of folds too."""
    table, problems = read(request.data, request.form), Problems()
    with problems.gathered():
        kinds = classify(table, (request.target, *request.ignore), request.text, request.ids)
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
    examples = Examples(features, y, request.regression)
    known = int(examples.labeled.sum())
    found = {
        "table": describe(table, kinds, features, request.target, request.regression),
        "rows": len(y),
        "rows with a target": known,
        "rows without a target": len(y) - known,
        "classes": None if request.regression else examples.counts(),
    }
    return examples, kinds, found


def with_signs(request: Request, kinds: Kinds, classes: int) -> Request:
    """Return the request with its monotone columns resolved; refuse those that cannot be monotone, all at once."""
    problems, signs = Problems(), {}
    for option, names, sign in (("--increasing", request.increasing, 1), ("--decreasing", request.decreasing, -1)):
        for name in names:
            why = "has neither numbers nor dates" if name in kinds.features else "is not a column to learn from"
            if name not in kinds.amounts:
                problems.add(
                    f"{option} {name}: {name!r} {why}; columns that do are {', '.join(kinds.amounts) or 'none'}."
                    + suggest(name, kinds.amounts)
                )
            signs[name] = sign
        if names and not request.regression and classes > 2:
            problems.add(
                f"{option} needs two classes or numbers to predict, and column {request.target!r} has {classes} "
                "classes: leave it out, or predict numbers with --regression."
            )
    problems.check()
    return replace(request, signs={kinds.amounts.index(name): sign for name, sign in signs.items()})


def _targets(column: TableColumn, regression: bool) -> Vector:
    """Return the targets of all rows; refuse more than 50 different numbers as classes."""
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


def _facts(request: Request, fit: Fit, compared: Comparison, learned_from: Examples) -> dict[str, Any]:
    """Return what the report shows and the model file keeps."""
    model, params = fit.model, fit.params
    span = "" if model.solution_.span is None else f", in the span of {model.solution_.span}"
    return {
        "target": request.target,
        "regression": request.regression,
        "measure": "root mean squared error" if request.regression else "error",
        **asdict(request.form),
        "rows learned from": len(learned_from.y),
        "rows compared": len(compared.ours.truth),
        "kernel": short_name(repr(model.function_.kernel)),
        "prior": getattr(fit.search, "selection_report_", {"chosen": {"name": fit.prior}})["chosen"]["name"],
        "choice": fit.search.selection_report_["sentence"] if request.invariance == AUTO else None,
        "increasing": list(request.increasing),
        "decreasing": list(request.decreasing),
        "C": float(params["C"]),
        "nu": float(params["nu"]),
        "settings tried": len(fit.search.cv_results_["params"]),
        "solution": f"{model.solution_.status}, relative gap {model.solution_.relative_gap:.1e}{span}",
        "representers": int(model.function_.active),
        "decision": "a linear discriminant of the scores" if getattr(model, "discriminant_", None) else None,
        "comparison": compared.plain.facts(),
        "priors": [one.facts() for one in compared.priors],
        "labels": compared.labels.facts(),
        "interval": compared.ours.interval() if request.regression else None,
    }
