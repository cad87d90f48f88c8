"""`rkhs predict`: the target of each row of a table, with probabilities or intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, product
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.pipeline import Pipeline

from rkhs import load
from rkhs._command.comparison import OutOfFold
from rkhs._command.learning import Examples, deviations, lead
from rkhs._command.options import Format, PredictRequest, write_table
from rkhs._command.tables import NOTES, Kinds, features_of, read
from rkhs._command.terminal import CommandError, Problems, listed, step
from rkhs.export import notes_of
from rkhs.extend import Vector

REQUIRED = {"target": str, "regression": bool, "numeric columns": list, "categorical columns": list}


def run(request: PredictRequest, problems: Problems) -> dict[str, Any]:
    """Predict, write the table, and compare with the target where the table has it."""
    problems.check()
    model, out = request.model, request.out
    with step("reading"):
        # files of early versions state no format, no dates, no names of rows and no intervals
        pipeline, notes = load(model), notes_of(model)["notes"]
        if any(not isinstance(notes.get(name), kind) for name, kind in REQUIRED.items()):
            raise CommandError(f"{model} was not written by `rkhs fit`: open it in Python with rkhs.load.")
        kinds = Kinds(**{kind: notes[note] for note, kind in NOTES.items() if note in notes})
        kept = Format(tuple(notes.get("missing", ())), notes.get("separator"), notes.get("decimal"))
        form = kept.with_options(request.form, model)
        _check_new_marks([mark for mark in form.missing if mark not in kept.missing], pipeline[0], kinds, notes, model)
        table = read(request.data, form)
        features, target, regression = features_of(table, kinds), notes["target"], notes["regression"]
        truth = None
        if target in table.columns:
            truth = table.columns[target].numbers() if regression else table.columns[target].labels()
    with step("predicting"):
        predicted = pipeline.predict(features)
        columns = {name: table.columns[name].texts() for name in kinds.ids if name in table.columns}
        for name, values in [(target, predicted), *_certainty(pipeline, notes, features, predicted)]:
            free = (name if k == 1 else f"{name} ({k})" for k in count(1))
            columns[next(one for one in free if one not in columns)] = values
        write_table(pd.DataFrame(columns), out)
    facts: dict[str, Any] = {"predictions": str(out), "rows": table.rows, "target": target}
    facts["texts that the model has not seen"] = new_texts(pipeline[0], features, kinds)
    if truth is not None:
        known = Examples(features, truth, regression).labeled
        classes = None if regression else pipeline.classes_
        error = OutOfFold(truth[known], predicted[known], classes).error if known.any() else None
        facts["rows with a target" if regression else "rows with a label"] = int(known.sum())
        facts["root mean squared error" if regression else "error"] = error
    return facts


def _certainty(
    pipeline: Pipeline, notes: dict[str, Any], features: pd.DataFrame, predicted: Vector
) -> list[tuple[str, Vector]]:
    """Return columns with the decision and the probability of each class, or with the ends of an interval."""
    if not notes["regression"]:
        names = [f"P({name})" for name in pipeline.classes_]
        return [
            ("decision", lead(pipeline.decision_function(features))),
            *zip(names, pipeline.predict_proba(features).T, strict=True),
        ]
    interval = notes.get("interval")
    if not interval:
        return []
    size = interval["factor"]
    if interval["of the deviation"]:
        size = size * deviations(pipeline[-1], pipeline[:-1].transform(features))
    level = f"{100 * interval['level']:.0f} %"
    return [(f"lower ({level})", predicted - size), (f"upper ({level})", predicted + size)]


def _check_new_marks(marks: Sequence[str], columns: Any, kinds: Kinds, notes: Mapping[str, Any], model: Path) -> None:
    """Refuse --missing with a text that the model has learned as a text or a class."""
    problems, classes = Problems(), list(notes.get("classes") or ())
    learned: dict[str, Any] = {notes["target"]: classes, **learned_texts(columns, kinds)}
    for mark, name in product(marks, learned):
        if mark in learned[name]:
            problems.add(
                f"--missing names {mark!r} here, and was not given when {model} was fitted, which learned {mark!r} as "
                f"a text of column {name!r}: leave it out, or fit the model again with --missing {mark!r}."
            )
    problems.check()


def learned_texts(columns: Any, kinds: Kinds) -> dict[str, Vector]:
    """Return the texts of each column with which a TableEncoder was fitted."""
    return dict(zip(kinds.categorical, columns.category_encoder_.categories_, strict=True)) if kinds.categorical else {}


def new_texts(columns: Any, features: pd.DataFrame, kinds: Kinds) -> dict[str, str] | None:
    """Count the rows of each column with texts that the encoder was not fitted with, and name some; None if none."""
    found = {}
    for name, texts in learned_texts(columns, kinds).items():
        new = features[name][~features[name].isin(texts)]
        if len(new):
            some = [text or "(empty)" for text in dict.fromkeys(new)]
            found[name] = f"{len(new)} {'row' if len(new) == 1 else 'rows'} ({listed(some, 3)})"
    return found or None
