"""Tables in, tables out: CSV and Parquet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from rkhs.cli.errors import CommandError

Frame = Any  # pandas has no types of its own
PARQUET = (".parquet", ".pq")
UNLABELLED = ""  # the label of a row that has none


def read(path: Path, text_column: str | None = None) -> Frame:
    """The table in a file; one column, the target, is read as it is written."""
    import pandas as pd

    if not path.is_file():
        raise CommandError(f"{path} is a folder, not a table." if path.is_dir() else f"There is no file {path}.")
    try:
        if path.suffix.lower() in PARQUET:
            frame, repeated = pd.read_parquet(path), []
        else:
            frame = pd.read_csv(path, dtype={text_column: str} if text_column else None, skipinitialspace=True)
            names = pd.read_csv(path, header=None, nrows=1, dtype=str, skipinitialspace=True).iloc[0]
            repeated = names[names.duplicated() & names.notna()].tolist()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not a text in UTF-8: save it as CSV with that encoding.") from error
    except (ValueError, OSError) as error:  # parser errors of pandas and pyarrow are of these kinds
        raise CommandError(f"{path} cannot be read as a table: {_first_line(error)}") from error
    if repeated:
        raise CommandError(f"{path} has two columns {repeated[0]!r}: give each a name of its own.")
    if frame.empty:
        raise CommandError(f"{path} has no rows.")
    frame.columns = [str(name) for name in frame.columns]
    return frame


def write(frame: Frame, path: Path) -> None:
    """Write a table, in the format that the name of the file asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() in PARQUET:
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)


def column(frame: Frame, name: str, path: Path) -> Frame:
    """One column, or an error with the names that there are."""
    if name not in frame.columns:
        listed = ", ".join(frame.columns[:8]) + (", .." if len(frame.columns) > 8 else "")
        separator = next((sign for sign in (";", "\t", "|") if len(frame.columns) == 1 and sign in listed), None)
        remedy = f" Columns are separated by commas in a CSV file, not by {separator!r}." if separator else ""
        raise CommandError(f"{path} has no column {name!r}; its columns are {listed}.{remedy}")
    return frame[name]


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work that it is to hold."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder: give the name of a file to write.")
    folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
    if not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise CommandError(f"{path} cannot be written: choose another place with --out.")


def labels(values: Frame) -> np.ndarray[Any, Any]:
    """The target as text, UNLABELLED where it is empty; 1.0 and 1 are the same label."""
    pairs = zip(values.astype(object), values.isna(), strict=True)
    return np.array([UNLABELLED if empty else _label(value) for value, empty in pairs], dtype=str)


def numbers(values: Frame, name: str) -> np.ndarray[Any, Any]:
    """The target as numbers, NaN where it is empty."""
    import pandas as pd

    found = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.isnan(found) & (labels(values) != UNLABELLED)
    if wrong.any():
        raise CommandError(
            f"Column {name!r} is not numeric (its row {int(np.flatnonzero(wrong)[0]) + 1} has "
            f"{values.iloc[int(np.flatnonzero(wrong)[0])]!r}): leave --regression out to predict classes."
        )
    if np.isinf(found).any():
        raise CommandError(f"Column {name!r} has infinite values.")
    return found


def _label(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return str(value).strip()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text.rstrip(".") + "."
