"""Ctrl-C ends a cell, and leaves no result of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


class _Interrupt(BaseException):
    """Ctrl-C, as solvers do not know it."""


@contextmanager
def ending() -> Iterator[None]:
    """Within it Ctrl-C is an error like any other: solvers would go on with the best function so far."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler and current_thread() is main_thread()
    if ours:
        signal.signal(signal.SIGINT, _raise)
    try:
        yield
    except _Interrupt:
        raise KeyboardInterrupt from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _raise(*_: Any) -> None:
    raise _Interrupt
