"""Tables in, tables out: CSV and Parquet."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rkhs.cli.cells import NUMBER, WITH_COMMA, Column
from rkhs.cli.csv_files import read_csv
from rkhs.cli.errors import CommandError, Problems, meant
from rkhs.cli.parquet_files import read_parquet
from rkhs.writing import replacing

Frame = Any  # pandas has no types of its own
PARQUET = (".parquet", ".pq")
LONGEST = 1000  # characters of a class's name
UNLABELLED = ""  # the label of a row that has none
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how cells begin that spreadsheets compute (OWASP, CSV injection)


@dataclass(frozen=True)
class Format:
    """How a file is to be read: texts that stand for missing cells; of CSV files what separates, and decimal signs."""

    missing: tuple[str, ...] = ()
    separator: str | None = None
    decimal: str | None = None

    @classmethod
    def of(cls, missing: str, separator: str | None, decimal: str | None) -> Format:
        """What the options say; a tab can be written \\t."""
        marks = tuple(text.strip() for text in missing.split(",") if text.strip())
        separator = "\t" if separator in ("\\t", "tab") else separator
        problems = Problems()
        with problems.gathered():
            if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
                raise CommandError(
                    f"--separator must be one sign that is no quote, such as ; or \\t for a tab, got {separator!r}."
                )
        with problems.gathered():
            if decimal not in (None, ".", ","):
                raise CommandError(f"--decimal must be the sign . or the sign , and is {decimal!r}.")
        with problems.gathered():
            if separator is not None and separator == decimal:
                raise CommandError(f"--separator and --decimal are both {decimal!r}: give each a sign of its own.")
        problems.check()
        return cls(marks, separator, decimal)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, all of the same length; `others` names columns of kinds that no machine learns from."""

    path: Path
    rows: int
    columns: dict[str, Column]
    others: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """One column, or an error with the names that there are."""
        if name in self.others:
            raise CommandError(f"Column {name!r} of {self.path} holds lists, bytes or other compound values.")
        if name not in self.columns:
            names = list(self.columns)
            listed = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
            raise CommandError(f"{self.path} has no column {name!r}; its columns are {listed}.{meant(name, names)}")
        return self.columns[name]


def read(path: Path, form: Format) -> Table:
    """The table in a file; all problems of its header are told at once."""
    if not path.is_file():
        raise CommandError(
            f"{path} is a folder, not a table: give the name of a file."
            if path.is_dir()
            else f"There is no file {path}.{meant(path.name, _neighbours(path))}"
        )
    if path.suffix.lower() in PARQUET:
        names, cells, rows = read_parquet(path)
        place, comma = _numbered(f"{path}, row", range(1, rows + 1)), False
    else:
        names, cells, lines, separator = read_csv(path, form.separator)
        rows, place, comma = len(lines), _numbered(f"{path}, line", lines), separator != ","
    if not names:
        raise CommandError(f"{path} has no columns: the first line of a table has their names.")
    if not rows:
        raise CommandError(f"{path} has no rows: below the names of the columns there has to be a line for each row.")
    columns, others, problems = {}, [], Problems()
    for k, (name, own) in enumerate(zip(names, cells, strict=True)):
        if own is None:
            others.append(name)
            continue
        column = Column(name, _marked(own, form.missing), place, comma, form.decimal)
        with problems.gathered():
            if name:
                columns[name] = column
            elif not column.empty:
                raise CommandError(
                    f"Column {k + 1} of {path} has no name: give it one in the header, or write the table without it "
                    "(pandas: index=False)."
                )
    for name, count in Counter(names).items():
        with problems.gathered():
            if count > 1 and name:
                raise CommandError(f"{path} has two columns {name!r}: give each a name of its own.")
    problems.check()
    return Table(path, rows, columns, tuple(others))


def _neighbours(path: Path) -> list[str]:
    """The files in the folder of a file that is not there."""
    return [other.name for other in path.parent.iterdir() if other.is_file()] if path.parent.is_dir() else []


def _numbered(before: str, numbers: Any) -> Callable[[int], str]:
    return lambda row: f"{before} {numbers[row]}"


def _marked(cells: Any, missing: Sequence[str]) -> Any:
    """The cells, null where they are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(cells.type):
        marks = pa.array([float(text) for text in missing if re.match(NUMBER, text)], pa.float64())
        found = pc.is_in(cells, value_set=marks)
    else:
        if pa.types.is_large_string(cells.type):
            cells = pc.utf8_trim_whitespace(cells)
        found = pc.is_in(pc.cast(cells, pa.large_string()), value_set=pa.array(["", *missing], pa.large_string()))
    return pc.if_else(found, pa.scalar(None, cells.type), cells)


def write(frame: Frame, path: Path) -> None:
    """Write a table, in the format that the name of the file asks for.

    In CSV files texts that a spreadsheet would compute as formulas begin with an apostrophe, which it hides.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if path.suffix.lower() in PARQUET:
            frame.to_parquet(file, index=False)
        else:
            texts = frame.select_dtypes(exclude="number").columns
            frame = frame.assign(**{name: frame[name].map(_no_formula) for name in texts})
            returns = any("\r" in str(cell) for name in texts for cell in frame[name])  # which pandas does not quote
            quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
            frame.rename(columns=_no_formula).to_csv(file, index=False, quoting=quoting)


def _no_formula(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; numbers with a sign stay numbers.

    Examples
    --------
    >>> [_no_formula(cell) for cell in ("=1+2", "-x", "-1.5", "yes", 3)]
    ["'=1+2", "'-x", '-1.5', 'yes', 3]
    """
    number = isinstance(cell, str) and (re.match(NUMBER, cell) or re.match(WITH_COMMA, cell))
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not number else cell


def labels(column: Column) -> np.ndarray[Any, Any]:
    """The target as texts, UNLABELLED where it is missing."""
    texts = column.texts()
    longest = int(np.argmax([len(text) for text in texts]))
    if len(texts[longest]) > LONGEST:
        raise CommandError(
            f"{column.place(longest)}: column {column.name!r} has a text of {len(texts[longest])} characters, which is "
            f"no name of a class: those have at most {LONGEST}."
        )
    return texts.astype(str)
