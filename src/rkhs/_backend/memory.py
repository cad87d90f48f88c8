"""How much memory a computation may take, and the tiles that keep it within that.

A tile is a pair of slices of rows and columns.  It is never larger than the budget allows, and never
larger than what stays in a processor's cache: element-wise work on a cached tile costs a fraction of
the matrix products beside it, on a matrix in main memory it costs as much as they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from math import inf
from numbers import Real
from pathlib import Path

import numpy as np
from array_api_compat import device, is_torch_array

from rkhs._backend.arrays import Array

CACHED_ENTRIES = 2**19  # of a tile on a CPU: 4 MiB in float64; twice or half of it measured slower
DEVICE_ENTRIES = 2**26  # of a tile on an accelerator: large enough to fill it
LONG = 2**12  # rows of a tile, from which it is cut in multiples of
ALIGNED = 64  # rows, as tensor cores like them
KEPT = 2**25 - 2**16  # bytes, below the 32 MiB at which glibc stops to count


def free_memory(array: Array) -> int:
    """Bytes free on the device of `array`."""
    if is_torch_array(array) and device(array).type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device(array))[0])
    return free_main_memory()


def out_of_memory() -> tuple[type[BaseException], ...]:
    """What an accelerator raises when its memory is used up."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.cuda.OutOfMemoryError,)


def release_memory() -> None:
    """Give back what PyTorch keeps of an accelerator's memory without using it."""
    sys.modules["torch"].cuda.empty_cache()


def budget_bytes(memory: float | None, array: Array) -> int:
    """The budget in bytes: what was asked for, or a quarter of what is free."""
    if memory is None:
        return free_memory(array) // 4
    if not (isinstance(memory, Real) and 0 < memory < inf):
        raise ValueError(f"memory must be a positive number of bytes, got {memory!r}.")
    return int(memory)


def check_tables(rows: int, tables: int, array: Array, name: str, remedy: str) -> None:
    """Refuse, before any work, what needs some square tables of so many rows at once where they do not fit in memory.

    Examples
    --------
    >>> check_tables(10**7, 1, np.zeros(0), "Covariances", "ask for deviations")
    Traceback (most recent call last):
    ...
    MemoryError: Covariances at 10,000,000 points take 800,000 GB of memory, more than is free: ask for deviations.
    """
    itemsize = 4 if "32" in str(array.dtype) else 8
    needed = tables * itemsize * rows**2
    if needed > free_memory(array):
        raise MemoryError(
            f"{name} at {rows:,} points take {needed / 1e9:,.0f} GB of memory, more than is free: {remedy}."
        )


def keep_freed_memory() -> None:
    """Let the C library keep what is freed between tiles, where it would give it back to the system.

    glibc gives back what is free beyond twice the largest block that was ever freed (up to 32 MiB), and
    then takes it again page by page: a tenth to a third of the time of a product.  So free such a block;
    its memory is never touched.
    """
    np.empty(KEPT, dtype=np.uint8)


def tile_entries(budget: int, array: Array, copies: int) -> int:
    """Entries one tile may have when `copies` arrays of its size are alive at once."""
    itemsize = 4 if "32" in str(array.dtype) else 8
    return max(1, min(budget // (copies * itemsize), CACHED_ENTRIES if on_cpu(array) else DEVICE_ENTRIES))


def on_cpu(array: Array) -> bool:
    """Whether an array is in the memory of the processor."""
    return not is_torch_array(array) or bool(device(array).type == "cpu")


def tiles(rows: int, columns: int, entries: int) -> Iterator[tuple[slice, slice]]:
    """Cover rows x columns by about square tiles of at most `entries`, row by row.

    As many rows as columns are cut at the same places, so that tiles (i, j) and (j, i) are mirror images.
    """
    side = max(1, int(entries**0.5))
    for i in _cuts(rows, max(side, entries // max(columns, 1))):
        for j in _cuts(columns, max(side, entries // max(rows, 1))):
            yield i, j


def _cuts(length: int, most: int) -> list[slice]:
    """Cut a length into as few parts as possible, none longer than `most`, all about the same, and aligned if long."""
    unit = ALIGNED if most >= LONG else 1
    parts = -(-length // (most // unit * unit))
    size = -(-length // (max(parts, 1) * unit)) * unit or 1
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


FALLBACK = 4 * 2**30  # bytes assumed free where the system does not tell
GROUP = Path("/sys/fs/cgroup")  # of a container (version 2)


def free_main_memory() -> int:
    """Bytes that this process can still take."""
    known = [bytes_left for ask in (_free, _address_space, _group) if (bytes_left := _asked(ask)) is not None]
    return max(0, min(known, default=FALLBACK))


def _asked(ask: Callable[[], int | None]) -> int | None:
    try:
        return ask()
    except (OSError, ValueError, StopIteration, ImportError):
        return None


def _free() -> int | None:
    """What the whole machine has."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except OSError:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None


def _address_space() -> int | None:
    """What `ulimit -v` leaves."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def _group() -> int | None:
    """What a container's limit leaves."""
    limit = (GROUP / "memory.max").read_text().strip()
    return None if limit == "max" else int(limit) - int((GROUP / "memory.current").read_text())
