"""`rkhs predict`: the target of each row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rkhs.cli.columns import prepared
from rkhs.cli.errors import CommandError
from rkhs.cli.progress import step
from rkhs.cli.tables import UNLABELLED, check_writable, labels, numbers, read, write
from rkhs.saving import load, notes_of


def run(model: Path, data: Path, out: Path) -> dict[str, Any]:
    """Predict, write the table, and compare with the target where the table has it."""
    import pandas as pd

    notes = notes_of(model).get("notes", {})
    if "target" not in notes:
        raise CommandError(f"{model} was not written by `rkhs fit`: open it in Python with rkhs.load.")
    check_writable(out)
    with step("reading"):
        machine = load(model)
        frame = read(data, notes["target"])
        features = prepared(frame, notes["numeric columns"], notes["categorical columns"], str(data))
    with step("predicting"):
        predicted = machine.predict(features)
        table = {notes["target"]: predicted}
        if not notes["regression"]:
            decided = machine.decision_function(features)
            table["decision"] = np.abs(decided) if decided.ndim == 1 else _lead(decided)
        write(pd.DataFrame(table), out)
    facts: dict[str, Any] = {"predictions": str(out), "rows": len(frame), "target": notes["target"]}
    if notes["target"] in frame.columns:
        facts |= _compared(frame[notes["target"]], predicted, notes)
    return facts


def _lead(decided: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By how much the first class is ahead of the second."""
    best = np.sort(decided, axis=1)
    return best[:, -1] - best[:, -2]


def _compared(truth: Any, predicted: Any, notes: dict[str, Any]) -> dict[str, Any]:
    """The error on the rows of the table that have a target."""
    if notes["regression"]:
        known = numbers(truth, notes["target"])
        rows = ~np.isnan(known)
        error = float(np.sqrt(np.mean((predicted[rows] - known[rows]) ** 2))) if rows.any() else None
        return {"rows with a target": int(rows.sum()), "root mean squared error": error}
    text = labels(truth)
    rows = text != UNLABELLED
    error = float(np.mean(predicted[rows] != text[rows])) if rows.any() else None
    return {"rows with a label": int(rows.sum()), "error": error}
