"""From columns of a table to points: numbers and dates standardised, texts one-hot encoded, all of it in the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rkhs.cli import dates
from rkhs.cli.cells import Column
from rkhs.cli.errors import CommandError, Problems, meant
from rkhs.cli.tables import Frame, Table

KEPT = 50  # texts of a column that get a feature each, the rarest of them together if there are more
FEWEST = 20  # different texts, one in each row, that are taken for names
IDENTIFIER = re.compile(r"(^|[\s_.-])(id|uuid|key)$|^id[\s_.-]|[a-z]I[Dd]$", re.IGNORECASE)


@dataclass(frozen=True)
class Kinds:
    """The names of the columns: to learn from, and those that only name rows.  Columns without any value are in none.

    `dates` has the form of each column of dates (`rkhs.cli.dates`).
    """

    numeric: list[str]
    categorical: list[str]
    dates: dict[str, str] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    @property
    def amounts(self) -> list[str]:
        """The columns that become one feature each, in their order."""
        return [*self.numeric, *self.dates]

    @property
    def features(self) -> list[str]:
        """The columns to learn from, in their order."""
        return [*self.amounts, *self.categorical]

    def notes(self) -> dict[str, Any]:
        """As they are kept in a model file."""
        return {
            "numeric columns": self.numeric,
            "categorical columns": self.categorical,
            "date columns": self.dates,
            "id columns": self.ids,
        }

    @classmethod
    def noted(cls, notes: dict[str, Any]) -> Kinds:
        """From the notes in a model file; early ones know no dates and no names."""
        return cls(
            notes["numeric columns"],
            notes["categorical columns"],
            notes.get("date columns", {}),
            notes.get("id columns", []),
        )


def kinds(table: Table, ignore: Sequence[str], as_text: Sequence[str], ids: Sequence[str] = ()) -> Kinds:
    """What each column is that is not ignored; refuses what is neither numbers nor dates nor texts, all at once."""
    problems, found = Problems(), Kinds([], [])
    for name in (*ignore, *as_text, *ids):
        with problems.gathered():
            if name not in table.others:
                table.column(name)
    for name in table.others:
        with problems.gathered():
            if name not in ignore:
                raise CommandError(
                    f"Column {name!r} of {table.path} holds lists, bytes or other compound values: leave it out with "
                    f"--ignore {name!r}."
                )
    for name, column in table.columns.items():
        if name in ignore or column.empty:
            continue
        if name in ids:
            found.ids.append(name)
            continue
        with problems.gathered():
            _sort_in(found, column, name in as_text)
    problems.check()
    if not found.features:
        raise CommandError(f"{table.path} has no column to learn from {_left(found.ids)}")
    return found


def _sort_in(found: Kinds, column: Column, as_text: bool) -> None:
    """Add a column to the kind that it is of."""
    import pyarrow as pa

    if as_text:
        found.categorical.append(column.name)
        return
    form = dates.form_of(column) if pa.types.is_large_string(column.cells.type) else None
    if form is not None:
        found.dates[column.name] = form
    elif not column.numeric():
        (found.ids if _names_rows(column) else found.categorical).append(column.name)
    else:
        (found.ids if _numbers_rows(column) else found.numeric).append(column.name)


def _names_rows(column: Column) -> bool:
    """Whether texts differ in most rows: names, sentences."""
    count, known = len(column.counts()), len(column.cells) - column.missing
    return (count == known and count >= FEWEST) or (count > KEPT and count > len(column.cells) / 2)


def _numbers_rows(column: Column) -> bool:
    """Whether integers, of which no two are the same, are called a name of rows: "customer_id"."""
    if not IDENTIFIER.search(column.name) or column.missing:
        return False
    values = column.numbers()
    return len(np.unique(values)) == len(values) >= FEWEST and bool(np.all(values == np.round(values)))


def _left(ids: Sequence[str]) -> str:
    listed = ", ".join(map(repr, ids))
    return (
        f"but {listed}, whose cells differ in most rows: take it for text with --text {ids[0]!r}, or add a column."
        if ids
        else "but the target: add a column with numbers, dates or texts."
    )


def encoder(kinds: Kinds) -> Any:
    """The transformer from tables to points: missing numbers become the median, rare and new texts are one kind."""
    steps: list[Any] = []
    if kinds.amounts:
        steps.append(("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), kinds.amounts))
    if kinds.categorical:
        known = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=KEPT, sparse_output=False)
        steps.append(("categories", known, kinds.categorical))
    return ColumnTransformer(steps)


def prepared(table: Table, kinds: Kinds) -> Frame:
    """The columns that a model needs: numbers as float64, dates as days, texts as they are written."""
    import pandas as pd

    problems = Problems()
    for name in kinds.features:
        with problems.gathered():
            if name not in table.columns:
                raise CommandError(
                    f"{table.path} has no column {name!r}, which the model needs.{meant(name, table.columns)}"
                )
    problems.check()
    ready: dict[str, Any] = {}
    for name in kinds.features:
        column = table.columns[name]
        with problems.gathered():
            if name in kinds.dates:
                ready[name] = dates.amounts(column, kinds.dates[name])
            else:
                ready[name] = column.texts() if name in kinds.categorical else column.numbers()
    problems.check()
    return pd.DataFrame(ready, columns=kinds.features)


def new_texts(columns: Any, features: Frame, kinds: Kinds) -> dict[str, str] | None:
    """In how many rows of each column there is a text that the encoder was not fitted with, and some; None if none."""
    if not kinds.categorical:
        return None
    seen = dict(zip(kinds.categorical, columns.named_transformers_["categories"].categories_, strict=True))
    found = {}
    for name in kinds.categorical:
        new = features[name][~features[name].isin(seen[name])]
        if len(new):
            some = [text or "(empty)" for text in dict.fromkeys(new)]
            listed = ", ".join(some[:3]) + (", .." if len(some) > 3 else "")
            found[name] = f"{len(new)} {'row' if len(new) == 1 else 'rows'} ({listed})"
    return found or None
