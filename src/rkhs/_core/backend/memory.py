"""Memory budgets, and tiles that keep a computation within them.

A tile is a pair of slices of rows and columns.  It exceeds neither the budget nor the processor's cache: element-wise
operations on a cached tile cost a fraction of the matrix products, on a matrix in main memory as much as they do.

Parallel computation on NumPy arrays: tiles in threads, with one BLAS thread in each.

NumPy uses several cores for matrix products only; element-wise operations (exp, sums) run on one.  With tiles in
threads both use all cores.  PyTorch parallelizes its operations itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from math import inf
from pathlib import Path
from threading import Event, Lock
from time import perf_counter
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_array

from rkhs._core.backend.arrays import Array, check_number
from rkhs._core.limits import limits

DEVICE_ENTRIES = 2**26  # entries of a tile on an accelerator, enough to occupy all of it
GROUP = Path("/sys/fs/cgroup")  # limits of the container (control groups, version 2)

# glibc returns free memory beyond twice the largest block that was ever freed (up to 32 MiB) to the system, and gets it
# back page by page, which takes a tenth to a third of the time of a product.  Freeing one such block raises the limit
# (M_TRIM_THRESHOLD in mallopt(3)); its pages are never touched.
np.empty(2**25 - 2**16, dtype=np.uint8)


def free_memory(array: Array) -> int:
    """Return the free memory on the device of an array.

    Parameters
    ----------
    array : array
        An array.

    Returns
    -------
    int
        The memory in bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import free_memory
    >>> free_memory(np.zeros(0)) > 0
    True
    """
    if is_torch_array(array) and device(array).type == "cuda":
        import torch

        where = device(array)
        cached = torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)  # PyTorch returns it if needed
        return int(torch.cuda.mem_get_info(where)[0]) + cached
    return free_main_memory()


def out_of_memory() -> tuple[type[BaseException], ...]:
    """Return the exceptions that an accelerator raises when it runs out of memory."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.cuda.OutOfMemoryError,)


def release_memory() -> None:
    """Return the unused memory in PyTorch's cache to the accelerator."""
    sys.modules["torch"].cuda.empty_cache()


def budget_bytes(memory: float | None, array: Array) -> int:
    """Return the memory budget in bytes: `memory` if given, otherwise a quarter of the free memory."""
    if memory is None:
        return free_memory(array) // 4
    return int(check_number(memory, "memory, in bytes,"))


def check_tables(rows: int, tables: int, array: Array, name: str, remedy: str) -> None:
    """Raise MemoryError if `tables` square matrices with this many rows do not fit in the free memory.

    Examples
    --------
    >>> check_tables(10**7, 1, np.zeros(0), "Covariances", "ask for deviations")
    Traceback (most recent call last):
    ...
    MemoryError: Covariances at 10,000,000 points take 800,000 GB of memory, more than is free: ask for deviations.
    """
    needed = tables * array.dtype.itemsize * rows**2
    if needed > free_memory(array):
        raise MemoryError(
            f"{name} at {rows:,} points take {needed / 1e9:,.0f} GB of memory, more than is free: {remedy}."
        )


def tile_entries(budget: int, array: Array, copies: int = 8) -> int:
    """Return the number of entries per tile if `copies` arrays of its size (8 for kernels) exist at once."""
    return max(
        1, min(budget // (copies * array.dtype.itemsize), limits().tile_entries if on_cpu(array) else DEVICE_ENTRIES)
    )


@cache
def _flop_seconds(name: str) -> float:
    """Return the seconds per operation of a product of square matrices in float64 on a device of PyTorch."""
    import torch

    A, seconds = torch.zeros((2048, 2048), dtype=torch.float64, device=name), inf
    for _ in range(3):  # the first one loads libraries
        start = perf_counter()
        float((A @ A)[0, 0])  # waits for the product
        seconds = min(seconds, perf_counter() - start)
    return seconds / (2 * 2048**3)


def flop_seconds(array: Array) -> float:
    """Return the seconds per operation of dense algebra in float64 on the accelerator of an array, measured once."""
    return _flop_seconds(str(device(array)))


def on_cpu(array: Array) -> bool:
    return not is_torch_array(array) or bool(device(array).type == "cpu")


def tiles(rows: int, columns: int, entries: int) -> Iterator[tuple[slice, slice]]:
    """Yield roughly square tiles of at most `entries` that cover rows x columns, row by row.

    Rows and columns of a square matrix are cut at the same indices, so that tile (j, i) is the transpose of (i, j).
    """
    side = max(1, int(entries**0.5))

    def cuts(length: int, most: int) -> list[slice]:
        """Cut a length into as few equal parts as possible; long ones at multiples of 64, which suits tensor cores."""
        unit = 64 if most >= 2**12 else 1
        parts = -(-length // (most // unit * unit))
        size = -(-length // (max(parts, 1) * unit)) * unit or 1
        return [slice(start, min(start + size, length)) for start in range(0, length, size)]

    across = cuts(columns, max(side, entries // max(rows, 1)))
    for i in cuts(rows, max(side, entries // max(columns, 1))):
        for j in across:
            yield i, j


def free_main_memory() -> int:
    """Return the bytes of main memory that this process can allocate, within `ulimit -v` and a container's limit."""
    page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    left = []
    try:
        with open("/proc/meminfo") as lines:
            left += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    except OSError:
        with suppress(OSError, ValueError):  # systems whose sysconf does not know the number
            left += [os.sysconf("SC_AVPHYS_PAGES") * page] if page else []
    with suppress(OSError, ValueError, ImportError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            left.append(limit - int(Path("/proc/self/statm").read_text().split()[0]) * page)
    with suppress(OSError, ValueError):  # without a limit the file contains "max", which is not a number
        left.append(int((GROUP / "memory.max").read_text()) - int((GROUP / "memory.current").read_text()))
    return max(0, min(left, default=2**32))  # assume 4 GiB if the system provides no number


def cores(array: Array) -> int:
    """Return the number of threads that BLAS is configured to use for a NumPy array; 1 for other arrays.

    Parameters
    ----------
    array : array
        An array.

    Returns
    -------
    int
        The number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import cores
    >>> cores(np.zeros(0)) >= 1
    True
    """
    if not isinstance(array, np.ndarray):
        return 1
    if limits().threads:
        return limits().threads
    with _LOCK:
        return _BEFORE[0] if _BEFORE else _blas_threads()


def in_threads(work: Callable[[Any], None], shares: Sequence[Sequence[Any]]) -> None:
    """Call `work(item)` for all items in order, with one thread for each sequence in `shares`.

    The calling thread works on the first one, and it alone reports progress.  After the first exception, or Ctrl-C, all
    threads stop when they finish their current item; then it is raised.
    """
    if len(shares) == 1:
        for item in shares[0]:
            work(item)
        return
    stop = Event()

    def run(share: Sequence[Any]) -> None:
        for item in share:
            if stop.is_set():
                return
            work(item)

    with single_blas(), ThreadPoolExecutor(len(shares) - 1) as pool:
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

    Parameters
    ----------
    function : callable
        The work for one item.
    items : iterable
        The items.

    Returns
    -------
    iterator
        The results.

    Examples
    --------
    >>> from rkhs.extend import map_in_threads
    >>> list(map_in_threads(len, ["a", "bcd"]))
    [1, 3]
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
    """Limit BLAS to one thread within the block; the first caller sets the limit and the last one removes it.

    Returns
    -------
    context manager
        It gives nothing to ``with``.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import single_blas
    >>> with single_blas():  # many small products: threads would only wait for each other
    ...     products = [np.eye(2) @ np.eye(2) for _ in range(3)]
    """
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
