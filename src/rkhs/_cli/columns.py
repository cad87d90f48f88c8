"""The cells of a column as numbers, dates or texts.

A cell is missing if it is empty, or if the user says that its text stands for that; "NA" is a text otherwise.

A column of dates has one form.  Years come first (2024-02-29), or last after a day and a month; which of these is first
is seen from days after the twelfth, and with points it is the day (29.2.2024).  A column that could be read in two ways
is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rkhs._backend.arrays import Vector
from rkhs._cli.terminal import CommandError

# Patterns of whole cells.  Digits are [0-9], because \d has those of other scripts too.  Without \s and $ Arrow matches
# them, ten times as fast as Python.
EXPONENT = r"([eE][+-]?[0-9]+)?"
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)" + EXPONENT
WITH_COMMA = r"[+-]?([0-9]+(,[0-9]*)?|,[0-9]+)" + EXPONENT
GROUPED = r"[+-]?[0-9]{1,3}(,[0-9]{3})+"  # a number below a million with a decimal comma, or a thousand times it
UNUSUAL = r"[+-]?[$€£]? ?[0-9][0-9.,' ]*(%|[$€£])?"  # percents, prices, thousands set apart
# numbers whose decimal sign is known: the other sign sets thousands apart
WITH_DECIMAL = {
    sign: rf"[+-]?(([0-9]{{1,3}}(\{other}[0-9]{{3}})+|[0-9]+)(\{sign}[0-9]*)?|\{sign}[0-9]+)" + EXPONENT
    for sign, other in ((".", ","), (",", "."))
}
CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:\.[0-9]+)?))?"
TIME = rf"(?:[ T]{CLOCK} ?(?:Z|UTC|(?P<zone>[+-][0-9]{{2}}):?(?P<zone_minutes>[0-9]{{2}}))?)?"
YEAR, MONTH, DAY = r"(?P<year>[0-9]{4})", r"(?P<month>[0-9]{1,2})", r"(?P<day>[0-9]{1,2})"
DATES = {
    "year-month-day": f"{YEAR}[-/.]{MONTH}[-/.]{DAY}{TIME}",
    "day-month-year": f"{DAY}[-/.]{MONTH}[-/.]{YEAR}{TIME}",
    "month-day-year": f"{MONTH}[-/.]{DAY}[-/.]{YEAR}{TIME}",
    "hour:minute": CLOCK,
}
SHORT_YEAR = r"[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{2}(?:[ T].*)?"


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column of a table."""

    name: str
    cells: pd.Series  # texts (`string[pyarrow]`) or numbers, NA where they are missing
    place: Callable[[int], str]  # from a row to its place in the file, for messages: "data.csv, line 7"
    comma: bool = False  # whether numbers may have decimal commas, which they cannot where commas separate columns
    decimal: str | None = None  # the decimal sign if the user has given it, "." or ","

    def refuse(self, wrong: Vector, reason: str) -> None:
        """Raise an error about the first of the cells that are wrong and not missing, if there are any."""
        rows = np.flatnonzero(wrong & self.cells.notna().to_numpy())
        if len(rows):
            row = int(rows[0])
            found = str(self.cells.iloc[row])
            shown = repr(found if len(found) <= 40 else found[:37] + "...")
            more = f" {len(rows) - 1} more of its cells are like it." if len(rows) > 1 else ""
            raise CommandError(f"{self.place(row)}: column {self.name!r} has {shown}, {reason}.{more}")

    def matches(self, pattern: str) -> Vector:
        """Return which texts have a form; missing cells have none."""
        return self.cells.str.fullmatch(f"(?:{pattern})").to_numpy(bool, na_value=False)

    def texts(self) -> Vector:
        """Return the cells as texts, "" where they are missing; a float without a fraction is written as an integer."""
        if not pd.api.types.is_float_dtype(self.cells.dtype):
            return self.cells.astype("string[pyarrow]").to_numpy(object, na_value="")
        values = self.cells.to_numpy(float, na_value=np.nan).tolist()
        written = (str(int(value) if value.is_integer() else value) for value in values)
        return np.array([text.replace("nan", "") for text in written], dtype=object)

    def labels(self) -> Vector:
        """Return the cells as names of classes, "" where they are missing."""
        texts = self.texts()
        long = np.array([len(text) > 1000 for text in texts])
        self.refuse(long, "a text of more than 1000 characters, which is no name of a class")
        return texts.astype(str)

    def counts(self) -> list[tuple[str, int]]:
        """Return the different texts and their frequencies, the most frequent first."""
        return Counter(text for text in self.texts() if text).most_common()

    def numbers(self) -> Vector:
        """Return the cells in float64, NaN where they are missing; an error names the first that is no number."""
        cells = self.cells
        if self.cells.dtype == "string":
            cells, number = self._with_points()
            self.refuse(~number, "which is no number: leave unknown cells empty, or name them with --missing")
        values = cells.to_numpy(float, na_value=np.nan)
        size = np.abs(np.nan_to_num(values))
        self.refuse(size > 1e100, "and numbers beyond 1e+100, whose squares overflow, cannot be used: use other units")
        inexact = np.zeros(len(values), dtype=bool)
        for row in np.flatnonzero(size >= 2**53):
            text = str(cells.iloc[row])
            inexact[row] = re.fullmatch("[+-]?[0-9]+", text) is not None and int(text) != int(values[row])
        self.refuse(
            inexact,
            "an integer that float64 cannot hold: take it for text with --text or leave the column out with --ignore",
        )
        return values

    def is_numeric(self) -> bool:
        """Return whether all cells are numbers; refuse numbers in other forms, and text among numbers."""
        if self.cells.dtype != "string":
            return True
        (_, number), missing = self._with_points(), self.cells.isna().to_numpy()
        known = np.sum(~missing)
        if (number | missing).all():
            return True
        as_text = f"Take column {self.name!r} for text with --text {self.name!r}"
        if 2 * np.sum(number) > known:
            self.refuse(
                ~number,
                f"while most cells are numbers: leave the cell empty, or name it with --missing. {as_text} if it is",
            )
        unusual = self.matches(UNUSUAL)
        if 2 * np.sum(unusual | number) > known:
            self.refuse(
                unusual & ~number,
                "a number in a form of its own: write numbers with a decimal point and without signs for thousands, "
                f"currencies and percents, or name the decimal sign with --decimal. {as_text} if it is",
            )
        return False

    def _with_points(self) -> tuple[pd.Series, Vector]:
        """Return texts with decimal points in place of decimal commas, and which of them are numbers."""
        cells = self.cells
        if self.decimal is not None:
            number = self.matches(WITH_DECIMAL[self.decimal])
            bare = cells.str.replace("," if self.decimal == "." else ".", "", regex=False)
            return cells.mask(number, bare.str.replace(",", ".", regex=False)), number
        commas = cells.str.contains(",", regex=False).to_numpy(bool, na_value=False)
        if self.comma and commas.any() and (self.matches(WITH_COMMA) | cells.isna().to_numpy()).all():
            if (self.matches(GROUPED) | ~commas).all():
                self.refuse(commas, "which may be a decimal comma, or set thousands apart: give --decimal")
            pointed = cells.str.replace(",", ".", regex=False)
            return pointed, pointed.notna().to_numpy()
        return cells, self.matches(NUMBER)

    def date_form(self) -> str | None:
        """Return the form of the dates, None if at most half of the cells are dates; refuse what could be two forms."""
        if self.cells.dtype != "string":
            return None
        known = self.cells.notna().sum()
        found = {form: self.matches(pattern) for form, pattern in DATES.items()}
        short = self.matches(SHORT_YEAR)
        if 2 * np.sum(np.any([short, *found.values()], axis=0)) <= known:
            return None
        remedy = f"leave the column out with --ignore {self.name!r}, or take it for text with --text {self.name!r}"
        form = max(found, key=lambda name: int(np.sum(found[name])))
        if 2 * np.sum(short) > known:
            self.refuse(short, f"a date whose year has two digits: write four, {remedy}")
        self.refuse(~found[form], f"while most cells are dates ({form}): leave missing cells empty, {remedy}")
        if form in ("year-month-day", "hour:minute"):
            return form
        parts = self._parts("day-month-year")
        day_first, month_first = np.nanmax(parts["day"]) > 12, np.nanmax(parts["month"]) > 12
        if day_first and month_first:
            self.refuse(parts["month"] > 12, f"while in other cells the day is first: write 2024-02-29, {remedy}")
        if not day_first and not month_first:
            pointed = self.matches(r"[0-9]+\.[0-9]+\..*")
            self.refuse(~pointed, f"a date whose day or month may be first: write 2024-02-29, {remedy}")
        return "month-day-year" if month_first else "day-month-year"

    def days(self, form: str) -> Vector:
        """Return days since 1970, or hours for times of a day; NaN where they are missing."""
        self.refuse(~self.matches(DATES[form]), f"which is no date of the form {form}")
        parts = self._parts(form)
        no_time = (parts["hour"] > 24) | (parts["minute"] > 59) | (parts["second"] > 60)
        self.refuse(no_time, "and there is no such time of a day")
        hours = parts["hour"] + parts["minute"] / 60 + np.nan_to_num(parts["second"]) / 3600
        if form == "hour:minute":
            return hours
        known = np.isfinite(parts["year"])
        year, month, day = (np.where(known, parts[name], 1).astype(int) for name in ("year", "month", "day"))
        first = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
        date = first.astype("datetime64[D]") + (day - 1)
        self.refuse(known & ((month < 1) | (month > 12) | (date.astype("datetime64[M]") != first)), "and no such date")
        # float("-00") is -0.0, so that the sign of -00:30 is not lost
        ahead = np.nan_to_num(parts["zone"] + np.copysign(parts["zone_minutes"], parts["zone"]) / 60)
        return np.where(known, date.astype(float) + (np.nan_to_num(hours) - ahead) / 24, np.nan)

    def _parts(self, form: str) -> dict[str, Vector]:
        """Return the numbers in dates by name, NaN where there are none."""
        rows, texts = pd.factorize(self.cells)  # dates repeat; a missing cell has row -1, the NaN that is appended
        found = texts.to_series().str.extract(DATES[form])
        return {name: np.append(part.to_numpy(float, na_value=np.nan), np.nan)[rows] for name, part in found.items()}
