"""From columns of a table to points: numbers standardised, categories one-hot encoded, all of it in the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from rkhs.cli.errors import CommandError
from rkhs.cli.tables import Frame

LARGEST = 1e100  # a number beyond which squares, and sums of them, are lost
MOST_CATEGORIES = 50  # beyond, a column of text that differs in most rows is taken for a name or a date


def kinds(features: Frame) -> tuple[list[str], list[str]]:
    """The names of the numeric and of the categorical columns; columns without any value are in neither."""
    import pandas as pd
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    numeric, categorical = [], []
    for name in features.columns:
        values = features[name]
        if values.isna().all():
            continue
        if is_numeric_dtype(values) and not is_bool_dtype(values):
            numeric.append(name)
            continue
        count = int(values.nunique())
        wordy = pd.to_numeric(values, errors="coerce").isna() & values.notna()
        if count > MOST_CATEGORIES and 0 < wordy.sum() < len(values) / 2:
            row = int(np.flatnonzero(wordy)[0])
            raise CommandError(
                f"Column {name!r} has numbers, but {values.iloc[row]!r} in row {row + 1}: leave that cell empty if the "
                "number is not known."
            )
        if count > MOST_CATEGORIES and count > len(values) / 2:
            raise CommandError(
                f"Column {name!r} has {count} different texts in {len(values)} rows: leave it out with "
                f"--ignore {name!r}, or make numbers of it."
            )
        categorical.append(name)
    if not numeric and not categorical:
        raise CommandError("There is no column to learn from beside the target.")
    return numeric, categorical


def encoder(numeric: list[str], categorical: list[str]) -> Any:
    """The transformer from tables to points; empty numeric cells become the median."""
    steps: list[Any] = []
    if numeric:
        steps.append(("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric))
    if categorical:
        known = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps.append(("categories", known, categorical))
    return ColumnTransformer(steps)


def prepared(features: Frame, numeric: list[str], categorical: list[str], where: str) -> Frame:
    """The columns that a model needs: numbers as float64, categories as text; an error names what is not so."""
    import pandas as pd

    missing = [name for name in numeric + categorical if name not in features.columns]
    if missing:
        raise CommandError(f"{where} has no column {missing[0]!r}, which the model needs.")
    ready = {}
    for name in numeric:
        values = pd.to_numeric(features[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = np.isnan(values) & ~features[name].isna().to_numpy()
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise CommandError(
                f"{where} has {features[name].iloc[row]!r} in row {row + 1} of the numeric column {name!r}."
            )
        if np.isinf(values).any():
            raise CommandError(f"{where} has an infinite value in column {name!r}.")
        if np.abs(values).max(initial=0.0, where=~np.isnan(values)) > LARGEST:
            raise CommandError(f"{where} has a number larger than {LARGEST:g} in column {name!r}: use other units.")
        ready[name] = values
    for name in categorical:
        empty = features[name].isna().to_numpy()
        ready[name] = np.where(empty, "", features[name].astype(str).to_numpy()).astype(object)
    return pd.DataFrame(ready, columns=numeric + categorical)
