"""Columns of data frames of pandas and polars, and of arrays, by kind: numbers, dates, categories, texts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Vector

NUMERIC, BOOLEAN, DATE, ORDERED, CATEGORICAL, TEXT = "numeric", "boolean", "date", "ordered", "categorical", "text"
_DAY = 86_400_000_000  # microseconds
_INFERRED = {  # kinds by `pandas.api.types.infer_dtype`, for columns of Python objects
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal", "empty"), NUMERIC),
    **dict.fromkeys(("date", "datetime", "datetime64", "timedelta", "timedelta64"), DATE),
    "boolean": BOOLEAN,
    "string": TEXT,
    "categorical": CATEGORICAL,
}


def column_index(column: Any, names: Sequence[str] | None, owner: str) -> int:
    """Return the index of a column of X that is given by its index or its name.

    Parameters
    ----------
    column : int or str
        The column.
    names : sequence of str or None
        The names of the columns of X; None if it has none.
    owner : str
        What names the column, for the error if X does not have it.

    Returns
    -------
    int
        The index.

    Examples
    --------
    >>> from rkhs.extend import column_index
    >>> column_index("dose", ["age", "dose"], "shape"), column_index(3, None, "shape")
    (1, 3)
    """
    if not isinstance(column, str):
        return int(column)
    known = [] if names is None else list(map(str, names))
    if column in known:
        return known.index(column)
    nameless = (
        "X has no column names: fit with a data frame, or give the indices of the features. In a pipeline, "
        "set_output(transform='pandas') of the step before keeps the names"
    )
    has = nameless if names is None else f"X does not have it. Its columns are {', '.join(map(repr, known))}"
    raise ValueError(f"{owner} names column {column!r}, but {has}.")


@dataclass(frozen=True, eq=False)
class FrameColumn:
    """A column of a data frame of pandas or polars, by its kind.

    Parameters
    ----------
    name : object
        Its name.
    values : Series
        Its values, of pandas or polars.
    kind : str
        "numeric", "boolean", "date" (also times and durations), "ordered", "categorical" or "text"; the name of the
        type of columns that are none of these.

    Examples
    --------
    >>> import pandas as pd
    >>> from rkhs.extend import FrameColumn
    >>> day = FrameColumn("day", pd.Series(pd.to_datetime(["1970-01-03", None])), "date")
    >>> day.numbers()
    array([ 2., nan])
    """

    name: Any
    values: Any
    kind: str

    @cached_property
    def categories(self) -> list[str]:
        """The categories of an ordered column, in their order."""
        return [as_text(one) for one in self.values.dtype.categories]

    def numbers(self) -> Vector:
        """Return the values (t,) in float64, NaN where missing; dates, times and durations in days since 1970."""
        values = self.values
        if _is_polars(values):
            import polars as pl

            if self.kind == DATE:
                dtype = values.dtype
                if dtype == pl.Date:
                    values = values.cast(pl.Datetime("us"))
                elif dtype == pl.Time:
                    values = values.cast(pl.Duration("us"))
                units = {"ms": 1000, "us": 1, "ns": 1e-3}[values.dtype.time_unit]
                return np.asarray(values.to_physical().cast(pl.Float64).to_numpy() * (units / _DAY))
            return np.asarray(values.cast(pl.Float64).to_numpy())
        import pandas as pd

        if self.kind == DATE:
            return days_since_1970(values)
        if values.dtype == object:
            values = values.where(values.notna(), np.nan).astype(float)
        return np.asarray(pd.array(values).to_numpy(dtype=np.float64, na_value=np.nan))

    def texts(self) -> Vector:
        """Return the values (t,) as texts, "" where missing."""
        if _is_polars(self.values):
            import polars as pl

            values = self.values if self.kind == NUMERIC else self.values.cast(pl.String)
            missing, values = self.values.is_null().to_numpy(), values.to_list()
        else:
            missing, values = self.values.isna().to_numpy(bool), self.values.tolist()
        texts = np.array([as_text(value) for value in values], dtype=object)
        texts[missing] = ""
        return texts


def as_text(value: Any) -> str:
    """Return a value as text; a float without a fraction as an integer, since missing values make integers floats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def days_since_1970(values: Any) -> Vector:
    """Return the days since 1970, in UTC, of a series of pandas with dates, or the days of one with durations."""
    import pandas as pd

    if pd.api.types.infer_dtype(values, skipna=True).startswith("timedelta"):
        days = pd.to_timedelta(values) / pd.Timedelta(days=1)
    else:
        days = (pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=np.float64, na_value=np.nan))


def frame_columns(X: Any) -> dict[Any, FrameColumn] | None:
    """Return the columns of a data frame of pandas or polars by name; None for anything else.

    Parameters
    ----------
    X : object
        Perhaps a data frame.

    Returns
    -------
    dict of str to FrameColumn, or None
        The columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from rkhs.extend import frame_columns
    >>> [column.kind for column in frame_columns(pd.DataFrame({"city": ["Rome", "Paris"], "area": [40, 45]})).values()]
    ['text', 'numeric']
    """
    if _is_polars(X) and hasattr(X, "get_columns"):
        return {series.name: FrameColumn(series.name, series, _polars_kind(series)) for series in X.get_columns()}
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame):
        return None
    series = [X.iloc[:, k] for k in range(X.shape[1])]
    return {one.name: FrameColumn(one.name, one, _pandas_kind(one)) for one in series}


def check_numeric(columns: Mapping[Any, FrameColumn], name: str) -> None:
    """Raise a ValueError about the first column of a frame that is neither numbers nor booleans."""
    for column in columns.values():
        if column.kind in (NUMERIC, BOOLEAN):
            continue
        texts = column.texts()
        present = texts[texts != ""]
        example = f" such as {present[0]!r}" if len(present) else ""
        holds = {DATE: "dates", ORDERED: "ordered categories", CATEGORICAL: "categories", TEXT: "texts"}
        raise ValueError(
            f"Column {column.name!r} of {name} holds {holds.get(column.kind, column.kind)}{example}, which are no "
            "numbers: encode the table first, as by make_pipeline(rkhs.preprocessing.TableEncoder(), model)."
        )


def _is_polars(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "polars"


def _polars_kind(series: Any) -> str:
    import polars as pl

    dtype = series.dtype
    kinds = {pl.Boolean: BOOLEAN, pl.Categorical: CATEGORICAL, pl.Enum: ORDERED, pl.String: TEXT, pl.Null: NUMERIC}
    if dtype.is_numeric() or dtype.is_temporal():
        return NUMERIC if dtype.is_numeric() else DATE
    return next((kind for one, kind in kinds.items() if dtype == one), str(dtype))


def _pandas_kind(series: Any) -> str:
    import pandas as pd

    types, dtype = pd.api.types, series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return ORDERED if dtype.ordered else CATEGORICAL
    if types.is_bool_dtype(dtype):
        return BOOLEAN
    if types.is_numeric_dtype(dtype):
        return str(dtype) if types.is_complex_dtype(dtype) else NUMERIC
    if types.is_datetime64_any_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        return DATE
    inferred = types.infer_dtype(series, skipna=True)
    return _INFERRED.get(inferred, f"{inferred} objects")
