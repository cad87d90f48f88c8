"""How much memory a computation may take, and the tiles that keep it within that.

A tile is a pair of slices of rows and columns.  It is never larger than the budget allows, and never
larger than what stays in a processor's cache: element-wise work on a cached tile costs a fraction of
the matrix products beside it, on a matrix in main memory it costs as much as they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from math import inf
from numbers import Real
from pathlib import Path

import numpy as np
from array_api_compat import device, is_torch_array

from rkhs._backend.arrays import Array

CACHED_ENTRIES = 2**19  # of a tile on a CPU: 4 MiB in float64; twice or half of it measured slower
DEVICE_ENTRIES = 2**26  # of a tile on an accelerator: large enough to fill it
LONG, ALIGNED = 2**12, 64  # rows: from so many, tiles are cut in multiples of 64, as tensor cores like them
FALLBACK = 2**32  # bytes assumed free where the system does not say
GROUP = Path("/sys/fs/cgroup")  # of a container (version 2)


def free_memory(array: Array) -> int:
    """Return the bytes free on the device of `array`."""
    if is_torch_array(array) and device(array).type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device(array))[0])
    return free_main_memory()


def out_of_memory() -> tuple[type[BaseException], ...]:
    """Return what an accelerator raises when its memory is used up."""
    torch = sys.modules.get("torch")
    return () if torch is None else (torch.cuda.OutOfMemoryError,)


def release_memory() -> None:
    """Give back what PyTorch keeps of an accelerator's memory without using it."""
    sys.modules["torch"].cuda.empty_cache()


def budget_bytes(memory: float | None, array: Array) -> int:
    """Return the budget in bytes: what was asked for, or a quarter of what is free."""
    if memory is None:
        return free_memory(array) // 4
    if not (isinstance(memory, Real) and 0 < memory < inf):
        raise ValueError(f"memory must be a positive number of bytes, got {memory!r}.")
    return int(memory)


def check_tables(rows: int, tables: int, array: Array, name: str, remedy: str) -> None:
    """Raise MemoryError where some square tables of so many rows do not fit in memory, before any work.

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
    np.empty(2**25 - 2**16, dtype=np.uint8)  # bytes, below the 32 MiB at which glibc stops to count


def tile_entries(budget: int, array: Array, copies: int = 8) -> int:
    """Return how many entries one tile may have when `copies` arrays of its size (kernels: 8) are alive at once."""
    itemsize = 4 if "32" in str(array.dtype) else 8
    return max(1, min(budget // (copies * itemsize), CACHED_ENTRIES if on_cpu(array) else DEVICE_ENTRIES))


def on_cpu(array: Array) -> bool:
    """Return whether an array is in the memory of the processor."""
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


def free_main_memory() -> int:
    """Return the bytes that this process can still take: what is free, within the limits set for it."""
    known = []
    for ask in (_free, _address_space, _container):
        try:
            known.append(ask())
        except (OSError, ValueError, StopIteration, ImportError):  # the system does not say
            continue
    return max(0, min((left for left in known if left is not None), default=FALLBACK))


def _free() -> int | None:
    """Return what the whole machine has."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except OSError:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None


def _address_space() -> int | None:
    """Return what `ulimit -v` leaves."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def _container() -> int | None:
    """Return what a container's limit leaves."""
    limit = (GROUP / "memory.max").read_text().strip()
    return None if limit == "max" else int(limit) - int((GROUP / "memory.current").read_text())
