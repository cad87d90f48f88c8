"""Monitoring of solvers: progress, history, limits, and the best iterate to return if a solver is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from math import ceil, inf
from threading import Event, Lock, Thread
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, check_number
from rkhs._core.backend.memory import on_cpu
from rkhs._core.finite.certificate import Status
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.finite.solution import ABSOLUTE, TIME_LIMIT, Record
from rkhs._core.gram.matrix import GramOperator
from rkhs._core.progress import ProgressCallback, now, progress_callback, seconds_left, with_progress_callback

PATIENCE = 1.0  # seconds before progress is displayed
INTERVAL = 2.0  # seconds between two printed lines
MATRIX, FACTOR = "computing the Gram matrix", "factorizing"  # progress messages of solvers
CHOICE, SUMMING, SOLVING = "choosing functions", "adding up rows", "solving equations"  # those of approximations


@cache
def slowness() -> float:
    """Return the ratio of the speeds of the reference computer and this one, by timing exp, a product and Cholesky."""
    A = np.random.default_rng(0).random((256, 256))
    times = []
    for _ in range(3):
        start = thread_time()  # not that of other processes
        np.exp(-(A @ A) / 256)
        np.linalg.cholesky(A @ A.T + 256 * np.eye(256))
        times.append(thread_time() - start)
    return min(times) / 2.1e-3  # seconds on the reference computer, on which costs of solvers were measured


class Stopped(Exception):
    """Raised to stop a solver before it has converged.

    The status of the solution is `status`, that of the message, or "stopped by the solver" for other messages.

    Examples
    --------
    >>> from rkhs.extend import Monitor, Stopped
    >>> try:
    ...     Monitor(tol=1e-4, time_limit=0.0).check()
    ... except Stopped as reason:
    ...     print(reason.status)
    time limit
    """

    @property
    def status(self) -> Status:
        return Status(str(self)) if str(self) in list(Status) else Status.SOLVER


class OutOfIterations(Stopped):
    """Raised by a solver that has reached its iteration limit.

    Examples
    --------
    >>> from rkhs.extend import OutOfIterations
    >>> print(OutOfIterations())
    iteration limit
    """

    def __init__(self) -> None:
        super().__init__(Status.ITERATION_LIMIT)


@dataclass(frozen=True)
class Step:
    """What a solver yields after an iteration.

    Parameters
    ----------
    iterate : Iterate, callable, or None
        The best iterate so far for all outputs, or a function that returns it and is called if the solver is stopped;
        None if it is still the one of an earlier step.
    primal : float
        The objective.
    gap : float
        The relative duality gap; infinity if it is not known yet.

    Examples
    --------
    >>> from rkhs.extend import Step
    >>> Step(None, primal=2.0, gap=0.5).gap
    0.5
    """

    iterate: Iterate | Callable[[], Iterate] | None
    primal: float
    gap: float


Steps = Generator[Step, None, Iterate]  # the iterations of a solver, and its result


def mapped(steps: Steps, whole: Callable[[Iterate], Iterate], above: float = 0.0) -> Steps:
    """Yield the steps of a subproblem as those of the problem, whose objective is larger by the constant `above`.

    `whole` maps an iterate of the subproblem to one of the problem; the result is that of the subproblem.
    """
    try:
        while True:
            step = next(steps)
            iterate = None if step.iterate is None else partial(_mapped, whole, step.iterate)
            yield Step(iterate, step.primal + above, step.gap)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def _mapped(whole: Callable[[Iterate], Iterate], iterate: Iterate | Callable[[], Iterate]) -> Iterate:
    return whole(iterate() if callable(iterate) else iterate)


@dataclass
class Monitor:
    """The driver of solvers: it takes their steps, records them, and stops if a limit is reached.

    Gram products are counted by the operators of `monitored`, and raise `Stopped` if they would end after the time
    limit.

    Parameters
    ----------
    tol : float
        The relative duality gap to reach.
    time_limit : float, optional
        The time limit in seconds.
    callback : callable, optional
        A function that is called with the `Record` of each iteration; a true result stops the solver.
    verbose : bool, default=False
        Whether to display progress on standard error after a second.
    atol : float, default=0.0
        A duality gap, not relative to J, at which a solver may stop as well.

    Attributes
    ----------
    best : Iterate or None
        The iterate to return if the solver is stopped.
    history : list of Record
        The records of all iterations.
    work : float
        The number of Gram products; products with a part of the matrix count as a fraction.
    seconds_each : float
        The time of a Gram product in seconds, estimated or measured.
    solver : str or None
        The name of the solver that takes the steps of a race.

    Examples
    --------
    >>> from rkhs.extend import Monitor
    >>> monitor = Monitor(tol=1e-4)
    >>> monitor.report(None, primal=2.0, gap=0.5)
    >>> monitor.history[0].iteration, monitor.history[0].gap
    (1, 0.5)
    """

    tol: float
    time_limit: float | None = None
    callback: Callable[[Record], Any] | None = None
    verbose: bool = False
    atol: float = 0.0
    started: float = field(default_factory=now)
    work: float = 0.0
    seconds_each: float = 0.0
    solver: str | None = None
    history: list[Record] = field(default_factory=list)
    _best: Iterate | Callable[[], Iterate] | None = None
    _display: Any = None
    _blocks: int = 0  # the number of blocks of `showing` that are entered
    _enclosing: ProgressCallback | None = None

    def __post_init__(self) -> None:
        for name in ("tol", "atol"):
            check_number(getattr(self, name), name, or_zero=True)
        if self.time_limit is not None:
            check_number(self.time_limit, "time_limit", or_zero=True)

    @property
    def best(self) -> Iterate | None:
        if callable(self._best):
            try:
                self._best = self._best()
            except Stopped:  # it takes products, for which there is no time left
                self._best = None
        return self._best

    @best.setter
    def best(self, iterate: Iterate | Callable[[], Iterate] | None) -> None:
        self._best = iterate

    @property
    def seconds(self) -> float:
        """The time in seconds since the monitor was created."""
        return now() - self.started

    @property
    def products(self) -> int:
        """The number of Gram products so far, rounded up."""
        return ceil(self.work - 1e-6)

    @property
    def left(self) -> float:
        """The time in seconds until the limits of this monitor and of enclosing blocks, minus that of a certificate."""
        remaining = inf if self.time_limit is None else self.time_limit - self.seconds
        # The certificate of the returned iterate takes two products.
        return min(remaining, seconds_left()) - 2 * self.seconds_each

    def monitored(self, system: FiniteProblem) -> FiniteProblem:
        """Return the problem with Gram products that this monitor counts and limits.

        Parameters
        ----------
        system : FiniteProblem
            The problem.

        Returns
        -------
        FiniteProblem
            The same problem with monitored products.
        """
        # an estimate, until the first product is measured; there is none on an accelerator
        self.seconds_each = max(self.seconds_each, system.gram.core_seconds if on_cpu(system.Q) else 0.0)
        gram: Any = MonitoredGram(system.gram, self)
        exact = MonitoredGram(system.exact, self) if system.inexact else gram
        return system.with_geometry(gram=gram, exact=exact)

    def follow(self, steps: Steps) -> Iterate:
        """Take and record all steps of a solver, unless the callback or a limit stops it.

        Parameters
        ----------
        steps : generator
            The iterations of a solver (`Solver.steps`).

        Returns
        -------
        Iterate
            The result of the solver; if it raises an exception instead, `best` is the best iterate.
        """
        try:
            while True:
                step = next(steps)
                self.report(step.iterate, step.primal, step.gap)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def report(self, iterate: Iterate | Callable[[], Iterate] | None, primal: float, gap: float) -> None:
        """Record an iteration; raise `Stopped` if the callback or a limit requires it.

        Parameters
        ----------
        iterate : Iterate, callable, or None
            The best iterate so far, or a function that returns it; None keeps the previous one.
        primal : float
            The objective.
        gap : float
            The relative duality gap; infinity if it is not known yet.
        """
        self.best = self._best if iterate is None else iterate
        record = Record(len(self.history) + 1, self.products, self.seconds, primal, gap, self.solver)
        self.history.append(record)
        self._show(record.seconds, self.line(record))
        if self.callback is not None and self.callback(record):
            raise Stopped(Status.CALLBACK)
        if 0 < gap * abs(primal) <= self.atol and gap > self.tol:
            raise Stopped(ABSOLUTE)
        self.check()

    def check(self, ahead: float = 0.0) -> None:
        """Raise `Stopped` if work of a given duration would exceed the time limit.

        Parameters
        ----------
        ahead : float, default=0.0
            The duration in seconds.
        """
        if self.left < ahead:
            raise Stopped(TIME_LIMIT)

    def afford(self, cost: float) -> None:
        """Raise `Stopped` if work of an estimated cost would exceed the time limit.

        Parameters
        ----------
        cost : float
            The cost in seconds of the reference computer.
        """
        if self.left < inf:
            self.check(slowness() * cost)

    def tell(self, what: str) -> None:
        """Display a message for work of unknown duration.

        Parameters
        ----------
        what : str
            The message.
        """
        self._show(self.seconds, f"{what}, {self.seconds:.0f} s")

    @contextmanager
    def showing(self, what: str) -> Iterator[None]:
        """Display the progress of the block, and raise `Stopped` if its next part would exceed the time limit.

        A monitor that is not verbose passes the progress on to the callback of the enclosing block.

        Parameters
        ----------
        what : str
            The message to display.
        """
        before: float | None = None
        if not self._blocks:
            self._enclosing = None if self.verbose else progress_callback()
        enclosing = self._enclosing  # that of the outermost block of this monitor, which would otherwise display twice

        def progress(fraction: float) -> None:
            nonlocal before
            elapsed = self.seconds
            self._show(elapsed, f"{what}: {fraction:.0%}, {elapsed:.0f} s")
            self.check(0.0 if before is None else elapsed - before)
            before = elapsed
            if enclosing is not None:
                enclosing(fraction)

        self._blocks += 1
        try:
            with with_progress_callback(progress):
                yield
        finally:
            self._blocks -= 1
            if not self._blocks:
                self._enclosing = None  # it cannot be pickled

    def close(self) -> None:
        """Remove the display."""
        if self._display is not None:
            self._display.stop()
            self._display = None

    def _show(self, seconds: float, line: str) -> None:
        if not self.verbose:
            return
        work = _work.get()
        if work is not None:
            work.show(line)
            return
        if seconds < PATIENCE:
            return
        if self._display is None:
            self._display = _display(line)
        self._display.update(line)

    def line(self, record: Record) -> str:
        """Return the message that is displayed for an iteration.

        Parameters
        ----------
        record : Record
            The iteration.

        Returns
        -------
        str
            The message.
        """
        return (
            f"solving: iteration {record.iteration}, {record.seconds:.0f} s, J = {record.primal:.6g}, "
            f"relative gap {record.gap:.1e} (to {self.tol:.0e})"
        )


class _PlainDisplay:
    """A display that prints a line every two seconds, used if rich is not installed."""

    def __init__(self) -> None:
        self.printed = -inf

    def update(self, line: str) -> None:
        if now() - self.printed > INTERVAL:
            print(line, file=sys.stderr, flush=True)
            self.printed = now()

    def stop(self) -> None:
        pass


class _LineDisplay:
    """A line of a terminal, next to a spinner."""

    def __init__(self, line: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        self.spinner = Spinner("dots", text=line)
        self.live = Live(self.spinner, console=Console(stderr=True), refresh_per_second=12.5, transient=True)
        self.live.start()

    def update(self, line: str) -> None:
        self.spinner.update(text=line)
        self.live.refresh()

    def stop(self) -> None:
        self.live.stop()


def _display(line: str) -> Any:
    """Start a display of the first line."""
    try:
        return _LineDisplay(line)
    except ImportError:
        return _PlainDisplay()


class _Work:
    """The display of a piece of work with many parts, which starts after a second, however short its parts are.

    It shows the lines of monitors, and the time while none of them reports.
    """

    def __init__(self, what: str) -> None:
        self.what, self.started, self.lock, self.ended = what, perf_counter(), Lock(), Event()
        self.display: Any = None
        self.shown = False  # whether a monitor has reported since the last look
        self.thread = Thread(target=self._watch, daemon=True)
        self.thread.start()

    def show(self, line: str) -> None:
        """Display a line if the work has taken a second."""
        with self.lock:
            self.shown = True
            if perf_counter() - self.started < PATIENCE:
                return
            if self.display is None:
                self.display = _display(line)
            self.display.update(line)

    def _watch(self) -> None:
        wait = PATIENCE
        while not self.ended.wait(wait):
            if not self.shown:
                self.show(f"{self.what}, {perf_counter() - self.started:.0f} s")
            self.shown, wait = False, INTERVAL

    def close(self) -> None:
        self.ended.set()
        self.thread.join()
        if self.display is not None:
            self.display.stop()


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


@contextmanager
def displayed(what: str, verbose: bool) -> Iterator[None]:
    """Display the progress of all verbose monitors within the block in one place, if it is `verbose` itself.

    Parameters
    ----------
    what : str
        The message to display while no monitor reports.
    verbose : bool
        Whether to display anything.
    """
    if not verbose or _work.get() is not None:
        yield
        return
    work = _Work(what)
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)
        work.close()


@dataclass(frozen=True, eq=False)
class MonitoredGram:
    """A Gram operator whose products a monitor counts, and stops if they would exceed the time limit."""

    gram: GramOperator
    monitor: Monitor
    share: float = 1.0  # the fraction of the entries of the full matrix

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gram, name)

    def __matmul__(self, v: Array) -> Array:
        monitor = self.monitor
        monitor.check(self.share * monitor.seconds_each)
        start = now()
        product = self.gram @ v
        if self.share == 1.0:
            seconds = now() - start
            monitor.seconds_each = max(seconds, monitor.seconds_each) if monitor.work >= 1 else seconds
        monitor.work += self.share
        return product

    def in_double(self, out: Array | None = None) -> Array:
        with self.monitor.showing(MATRIX):
            return self.gram.in_double(out)

    def block(self, rows: Any, columns: Any) -> Array:
        self.monitor.check()
        return self.gram.block(rows, columns)

    def part(self, rows: Any, columns: Any) -> Any:
        part = self.gram.part(rows, columns)
        if self.stored:
            return part
        return MonitoredGram(part, self.monitor, part.shape[0] * part.shape[1] / (self.shape[0] * self.shape[1]))


def plain(gram: GramOperator) -> GramOperator:
    """Return the operator without its monitor."""
    return gram.gram if isinstance(gram, MonitoredGram) else gram
