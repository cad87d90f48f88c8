"""`rkhs predict`: the target of each row of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rkhs.cli.columns import Kinds, new_texts, prepared
from rkhs.cli.errors import CommandError
from rkhs.cli.outputs import check_outputs
from rkhs.cli.progress import step
from rkhs.cli.tables import UNLABELLED, Table, labels, read, write
from rkhs.saving import load, notes_of

Vector = np.ndarray[Any, Any]
KNOWN = {"target": str, "regression": bool, "numeric columns": list, "categorical columns": list, "missing": list}


def run(model: Path, data: Path, out: Path, missing: Sequence[str], force: bool) -> dict[str, Any]:
    """Predict, write the table, and compare with the target where the table has it."""
    import pandas as pd

    with step("reading"):
        machine, notes = load(model), _notes(model)
        check_outputs({"--out": out}, [model, data], force)
        target = notes["target"]
        kinds = Kinds(notes["numeric columns"], notes["categorical columns"])
        table = read(data, [*notes["missing"], *missing])
        features = prepared(table, kinds)
        truth = _truth(table, notes)
    with step("predicting"):
        predicted = machine.predict(features)
        columns = {target: predicted}
        if not notes["regression"]:
            decided = machine.decision_function(features)
            columns["decision" if target != "decision" else "margin"] = (
                np.abs(decided) if decided.ndim == 1 else _lead(decided)
            )
        write(pd.DataFrame(columns), out)
    facts: dict[str, Any] = {"predictions": str(out), "rows": table.rows, "target": target}
    facts["texts that the model has not seen"] = new_texts(machine[0], features, kinds)
    if truth is not None:
        facts |= _compared(truth, predicted, notes["regression"])
    return facts


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
