"""Watching a solver: progress, history, limits, and the best iterate if it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from rkhs.finite.solution import Record
from rkhs.finite.system import Iterate

PATIENCE = 2.0  # seconds before progress is shown


class Stopped(Exception):
    """A solver was asked to stop; the message is the status."""


class OutOfIterations(Stopped):
    """A solver came to its own limit."""

    def __init__(self) -> None:
        super().__init__("iteration limit")


@dataclass
class Monitor:
    """Told about each iteration; raises `Stopped` when it is time.

    Solvers call `product` for each Gram product and `report` once an iteration, with an iterate that is the best
    so far.
    """

    tol: float
    time_limit: float | None = None
    callback: Callable[[Record], Any] | None = None
    verbose: bool | None = None  # None: show progress after two seconds, on a terminal
    started: float = field(default_factory=perf_counter)
    products: int = 0
    best: Iterate | None = None
    history: list[Record] = field(default_factory=list)
    _display: Any = None

    @property
    def seconds(self) -> float:
        return perf_counter() - self.started

    def product(self, count: int = 1) -> None:
        self.products += count

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        """One more iteration: its objective and relative gap (infinity where not known yet).

        Without an iterate there is progress to show, and nothing to return if it is stopped.
        """
        self.best = iterate
        record = Record(len(self.history) + 1, self.products, self.seconds, primal, gap)
        self.history.append(record)
        self._show(record)
        if self.callback is not None and self.callback(record):
            raise Stopped("stopped by the callback")
        if self.time_limit is not None and record.seconds > self.time_limit:
            raise Stopped("time limit")

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()
            self._display = None

    def _show(self, record: Record) -> None:
        wanted = self.verbose if self.verbose is not None else sys.stderr.isatty()
        if not wanted or record.seconds < PATIENCE:
            return
        if self._display is None:
            try:
                from rich.console import Console
            except ImportError:  # progress is a courtesy of the extra `cli`
                self.verbose = False
                return
            self._display = Console(stderr=True).status("solving")
            self._display.start()
        known = "" if self.best is None else "; Ctrl-C returns the best so far"
        self._display.update(
            f"solving: iteration {record.iteration}, {record.seconds:.0f} s, J = {record.primal:.6g}, "
            f"relative gap {record.gap:.1e} (to {self.tol:.0e}){known}"
        )
