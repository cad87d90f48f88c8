"""What was read, column by column, so that a table which was misread is seen before its model is believed."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs.cli.cells import Column
from rkhs.cli.columns import KEPT, Kinds
from rkhs.cli.tables import Frame, Table

FEW = 3  # texts that are shown


def columns_read(table: Table, kinds: Kinds, ready: Frame, target: str) -> list[dict[str, Any]]:
    """A line for each column: its kind, how many values are different, how many are missing, and some of them."""
    rows = []
    for name, column in table.columns.items():
        if name in kinds.numeric:
            own = _numbers(ready[name].to_numpy())
        elif name in kinds.dates:
            own = {"kind": f"dates, {kinds.dates[name]}", **_dates(column, ready[name].to_numpy())}
        elif name in kinds.categorical:
            own = {"kind": "text", **_texts(column, KEPT)}
        else:
            named = "names of rows, left out" if name in kinds.ids else "left out"
            kind = "target" if name == target else "empty" if column.empty else named
            own = {"kind": kind, **_texts(column, len(column.cells))}
        rows.append({"column": name, **own, "missing": column.missing})
    rows += [
        {"column": name, "kind": "left out", "values": None, "cells": "", "missing": None} for name in table.others
    ]
    return rows


def _numbers(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    known = values[~np.isnan(values)]
    return {"kind": "numbers", "values": len(np.unique(known)), "cells": f"{known.min():.4g} to {known.max():.4g}"}


def _dates(column: Column, days: np.ndarray[Any, Any]) -> dict[str, Any]:
    texts = column.texts()
    return {
        "values": len(np.unique(days[~np.isnan(days)])),
        "cells": f"{texts[int(np.nanargmin(days))]} to {texts[int(np.nanargmax(days))]}",
    }


def _texts(column: Column, most: int) -> dict[str, Any]:
    """The most frequent texts; and how many are taken together, if there are more than `most`."""
    counts = column.counts()
    shown = ", ".join(f"{_short(text)} ({count})" for text, count in counts[:FEW]) + (
        ", .." if len(counts) > FEW else ""
    )
    if len(counts) > most:
        rare = sum(count for _, count in counts[most - 1 :])
        shown += f"; the {len(counts) - most + 1} rarest, in {rare} rows, are taken for one kind"
    return {"values": len(counts), "cells": shown}


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 20 else text[:18] + ".."
