"""From files to tables, and from tables to the features of a model.

A CSV file is text in UTF-8, or in UTF-16 with its mark.  Commas separate columns, or semicolons, tabs or bars if the
header has no comma, or what the user says.  Every row has the cells of the header, or the file is refused with the
line.  Blank lines are skipped, and empty cells after the last column.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rkhs._cli.columns import NUMBER, TableColumn
from rkhs._cli.terminal import CommandError, Problems, suggest

PARQUET = (".parquet", ".pq")
MAX_CATEGORIES = 50  # texts of a column with a feature each; the rarest have one together if there are more
FEWEST_NAMES = 20  # different texts, one in each row, that are taken for names of rows
NOTES = {  # names of the kinds of columns in model files
    "numeric columns": "numeric",
    "categorical columns": "categorical",
    "date columns": "dates",
    "id columns": "ids",
}
IDENTIFIER = re.compile(r"(^|[\s_.-])(id|uuid|key)$|^id[\s_.-]|[a-z]I[Dd]$", re.IGNORECASE)


@dataclass(frozen=True)
class Format:
    """How to read a file: texts that stand for missing cells; of CSV files the separator and the decimal sign."""

    missing: tuple[str, ...] = ()
    separator: str | None = None
    decimal: str | None = None

    @classmethod
    def of(cls, missing: str, separator: str | None, decimal: str | None) -> Format:
        """Return the format that the options ask for; a tab can be written \\t."""
        marks = tuple(text.strip() for text in missing.split(",") if text.strip())
        separator, problems = "\t" if separator in ("\\t", "tab") else separator, Problems()
        problems.refuse(
            separator is not None and (len(separator) != 1 or separator in '"\n\r'),
            f"--separator must be one sign that is no quote, such as ; or \\t for a tab, got {separator!r}.",
        )
        problems.refuse(
            decimal not in (None, ".", ","), f"--decimal must be the sign . or the sign , and is {decimal!r}."
        )
        problems.refuse(
            separator is not None and separator == decimal,
            f"--separator and --decimal are both {decimal!r}: give each a sign of its own.",
        )
        problems.check()
        return cls(marks, separator, decimal)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, all of the same length; `compound` names columns of lists, bytes or other compound values."""

    path: Path
    rows: int
    columns: dict[str, TableColumn]
    compound: tuple[str, ...] = ()

    def column(self, name: str) -> TableColumn:
        """Return a column, or raise an error with the names that there are."""
        if name in self.compound:
            raise CommandError(f"Column {name!r} of {self.path} holds lists, bytes or other compound values.")
        if name not in self.columns:
            names = list(self.columns)
            listed = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
            raise CommandError(f"{self.path} has no column {name!r}; its columns are {listed}.{suggest(name, names)}")
        return self.columns[name]


def read(path: Path, form: Format) -> Table:
    """Read a table from a file; all problems of its header are reported at once."""
    if not path.is_file():
        if path.is_dir():
            raise CommandError(f"{path} is a folder, not a table: give the name of a file.")
        near = [other.name for other in path.parent.iterdir() if other.is_file()] if path.parent.is_dir() else []
        raise CommandError(f"There is no file {path}.{suggest(path.name, near)}")
    comma = False
    if path.suffix.lower() in PARQUET:
        frame, unit = _read_parquet(path), "row"
        lines: Sequence[int] = range(1, len(frame) + 1)
    else:
        (frame, lines, separator), unit = _read_csv(path, form.separator), "line"
        comma = separator != ","
    if not len(frame.columns):
        raise CommandError(f"{path} has no columns: the first line of a table has their names.")
    if not len(frame):
        raise CommandError(f"{path} has no rows: below the names of the columns there has to be a line for each row.")
    names, problems = [str(name).strip() for name in frame.columns], Problems()
    columns, compound = {}, []
    for number, (name, (_, raw)) in enumerate(zip(names, frame.items(), strict=True), 1):
        cells = _simplified(raw, form.missing)
        if cells is None:
            compound.append(name)
        elif name:
            columns[name] = TableColumn(name, cells, lambda row: f"{path}, {unit} {lines[row]}", comma, form.decimal)
        else:
            problems.refuse(
                bool(cells.notna().any()),
                f"Column {number} of {path} has no name: give it one in the header, or write the table without it "
                "(pandas: index=False).",
            )
    for name, count in Counter(names).items():
        problems.refuse(count > 1 and name != "", f"{path} has two columns {name!r}: give each a name of its own.")
    problems.check()
    return Table(path, len(frame), columns, tuple(compound))


