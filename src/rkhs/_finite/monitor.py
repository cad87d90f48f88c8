"""Watching a solver: progress, history, limits, and the best iterate if it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import ceil, inf
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.solution import TIME_LIMIT, Record
from rkhs._gram.matrix import GramOperator
from rkhs._progress import listening, seconds_left

PATIENCE = 2.0  # seconds before progress is shown
MATRIX, FACTOR = "computing the Gram matrix", "factorizing"  # what is shown meanwhile
CHOICE, SUMMING = "choosing functions", "adding up rows"  # the same of an approximation


@cache
def slowness() -> float:
    """Return how many times slower this computer is than the reference, by a product and a table of exponentials."""
    A = np.random.default_rng(0).random((256, 256))
    times = []
    for _ in range(3):
        start = perf_counter()
        np.exp(-(A @ A) / 256)
        np.linalg.cholesky(A @ A.T + 256 * np.eye(256))
        times.append(perf_counter() - start)
    return min(times) / 2.1e-3  # s that this takes on the computer on which costs were measured


class Stopped(Exception):
    """A solver was asked to stop; the message is the status."""


class OutOfIterations(Stopped):
    """A solver came to its own limit."""

    def __init__(self) -> None:
        super().__init__("iteration limit")


@dataclass
class Monitor:
    """Told about each iteration; raises `Stopped` when it is time.

    Solvers call `report` once an iteration, with the best iterate so far, which has all outputs of their system.  Gram
    products count themselves (`watching`), and are not begun where they would end after the time limit.
    """

    tol: float
    time_limit: float | None = None
    callback: Callable[[Record], Any] | None = None
    verbose: bool = False  # print progress to standard error after two seconds
    started: float = field(default_factory=perf_counter)
    work: float = 0.0  # products so far, those of a part of the matrix by their share
    seconds_each: float = 0.0  # of a product, estimated or measured
    best: Iterate | None = None
    solver: str | None = None  # that has taken over from the one that began
    history: list[Record] = field(default_factory=list)
    _display: Any = None

    def __post_init__(self) -> None:
        for name in ("tol", "time_limit"):
            value = getattr(self, name)
            if value is None and name == "time_limit":
                continue
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, got {value!r}.")
            if not 0 <= float(value) < inf:
                raise ValueError(f"{name} must be finite and not negative, got {value!r}.")

    @property
    def seconds(self) -> float:
        return perf_counter() - self.started

    @property
    def products(self) -> int:
        """Gram products so far."""
        return ceil(self.work - 1e-6)

    @property
    def left(self) -> float:
        """Seconds until the time limit, or that of the work around, less what the certificate takes."""
        own = inf if self.time_limit is None else self.time_limit - self.seconds
        # The certificate of what is returned takes two products.
        return min(own, seconds_left()) - 2 * self.seconds_each

    def watching(self, system: FiniteProblem) -> FiniteProblem:
        """The system with products that count themselves and end in time."""
        self.seconds_each = max(self.seconds_each, system.gram.seconds)
        gram: Any = Watched(system.gram, self)
        exact = Watched(system.exact, self) if system.inexact else gram
        return system.with_geometry(gram=gram, exact=exact)

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        """One more iteration: its objective and relative gap (infinity where not known yet).

        Without an iterate the best one stays what it was.
        """
        self.keep(iterate)
        record = Record(len(self.history) + 1, self.products, self.seconds, primal, gap)
        self.history.append(record)
        self._show(record.seconds, self.line(record))
        if self.callback is not None and self.callback(record):
            raise Stopped("stopped by the callback")
        self.check()

    def keep(self, iterate: Iterate | None) -> None:
        """Make an iterate of all outputs the one to return if the solver is stopped; None changes nothing."""
        self.best = self.best if iterate is None else iterate

    def taken_over(self, solver: str) -> None:
        """Another solver goes on."""
        self.solver = solver

    def check(self, ahead: float = 0.0) -> None:
        """Stop where this many seconds more would go beyond the time limit."""
        if self.left < ahead:
            raise Stopped(TIME_LIMIT)

    def afford(self, cost: float) -> None:
        """Stop where work of an estimated cost, in seconds of the reference computer, would go beyond the limit."""
        if self.left < inf:
            self.check(slowness() * cost)

    def tell(self, what: str) -> None:
        """Show how far work is of which nobody knows how long it takes."""
        self._show(self.seconds, f"{what}, {self.seconds:.0f} s")

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        """Show how far work without iterations is; stop it where its next piece would end too late."""
        before: float | None = None

        def told(share: float) -> None:
            nonlocal before
            now = self.seconds
            self._show(now, f"{what}: {share:.0%}, {now:.0f} s")
            self.check(0.0 if before is None else now - before)
            before = now

        with listening(told):
            yield

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()
            self._display = None

    def _show(self, seconds: float, line: str) -> None:
        if not self.verbose or seconds < PATIENCE:
            return
        if self._display is None:
            self._display = _display(line)
            self._display.start()
        self._display.update(line)

    def line(self, record: Record) -> str:
        """What is shown."""
        return (
            f"solving: iteration {record.iteration}, {record.seconds:.0f} s, J = {record.primal:.6g}, "
            f"relative gap {record.gap:.1e} (to {self.tol:.0e})"
        )


class _PlainDisplay:
    """Prints a line every two seconds, where rich, which updates one line in place, is not installed."""

    def __init__(self) -> None:
        self.printed = -inf

    def start(self) -> None:
        pass

    def update(self, line: str) -> None:
        if perf_counter() - self.printed > PATIENCE:
            print(line, file=sys.stderr, flush=True)
            self.printed = perf_counter()

    def stop(self) -> None:
        pass


def _display(line: str) -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return _PlainDisplay()
    return Console(stderr=True).status(line)


def quiet(tol: float, seconds: float = inf) -> Monitor:
    """For a problem inside another, of which nobody hears: it stops after so many seconds."""
    return Monitor(tol, None if seconds == inf else max(seconds, 0.0))


@dataclass
class InnerMonitor(Monitor):
    """Watches a part of a problem for the monitor of the whole.

    `whole` makes the iterate of all of it from one of the part, and J is `above` the objective of the part.
    """

    outer: Monitor = field(default_factory=lambda: Monitor(0.0))
    whole: Callable[[Iterate], Iterate] = lambda iterate: iterate
    above: float = 0.0

    @property
    def left(self) -> float:
        return self.outer.left

    def taken_over(self, solver: str) -> None:
        self.outer.taken_over(solver)

    def keep(self, iterate: Iterate | None) -> None:
        super().keep(iterate)
        self.outer.keep(None if iterate is None else self.whole(iterate))

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        self.keep(iterate)
        self.outer.report(None, primal + self.above, gap)

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        with self.outer.showing(what):
            yield


@dataclass(frozen=True, eq=False)
class Watched:
    """A Gram operator whose products a monitor counts, and does not let begin too late."""

    gram: GramOperator
    monitor: Monitor
    share: float = 1.0  # of the whole matrix

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gram, name)

    def __matmul__(self, v: Array) -> Array:
        monitor = self.monitor
        monitor.check(self.share * monitor.seconds_each)
        start = perf_counter()
        found = self.gram @ v
        if self.share == 1.0:
            seconds = perf_counter() - start
            monitor.seconds_each = max(seconds, monitor.seconds_each) if monitor.work >= 1 else seconds
        monitor.work += self.share
        return found

    def in_double(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        with self.monitor.showing(MATRIX):
            return self.gram.in_double(out)

    def block(self, rows: Any, columns: Any) -> Array:
        self.monitor.check()
        return self.gram.block(rows, columns)

    def part(self, rows: Any, columns: Any) -> Any:
        part = self.gram.part(rows, columns)
        if self.stored:
            return part
        return Watched(part, self.monitor, part.shape[0] * part.shape[1] / (self.shape[0] * self.shape[1]))


def plain(gram: GramOperator) -> GramOperator:
    """The operator without a monitor."""
    return gram.gram if isinstance(gram, Watched) else gram
