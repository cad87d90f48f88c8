"""Processes that end at once, with their workers, when they are asked to."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rkhs.writing import abandon

RESTORED = b"\r\x1b[K\x1b[?25h"  # the line empty, the cursor visible


_workers: set[subprocess.Popen[bytes]] = set()


@contextmanager
def ended_when_asked() -> Iterator[None]:
    """Let Ctrl-C, and a request to terminate, end this process and its workers: exit status 130, or 143, and one line.

    It ends at once, not by an exception, which could be caught or lost on its way up.  Files are whole or not there,
    because `rkhs.writing` writes them.  Behind the block the work is done and the process about to end: it is let.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _end(number: int, _: Any) -> None:
    try:
        abandon()
        for worker in list(_workers):
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        os.write(2, (RESTORED if os.isatty(2) else b"") + b"Stopped.\n")
    finally:
        os._exit(128 + number)


@contextmanager
def ended_with(workers: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Let processes end with the block, however that ends."""
    _workers.update(workers)
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
        _workers.difference_update(workers)
