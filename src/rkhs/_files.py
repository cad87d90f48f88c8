"""Write files whole or not at all, whatever ends the process.

A file is written under a temporary name and then renamed: whoever opens it finds the old one or the new one, whole,
after an exception, a kill, with a full disk, or with two writers at once.  An exception leaves nothing behind; a kill
may leave a file `.rkhs-*`, which can be deleted.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copymode
from typing import Any
from uuid import uuid4

_unfinished: set[Path] = set()


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Provide a temporary name to write to, which replaces `path` when the block ends without an exception.

    It has the same suffix and lies in the same folder, which must exist.  A link stays a link.  An existing file keeps
    its mode, and is not replaced if it is read-only.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".rkhs-{uuid4().hex}{target.suffix}")
    _unfinished.add(temporary)
    try:
        if target.is_dir():
            raise OSError(errno.EISDIR, "it is a folder")
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, "it is no ordinary file")
        if target.exists() and not os.access(target, os.W_OK):
            raise OSError(errno.EACCES, "it is read-only")
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())  # the content is on the disk before its name is
        if target.exists():
            copymode(target, temporary)
        temporary.replace(target)
    except OSError as error:
        told = f"{path} cannot be written: {error.strerror or error}"
        raise (OSError(told) if error.errno is None else OSError(error.errno, told)) from error
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


def remove_unfinished() -> None:
    """Remove what is being written, because the process is about to end at once."""
    for temporary in list(_unfinished):
        temporary.unlink(missing_ok=True)


@contextmanager
def ended_when_asked() -> Iterator[None]:
    """Let Ctrl-C, and a request to terminate, end this process: exit status 130, or 143, and one line.

    It ends at once, not by an exception, which could be caught or lost on its way up.  Files are whole or not there,
    because `replacing` writes them.  After the block both signals are ignored: the process is about to end.
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
        remove_unfinished()
        restored = b"\r\x1b[K\x1b[?25h" if os.isatty(2) else b""  # an empty line and a visible cursor
        os.write(2, restored + b"Stopped.\n")
    finally:
        os._exit(128 + number)
