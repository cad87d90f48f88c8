"""What Ctrl-C does, and how long work may take.

`Problem.solve` takes Ctrl-C for the wish to go on with the best function so far.  An estimator's `fit`, the command and
the cells of an experiment must not: their numbers would be kept as if they were the solution's.  So a block of work
says whether Ctrl-C is raised in it (`interrupts_raised`), and until when it has to end (`limited`).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter
from typing import Any

from rkhs.writing import abandon

RESTORED = b"\r\x1b[K\x1b[?25h"  # the line empty, the cursor visible


_workers: set[subprocess.Popen[bytes]] = set()


@contextmanager
def ended_when_asked() -> Iterator[None]:
    """Let Ctrl-C, and a request to terminate, end this process and its workers: exit status 130, or 143, and one line.

    It ends at once, not by an exception, which could be caught or lost on its way up.  Files are whole or not there,
    because `rkhs.writing` writes them.  Behind the block the work is done and the process about to end: it is let.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: Any) -> None:
    try:
        abandon()
        for worker in list(_workers):
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        os.write(2, (RESTORED if os.isatty(2) else b"") + b"Stopped.\n")
    finally:
        os._exit(128 + number)


@contextmanager
def ended_with(workers: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Let processes end with the block, however that ends."""
    _workers.update(workers)
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
        _workers.difference_update(workers)


@dataclass(frozen=True)
class _Clock:
    """What the work of a block has to keep to."""

    raises: bool = False  # Ctrl-C, in place of a return of the best so far
    deadline: float = inf  # by `perf_counter`


_UNLIMITED = _Clock()
_clock: ContextVar[_Clock] = ContextVar("clock", default=_UNLIMITED)


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Let Ctrl-C leave the block as KeyboardInterrupt: solvers in it do not return the best function so far."""
    token = _clock.set(replace(_clock.get(), raises=True))
    try:
        yield
    finally:
        _clock.reset(token)


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """End solvers and searches within the block after so many seconds, as a time limit of their own does."""
    deadline = inf if seconds is None else perf_counter() + seconds
    token = _clock.set(replace(_clock.get(), deadline=min(_clock.get().deadline, deadline)))
    try:
        yield
    finally:
        _clock.reset(token)


@contextmanager
def granted(seconds: float) -> Iterator[None]:
    """Let work in the block take so many seconds, though the limits of blocks around are over."""
    token = _clock.set(replace(_clock.get(), deadline=max(_clock.get().deadline, perf_counter() + seconds)))
    try:
        yield
    finally:
        _clock.reset(token)


def seconds_left() -> float:
    """Return how many seconds are left of the limits of all blocks around."""
    return _clock.get().deadline - perf_counter()


def interrupted() -> None:
    """Tell that Ctrl-C was caught: it is raised again where nobody could use a part of the result."""
    if _clock.get().raises:
        raise KeyboardInterrupt
