"""Convert the cells of a column to numbers, dates or texts.

A cell is missing if it is empty or one of the marks given with `--missing`; "NA" is a text otherwise.  A column of
dates has one format: the year is first (2024-02-29), or last after day and month.  Which of these two is first follows
from days after the twelfth; with points it is the day (29.2.2024).  Ambiguous columns are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rkhs._backend.arrays import Vector
from rkhs._cli.terminal import CommandError

NUMBERS, TEXT = "numbers", "text"
CLOCK = "hour:minute"
# Replacements that turn a format into ISO 8601.  [0-9] excludes the digits of other scripts.
DATES = {
    "year-month-day": ("^([0-9]{4})[/.]([0-9]{1,2})[/.]", r"\1-\2-"),
    "day-month-year": ("^([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4})", r"\3-\2-\1"),
    "month-day-year": ("^([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4})", r"\3-\1-\2"),
    CLOCK: ("^", "1970-01-01 "),
}
SEPARATED = r"[+-]?[0-9]{0,3}([.,][0-9]{3})*[.,][0-9]*"  # the sign at the end is a decimal or thousands separator
SIGNS = "$€£¥%"  # of prices and percentages
LIKE_NUMBERS = rf"[+-]?[{SIGNS}]? ?[.,]?[0-9][0-9.,:/'+TZUCeE -]*[{SIGNS}]?"  # also dates, percentages and prices


def _grouped(sign: str) -> str:
    """Return the pattern of numbers with thousands separators, of which a single one may be a decimal sign."""
    return rf"[+-]?[0-9]{{1,3}}(\{sign}[0-9]{{3}})+"


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column of a table."""

    name: str
    cells: pd.Series  # texts (string[pyarrow]) or numbers, NA where missing; the index numbers lines of the file
    place: str = "line"  # precedes that number in messages, as in "data.csv, line"
    comma: bool = False  # whether numbers may have decimal commas, because commas do not separate columns
    decimal: str | None = None  # the decimal sign if the user gave it, "." or ","
    beside_commas: bool = False  # whether the numbers of some column of the table have commas

    def refuse(self, wrong: Any, reason: str) -> None:
        """Raise an error about the first of the cells that are wrong and not missing, if there are any."""
        found = self._present(wrong)
        if len(found):
            text = str(found.iloc[0])
            shown = repr(text if len(text) <= 40 else text[:37] + "...")
            more = f" {len(found) - 1} more of its cells are like it." if len(found) > 1 else ""
            raise CommandError(f"{self.place} {found.index[0]}: column {self.name!r} has {shown}, {reason}.{more}")

    def _present(self, wrong: Any) -> pd.Series:
        return self.cells[np.asarray(wrong, dtype=bool) & self.cells.notna().to_numpy()]

    def _spelling(self, wrong: Any) -> str | None:
        """Return how to write the first of some cells so that it is a number; None if it does not look like one."""
        cell = str(next(iter(self._present(wrong)), ""))
        if re.fullmatch(LIKE_NUMBERS, cell) and (sign := next((sign for sign in SIGNS if sign in cell), None)):
            return f"write it without the sign {sign!r}, which the name of the column can hold"
        if re.fullmatch(SEPARATED, cell) is None:
            return None
        if self.decimal is None:
            return "state the decimal sign with --decimal"
        return f"write it with the decimal sign {self.decimal!r}, which --decimal has stated"

    def texts(self) -> Vector:
        """Return the cells as texts, "" where missing; a float without a fraction is written as an integer."""
        if pd.api.types.is_float_dtype(self.cells.dtype):
            values = self.cells.to_numpy(float, na_value=np.nan).tolist()
            return np.array([f"{int(v)}" if v.is_integer() else "" if v != v else f"{v}" for v in values], dtype=object)
        return self.cells.astype("string[pyarrow]").to_numpy(object, na_value="")

    def labels(self) -> Vector:
        """Return the cells as names of classes, "" where missing."""
        texts = self.texts()
        self.refuse([len(text) > 1000 for text in texts], "a text of more than 1000 characters, too long for a class")
        return texts.astype(str)

    def counts(self) -> pd.Series:
        """Return the number of rows of each text, the most frequent first."""
        texts = pd.Series(self.texts(), dtype=object)
        return texts[texts != ""].value_counts(sort=False).sort_values(ascending=False, kind="stable")

    def numbers(self) -> Vector:
        """Return the cells in float64, NaN where missing; refuse cells that are not numbers."""
        values = self._parsed()
        wrong = np.isnan(values)
        remedy = self._spelling(wrong) or "leave unknown cells empty, or name them with --missing"
        self.refuse(wrong, f"which is not a number: {remedy}")
        size = np.abs(np.nan_to_num(values))
        self.refuse(size > 1e100, "and the squares of numbers beyond 1e+100 overflow: use another unit")
        texts = self.texts()
        large = [size[k] >= 2**53 and texts[k].lstrip("+-").isdigit() for k in range(len(size))]
        inexact = [large[k] and int(texts[k]) != int(values[k]) for k in range(len(size))]
        remedy = "read it as text with --text or leave the column out with --ignore"
        self.refuse(inexact, f"an integer that float64 cannot represent: {remedy}")
        return values

    def has_commas(self) -> bool:
        """Return whether the cells are numbers some of which have a comma, where commas do not separate columns."""
        if self.cells.dtype != "string" or not self.comma:
            return False
        numbers = pd.to_numeric(self.cells.str.replace(",", ".", regex=False), errors="coerce")
        return bool(self._matches(".*,.*").any()) and numbers.notna().equals(self.cells.notna())

    def _parsed(self) -> Vector:
        """Return the numbers in the cells, NaN where there is none; refuse signs whose meaning is not certain."""
        cells = self.cells
        if cells.dtype == "string" and self.decimal is not None:
            other = "," if self.decimal == "." else "."
            grouped = self._matches(rf"{_grouped(other)}(\{self.decimal}[0-9]*)?")
            cells = cells.where(grouped | ~self._matches(rf".*\{other}.*"))
            cells = cells.str.replace(other, "", regex=False).str.replace(self.decimal, ".", regex=False)
        elif cells.dtype == "string" and self.comma:
            commas, points = self._matches(".*,.*"), self._matches(r".*\..*")
            if self.has_commas():
                if (self._matches(_grouped(",")) | ~commas).all():
                    self.refuse(commas, "whose comma may be a decimal or a thousands separator: state --decimal")
                self.refuse(points, "while other cells have a comma: state which is the decimal sign with --decimal")
                cells = cells.str.replace(",", ".", regex=False)
            elif self.beside_commas and (self._matches(_grouped(".") + "|[+-]?[0-9]+") | cells.isna()).all():
                wrong = "whose point may separate thousands, since other columns have a comma: state --decimal"
                self.refuse(points, wrong)
        return pd.to_numeric(cells, errors="coerce").to_numpy(float, na_value=np.nan)

    def _instants(self, form: str) -> pd.Series:
        texts = self.cells.str.replace(*DATES[form], regex=True).str.replace(" ?UTC$", "Z", regex=True)
        return pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")

    def _matches(self, pattern: str) -> Vector:
        return self.cells.str.fullmatch(f"(?:{pattern})").to_numpy(bool, na_value=False)

    def kind(self) -> str:
        """Return NUMBERS, TEXT or the format of the dates; refuse mixtures, ambiguous and unknown formats."""
        if self.cells.dtype == object:
            raise CommandError(
                f"Column {self.name!r} of {self.place.rpartition(',')[0]} holds lists, bytes or other compound values: "
                f"leave it out with --ignore {self.name!r}."
            )
        if self.cells.dtype != "string":
            return NUMBERS
        readable = {NUMBERS: ~np.isnan(self._parsed())}
        known, similar = int(self.cells.notna().sum()), self._matches(LIKE_NUMBERS) | readable[NUMBERS]
        if 2 * similar.sum() <= known:
            return TEXT
        if readable[NUMBERS].sum() < known:
            readable |= {form: self._instants(form).notna().to_numpy() for form in DATES}
        counts = {kind: int(mask.sum()) for kind, mask in readable.items()}
        kind = max(counts, key=lambda one: counts[one])
        word = NUMBERS if kind == NUMBERS else f"dates ({kind})"
        remedy = f"--ignore {self.name!r} leaves the column out, --text {self.name!r} reads it as text"
        wrong = ~readable[kind]
        spelling = self._spelling(wrong) if kind == NUMBERS else None
        if counts[kind] < known and 2 * counts[kind] > known:
            spelling = spelling or "leave the cell empty, or name it with --missing"
            self.refuse(wrong, f"while most cells are {word}: {spelling}; {remedy}")
        example = f"1234{self.decimal or '.'}5"
        self.refuse(
            wrong,
            f"neither a number such as {example} nor a date such as 2024-02-29: {spelling or 'write it like these'}; "
            f"{remedy}",
        )
        if kind == "day-month-year" and counts["month-day-year"] == known:
            ambiguous = ~self._matches(r"[0-9]+\.[0-9]+\..*")
            self.refuse(ambiguous, f"a date whose day or month may be first: write 2024-02-29; {remedy}")
        return kind

    def days(self, form: str) -> Vector:
        """Return days since 1970, or hours for times of day; NaN where missing."""
        instants = self._instants(form)
        self.refuse(instants.isna(), f"which is not a date of the format {form}")
        return ((instants - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(hours=1 if form == CLOCK else 24)).to_numpy(float)
