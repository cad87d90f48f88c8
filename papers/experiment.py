"""An experiment is a list of independent cells, a function that computes one cell, and a page made of all results.

A cell is a dictionary of JSON values that determine its result, such as a data set, a model and the number of a random
draw.  This module holds what the experiments share: records of cells, Markdown tables, and paired comparisons.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

Array = np.ndarray[Any, Any]
Cell = dict[str, Any]  # JSON values
Result = dict[str, Any]  # JSON values


@dataclass(frozen=True)
class Record:
    """A cell with its result, and the seconds that it took on one core."""

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
    plan : (quick, records so far) -> the cells that can be planned by now.  It is called again when they are computed,
        until nothing is new, so that later cells may depend on the results of earlier ones
    compute : cell -> result
    page : (records, folder of the results) -> the Markdown below the title, with the paper's numbers next to ours
    draw : records -> a matplotlib figure, or None if there is no picture
    """

    name: str
    title: str
    plan: Callable[[bool, list[Record]], list[Cell]]
    compute: Callable[[Cell], Result]
    page: Callable[[list[Record], Path], str]
    draw: Callable[[list[Record]], Any] | None = None


def finished_records(folder: Path, name: str) -> list[Record]:
    """Return the records of NAME.json, which a complete run leaves; an empty list if there is no such file."""
    path = folder / f"{name}.json"
    if not path.exists():
        return []
    try:
        return [
            Record(dict(r["cell"]), dict(r["result"]), r["seconds"]) for r in json.loads(path.read_bytes())["records"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no results ({error}): run `rkhs reproduce {name} --resume` again.") from error


def select(records: list[Record], **values: Any) -> list[Record]:
    """Return the records whose cells have these values.

    Examples
    --------
    >>> records = [Record({"set": "heart", "l": l}, {}, 0.0) for l in (30, 60)]
    >>> len(select(records, l=30)), len(select(records, set="sonar"))
    (1, 0)
    """
    return [r for r in records if all(r.cell.get(name) == value for name, value in values.items())]


def distinct(records: list[Record], name: str) -> list[Any]:
    """Return the distinct values of a cell's entry, in the order of the records."""
    return list(dict.fromkeys(r.cell[name] for r in records if name in r.cell))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table, followed by an empty line.

    Examples
    --------
    >>> print(table(["set", "error"], [["heart", "20.2"]]).strip())
    | set | error |
    | --- | --- |
    | heart | 20.2 |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def mean_and_deviation(numbers: Sequence[float], digits: int = 2) -> str:
    """Format the mean ± the standard deviation.

    Examples
    --------
    >>> mean_and_deviation([1.0, 2.0, 3.0])
    '2.00 ± 1.00'
    """
    if not len(numbers):
        return "none"
    deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
    return f"{np.mean(numbers):.{digits}f} ± {deviation:.{digits}f}"


def errors_by_draw(records: list[Record], **values: Any) -> dict[int, float]:
    """Return the error of each random draw, over the records whose cells have these values."""
    return {r.cell["draw"]: r.result["error"] for r in select(records, **values)}


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p value of a paired t test that both have the same mean.

    Examples
    --------
    >>> p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    1.0
    >>> p_value([1.0, 2.1, 2.9], [2.0, 3.0, 4.0]) < 0.05
    True
    """
    difference = np.subtract(first, second)
    if len(difference) < 2 or np.ptp(difference) < 1e-12:  # the test divides by the deviation of the differences
        return 1.0 if len(difference) < 2 or abs(difference[0]) < 1e-12 else 0.0
    return float(ttest_rel(first, second).pvalue)


def compare(records: list[Record], model: str, other: str, **values: Any) -> tuple[str, float]:
    """Compare two models on the draws that both have, by a paired t test at 5 percent.

    Returns
    -------
    "win", "tie" or "loss" of the first model, and the p value.
    """
    ours, theirs = (errors_by_draw(records, model=name, **values) for name in (model, other))
    draws = sorted(ours.keys() & theirs.keys())
    first, second = [ours[d] for d in draws], [theirs[d] for d in draws]
    p = p_value(first, second)
    if p >= 0.05:
        return "tie", p
    return ("win" if np.mean(first) < np.mean(second) else "loss"), p
