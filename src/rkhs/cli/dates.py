"""Columns of dates: days since 1970 as numbers, or hours of a day.

A column has one form.  Years come first (2024-02-29), or last behind a day and a month; which of these is first is seen
from days after the twelfth, and with points it is the day (29.2.2024).  A column that could be read in two ways is
refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs.cli.cells import Column, like

CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
ZONE = r"\s?(?:Z|UTC|(?P<sign>[+-])(?P<ahead>\d{2}):?(?P<minutes>\d{2}))?"
TIME = rf"(?:[ T]{CLOCK}{ZONE})?$"
PATTERNS = {
    "year-month-day": r"^(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})" + TIME,
    "day-month-year": r"^(?P<day>\d{1,2})[-/.](?P<month>\d{1,2})[-/.](?P<year>\d{4})" + TIME,
    "month-day-year": r"^(?P<month>\d{1,2})[-/.](?P<day>\d{1,2})[-/.](?P<year>\d{4})" + TIME,
    "hour:minute": rf"^{CLOCK}$",
}
SHORT = r"^\d{1,2}[-/.]\d{1,2}[-/.]\d{2}(?:[ T].*)?$"  # a year of two digits


def form_of(column: Column) -> str | None:
    """The form of the dates in a column of texts, None if most cells are no dates; refuses what could be two forms."""
    known = len(column.cells) - column.missing
    found = {form: like(column.cells, pattern) for form, pattern in PATTERNS.items()}
    short = like(column.cells, SHORT)
    if 2 * np.sum(np.any([short, *found.values()], axis=0)) <= known:
        return None
    remedy = f"leave the column out with --ignore {column.name!r}, or take it for text with --text {column.name!r}"
    form = max(found, key=lambda name: int(np.sum(found[name])))
    if 2 * np.sum(short) > known:
        column.refuse(short, f"a date whose year has two digits: write four, {remedy}")
    column.refuse(~found[form], f"while most cells are dates ({form}): leave the cell empty if it is missing, {remedy}")
    return form if form in ("year-month-day", "hour:minute") else _order(column, remedy)


def _order(column: Column, remedy: str) -> str:
    """Whether the day or the month is first."""
    numbers = {name: _parts(column.cells, "day-month-year")[name] for name in ("day", "month")}
    day_first, month_first = bool(np.nanmax(numbers["day"]) > 12), bool(np.nanmax(numbers["month"]) > 12)
    if day_first and month_first:
        column.refuse(numbers["month"] > 12, f"while in other cells the day is first: write 2024-02-29, {remedy}")
    if not day_first and not month_first:
        pointed = like(column.cells, r"^\d{1,2}\.\d{1,2}\.")
        column.refuse(~pointed, f"a date whose day or month may be first: write 2024-02-29, {remedy}")
    return "month-day-year" if month_first else "day-month-year"


def amounts(column: Column, form: str) -> Vector:
    """Days since 1970, NaN where they are missing; hours for times of a day.  An error names the first that is none."""
    column.refuse(~like(column.cells, PATTERNS[form]), f"which is no date of the form {form}")
    parts = _parts(column.cells, form)
    hours = parts["hour"] + parts["minute"] / 60 + parts["second"] / 3600
    column.refuse(
        (parts["hour"] > 24) | (parts["minute"] > 59) | (parts["second"] > 60), "and there is no such time of a day"
    )
    if form == "hour:minute":
        return hours
    known = np.isfinite(parts["year"])
    year, month, day = (np.where(known, parts[name], 1).astype(int) for name in ("year", "month", "day"))
    first = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + (day - 1)
    column.refuse(known & ((month < 1) | (month > 12) | (date.astype("datetime64[M]") != first)), "and no such date")
    zone = np.nan_to_num(parts["ahead"]) + np.nan_to_num(parts["minutes"]) / 60
    zone = np.where(parts["sign"] < 0, -zone, zone)
    return np.where(known, date.astype(float) + (np.nan_to_num(hours) - zone) / 24, np.nan)


def _parts(cells: Any, form: str) -> dict[str, Vector]:
    """The numbers in the cells by name; NaN where there is none, but 0 seconds of a time without any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.extract_regex(pc.fill_null(cells, ""), PATTERNS[form])
    names = {found.type.field(k).name for k in range(found.type.num_fields)}
    parts = {}
    for name in ("year", "month", "day", "hour", "minute", "second", "ahead", "minutes", "sign"):
        if name not in names:
            parts[name] = np.full(len(cells), np.nan)
            continue
        texts = pc.struct_field(found, name)
        if name == "sign":
            texts = pc.replace_substring_regex(texts, r"^([+-])$", r"\11")
        empty = pc.equal(texts, "")
        numbers = pc.cast(pc.if_else(empty, pa.scalar(None, texts.type), texts), pa.float64())
        parts[name] = numbers.fill_null(np.nan).to_numpy()
    parts["second"] = np.where(np.isfinite(parts["hour"]), np.nan_to_num(parts["second"]), np.nan)
    return parts
