"""How much memory the system leaves to this process: what is free, within the limits set for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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
