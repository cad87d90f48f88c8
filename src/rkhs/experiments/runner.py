"""Compute the cells of an experiment, each once, on several cores; then write results, page and picture.

A cell runs with one BLAS thread: cells are independent, so processes use cores better than threads do.  Computing
needs neither rich nor matplotlib.  Where these are missing, the results are complete all the same, and a run with
`resume` on a machine that has them draws the picture at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import rkhs
from rkhs.experiments.experiment import Cell, Experiment, Record, key
from rkhs.experiments.interrupts import ending
from rkhs.experiments.journal import Journal
from rkhs.experiments.progress import shown


def run(
    experiment: Experiment, out: Path, *, quick: bool = False, jobs: int = 1, resume: bool = False
) -> dict[str, Any]:
    """Run an experiment; results go to files in `out` that are named after it.

    Parameters
    ----------
    experiment : what to run
    out : the folder for NAME.jsonl (a line for each cell), NAME.json (all of it), NAME.md and NAME.png
    quick : a small part of the cells
    jobs : processes
    resume : keep what NAME.jsonl has, and compute the rest

    Returns
    -------
    Facts: the files, how many cells there are, and how many of them were computed now.
    """
    journal = Journal(out / f"{experiment.name}.jsonl")
    if journal.path.exists() and not resume:
        raise FileExistsError(
            f"{journal.path} holds results of an earlier run: go on with it by --resume, or give another --out."
        )
    done, computed = journal.records(), 0
    while True:
        cells = experiment.plan(quick, [done[k] for k in done])
        todo = [cell for cell in cells if key(cell) not in done]
        if not todo:
            break
        for record in shown(_results(experiment, todo, jobs), experiment.name, len(todo)):
            journal.append(record)
            done[key(record.cell)] = record
            computed += 1
    records = [done[key(cell)] for cell in cells]
    return {
        "experiment": experiment.title,
        **written(experiment, records, out, quick),
        "cells": len(records),
        "computed now": computed,
    }


def _results(experiment: Experiment, cells: list[Cell], jobs: int) -> Iterator[Record]:
    """The records of the cells, in the order in which they are done."""
    work: Iterable[Any] = (delayed(_timed)(experiment.name, cell) for cell in cells)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(work)


def _timed(name: str, cell: Cell) -> Record:
    """The record of a cell, with one BLAS thread."""
    from rkhs.experiments.registry import EXPERIMENTS

    with threadpool_limits(1), ending():
        start = perf_counter()
        result = EXPERIMENTS[name].compute(cell)
        return Record(cell, result, round(perf_counter() - start, 3))


def written(experiment: Experiment, records: list[Record], out: Path, quick: bool) -> dict[str, Any]:
    """Write NAME.json, NAME.md and, if matplotlib is there, NAME.png; returns their names."""
    files = {suffix: out / f"{experiment.name}.{suffix}" for suffix in ("json", "md", "png")}
    command = f"rkhs reproduce {experiment.name}{' --quick' if quick else ''}"
    facts: dict[str, Any] = {"experiment": experiment.name, "command": command, "version": rkhs.__version__}
    facts["seconds on one core"] = round(sum(r.seconds for r in records), 1)
    lines = ",\n".join(json.dumps(asdict(record)) for record in records)
    files["json"].write_text(json.dumps(facts)[:-1] + ', "records": [\n' + lines + "\n]}\n")
    drawn = experiment.draw is not None and _drawn(experiment, records, files["png"])
    head = (
        f"# {experiment.title}\n\n"
        f"`{command}`, rkhs {rkhs.__version__}: {len(records)} cells, {duration(facts['seconds on one core'])} on one "
        "core.\n\n"
    )
    picture = f"![{experiment.title}]({files['png'].name})\n\n" if drawn else ""
    files["md"].write_text(head + picture + experiment.page(records, out))
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
    experiment.draw(records, png)
    return True


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
