"""Read tables from CSV and Parquet files, and say which columns are features of which kind.

A CSV file is text in UTF-8, or in UTF-16 with a byte order mark.  Commas separate columns; semicolons, tabs or bars do
if the header has no comma; `--separator` overrides both.  Every row has as many cells as the header, except that empty
cells may follow the last column; blank lines are skipped.  Rows are split by the `csv` module and not by
`pandas.read_csv`, which fills short rows silently and does not report the line of a broken quote.

Cells are converted to numbers, dates or texts.  A cell is missing if it is empty or one of the marks given with
`--missing`; "NA" is a text otherwise.  A column of dates has one format: the year is first (2024-02-29), or last after
day and month.  Which of these two is first follows from days after the twelfth; with points it is the day (29.2.2024).
Ambiguous columns are refused.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rkhs._command.options import PARQUET, Format, check_is_file
from rkhs._command.terminal import CommandError, Problems, listed, suggest
from rkhs.extend import FrameColumn, Vector
from rkhs.preprocessing import TableEncoder, column_kinds

NOTES = {  # names of the kinds of columns in model files
    "numeric columns": "numeric",
    "categorical columns": "categorical",
    "sentence columns": "sentences",
    "date columns": "dates",
    "id columns": "ids",
}
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


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, all of the same length."""

    path: Path
    rows: int
    columns: dict[str, TableColumn]

    def column(self, name: str) -> TableColumn:
        """Return a column; raise an error that lists the columns if there is none of this name."""
        if name not in self.columns:
            names = list(self.columns)
            known = listed(names, 8)
            raise CommandError(f"{self.path} has no column {name!r}; its columns are {known}.{suggest(name, names)}")
        return self.columns[name]


def read(path: Path, form: Format) -> Table:
    """Read a table from a file; report all problems of its header at once."""
    check_is_file(path, "a table")
    if path.suffix.lower() in PARQUET:
        frame, comma = _read_parquet(path), False
    else:
        frame, separator = _read_csv(path, form.separator)
        comma = separator != ","
    if not len(frame.columns):
        raise CommandError(f"{path} has no columns: the first line of a table must name them.")
    if not len(frame):
        raise CommandError(f"{path} has no rows: add a line for each row below the names of the columns.")
    names, problems, columns = [str(name).strip() for name in frame.columns], Problems(), {}
    for k, name in enumerate(names):
        cells = _simplified(frame.iloc[:, k], form.missing)
        columns[name] = TableColumn(name, cells, f"{path}, {frame.index.name}", comma, form.decimal)
        if name == "" and cells.notna().any():
            problems.add(
                f"Column {k + 1} of {path} has no name: give it one in the header, or write the table without it "
                "(pandas: index=False)."
            )
    columns.pop("", None)
    for name, count in Counter(names).items():
        if count > 1 and name != "":
            problems.add(f"{path} has two columns {name!r}: rename one of them.")
    problems.check()
    if any(column.has_commas() for column in columns.values()):
        columns = {name: replace(column, beside_commas=True) for name, column in columns.items()}
    return Table(path, len(frame), columns)


def _read_parquet(path: Path) -> pd.DataFrame:
    """Read all columns with Arrow's types; the index of a pandas frame is not a column."""
    try:
        with path.open("rb") as file:  # not the path, whose folders may look like partitions
            frame = pd.read_parquet(file, dtype_backend="pyarrow")
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CommandError(f"{path} cannot be read as a Parquet file: {reason}") from error
    return frame.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))


def _simplified(cells: pd.Series, missing: tuple[str, ...]) -> pd.Series:
    """Return cells as texts, integers or floats with NA for missing ones; objects if they are lists or bytes."""
    kind = getattr(cells.dtype, "pyarrow_dtype", pa.large_string())
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(kind) or "binary" in str(kind):
        return cells.astype(object)
    if pa.types.is_duration(kind):
        cells = cells.astype("int64[pyarrow]")
    elif pa.types.is_floating(kind):
        cells = cells.astype("double[pyarrow]")
    elif not pa.types.is_integer(kind):
        cells = cells.astype("string[pyarrow]").str.strip()
        return cells.mask(cells.isin(["", *missing]))
    values = cells.to_numpy(float, na_value=np.nan)
    return cells.mask(pd.isna(values) | np.isin(values, pd.to_numeric(pd.Series(missing, dtype=str), errors="coerce")))


def _read_csv(path: Path, separator: str | None) -> tuple[pd.DataFrame, str]:
    """Return the cells as texts, with the line of each row as index, and the separator."""
    text = _decoded(path)
    header = re.sub(r'"[^"]*("|$)', "", next((line for line in text.splitlines() if line.strip()), ""))
    separator = separator or next((sign for sign in ",;\t|" if sign in header), ",")
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    rows: dict[int, list[str]] = {}
    line, width = 1, 0
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip():
                width = width or len(row)
                if len(row) < width or any(cell.strip() for cell in row[width:]):
                    raise CommandError(
                        f"{path}, line {line} has {len(row)} cells and the header {width} names: quote cells that "
                        "contain a separator, write the separators of empty cells too, or name another separator with "
                        "--separator."
                    )
                rows[line] = row[:width]
            line = reader.line_num + 1
    except csv.Error as error:
        wrong = (
            "opens a quote that is never closed" if "end of data" in str(error) else "has text after a closing quote"
        )
        raise CommandError(
            f'{path}, line {line} {wrong}: double a quote within a quoted cell, as in "5"" wide".'
        ) from error
    names = rows.pop(next(iter(rows))) if rows else []
    lines = pd.Index(rows.keys(), name="line")
    return pd.DataFrame(list(rows.values()), lines, names, dtype="string[pyarrow]"), separator


