"""A progress bar on the standard error of a terminal, where rich is there; a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")
PAUSE = 60.0  # seconds between lines


def shown(results: Iterable[T], name: str, total: int) -> Iterator[T]:
    """The results as they come, their number shown."""
    if not sys.stderr.isatty():
        yield from _as_lines(results, name, total)
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield from _as_lines(results, name, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total)
        for result in results:
            yield result
            bar.advance(task)


def _as_lines(results: Iterable[T], name: str, total: int) -> Iterator[T]:
    start = last = perf_counter()
    for count, result in enumerate(results, 1):
        yield result
        if perf_counter() - last > PAUSE:
            last = perf_counter()
            print(f"{name}: {count} of {total} cells, {last - start:.0f} s", file=sys.stderr, flush=True)
