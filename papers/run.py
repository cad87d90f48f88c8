"""Compute the cells of an experiment, each once, on several cores; then write the results, the page and the picture.

`joblib.Parallel` runs the cells and `joblib.Memory` keeps each result when it is computed, so that a run that was
killed loses the cells in flight only.  A cell runs with one BLAS thread: cells are independent, so processes use cores
better than threads do.  Neither rich nor matplotlib is needed.  Where matplotlib is missing, the results are complete
all the same, and a run with `resume` on a computer that has it draws the picture.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

import rkhs
from papers.choice_rules import CHOICE_RULES
from papers.digits import DIGITS
from papers.experiment import Cell, Experiment, Record, Result
from papers.few_labels import TABLE1, TABLE1_ROWS
from papers.lapsvm import LAPSVM
from papers.local_average import LOCAL_AVERAGE
from papers.theorems import THEOREMS
from papers.thin_plate import THIN_PLATE
from papers.two_moons import TWO_MOONS, TWO_MOONS_2006
from papers.usps import USPS
from rkhs._core.progress import interrupts_raised
from rkhs.extend import replacing

_ALL = (
    TWO_MOONS,
    TWO_MOONS_2006,
    TABLE1,
    TABLE1_ROWS,
    LAPSVM,
    CHOICE_RULES,
    DIGITS,
    THIN_PLATE,
    USPS,
    LOCAL_AVERAGE,
    THEOREMS,
)
# joblib's tracker warns of semaphores that a run which is stopped leaves to it, and then removes them.
_QUIET = "ignore::UserWarning:joblib.externals.loky.backend.resource_tracker"
Outcome = tuple[
    Cell, Result, float
]  # with the seconds that it took; plain values, so that a cache outlives this module
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def experiment_of(name: str) -> Experiment:
    """Return the experiment of that name; an unknown name raises an error that lists them."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def run(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    resume: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Run an experiment and write its results to files in `out` that are named after it.

    Parameters
    ----------
    experiment : what to run
    out : the folder for NAME.cache (results of cells), NAME.json (all of them), NAME.md and NAME.png
    quick : compute a small part of the cells
    jobs : number of processes
    resume : keep the results in NAME.cache and compute the rest
    force : replace the files of an earlier run

    Returns
    -------
    A summary: the files, how many cells there are, and how many of them were computed now.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    cache = out / f"{experiment.name}.cache"
    _check_earlier_results(experiment, cache, out, resume, force)
    compute = joblib.Memory(cache, verbose=0).cache(compute_cell)
    records: dict[str, Record] = {}
    computed = 0
    while new := [c for c in experiment.plan(quick, list(records.values())) if json.dumps(c) not in records]:
        done = {json.dumps(c): compute.check_call_in_cache(experiment.name, c) for c in new}
        cached = (compute(experiment.name, c) for c in new if done[json.dumps(c)])
        todo = [c for c in new if not done[json.dumps(c)]]
        with interrupts_raised(), _results(compute, experiment.name, todo, jobs) as results:
            for cell, result, seconds in chain(cached, _with_progress(results, experiment.name, len(todo))):
                records[json.dumps(cell)] = Record(cell, result, seconds)
        computed += len(todo)
    planned = [records[json.dumps(c)] for c in experiment.plan(quick, list(records.values()))]
    files = _write_files(experiment, planned, out, quick)
    return {"experiment": experiment.title, **files, "cells": len(planned), "computed now": computed}


def compute_cell(name: str, cell: Cell) -> Outcome:
    """Compute one cell of an experiment with one BLAS thread; return the cell, its result and the seconds it took."""
    with threadpool_limits(1):
        start = perf_counter()
        result = EXPERIMENTS[name].compute(cell)
        return cell, result, round(perf_counter() - start, 3)


def _check_earlier_results(experiment: Experiment, cache: Path, out: Path, resume: bool, force: bool) -> None:
    """Refuse to replace the results of an earlier run, unless the run replaces or resumes it."""
    begun = any(cache.rglob("output.pkl"))
    there = [cache] * begun + [path for path in _files(experiment, out).values() if path.exists()]
    if force and not resume:
        shutil.rmtree(cache, ignore_errors=True)
    elif there and not force and not (resume and begun):
        remedy = "continue it with --resume" if begun else "its cells are not there to continue with"
        raise FileExistsError(
            f"{there[0]} holds results of an earlier run: {remedy}, replace them with --force, or give another --out."
        )


