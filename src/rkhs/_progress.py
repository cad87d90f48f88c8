"""One clock: how long work may take, how far it is, and what Ctrl-C does.

A context variable holds the clock of the work around.  Loops call `tick` with the share of their work that is done;
whoever listens shows it, and ends the work by an exception.  `Problem.solve` takes Ctrl-C for the wish to go on with
the best iterate so far.  An estimator's `fit` and the command must not, because their numbers would be kept as if they
were those of the solution: such a block of work says so (`interrupts_raised`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter
from typing import Any

Listener = Callable[[float], None]  # called with the share of the work that is done; may raise to cancel


@dataclass(frozen=True)
class _Clock:
    raises: bool = False  # KeyboardInterrupt, in place of a return of the best so far
    deadline: float = inf  # by `perf_counter`
    listener: Listener | None = None


_clock: ContextVar[_Clock] = ContextVar("clock", default=_Clock())  # noqa: B039  (frozen)


@contextmanager
def _changed(**changes: Any) -> Iterator[None]:
    token = _clock.set(replace(_clock.get(), **changes))
    try:
        yield
    finally:
        _clock.reset(token)


def tick(share: float) -> None:
    """Report the share of the current work that is done; whoever listens may raise to end it."""
    listener = _clock.get().listener
    if listener is not None:
        listener(share)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Let a listener hear the ticks of the block, in place of any around it."""
    with _changed(listener=listener):
        yield


@contextmanager
def subtask(k: int, count: int) -> Iterator[None]:
    """Run part k of `count` parts of the current work that take about equally long.

    Examples
    --------
    >>> with listening(print), subtask(1, 4):
    ...     tick(0.5)
    0.375
    """
    outer = _clock.get().listener
    with listening(None if outer is None else lambda share: outer((k + share) / count)):
        yield


@contextmanager
def interrupts_raised() -> Iterator[None]:
    """Let Ctrl-C leave the block as KeyboardInterrupt: solvers in it do not return the best iterate so far."""
    with _changed(raises=True):
        yield


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """End solvers and searches within the block after this many seconds, as a time limit of their own does."""
    deadline = inf if seconds is None else perf_counter() + seconds
    with _changed(deadline=min(_clock.get().deadline, deadline)):
        yield


@contextmanager
def granted(seconds: float) -> Iterator[None]:
    """Let work in the block take this many seconds, even though the limits of blocks around it are over."""
    with _changed(deadline=max(_clock.get().deadline, perf_counter() + seconds)):
        yield


def seconds_left() -> float:
    """Return the seconds that are left of the limits of all blocks around."""
    return _clock.get().deadline - perf_counter()


def interrupted() -> None:
    """Raise a caught Ctrl-C again where nobody could use a part of the result."""
    if _clock.get().raises:
        raise KeyboardInterrupt
