"""The cells of a column, and what they are: numbers, dates, text.

A cell is missing if it is empty, or if it is what the user says stands for that.  Anything else is what it is: "NA" is
a text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs.cli.errors import CommandError

LARGEST = 1e100  # a number beyond which squares, and sums of them, are lost
DIGITS = r"([eE][+-]?\d+)?$"
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)" + DIGITS
WITH_COMMA = r"^[+-]?(\d+(,\d*)?|,\d+)" + DIGITS
GROUPED = r"^[+-]?\d{1,3}(,\d{3})+$"  # a number below a million with a decimal comma, or a thousand times it
LONG = r"^[+-]?\d{16,}$"  # an integer that float64 may not hold
ODD = r"^[+-]?[$€£]?\s?\d[\d.,'\s]*(%|[$€£])?$"  # percents, prices, thousands set apart
# numbers whose decimal sign is known: the other sign sets thousands apart
WITH_DECIMAL = {
    sign: rf"^[+-]?((\d{{1,3}}(\{other}\d{{3}})+|\d+)(\{sign}\d*)?|\{sign}\d+)" + DIGITS
    for sign, other in ((".", ","), (",", "."))
}


@dataclass(frozen=True, eq=False)
class Column:
    """Cells as an Arrow array of texts, integers or floats, null where they are missing.

    Parameters
    ----------
    name : of the column
    cells : the array
    place : row -> where it is, for messages: "data.csv, line 7"
    comma : whether numbers may have decimal commas, which they cannot where commas separate columns
    decimal : the decimal sign if the user has said it, "." or ","
    """

    name: str
    cells: Any
    place: Callable[[int], str]
    comma: bool = False
    decimal: str | None = None

    @property
    def missing(self) -> int:
        return int(self.cells.null_count)

    @property
    def empty(self) -> bool:
        return self.missing == len(self.cells)

    def texts(self) -> Vector:
        """The cells as texts, "" where they are missing; a float without a fraction is written as an integer."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self.cells
        if pa.types.is_floating(cells.type):
            found = [None if value is None else _written(value) for value in cells.to_pylist()]
            cells = pa.array(found, pa.large_string())
        elif pa.types.is_integer(cells.type):
            cells = pc.cast(cells, pa.large_string())
        return np.asarray(cells.fill_null("").to_pylist(), dtype=object)

    def numbers(self) -> Vector:
        """The cells in float64, NaN where they are missing; an error names the first that is no number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self.cells
        if pa.types.is_large_string(cells.type):
            cells, number = self._pointed()
            self.refuse(
                ~number,
                "which is no number: leave the cell empty, or name it with --missing, if the number is not known",
            )
        values = pc.cast(cells, pa.float64(), safe=False).fill_null(np.nan).to_numpy()
        self.refuse(
            np.abs(np.nan_to_num(values)) > LARGEST,
            f"and numbers beyond {LARGEST:g} cannot be learnt from: use other units, or leave the cell empty",
        )
        self.refuse(
            _inexact(cells, values),
            "an integer that float64 cannot hold: if it is a name and no amount, take it for text with --text or leave "
            "the column out with --ignore",
        )
        return values

    def numeric(self) -> bool:
        """Whether all cells are numbers; refuses numbers in other forms, and text among numbers."""
        import pyarrow as pa

        if not pa.types.is_large_string(self.cells.type):
            return True
        (cells, number), known = self._pointed(), len(self.cells) - self.missing
        if (number | _null(cells)).all():
            return True
        odd = like(cells, ODD)
        as_text = f"Take column {self.name!r} for text with --text {self.name!r}"
        if 2 * np.sum(number) > known:
            self.refuse(
                ~number,
                "while most cells are numbers: leave the cell empty, or name it with --missing, if the number is not "
                f"known. {as_text} if it is one",
            )
        if 2 * np.sum(odd | number) > known:
            self.refuse(
                odd & ~number,
                "a number in a form of its own: write numbers with a decimal point and without signs for thousands, "
                f"currencies and percents, or name the decimal sign with --decimal. {as_text} if it is one",
            )
        return False

    def counts(self) -> list[tuple[str, int]]:
        """The different texts and how often each is there, the most frequent first."""
        from collections import Counter

        return Counter(text for text in self.texts() if text).most_common()

    def _pointed(self) -> tuple[Any, Vector]:
        """Texts with decimal points in the place of decimal commas, and which of them are numbers."""
        import pyarrow.compute as pc

        if self.decimal is not None:
            number = like(self.cells, WITH_DECIMAL[self.decimal])
            bare = pc.replace_substring(self.cells, "," if self.decimal == "." else ".", "")
            return pc.if_else(number, pc.replace_substring(bare, ",", "."), self.cells), number
        cells = self.cells
        commas = pc.match_substring(cells, ",").fill_null(False).to_numpy()
        if self.comma and commas.any() and (like(cells, WITH_COMMA) | _null(cells)).all():
            if (like(cells, GROUPED) | ~commas).all():
                self.refuse(
                    commas, "which may be a decimal comma, or set thousands apart: name the decimal sign with --decimal"
                )
            cells = pc.replace_substring(cells, ",", ".")
        return cells, like(cells, NUMBER)

    def refuse(self, wrong: Vector, reason: str) -> None:
        """An error about the first of some cells that are not missing, if there are any."""
        rows = np.flatnonzero(wrong & ~_null(self.cells))
        if len(rows):
            row = int(rows[0])
            found = str(self.cells[row].as_py())
            shown = repr(found if len(found) <= 40 else found[:37] + "...")
            more = f" {len(rows) - 1} more of its cells are like it." if len(rows) > 1 else ""
            raise CommandError(f"{self.place(row)}: column {self.name!r} has {shown}, {reason}.{more}")


def like(cells: Any, pattern: str) -> Vector:
    """Which texts have a form; missing ones have none."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(cells, pattern).fill_null(False).to_numpy()


def _null(cells: Any) -> Vector:
    return cells.is_null().to_numpy()


def _inexact(cells: Any, values: Vector) -> Vector:
    """Which integers are not what they are in float64."""
    import pyarrow as pa

    if pa.types.is_floating(cells.type):
        return np.zeros(len(values), dtype=bool)
    long = like(cells, LONG) if pa.types.is_large_string(cells.type) else np.abs(np.nan_to_num(values)) >= 2**53
    wrong = [int(cells[row].as_py()) != int(values[row]) for row in np.flatnonzero(long)]
    long[long] = wrong
    return long


def _written(value: float) -> str:
    return str(int(value) if value.is_integer() else value)
