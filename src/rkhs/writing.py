"""The one way to write a file: beside the place, then into it.

Whoever opens the file finds the old one or the new one, whole, whatever happens: an exception, a kill, a full disk, two
writers at once.  An exception leaves nothing beside it; a kill may leave a file `.rkhs-*`, which can be deleted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copymode
from uuid import uuid4

_unfinished: set[Path] = set()


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A name to write to, which takes the place of `path` when the block ends without an exception.

    It has the same suffix and lies in the same folder, which must exist.  A link stays a link: the file that it points
    to is replaced.  An existing file keeps its mode, and is not replaced if it must not be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "report.txt") as file:
    ...         _ = file.write_text("done")
    ...     Path(folder, "report.txt").read_text(), len(os.listdir(folder))
    ('done', 1)
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".rkhs-{uuid4().hex}{target.suffix}")
    _unfinished.add(temporary)
    try:
        _check(target)
        yield temporary
        _synchronise(temporary)
        if target.exists():
            copymode(target, temporary)
        temporary.replace(target)
    except OSError as error:
        told = f"{path} cannot be written: {error.strerror or error}"
        raise (OSError(told) if error.errno is None else OSError(error.errno, told)) from error
    finally:
        temporary.unlink(missing_ok=True)
        _unfinished.discard(temporary)


def abandon() -> None:
    """Remove what is being written, because the process is about to end without another chance."""
    for temporary in list(_unfinished):
        temporary.unlink(missing_ok=True)


def _check(target: Path) -> None:
    if target.is_dir():
        raise OSError(errno.EISDIR, "it is a folder")
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "it is no ordinary file")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, "it is read-only")


def _synchronise(file: Path) -> None:
    """See to it that the content is on the disk before its name is."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