def _decoded(path: Path) -> str:
    """Return the text of a file, which may be compressed with gzip."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        place = "" if wide else f", line {data[: error.start].count(10) + 1}"  # 10 is the code of a line feed
        raise CommandError(f"{path}{place} is not text in UTF-8: save the file in that encoding.") from error
    if (nul := text.find("\0")) >= 0:
        line = text.count("\n", 0, nul) + 1
        raise CommandError(f"{path}, line {line} contains a NUL byte: the file is not CSV text in UTF-8.")
    return text


@dataclass(frozen=True)
class Kinds:
    """Names of columns by kind: features, or `ids`, which only name the rows.  Empty columns are in none."""

    numeric: list[str]
    categorical: list[str]
    sentences: list[str] = field(default_factory=list)
    dates: dict[str, str] = field(default_factory=dict)  # with their format
    ids: list[str] = field(default_factory=list)

    @property
    def amounts(self) -> list[str]:
        """The columns that become one feature each, in their order."""
        return [*self.numeric, *self.dates]

    @property
    def features(self) -> list[str]:
        """The columns to learn from, in their order."""
        return [*self.amounts, *self.categorical, *self.sentences]

    def add(self, column: TableColumn) -> None:
        """Add a column by what its cells are."""
        name, kind = column.name, column.kind()
        if kind not in (NUMBERS, TEXT):
            self.dates[name] = kind
            return
        values = column.numbers() if kind == NUMBERS else column.texts()
        cells = FrameColumn(name, pd.Series(values), "numeric" if kind == NUMBERS else "text")
        lists = {"numeric": self.numeric, "categorical": self.categorical, "words": self.sentences, "id": self.ids}
        lists[column_kinds({name: cells})[name]].append(name)

    def encoder(self) -> TableEncoder:
        """Return the transformer from features to points."""
        names = {"numeric": self.amounts, "categorical": self.categorical, "words": self.sentences}
        return TableEncoder({name: kind for kind, columns in names.items() for name in columns})


def classify(table: Table, ignore: Sequence[str], as_text: Sequence[str], ids: Sequence[str] = ()) -> Kinds:
    """Return the kind of each column that is not ignored; refuse mixtures of kinds, all at once."""
    problems, found = Problems(), Kinds([], [])
    for name in (*ignore, *as_text, *ids):
        with problems.gathered():
            table.column(name)
    for name, column in table.columns.items():
        if name in ignore or column.cells.isna().all():
            continue
        with problems.gathered():
            if name in ids:
                found.ids.append(name)
            elif name in as_text:
                found.categorical.append(name)
            else:
                found.add(column)
    problems.check()
    if not found.features:
        others = "the target: add a column with numbers, dates or texts."
        if found.ids:
            others = (
                f"{', '.join(map(repr, found.ids))}, whose cells differ in most rows: read it as text with --text "
                f"{found.ids[0]!r}, or add a column."
            )
        raise CommandError(f"{table.path} has no column to learn from but {others}")
    return found


def features_of(table: Table, kinds: Kinds) -> pd.DataFrame:
    """Return the columns that a model needs: numbers in float64, dates as days, texts as they are written."""
    problems, features = Problems(), {}
    for name in kinds.features:
        with problems.gathered():
            if name not in table.columns:
                near = suggest(name, table.columns)
                raise CommandError(f"{table.path} has no column {name!r}, which the model needs.{near}")
            column = table.columns[name]
            if name in kinds.dates:
                features[name] = column.days(kinds.dates[name])
            else:
                features[name] = column.numbers() if name in kinds.numeric else column.texts()
    problems.check()
    lines = next(iter(table.columns.values())).cells.index
    return pd.DataFrame(features, index=lines, columns=kinds.features)


def describe(table: Table, kinds: Kinds, features: pd.DataFrame, target: str, regression: bool) -> list[dict[str, Any]]:
    """Describe each column, so that a misread table is noticed: kind, different and missing values, and examples."""
    roles = dict.fromkeys(table.columns, "left out") | dict.fromkeys(kinds.ids, "names of rows, left out")
    roles |= dict.fromkeys(kinds.numeric, NUMBERS) | dict.fromkeys(kinds.categorical, TEXT)
    roles |= dict.fromkeys(kinds.sentences, "sentences, read by their words") | {target: "target"}
    roles |= {name: f"dates, {form}" for name, form in kinds.dates.items()}
    rows = []
    for name, column in table.columns.items():
        counts = column.counts()
        if name in kinds.amounts or (regression and name == target):
            numbers = features[name] if name != target else pd.Series(column.numbers(), column.cells.index)
            values = numbers.dropna()
            ends = (
                column.cells[k] if name in kinds.dates else f"{values[k]:.4g}"
                for k in (values.idxmin(), values.idxmax())
            )
            count, cells = values.nunique(), " to ".join(ends)
        else:
            texts = (" ".join(text.split()) for text in counts.index[:3])
            shown = (text if len(text) <= 20 else text[:18] + ".." for text in texts)
            count = len(counts)
            cells = ", ".join(f"{text} ({times})" for text, times in zip(shown, counts, strict=False))
            cells += ", .." if count > 3 else ""
            most = TableEncoder().max_categories
            if name in kinds.categorical and count > most:
                rare = counts[most - 1 :]
                cells += f"; the {len(rare)} rarest, in {rare.sum()} rows, share one feature"
        missing = int(column.cells.isna().sum())
        kind = roles[name] if count or name == target else "empty"
        rows.append({"column": name, "kind": kind, "values": count, "cells": cells, "missing": missing})
    return rows


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
        return FrameColumn(self.name, self.cells, "text").texts()

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
        return FrameColumn(self.name, instants, "date").numbers() * (24 if form == CLOCK else 1)
