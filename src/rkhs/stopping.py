"""Processes that end at once when they are asked to."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rkhs.writing import abandon

RESTORED = b"\r\x1b[K\x1b[?25h"  # the line empty, the cursor visible


@contextmanager
def ended_when_asked() -> Iterator[None]:
    """Let Ctrl-C, and a request to terminate, end this process: exit status 130, or 143, and one line.

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
        os.write(2, (RESTORED if os.isatty(2) else b"") + b"Stopped.\n")
    finally:
        os._exit(128 + number)
