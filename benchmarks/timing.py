"""Seconds, as minima over interleaved repeats, and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table


def interleaved(
    calls: dict[str, Callable[[], Any]], repeats: int = 5, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """The least seconds of each call, taken in turns so that a busy moment of the model strikes all of them.

    `clock` may be `time.process_time`, the seconds of the processor, where others share the model.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
    return best


def seconds(call: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    """Of one call."""
    start = clock()
    call()
    return clock() - start


def show(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def markdown(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table for a page."""
    lines = [headings, ["---"] * len(headings), *rows]
    return f"**{title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def write(out: Path, name: str, text: str) -> None:
    """Write a page to the folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_text(text)
