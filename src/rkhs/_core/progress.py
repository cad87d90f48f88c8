"""Progress callbacks that may cancel by raising, time limits, and the treatment of Ctrl-C.

A context variable holds the settings of the enclosing block.  Loops call `report_progress` with the completed fraction
of their work, which is passed to the progress callback.  `Problem.solve` treats Ctrl-C as a request to return the best
iterate so far.  An estimator's `fit` and the command line must not do that, because a partial result would be stored
as if it were the solution: they run within `interrupts_raised`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter
from typing import Any

clock: Callable[[], float] = perf_counter  # by which all limits are kept; tests replace it
ProgressCallback = Callable[[float], None]  # called with the completed fraction of the work; may raise to cancel


@dataclass(frozen=True)
class _Settings:
    raises: bool = False  # whether Ctrl-C raises KeyboardInterrupt instead of returning the best iterate
    deadline: float = inf  # in seconds of `now`
    callback: ProgressCallback | None = None


_settings: ContextVar[_Settings] = ContextVar("settings", default=_Settings())  # noqa: B039  (frozen)


def now() -> float:
    """Return the time in seconds of the clock by which limits are kept."""
    return clock()


@contextmanager
def _changed(**changes: Any) -> Iterator[None]:
    token = _settings.set(replace(_settings.get(), **changes))
    try:
        yield
    finally:
        _settings.reset(token)


def progress_callback() -> ProgressCallback | None:
    """Return the progress callback of the enclosing block."""
    return _settings.get().callback


def report_progress(fraction: float) -> None:
    """Pass the completed fraction of the current work to the progress callback, which may raise to cancel.

    Parameters
    ----------
    fraction : float
        Between 0 and 1.

    Examples
    --------
    >>> from rkhs.extend import report_progress, with_progress_callback
    >>> with with_progress_callback(print):
    ...     report_progress(0.5)
    0.5
    """
    callback = _settings.get().callback
    if callback is not None:
        callback(fraction)


def with_progress_callback(callback: ProgressCallback | None) -> AbstractContextManager[None]:
    """Install a progress callback for the block, replacing that of the enclosing block.

    Parameters
    ----------
    callback : callable or None
        It gets the completed fraction of the work, and cancels the work by raising an exception.

    Returns
    -------
    context manager
        It gives nothing to ``with``.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> fractions = []
    >>> with rkhs.extend.with_progress_callback(fractions.append):
    ...     model = rkhs.InvariantRegressor().fit(X, X[:, 0])
    >>> all(0 <= fraction <= 1 for fraction in fractions)
    True
    """
    return _changed(callback=callback)


def subtask(k: int, count: int) -> AbstractContextManager[None]:
    """Report progress in the block as that of part k out of `count` parts of similar duration.

    Examples
    --------
    >>> with with_progress_callback(print), subtask(1, 4):
    ...     report_progress(0.5)
    0.375
    """
    outer = _settings.get().callback
    return _changed(callback=None if outer is None else lambda fraction: outer((k + fraction) / count))


def interrupts_raised() -> AbstractContextManager[None]:
    """Let Ctrl-C raise KeyboardInterrupt in the block: solvers then do not return the best iterate so far.

    Returns
    -------
    context manager
        It gives nothing to ``with``.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0]]), rkhs.Squared(), target=1.0)
    >>> with rkhs.extend.interrupts_raised():  # half of a solution would be useless here
    ...     f = rkhs.Problem(rkhs.Gaussian(), [term]).solve().function
    """
    return _changed(raises=True)


def with_time_limit(seconds: float | None) -> AbstractContextManager[None]:
    """Stop solvers and searches within the block after this many seconds, like their `time_limit`.

    Parameters
    ----------
    seconds : float or None
        The time; None sets no limit.  The limit of an enclosing block holds as well.

    Returns
    -------
    context manager
        It gives nothing to ``with``.

    Examples
    --------
    >>> from rkhs.extend import seconds_left, with_time_limit
    >>> with with_time_limit(60.0):
    ...     59 < seconds_left() <= 60
    True
    """
    deadline = inf if seconds is None else now() + seconds
    return _changed(deadline=min(_settings.get().deadline, deadline))


def with_extended_deadline(seconds: float) -> AbstractContextManager[None]:
    """Allow work in the block at least this many seconds, even if the limits of enclosing blocks have expired.

    Parameters
    ----------
    seconds : float
        The time in seconds.

    Returns
    -------
    context manager
        The block.

    Examples
    --------
    >>> from rkhs.extend import seconds_left, with_extended_deadline, with_time_limit
    >>> with with_time_limit(0.0), with_extended_deadline(5.0):
    ...     seconds_left() > 1
    True
    """
    return _changed(deadline=max(_settings.get().deadline, now() + seconds))


def seconds_left() -> float:
    """Return the time in seconds until the earliest deadline of the enclosing blocks.

    Returns
    -------
    float
        Infinity without a limit; negative after the deadline.

    Examples
    --------
    >>> from rkhs.extend import seconds_left
    >>> seconds_left()
    inf
    """
    return _settings.get().deadline - now()


def interrupted() -> None:
    """Raise a caught KeyboardInterrupt again within `interrupts_raised`."""
    if _settings.get().raises:
        raise KeyboardInterrupt
