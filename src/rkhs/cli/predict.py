"""`rkhs predict`: the target of each row of a table, with probabilities or intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs.cli.columns import Kinds, new_texts, prepared
from rkhs.cli.errors import CommandError
from rkhs.cli.outputs import check_outputs
from rkhs.cli.progress import step
from rkhs.cli.tables import UNLABELLED, Format, Table, labels, read, write
from rkhs.estimators.regressor import likely_spread
from rkhs.saving import load, notes_of

KNOWN = {"target": str, "regression": bool, "numeric columns": list, "categorical columns": list, "missing": list}


def run(model: Path, data: Path, out: Path, form: Format, force: bool) -> dict[str, Any]:
    """Predict, write the table, and compare with the target where the table has it."""
    import pandas as pd

    with step("reading"):
        machine, notes = load(model), _notes(model)
        check_outputs({"--out": out}, [model, data], force)
        kinds = Kinds.noted(notes)
        table = read(data, Format((*notes["missing"], *form.missing), form.separator, form.decimal))
        features = prepared(table, kinds)
        truth = _truth(table, notes)
    with step("predicting"):
        predicted = machine.predict(features)
        columns = {name: table.columns[name].texts() for name in kinds.ids if name in table.columns}
        columns[_free(notes["target"], columns)] = predicted
        for name, values in _sureness(machine, notes, features, predicted).items():
            columns[_free(name, columns)] = values
        write(pd.DataFrame(columns), out)
    facts: dict[str, Any] = {"predictions": str(out), "rows": table.rows, "target": notes["target"]}
    facts["texts that the model has not seen"] = new_texts(machine[0], features, kinds)
    if truth is not None:
        facts |= _compared(truth, predicted, notes["regression"])
    return facts


def _sureness(machine: Any, notes: dict[str, Any], features: Any, predicted: Vector) -> dict[str, Vector]:
    """How sure predictions are: decisions and the probability of each class, or the ends of an interval."""
    if not notes["regression"]:
        decided = machine.decision_function(features)
        own = {"decision": np.abs(decided) if decided.ndim == 1 else _lead(decided)}
        each = machine.predict_proba(features).T
        return own | {f"P({name})": values for name, values in zip(machine.classes_, each, strict=True)}
    interval = notes.get("interval")
    if not interval:  # of an early version
        return {}
    size = interval["factor"]
    if interval["of the deviation"]:
        size = size * likely_spread(machine[-1], machine[:-1].transform(features))
    percent = f"{100 * interval['level']:.0f} %"
    return {f"lower ({percent})": predicted - size, f"upper ({percent})": predicted + size}


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name that no column has yet.

    Examples
    --------
    >>> _free("decision", {"decision": 1})
    'decision (2)'
    """
    count, free = 1, name
    while free in taken:
        count += 1
        free = f"{name} ({count})"
    return free


def _notes(model: Path) -> dict[str, Any]:
    """What `rkhs fit` has written about a model; files of early versions name nothing as missing."""
    notes = {"missing": [], **notes_of(model)["notes"]}
    if any(not isinstance(notes.get(name), kind) for name, kind in KNOWN.items()):
        raise CommandError(f"{model} was not written by `rkhs fit`: open it in Python with rkhs.load.")
    return notes


def _truth(table: Table, notes: dict[str, Any]) -> Vector | None:
    """The target, if the table has it."""
    if notes["target"] not in table.columns:
        return None
    column = table.columns[notes["target"]]
    return column.numbers() if notes["regression"] else labels(column)


def _lead(decided: Vector) -> Vector:
    """By how much the first class is ahead of the second."""
    best = np.sort(decided, axis=1)
    return best[:, -1] - best[:, -2]


def _compared(truth: Vector, predicted: Vector, regression: bool) -> dict[str, Any]:
    """The error on the rows of the table that have a target."""
    if regression:
        rows = ~np.isnan(truth)
        error = float(np.sqrt(np.mean((predicted[rows] - truth[rows]) ** 2))) if rows.any() else None
        return {"rows with a target": int(rows.sum()), "root mean squared error": error}
    rows = truth != UNLABELLED
    error = float(np.mean(predicted[rows] != truth[rows])) if rows.any() else None
    return {"rows with a label": int(rows.sum()), "error": error}