def _read_parquet(path: Path) -> pd.DataFrame:
    """Read all columns with Arrow's types; the index of a pandas frame is no column."""
    try:
        with path.open("rb") as file:  # not the path, whose folders may look like partitions
            return pd.read_parquet(file, dtype_backend="pyarrow")
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CommandError(f"{path} cannot be read as a Parquet file: {reason}") from error


def _simplified(cells: pd.Series, missing: Sequence[str]) -> pd.Series | None:
    """Return texts, integers or floats with NA for missing cells; None for compound values."""
    kind = getattr(cells.dtype, "pyarrow_dtype", pa.large_string())
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        cells = cells.astype(pd.ArrowDtype(kind))
    if pa.types.is_nested(kind) or "binary" in str(kind):
        return None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_duration(kind):
        if not pa.types.is_integer(kind):
            cells = cells.astype("double[pyarrow]" if pa.types.is_floating(kind) else "int64[pyarrow]")
        values = cells.to_numpy(float, na_value=np.nan)
        marks = [float(text) for text in missing if re.fullmatch(NUMBER, text)]
        return cells.mask(np.isnan(values) | np.isin(values, marks))
    cells = cells.astype("string[pyarrow]").str.strip()
    return cells.mask(cells.isin(["", *missing]))


def _read_csv(path: Path, separator: str | None) -> tuple[pd.DataFrame, list[int], str]:
    """Return the cells as texts, the line of each row, and the separator."""
    csv.field_size_limit(2**31 - 1)
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    wide, frames, lines = False, [], []
    try:
        with opener(path, "rb") as file:
            wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        with opener(path, "rt", encoding="utf-16" if wide else "utf-8-sig", newline="") as file:
            skipped, first = next(((k, line) for k, line in enumerate(file) if line.strip()), (0, ""))
            bare = re.sub(r'"[^"]*("|$)', "", first)
            separator = separator or next((sign for sign in ",;\t|" if sign in bare), ",")
            rows = _rows(path, chain([first], file), skipped, separator)
            header = next(rows, (0, []))[1]
            while some := list(islice(rows, 20_000)):  # moved to Arrow's arrays, which need a fifth of the memory
                lines += [line for line, _ in some]
                frames.append(pd.DataFrame([row for _, row in some], columns=header, dtype="string[pyarrow]"))
    except UnicodeDecodeError as error:
        place = str(path)
        if not wide:
            with opener(path, "rb") as file:
                broken = (k for k, line in enumerate(file, 1) if line.decode("utf-8", "ignore").encode() != line)
                place += f", line {next(broken)}"
        raise CommandError(f"{place} is no text in UTF-8: save it in that encoding.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=header), lines, separator


def _rows(path: Path, lines: Iterator[str], skipped: int, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the header and all rows that are not blank, each with its line in the file and as long as the header."""
    reader, width = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True), 0
    while True:
        line = skipped + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = "end of data" in str(error)
            wrong = "opens a quote that is never closed" if unclosed else "has text behind a closing quote"
            raise CommandError(
                f'{path}, line {line} {wrong}: write a quote within a quoted cell twice, as in "5"" wide".'
            ) from error
        if "\0" in "".join(row):
            raise CommandError(f"{path}, line {line} has a NUL byte: this is no CSV text, or not one in UTF-8.")
        if len(row) < 2 and not "".join(row).strip():
            continue
        width = width or len(row)
        if len(row) < width or any(cell.strip() for cell in row[width:]):
            raise CommandError(
                f"{path}, line {line}: its cells are {len(row)} and the names in the header {width}: put cells with a "
                "separator in them in quotes, write the separators of empty cells too, or name another with "
                "--separator."
            )
        yield line, row[:width]


@dataclass(frozen=True)
class Kinds:
    """The names of columns by kind: to learn from, or `ids`, which only name rows.  Empty columns are in none."""

    numeric: list[str]
    categorical: list[str]
    dates: dict[str, str] = field(default_factory=dict)  # with their form (`rkhs._cli.columns`)
    ids: list[str] = field(default_factory=list)

    @property
    def amounts(self) -> list[str]:
        """The columns that become one feature each, in their order."""
        return [*self.numeric, *self.dates]

    @property
    def features(self) -> list[str]:
        """The columns to learn from, in their order."""
        return [*self.amounts, *self.categorical]


def classify(table: Table, ignore: Sequence[str], as_text: Sequence[str], ids: Sequence[str] = ()) -> Kinds:
    """Return the kind of each column that is not ignored; refuse mixtures of kinds, all at once."""
    problems, found = Problems(), Kinds([], [])
    for name in (*ignore, *as_text, *ids):
        with problems.gathered():
            if name not in table.compound:
                table.column(name)
    for name in table.compound:
        problems.refuse(
            name not in ignore,
            f"Column {name!r} of {table.path} holds lists, bytes or other compound values: leave it out with "
            f"--ignore {name!r}.",
        )
    for name, column in table.columns.items():
        if name in ignore or column.cells.isna().all():
            continue
        with problems.gathered():
            if name in ids:
                found.ids.append(name)
            elif name in as_text:
                found.categorical.append(name)
            elif (form := column.date_form()) is not None:
                found.dates[name] = form
            elif column.is_numeric():
                name_rows = False
                if IDENTIFIER.search(name) and column.cells.notna().all():  # as "customer_id", if integers all differ
                    values = column.numbers()
                    name_rows = len(set(values)) == len(values) >= FEWEST_NAMES and not np.any(values % 1)
                (found.ids if name_rows else found.numeric).append(name)
            else:  # texts that differ in most rows are names or sentences
                count, known = len(column.counts()), int(column.cells.notna().sum())
                all_differ = count == known and count >= FEWEST_NAMES
                most_differ = count > MAX_CATEGORIES and count > table.rows / 2
                (found.ids if all_differ or most_differ else found.categorical).append(name)
    problems.check()
    if not found.features:
        others = "the target: add a column with numbers, dates or texts."
        if found.ids:
            others = (
                f"{', '.join(map(repr, found.ids))}, whose cells differ in most rows: take it for text with --text "
                f"{found.ids[0]!r}, or add a column."
            )
        raise CommandError(f"{table.path} has no column to learn from but {others}")
    return found


def features_of(table: Table, kinds: Kinds) -> pd.DataFrame:
    """Return the columns that a model needs: numbers as float64, dates as days, texts as they are written."""
    problems, features = Problems(), {}
    for name in kinds.features:
        with problems.gathered():
            if name not in table.columns:
                raise CommandError(
                    f"{table.path} has no column {name!r}, which the model needs.{suggest(name, table.columns)}"
                )
            column = table.columns[name]
            if name in kinds.dates:
                features[name] = column.days(kinds.dates[name])
            else:
                features[name] = column.texts() if name in kinds.categorical else column.numbers()
    problems.check()
    return pd.DataFrame(features, columns=kinds.features)


def encoder(kinds: Kinds) -> ColumnTransformer:
    """Return the transformer from features to points: numbers standardized, texts one-hot encoded.

    Missing numbers become the median; rare and new texts have one feature together.
    """
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False)
    steps = [("numbers", numbers, kinds.amounts), ("categories", texts, kinds.categorical)]
    return ColumnTransformer([one for one in steps if one[2]])


def describe(table: Table, kinds: Kinds, features: pd.DataFrame, target: str) -> list[dict[str, Any]]:
    """Describe each column, so that a misread table is noticed: kind, different and missing values, and examples."""
    rows = []
    for name, column in table.columns.items():
        if name in kinds.amounts:
            values = features[name].dropna()
            count, ends = values.nunique(), (values.idxmin(), values.idxmax())
            if name in kinds.dates:
                kind = f"dates, {kinds.dates[name]}"
                cells = " to ".join(str(column.cells.iloc[row]) for row in ends)
            else:
                kind, cells = "numbers", " to ".join(f"{values[row]:.4g}" for row in ends)
        else:
            texts = column.counts()
            count, shown = len(texts), [(" ".join(text.split()), times) for text, times in texts[:3]]
            cells = ", ".join(f"{text if len(text) <= 20 else text[:18] + '..'} ({times})" for text, times in shown)
            cells += ", .." if count > 3 else ""
            if name in kinds.categorical:
                kind = "text"
                if count > MAX_CATEGORIES:
                    rare = texts[MAX_CATEGORIES - 1 :]
                    cells += (
                        f"; the {len(rare)} rarest, in {sum(times for _, times in rare)} rows, are taken for one kind"
                    )
            elif name == target:
                kind = "target"
            else:
                kind = "names of rows, left out" if name in kinds.ids else "left out" if count else "empty"
        missing = int(column.cells.isna().sum())
        rows.append({"column": name, "kind": kind, "values": count, "cells": cells, "missing": missing})
    compound = {"kind": "left out", "values": None, "cells": "", "missing": None}
    return rows + [{"column": name, **compound} for name in table.compound]
