"""Memory budgets, and tiles that keep a computation within them.

A tile is a pair of slices of rows and columns.  It exceeds neither the budget nor the processor's cache: element-wise
operations on a cached tile cost a fraction of the matrix products, on a matrix in main memory as much as they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from numbers import Real
from pathlib import Path

import numpy as np
from array_api_compat import device, is_torch_array

from rkhs._backend.arrays import Array

CACHED_ENTRIES = 2**19  # entries of a tile on a CPU, 4 MiB in float64; half and twice as many were slower
DEVICE_ENTRIES = 2**26  # entries of a tile on an accelerator, enough to occupy all of it
GROUP = Path("/sys/fs/cgroup")  # limits of the container (control groups, version 2)

# glibc returns free memory beyond twice the largest block that was ever freed (up to 32 MiB) to the system, and gets it
# back page by page, which takes a tenth to a third of the time of a product.  Freeing one such block raises the limit
# (M_TRIM_THRESHOLD in mallopt(3)); its pages are never touched.
np.empty(2**25 - 2**16, dtype=np.uint8)


def free_memory(array: Array) -> int:
    """Return the free memory, in bytes, on the device of `array`."""
    if is_torch_array(array) and device(array).type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device(array))[0])
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
    if not (isinstance(memory, Real) and 0 < memory < inf):
        raise ValueError(f"memory must be a positive number of bytes, got {memory!r}.")
    return int(memory)


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
    return max(1, min(budget // (copies * array.dtype.itemsize), CACHED_ENTRIES if on_cpu(array) else DEVICE_ENTRIES))


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
        left += [os.sysconf("SC_AVPHYS_PAGES") * page] if page else []
    with suppress(OSError, ValueError, ImportError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            left.append(limit - int(Path("/proc/self/statm").read_text().split()[0]) * page)
    with suppress(OSError, ValueError):  # without a limit the file contains "max", which is not a number
        left.append(int((GROUP / "memory.max").read_text()) - int((GROUP / "memory.current").read_text()))
    return max(0, min(left, default=2**32))  # assume 4 GiB if the system provides no number
