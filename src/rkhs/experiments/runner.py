"""Compute the cells of an experiment, each once, on several cores; then write results, page and picture.

A cell runs with one BLAS thread: cells are independent, so processes use cores better than threads do.  Computing
needs neither rich nor matplotlib.  Where these are missing, the results are complete all the same, and a run with
`resume` on a machine that has them draws the picture at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits

import rkhs
from rkhs._progress import interrupts_raised
from rkhs.experiments.experiment import Cell, Experiment, Record, key
from rkhs.experiments.journal import Journal
from rkhs.experiments.progress import shown
from rkhs.experiments.workers import in_workers
from rkhs.writing import replacing


def run(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    resume: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Run an experiment; results go to files in `out` that are named after it.

    Parameters
    ----------
    experiment : what to run
    out : the folder for NAME.jsonl (a line for each cell), NAME.json (all of it), NAME.md and NAME.png
    quick : a small part of the cells
    jobs : processes
    resume : keep what NAME.jsonl has, and compute the rest
    force : replace the files of an earlier run

    Returns
    -------
    Facts: the files, how many cells there are, and how many of them were computed now.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    journal = Journal(out / f"{experiment.name}.jsonl")
    with journal.owned():
        _check_place(experiment, journal, out, resume, force)
        with interrupts_raised():
            records, computed = _computed(experiment, journal, quick, jobs)
        files = written(experiment, records, out, quick)
    return {"experiment": experiment.title, **files, "cells": len(records), "computed now": computed}


def _check_place(experiment: Experiment, journal: Journal, out: Path, resume: bool, force: bool) -> None:
    """Refuse to replace results of an earlier run, unless that is asked for, or they are gone on with."""
    begun = journal.path.stat().st_size > 0
    there = [path for path in _files(experiment, out).values() if path.exists()]
    there = [journal.path, *there] if begun else there
    if force and not resume:
        journal.path.write_bytes(b"")
    elif there and not force and not (resume and begun):
        remedy = "go on with it by --resume" if begun else "its cells are not there to go on with"
        raise FileExistsError(
            f"{there[0]} holds results of an earlier run: {remedy}, replace them with --force, or give another --out."
        )


def _computed(experiment: Experiment, journal: Journal, quick: bool, jobs: int) -> tuple[list[Record], int]:
    """The records of all cells, and how many of them were computed now."""
    done, computed = journal.records(), 0
    while True:
        cells = experiment.plan(quick, [done[k] for k in done])
        todo = [cell for cell in cells if key(cell) not in done]
        if not todo:
            return [done[key(cell)] for cell in cells], computed
        for record in shown(_results(experiment, todo, jobs), experiment.name, len(todo)):
            journal.append(record)
            done[key(record.cell)] = record
            computed += 1


def _results(experiment: Experiment, cells: list[Cell], jobs: int) -> Iterator[Record]:
    """The records of the cells, in the order in which they are done."""
    if jobs == 1:
        return (timed(experiment.name, cell) for cell in cells)
    return in_workers(experiment.name, cells, min(jobs, len(cells)))


def timed(name: str, cell: Cell) -> Record:
    """The record of a cell, with one BLAS thread."""
    from rkhs.experiments.registry import EXPERIMENTS

    with threadpool_limits(1):
        start = perf_counter()
        result = EXPERIMENTS[name].compute(cell)
        return Record(cell, result, round(perf_counter() - start, 3))


def written(experiment: Experiment, records: list[Record], out: Path, quick: bool) -> dict[str, Any]:
    """Write NAME.json, NAME.md and, if matplotlib is there, NAME.png; returns their names."""
    files = _files(experiment, out)
    command = f"rkhs reproduce {experiment.name}{' --quick' if quick else ''}"
    facts: dict[str, Any] = {"experiment": experiment.name, "command": command, "version": rkhs.__version__}
    facts["seconds on one core"] = round(sum(r.seconds for r in records), 1)
    lines = ",\n".join(json.dumps(asdict(record)) for record in records)
    with replacing(files["json"]) as file:
        file.write_text(json.dumps(facts)[:-1] + ', "records": [\n' + lines + "\n]}\n")
    drawn = experiment.draw is not None and _drawn(experiment, records, files["png"])
    head = (
        f"# {experiment.title}\n\n"
        f"`{command}`, rkhs {rkhs.__version__}: {len(records)} cells, {duration(facts['seconds on one core'])} on one "
        "core.\n\n"
    )
    picture = f"![{experiment.title}]({files['png'].name})\n\n" if drawn else ""
    with replacing(files["md"]) as file:
        file.write_text(head + picture + experiment.page(records, out))
    return {"results": str(files["json"]), "page": str(files["md"]), "picture": str(files["png"]) if drawn else None}


def _drawn(experiment: Experiment, records: list[Record], png: Path) -> bool:
    """Draw the picture; say so where matplotlib is missing."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not there: run again with --resume where it is, for the picture.", file=sys.stderr)
        return False
    mpl.use("agg")
    assert experiment.draw is not None
    with replacing(png) as file:
        experiment.draw(records, file)
    return True


def _files(experiment: Experiment, out: Path) -> dict[str, Path]:
    """What a run writes when all cells are done, by suffix."""
    return {suffix: out / f"{experiment.name}.{suffix}" for suffix in ("json", "md", "png")}


def duration(seconds: float) -> str:
    """Seconds as a person would say it.

    Examples
    --------
    >>> duration(42.04), duration(150), duration(9000)
    ('42.0 s', '2.5 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
