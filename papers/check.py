"""Compute a few cells of each experiment again and compare them with the committed results.

The page of an experiment is written by a run of all its cells, which may take hours, and the code under it changes.
This says within minutes whether its results are still those of the code: `rkhs reproduce --check`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import joblib

from papers.experiment import Cell, Experiment, Record, finished_records
from papers.run import compute_cell
from rkhs._core.progress import interrupts_raised

COMMITTED = Path(__file__).resolve().parents[1] / "docs" / "measurements" / "papers"
SECONDS, CELLS = 20.0, 12  # of one core that the committed cells took, and their number; at least one is computed
IGNORED = {"relative gap"}  # of an iterate within the tolerance of the experiment: how far within is chance
TOLERANCE = 1e-6  # of numbers, relative to the larger of 1 and the number: rounding errors differ between processors


def check_cells(experiments: list[Experiment], jobs: int = 1, committed: Path = COMMITTED) -> dict[str, str]:
    """Compare a few cells of the experiments with the committed results.

    Parameters
    ----------
    experiments : what to compare
    jobs : number of processes
    committed : the folder with NAME.json of complete runs

    Returns
    -------
    One sentence for each experiment.  Results that differ raise a RuntimeError that lists them.
    """
    facts, differences = {}, []
    for experiment in experiments:
        records = finished_records(committed, experiment.name)
        planned = {json.dumps(cell, sort_keys=True) for cell in experiment.plan(False, records)}
        current = [record for record in records if json.dumps(record.cell, sort_keys=True) in planned]
        some = sample(current)
        if not some:
            facts[experiment.name] = f"none of the {len(records)} committed cells is one of today's {len(planned)}"
            continue
        with interrupts_raised():
            compute = joblib.delayed(compute_cell)
            outcomes = joblib.Parallel(jobs)(compute(experiment.name, record.cell) for record in some)
        found = [
            f"{experiment.name} {json.dumps(record.cell)}: {difference}"
            for record, (_, result, _) in zip(some, outcomes, strict=True)
            for difference in differing(record.result, result)
        ]
        differences += found
        equal = "differ" if found else "as committed"
        seconds = sum(seconds for *_, seconds in outcomes)
        facts[experiment.name] = f"{len(some)} of {len(planned)} cells computed again in {seconds:.0f} s: {equal}"
    if differences:
        lines = [*(f"{name}: {fact}" for name, fact in facts.items()), *differences]
        raise RuntimeError("Results differ from the committed ones:\n" + "\n".join(lines))
    return facts


def sample(records: list[Record]) -> list[Record]:
    """Return a few records of different kinds, the fastest of each kind first, that took at most `SECONDS` in all.

    The kind of a cell is its words, such as the data set and the model.  Kinds with a small mean time come first:
    elsewhere the first cell may compute a kernel, for minutes, that all others find in a cache.
    """
    kinds: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.seconds):
        kinds.setdefault(_words(record.cell), []).append(record)
    chosen: list[Record] = []
    by_time = sorted(kinds.values(), key=lambda kind: fmean(record.seconds for record in kind))
    for record in chain.from_iterable(zip_longest(*by_time)):
        if record is not None and (not chosen or sum(r.seconds for r in (*chosen, record)) <= SECONDS):
            chosen.append(record)
    return chosen[:CELLS]


def _words(cell: Cell) -> str:
    return json.dumps({name: value for name, value in cell.items() if isinstance(value, str)}, sort_keys=True)


def differing(committed: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield what differs between two results, numbers up to `TOLERANCE`.

    Examples
    --------
    >>> list(differing({"error": 20.0, "chosen": {"C": 1.0}}, {"error": 20.0 + 1e-9, "chosen": {"C": 10.0}}))
    ['chosen.C was 1.0 and is 10.0']
    """
    if isinstance(committed, dict) and isinstance(now, dict) and committed.keys() == now.keys():
        for key, value in committed.items():
            if key in IGNORED:
                continue
            yield from differing(value, now[key], f"{name}.{key}".removeprefix("."))
    elif isinstance(committed, list) and isinstance(now, list) and len(committed) == len(now):
        for k, (first, second) in enumerate(zip(committed, now, strict=True)):
            yield from differing(first, second, f"{name}[{k}]")
    elif isinstance(committed, float | int) and isinstance(now, float | int):
        if not abs(committed - now) <= TOLERANCE * max(1.0, abs(committed)) and committed != now:
            yield f"{name} was {committed} and is {now}"
    elif committed != now:
        yield f"{name} was {committed} and is {now}"
