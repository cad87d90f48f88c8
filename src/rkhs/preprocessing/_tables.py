"""The encoding of tables as points: numbers standardized, categories one-hot, sentences by their words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs.extend import FrameColumn, Matrix, Vector, frame_columns, warn

AMOUNTS = NUMERIC, BOOLEAN, DATE, ORDERED = (
    "numeric",
    "boolean",
    "date",
    "ordered",
)  # kinds that become one feature each
CATEGORICAL, WORDS, ID, EMPTY = "categorical", "words", "id", "empty"
TEXT = "text"  # the kind of a `FrameColumn`, whose values decide which of the four it is
STATED = (NUMERIC, CATEGORICAL, WORDS, ID)  # kinds that a user may state; others follow from the type of a column
MAX_CATEGORIES = 50  # features of one column of categories; the rarest share one if there are more
MIN_NAMES = 20  # different texts, one in each row, from which a column is taken to name the rows
SENTENCE = 4  # the median number of words in texts of which most differ, from which they are sentences and no names
COMPONENTS = 100  # features of a column of sentences
ROUNDING = 1e-6  # singular values below this share of the largest one are rounding, which scaling would magnify
IDENTIFIER = re.compile(r"(^|[\s_.-])(id|uuid|key)$|^id[\s_.-]|[a-z]I[Dd]$", re.IGNORECASE)


def column_kinds(columns: Mapping[Any, FrameColumn]) -> dict[Any, str]:
    """Return the kind of each column of a table, as `TableEncoder` finds it.

    Parameters
    ----------
    columns : mapping from str to rkhs.extend.FrameColumn
        The columns, as of `rkhs.extend.frame_columns`.

    Returns
    -------
    dict of str to str
        "numeric", "boolean", "date", "ordered", "categorical", "words", "id", or "empty" if all values are missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from rkhs.extend import frame_columns
    >>> from rkhs.preprocessing import column_kinds
    >>> table = pd.DataFrame({"city": ["Rome", "Paris"], "area": [40.0, None], "note": [None, None]})
    >>> column_kinds(frame_columns(table))
    {'city': 'categorical', 'area': 'numeric', 'note': 'empty'}
    """
    return {name: _kind(column) for name, column in columns.items()}


def _names_rows(name: Any, numbers: Vector) -> bool:
    """Return whether numbers name the rows: different integers in a column such as "customer_id"."""
    present = numbers[~np.isnan(numbers)]
    distinct = len(np.unique(present))
    if distinct < MIN_NAMES or distinct < len(present) or IDENTIFIER.search(str(name)) is None:
        return False
    return not np.any(present % 1)


def _kind_of_texts(texts: Vector) -> str:
    """Return the kind of a column of texts, "" where missing: CATEGORICAL, WORDS, or ID.

    Texts that differ in most rows are sentences if they have four words or more, and otherwise name the rows.
    """
    present = texts[texts != ""]
    distinct = len(set(present.tolist()))
    all_differ = distinct == len(present) and distinct >= MIN_NAMES
    if not all_differ and not (distinct > MAX_CATEGORIES and distinct > len(texts) / 2):
        return CATEGORICAL
    return WORDS if np.median([len(text.split()) for text in present]) >= SENTENCE else ID


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a data frame as numeric features.

    - Numbers, booleans (0 and 1), dates (days since 1970), durations (days) and ordered categories (0, 1, 2, ..) become
      one standardized feature each.
    - Categories, and texts that repeat, become a feature for each category, 1 or 0; the rarest share one.
    - Texts of four words or more that differ in most rows become up to 100 latent semantic features of their words.
    - Other texts that differ in most rows name the rows, and so do different integers in a column such as
      "customer_id": they become no feature.

    Missing numbers become the median, missing categories are a category.  Features of numbers come first, then those of
    categories, then those of words.  Fitted pipelines are exported by `rkhs.to_onnx` and `rkhs.to_json`.

    Parameters
    ----------
    kinds : mapping from str to str, optional
        The kind of a column whose type does not tell it: "numeric", "categorical", "words" or "id", such as
        {"zip code": "categorical"}.
    max_categories : int, default=50
        The largest number of features of a column of categories.

    Attributes
    ----------
    kinds_ : dict
        The kind of each column, by name; "empty" if all its values were missing, which adds no feature.
    orders_ : dict
        The categories of each ordered column, in their order.
    number_encoder_, category_encoder_ : Pipeline, OneHotEncoder
        The fitted transformers of numbers and of categories; None if there are no such columns.
    word_encoders_ : dict
        The fitted transformers of each column of sentences: word frequencies, and their latent semantic features.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Examples
    --------
    >>> import pandas as pd, rkhs
    >>> from sklearn.pipeline import make_pipeline
    >>> from rkhs.preprocessing import TableEncoder
    >>> rent = [500.0, 900.0, 550.0, 1000.0, 600.0, 950.0]
    >>> table = pd.DataFrame({"city": ["Rome", "Paris"] * 3, "area": [40, 40, 45, 45, None, 41]})
    >>> TableEncoder().fit(table).get_feature_names_out().tolist()
    ['area', 'city_Paris', 'city_Rome']
    >>> model = make_pipeline(TableEncoder(), rkhs.InvariantRegressor(C=100.0)).fit(table, rent)
    >>> bool(model.predict(table[:1])[0] < 700 < model.predict(table[1:2])[0])
    True
    """

    kinds: Mapping[Any, str] | None = None
    max_categories: int = MAX_CATEGORIES

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the kinds of the columns and their encoding.

        Parameters
        ----------
        X : data frame of pandas or polars, or array-like of shape (t, n)
            The table; an array has numbers only.
        y : None
            Ignored, for scikit-learn's conventions.

        Returns
        -------
        TableEncoder
            The fitted transformer.
        """
        columns = self._columns(X, reset=True)
        stated = dict(self.kinds or {})
        for name, kind in stated.items():
            if name not in columns:
                raise ValueError(f"kinds has the column {name!r}, and X has only {', '.join(map(repr, columns))}.")
            if kind not in STATED:
                raise ValueError(f"The kind of column {name!r} must be one of {', '.join(STATED)}, got {kind!r}.")
        open_kinds = {name: column for name, column in columns.items() if name not in stated}
        self.kinds_ = dict.fromkeys(columns, "") | stated | column_kinds(open_kinds)
        for name, column in open_kinds.items():
            if self.kinds_[name] == ID and column.kind == TEXT:
                warn(
                    f"TableEncoder leaves out column {name!r}, whose texts differ in most rows: drop it, or state what "
                    f'it is, as by kinds={{{name!r}: "categorical"}}.'
                )
        ordered = self._names(ORDERED)
        self.orders_ = {name: columns[name].categories for name in ordered}
        amounts, categories = self._names(*AMOUNTS), self._names(CATEGORICAL)
        self.number_encoder_: Any = None
        self.category_encoder_: Any = None
        if amounts:
            self.number_encoder_ = make_pipeline(
                SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
            )
            self.number_encoder_.fit(self._numbers(columns))
        if categories:
            self.category_encoder_ = OneHotEncoder(
                handle_unknown="infrequent_if_exist", max_categories=self.max_categories, sparse_output=False
            ).fit(self._texts(columns))
        self.word_encoders_ = {name: _word_encoder(columns[name]) for name in self._names(WORDS)}
        if not (amounts or categories or self.word_encoders_):
            raise ValueError(
                f"No column of X can be learned from: {', '.join(f'{n!r} is {k}' for n, k in self.kinds_.items())}. "
                'Add a column, or state the kind of one, such as kinds={"name": "categorical"}.'
            )
        return self

    def transform(self, X: Any) -> Matrix:
        """Encode a table.

        Parameters
        ----------
        X : data frame of pandas or polars, or array-like of shape (t, n)
            A table with the columns of that of `fit`; further columns are ignored.

        Returns
        -------
        ndarray of shape (t, features)
            The features.
        """
        check_is_fitted(self)
        columns, parts = self._columns(X, reset=False), []
        if self.number_encoder_ is not None:
            parts.append(self.number_encoder_.transform(self._numbers(columns)))
        if self.category_encoder_ is not None:
            parts.append(self.category_encoder_.transform(self._texts(columns)))
        parts += [encoder.transform(columns[name].texts()) for name, encoder in self.word_encoders_.items()]
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> Vector:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored: the names are those of the columns of `fit`.

        Returns
        -------
        ndarray of str
            The names of the columns, with the category, or the number of the latent feature, where there are several.
        """
        check_is_fitted(self)
        names = [str(name) for name in self._names(*AMOUNTS)]
        if self.category_encoder_ is not None:
            columns = [str(name) for name in self._names(CATEGORICAL)]
            names += self.category_encoder_.get_feature_names_out(columns).tolist()
        for name, encoder in self.word_encoders_.items():
            names += [f"{name}_words{k}" for k in range(encoder[-1].n_components)]
        return np.array(names, dtype=object)

    def _names(self, *kinds: str) -> list[Any]:
        """Return the columns of some kinds, in their order."""
        return [name for name, kind in self.kinds_.items() if kind in kinds]

    def _columns(self, X: Any, reset: bool) -> dict[Any, FrameColumn]:
        columns = frame_columns(X)
        if columns is None:
            X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
            return {f"x{k}": FrameColumn(f"x{k}", values, NUMERIC) for k, values in enumerate(X.T)}
        if X.shape[1] > len(columns):
            raise ValueError("Two columns of X have the same name: rename one of them.")
        known = [] if reset else getattr(self, "feature_names_in_", [])
        if len(columns) > len(known) > 0 and set(known) <= set(columns):
            X = X[[name for name in columns if name in known]]  # without further columns, such as the target
        validate_data(self, X, skip_check_array=True, reset=reset)
        return columns

    def _numbers(self, columns: Mapping[Any, FrameColumn]) -> Matrix:
        """Return the numbers (t, p) of the columns with amounts, NaN where missing."""
        found = []
        for name in self._names(*AMOUNTS):
            order = self.orders_.get(name)
            try:
                values = columns[name].numbers() if order is None else ranks(columns[name].texts(), order)
            except Exception as error:  # the libraries have many
                raise ValueError(
                    f"Column {name!r} of X was {self.kinds_[name]} in fit, and is not here: {error}"
                ) from error
            if np.any(np.isinf(values)):
                raise ValueError(f"Column {name!r} of X contains infinity: replace it by a number, or leave it empty.")
            found.append(values)
        return np.stack(found, axis=1)

    def _texts(self, columns: Mapping[Any, FrameColumn]) -> Matrix:
        """Return the texts (t, q) of the columns with categories, "" where missing."""
        return np.stack([columns[name].texts() for name in self._names(CATEGORICAL)], axis=1)


