"""Parallel computation on NumPy arrays: tiles in threads, with one BLAS thread in each.

NumPy uses several cores for matrix products only; element-wise operations (exp, sums) run on one.  With tiles in
threads both use all cores.  PyTorch parallelizes its operations itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Event, Lock
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array


def cores(array: Array) -> int:
    """Return the number of threads that BLAS is configured to use for a NumPy array; 1 for other arrays."""
    if not isinstance(array, np.ndarray):
        return 1
    with _LOCK:
        return _BEFORE[0] if _BEFORE else _blas_threads()


def in_threads(work: Callable[[Any], None], shares: Sequence[Sequence[Any]]) -> None:
    """Call `work(item)` for all items in order, with one thread for each sequence in `shares`.

    The calling thread works on the first one, and it alone reports progress.  After the first exception, or Ctrl-C, all
    threads stop when they finish their current item; then it is raised.
    """
    stop = Event()

    def run(share: Sequence[Any]) -> None:
        for item in share:
            if stop.is_set():
                return
            work(item)

    with single_blas(), ThreadPoolExecutor(max(len(shares) - 1, 1)) as pool:
        try:
            others = [pool.submit(run, share) for share in shares[1:]]
            run(shares[0])
            for done in others:
                done.result()
        except BaseException:
            stop.set()
            raise


def map_in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield `function(item)` for all items in order, computed on all cores, with one BLAS thread for each.

    The threads inherit time limits and other context variables.  Items that were not begun when the iterator is closed
    are omitted.
    """
    count = cores(np.empty(0))
    if count == 1:
        yield from map(function, items)
        return
    tasks = [(copy_context(), item) for item in items]
    with single_blas(), ThreadPoolExecutor(count) as pool:
        yield from pool.map(lambda task: task[0].run(function, task[1]), tasks)


_LOCK = Lock()
_BEFORE: list[int] = []  # the number of BLAS threads before the limit, once for each caller inside `single_blas`
_LIMITS: list[Any] = []


@contextmanager
def single_blas() -> Iterator[None]:
    """Limit BLAS to one thread within the block; the first caller sets the limit and the last one removes it."""
    with _LOCK:
        if not _BEFORE:
            threads = _blas_threads()
            _LIMITS.append(_controller().limit(limits=1, user_api="blas"))
            _BEFORE.append(threads)
        else:
            _BEFORE.append(_BEFORE[0])
    try:
        yield
    finally:
        with _LOCK:
            _BEFORE.pop()
            if not _BEFORE:
                _LIMITS.pop().restore_original_limits()


def _blas_threads() -> int:
    return max((int(lib.num_threads) for lib in _controller().select(user_api="blas").lib_controllers), default=1)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
