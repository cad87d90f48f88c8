"""All cores for NumPy: parts of a computation in threads, with one thread of BLAS in each.

NumPy uses several cores in matrix products only; what is done to each number (exp, sums, ..) runs on one.  Tiles in
threads use all cores for both.  PyTorch shares out its own work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Event, Lock
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array


def cores(array: Array) -> int:
    """Return the threads that BLAS may use for a NumPy array, by its own settings; 1 for other arrays."""
    if not isinstance(array, np.ndarray):
        return 1
    with _LOCK:
        return _BEFORE[0] if _BEFORE else _blas_threads()


def in_threads(work: Callable[[Any], None], shares: Sequence[Sequence[Any]]) -> None:
    """Call `work(item)` for all items, each share in a thread of its own, in order.

    The first error, or Ctrl-C, ends all of them after the item they are at, and is raised.
    """
    stop = Event()

    def run(share: Sequence[Any]) -> None:
        for item in share:
            if stop.is_set():
                return
            work(item)

    with single_blas(), ThreadPoolExecutor(len(shares)) as pool:
        try:
            for done in [pool.submit(run, share) for share in shares]:
                done.result()
        except BaseException:
            stop.set()
            raise


_LOCK = Lock()
_BEFORE: list[int] = []  # what BLAS was allowed before, once for each thread that is inside
_LIMITS: list[Any] = []


@contextmanager
def single_blas() -> Iterator[None]:
    """One thread of BLAS; the first to come in limits it, and the last to leave undoes that."""
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
