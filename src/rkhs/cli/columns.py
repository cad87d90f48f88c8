"""From columns of a table to points: numbers standardised, texts one-hot encoded, all of it in the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rkhs.cli.cells import Column
from rkhs.cli.errors import CommandError
from rkhs.cli.tables import Frame, Table

KEPT = 50  # texts of a column that get a feature each, the rarest of them together if there are more


@dataclass(frozen=True)
class Kinds:
    """The names of the columns to learn from; columns without any value are in neither."""

    numeric: list[str]
    categorical: list[str]

    def notes(self) -> dict[str, Any]:
        """As they are kept in a model file."""
        return {"numeric columns": self.numeric, "categorical columns": self.categorical}


def kinds(table: Table, ignore: Sequence[str], as_text: Sequence[str]) -> Kinds:
    """What each column is that is not ignored; refuses what is neither numbers nor texts of some kinds."""
    for name in (*ignore, *as_text):
        if name not in table.others:
            table.column(name)
    numeric, categorical = [], []
    for name in table.others:
        if name not in ignore:
            raise CommandError(
                f"Column {name!r} of {table.path} holds lists, bytes or other compound values: leave it out with "
                f"--ignore {name!r}."
            )
    for name, column in table.columns.items():
        if name in ignore or column.empty:
            continue
        if name in as_text:
            categorical.append(name)
        elif column.numeric():
            numeric.append(name)
        else:
            _check_kinds(column)
            categorical.append(name)
    if not numeric and not categorical:
        raise CommandError(f"{table.path} has no column to learn from beside the target.")
    return Kinds(numeric, categorical)


def _check_kinds(column: Column) -> None:
    """Refuse names and sentences: texts that differ in most rows."""
    count, rows = len(column.counts()), len(column.cells)
    if count > KEPT and count > rows / 2:
        raise CommandError(
            f"Column {column.name!r} has {count} different texts in {rows} rows: leave it out with "
            f"--ignore {column.name!r}, or make numbers of it."
        )


def encoder(kinds: Kinds) -> Any:
    """The transformer from tables to points: missing numbers become the median, rare and new texts are one kind."""
    steps: list[Any] = []
    if kinds.numeric:
        steps.append(("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), kinds.numeric))
    if kinds.categorical:
        known = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=KEPT, sparse_output=False)
        steps.append(("categories", known, kinds.categorical))
    return ColumnTransformer(steps)


def prepared(table: Table, kinds: Kinds) -> Frame:
    """The columns that a model needs: numbers as float64, texts as they are written."""
    import pandas as pd

    for name in kinds.numeric + kinds.categorical:
        if name not in table.columns:
            raise CommandError(f"{table.path} has no column {name!r}, which the model needs.")
    ready = {name: table.columns[name].numbers() for name in kinds.numeric}
    ready |= {name: table.columns[name].texts() for name in kinds.categorical}
    return pd.DataFrame(ready, columns=kinds.numeric + kinds.categorical)


def new_texts(columns: Any, features: Frame, kinds: Kinds) -> dict[str, int] | None:
    """In how many rows of each column there is a text that the encoder was not fitted with; None if there is none."""
    if not kinds.categorical:
        return None
    seen = dict(zip(kinds.categorical, columns.named_transformers_["categories"].categories_, strict=True))
    counts = {name: int((~features[name].isin(seen[name])).sum()) for name in kinds.categorical}
    return {name: count for name, count in counts.items() if count} or None
