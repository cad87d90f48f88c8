"""What an experiment is: independent cells, a result for each, and a page and pictures made of all results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cell = dict[str, Any]  # JSON values; everything that determines the result
Result = dict[str, Any]  # JSON values


@dataclass(frozen=True)
class Record:
    """A cell with its result, and the seconds that it took."""

    cell: Cell
    result: Result
    seconds: float


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Parameters
    ----------
    name : as in `rkhs reproduce NAME`
    title : what it reproduces
    plan : (quick, records so far) -> all cells that can be planned by now.  It is asked again when they are done, until
        nothing is new, so that later cells may depend on the results of earlier ones
    compute : cell -> result, in a process of its own
    page : (records, folder of the results) -> the Markdown below the title, with the paper's numbers next to ours
    draw : (records, PNG) -> draw the picture, or None if there is none
    """

    name: str
    title: str
    plan: Callable[[bool, list[Record]], list[Cell]]
    compute: Callable[[Cell], Result]
    page: Callable[[list[Record], Path], str]
    draw: Callable[[list[Record], Path], None] | None = None


def key(cell: Cell) -> str:
    """A text that tells cells apart.

    Examples
    --------
    >>> key({"set": "heart", "l": 30}) == key({"l": 30, "set": "heart"})
    True
    """
    return json.dumps(cell, sort_keys=True)


def chosen(records: list[Record], **values: Any) -> list[Record]:
    """The records whose cells have these values.

    Examples
    --------
    >>> records = [Record({"set": "heart", "l": l}, {}, 0.0) for l in (30, 60)]
    >>> len(chosen(records, l=30)), len(chosen(records, set="sonar"))
    (1, 0)
    """
    return [r for r in records if all(r.cell.get(name) == value for name, value in values.items())]


def values(records: list[Record], name: str) -> list[Any]:
    """The different values of a cell's entry, in the order of the records."""
    return list(dict.fromkeys(r.cell[name] for r in records if name in r.cell))


def as_record(line: Mapping[str, Any]) -> Record:
    """From JSON."""
    if not isinstance(line["cell"], dict) or not isinstance(line["result"], dict):
        raise TypeError("a cell and its result are tables of names")
    return Record(line["cell"], line["result"], line["seconds"])