@contextmanager
def _results(compute: Any, name: str, cells: list[Cell], jobs: int) -> Iterator[Iterable[Outcome]]:
    """Provide an iterator over the outcomes of cells, in the order in which they are computed.

    Ctrl-C or SIGTERM first end the worker processes, and then do what they did before.
    """
    if jobs == 1 or not cells:
        yield (compute(name, cell) for cell in cells)
        return
    received: list[int] = []

    def stop(number: int, _: Any) -> None:
        for other in handlers:
            signal.signal(other, signal.SIG_IGN)
        warnings.simplefilter("ignore")  # joblib warns of results that nobody took
        received.append(number)
        raise KeyboardInterrupt  # on which joblib ends its workers

    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _QUIET)))
    handlers: dict[int, Any] = {  # workers inherit that Ctrl-C is ignored: it is for this process
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: received.append(number)),
    }
    try:
        parallel = joblib.Parallel(min(jobs, len(cells)), return_as="generator_unordered")
        tasks = (joblib.delayed(compute)(name, cell) for cell in cells)
        with warnings.catch_warnings(), closing(parallel(tasks)) as results:
            for number in handlers:
                signal.signal(number, stop)
            if received:
                raise KeyboardInterrupt
            yield results
    except KeyboardInterrupt:
        if not received:
            raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])
        raise KeyboardInterrupt


def _with_progress(results: Iterable[Outcome], name: str, total: int) -> Iterator[Outcome]:
    """Yield the results and show how many there are: a bar on a terminal if rich is installed, else a line a minute."""
    if total and sys.stderr.isatty() and find_spec("rich"):
        from rich.console import Console
        from rich.progress import track

        yield from track(results, name, total=total, console=Console(stderr=True))
        return
    start = last = perf_counter()
    for count, result in enumerate(results, 1):
        yield result
        if perf_counter() - last > 60:  # seconds
            last = perf_counter()
            print(f"{name}: {count} of {total} cells, {last - start:.0f} s", file=sys.stderr, flush=True)


def _files(experiment: Experiment, out: Path) -> dict[str, Path]:
    """Return the files that a run writes when all cells are computed, by suffix."""
    return {suffix: out / f"{experiment.name}.{suffix}" for suffix in ("json", "md", "png")}


def _write_files(experiment: Experiment, records: list[Record], out: Path, quick: bool) -> dict[str, Any]:
    """Write NAME.json, NAME.md and, if matplotlib is installed, NAME.png; return their names."""
    files = _files(experiment, out)
    command = f"rkhs reproduce {experiment.name}{' --quick' if quick else ''}"
    seconds = round(sum(r.seconds for r in records), 1)
    facts = {"experiment": experiment.name, "command": command, "version": rkhs.__version__}
    lines = ",\n".join(json.dumps(asdict(record)) for record in records)
    with replacing(files["json"]) as file:
        file.write_text(json.dumps(facts | {"seconds on one core": seconds})[:-1] + f', "records": [\n{lines}\n]}}\n')
    drawn = experiment.draw is not None
    if experiment.draw is not None:
        try:
            figure = experiment.draw(records)
            with replacing(files["png"]) as file:
                figure.savefig(file)
        except ModuleNotFoundError:
            drawn = False
            print("matplotlib is not installed: run again with --resume where it is, for the picture.", file=sys.stderr)
    took = (
        f"{seconds:.1f} s"
        if seconds < 120
        else f"{seconds / 60:.1f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )
    head = (
        f"# {experiment.title}\n\n`{command}`, rkhs {rkhs.__version__}: {len(records)} cells, {took} on one core.\n\n"
    )
    picture = f"![{experiment.title}]({files['png'].name})\n\n" if drawn else ""
    with replacing(files["md"]) as file:
        file.write_text(head + picture + experiment.page(records, out))
    return {"results": str(files["json"]), "page": str(files["md"]), "picture": str(files["png"]) if drawn else None}