def ranks(texts: Vector, order: list[str]) -> Vector:
    """Return the index of each text in the order, NaN for all others."""
    known = {text: float(k) for k, text in enumerate(order)}
    return np.array([known.get(text, np.nan) for text in texts.tolist()])


def _kind(column: FrameColumn) -> str:
    """Return the kind of a column by its type and values; refuse types that hold neither numbers nor texts."""
    if column.kind in (CATEGORICAL, ORDERED):
        return column.kind
    if column.kind in AMOUNTS:
        numbers = column.numbers()
        if np.all(np.isnan(numbers)):
            return EMPTY
        return ID if column.kind == NUMERIC and _names_rows(column.name, numbers) else column.kind
    if column.kind != TEXT:
        raise ValueError(
            f"Column {column.name!r} of X holds {column.kind}: convert it to numbers, dates or texts, or drop it."
        )
    texts = column.texts()
    return EMPTY if np.all(texts == "") else _kind_of_texts(texts)


def _word_encoder(column: FrameColumn) -> Pipeline:
    """Return the fitted encoder of the words of a column: frequencies, and their latent semantic features."""
    texts = column.texts()
    frequencies = TfidfVectorizer(min_df=2)
    try:
        X = frequencies.fit_transform(texts)
    except ValueError as error:
        raise ValueError(
            f"No word of column {column.name!r} is in two rows: leave the column out, or read it as categories, as by "
            f'kinds={{{column.name!r}: "categorical"}}.'
        ) from error
    latent = _truncated_svd(min(COMPONENTS, *X.shape), X)
    rank = int(np.sum(latent.singular_values_ > ROUNDING * latent.singular_values_[0]))
    return Pipeline([("frequencies", frequencies), ("latent", _truncated_svd(rank, X))])


def _truncated_svd(count: int, X: Any) -> TruncatedSVD:
    method = "arpack" if count < min(X.shape) else "randomized"  # the first is exact, and does not find all values
    return TruncatedSVD(count, algorithm=method, random_state=0).fit(X)
