"""Files that the command writes: never over what it reads, and over what is there only if asked."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rkhs._cli.terminal import CommandError
from rkhs._files import replacing

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how cells begin that spreadsheets compute (OWASP, CSV injection)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)  # with a decimal point or comma


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[Path], force: bool) -> None:
    """Refuse, before any work, files that cannot or must not be written; `outputs` maps options to files."""
    seen = [(f"the input {path}", path) for path in inputs]
    for option, path in outputs.items():
        for name, other in seen:
            both = path.exists() and other.exists()
            if path.samefile(other) if both else os.path.realpath(path) == os.path.realpath(other):
                raise CommandError(f"{path} is {name}: give another name with {option}.")
        if path.is_dir():
            raise CommandError(f"{path} is a folder: give the name of a file to write.")
        folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
        writable = folder.is_dir() and os.access(folder, os.W_OK)
        if not writable or (path.exists() and not (path.is_file() and os.access(path, os.W_OK))):
            raise CommandError(f"{path} cannot be written: choose another place with {option}.")
        if path.exists() and not force:
            raise CommandError(f"{path} is there already: give another name with {option}, or replace it with --force.")
        seen.append((f"the file of {option} too", path))


def check_picture(path: Path) -> None:
    """Refuse a picture in a format that matplotlib does not write."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        raise CommandError(f"{path} names no kind of picture: it can end in .{', .'.join(formats)}.")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib to a file, and close it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=path.suffix[1:].lower())
    plt.close(figure)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the suffix of the file.

    In CSV files an apostrophe, which spreadsheets hide, precedes texts that they would compute as formulas.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if path.suffix.lower() in PARQUET:
            frame.to_parquet(file, index=False)
            return
        texts = frame.select_dtypes(exclude="number").columns
        frame = frame.assign(**{name: frame[name].map(escaped) for name in texts}).rename(columns=escaped)
        returns = any("\r" in str(cell) for name in texts for cell in frame[escaped(name)])  # pandas does not quote it
        frame.to_csv(file, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def escaped(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula; numbers with a sign stay numbers."""
    formula = isinstance(cell, str) and cell.startswith(FORMULA) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if formula else cell
