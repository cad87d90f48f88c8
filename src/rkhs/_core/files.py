"""Atomic replacement of files.

A file is written under a temporary name and then renamed: a reader finds either the old content or the new content,
complete, even after an exception, a kill, a full disk, or with two concurrent writers.  An exception leaves no
temporary file; a kill may leave a file `.rkhs-*`, which can be deleted.
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
    """Yield the path of a temporary file, which replaces `path` if the block ends without an exception.

    The temporary file has the same suffix and is in the same folder, which must exist.  A link stays a link.  An
    existing file keeps its mode, and is not replaced if it is read-only.

    Parameters
    ----------
    path : str or Path
        The file to write.

    Returns
    -------
    context manager
        It gives the path of the temporary file to ``with``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from rkhs.extend import replacing
    >>> with TemporaryDirectory() as folder, replacing(Path(folder, "report.txt")) as temporary:
    ...     count = temporary.write_text("complete")
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".rkhs-{uuid4().hex}{target.suffix}")
    _unfinished.add(temporary)
    try:
        if target.is_dir():
            raise OSError(errno.EISDIR, "it is a folder")
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, "it is not a regular file")
        if target.exists() and not os.access(target, os.W_OK):
            raise OSError(errno.EACCES, "it is read-only")
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())  # the content must reach the disk before the new name does
        if target.exists():
            copymode(target, temporary)
        temporary.replace(target)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise (OSError(message) if error.errno is None else OSError(error.errno, message)) from error
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


def remove_unfinished() -> None:
    """Delete all temporary files before the process exits without unwinding the stack."""
    for temporary in list(_unfinished):
        temporary.unlink(missing_ok=True)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Exit on SIGINT or SIGTERM within the block, with status 130 or 143 and a one-line message.

    The process exits immediately, not by an exception, which could be caught or lost.  Files stay complete because
    `replacing` writes them.  After the block both signals are ignored: the process is about to exit.

    Returns
    -------
    context manager
        It gives nothing to ``with``.

    Examples
    --------
    >>> from rkhs.extend import exit_on_signals
    >>> def main():
    ...     with exit_on_signals():
    ...         print("Ctrl-C ends this program at once, with status 130.")
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
        reset = b"\r\x1b[K\x1b[?25h" if os.isatty(2) else b""  # clear the line and show the cursor
        os.write(2, reset + b"Stopped.\n")
    finally:
        os._exit(128 + number)
