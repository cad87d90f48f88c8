"""Where the files are: the folder that RKHS_DATA names, or `../shared/data` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[4] / "shared" / "data"


class MissingDataError(OSError):
    """A data set is neither in a folder nor at OpenML; the text says what to do.

    Examples
    --------
    >>> import rkhs
    >>> raise rkhs.datasets.MissingDataError("Put sonar.npz into the folder that RKHS_DATA names.")
    Traceback (most recent call last):
    rkhs.datasets.files.MissingDataError: Put sonar.npz into the folder that RKHS_DATA names.
    """


def folder() -> Path | None:
    """The folder of the data sets, if there is one."""
    named = os.environ.get("RKHS_DATA")
    if named:
        return Path(named)
    return BESIDE if BESIDE.is_dir() else None


def path_of(name: str) -> Path | None:
    """The file of a data set, if it is there."""
    home = folder()
    path = None if home is None else home / f"{name}.npz"
    return path if path is not None and path.is_file() else None
