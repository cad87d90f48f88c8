"""What the steps of a pipeline compute, recorded in a `Graph`: tables of columns become points.

The data between two steps are a `Table`, the columns of a data frame, or a symbol of shape (m,), the features of a row.
A `Table` has an input for each column that a step needs, as a number or as a text, "" where missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from rkhs.exceptions import ExportError
from rkhs.export._tracing import Graph, Symbol
from rkhs.extend import Matrix, Vector
from rkhs.preprocessing import TableEncoder

CHECKED = 20  # rows at which the formula of a function is compared with it


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table."""

    graph: Graph
    name: str
    filled: str | None = None  # the text in place of missing ones

    def number(self) -> Symbol:
        """Return the input (1,) as a number."""
        return self.graph.input(self.name, float)

    def codes(self, texts: Sequence[Any]) -> Symbol:
        """Return the index (1,) of the input among texts, their number if it is none; None and NaN stand for ""."""
        keys = ["" if text is None or text != text else str(text) for text in texts]
        values = list(range(len(keys)))
        if self.filled is not None:
            kept = [k for k, key in enumerate(keys) if key != ""]
            keys, values = [keys[k] for k in kept], [values[k] for k in kept]
            if self.filled in keys:
                keys, values = ["", *keys], [values[keys.index(self.filled)], *values]
        options = {"keys": keys, "values": values, "default": len(texts)}
        return self.graph.record("LabelEncoder", (1,), self.graph.input(self.name, str), **options)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of a data frame."""

    columns: list[Column]


Data = Table | Symbol


def refuse(
    what: Any, reason: str, remedy: str = "save the model with rkhs.save, and predict with rkhs.load"
) -> NoReturn:
    """Raise an ExportError that names an object."""
    name = (what if isinstance(what, str) else repr(what))[:300]  # sums of kernels of graphs are longer
    raise ExportError(f"{name} cannot be exported: {reason}; {remedy}.")


def takes_columns(step: Any) -> bool:
    """Return whether a step reads texts or dates, so that the columns of a table are separate inputs."""
    if isinstance(step, Pipeline):
        return any(takes_columns(one) for _, one in step.steps)
    if isinstance(step, ColumnTransformer):
        return any(takes_columns(one) for _, one, _ in step.transformers_)
    if isinstance(step, OneHotEncoder):
        return any(map(_has_texts, step.categories_))
    if isinstance(step, SimpleImputer):
        return _has_texts(step.statistics_)
    return isinstance(step, TableEncoder)


def _has_texts(values: Vector) -> bool:
    return any(isinstance(value, str) for value in values.tolist())


def recorded_step(step: Any, data: Data) -> Data:
    """Record a fitted transformer of scikit-learn or of this library."""
    if isinstance(step, str) and step == "passthrough":
        return data
    for kind, record in STEPS.items():
        if type(step) is kind:  # a subclass may transform in another way
            return record(step, data)
    known = ", ".join(kind.__name__ for kind in STEPS)
    remedy = "skl2onnx.to_onnx converts other steps of scikit-learn, or export the last step alone"
    refuse(f"The step {step!r} of the pipeline", f"only {known} are known", remedy)


def features(data: Data) -> Symbol:
    """Return the features (m,) of a row, which are numbers."""
    if isinstance(data, Symbol):
        return data
    return _joined([column.number() for column in data.columns])


def _joined(parts: Sequence[Symbol]) -> Symbol:
    """Return the features (m,) of several parts."""
    return parts[0] if len(parts) == 1 else parts[0].graph.concat(parts)


def _taken(data: Data, index: Sequence[int]) -> Data:
    """Return some columns."""
    if isinstance(data, Symbol):
        return data[np.asarray(index, dtype=int)]
    return Table([data.columns[k] for k in index])


def _pipeline(step: Pipeline, data: Data) -> Data:
    for _, one in step.steps:
        data = recorded_step(one, data)
    return data


def _column_transformer(step: ColumnTransformer, data: Data) -> Data:
    parts = []
    for name, one, _ in step.transformers_:
        index = step._transformer_to_input_indices[name]
        if len(index) and not (isinstance(one, str) and one == "drop"):
            weight = (step.transformer_weights or {}).get(name, 1.0)
            part = features(recorded_step(one, _taken(data, index)))
            parts.append(part if weight == 1.0 else part * float(weight))
    return _joined(parts)


def _standard_scaler(step: StandardScaler, data: Data) -> Data:
    x = features(data)
    centered = x - step.mean_ if step.with_mean else x  # a scaler that does not center has a mean_, too
    return centered / step.scale_ if step.with_std else centered


def _simple_imputer(step: SimpleImputer, data: Data) -> Data:
    if step.add_indicator:
        refuse("SimpleImputer with add_indicator=True", "indicators have no formula here", "leave add_indicator out")
    kept = [k for k, value in enumerate(step.statistics_.tolist()) if value is not None and value == value]
    if len(kept) < len(step.statistics_) and step.keep_empty_features:
        refuse("SimpleImputer with keep_empty_features=True", "a column is empty", "leave the column out")
    data, fills = _taken(data, kept), step.statistics_[kept]
    if not _has_texts(fills):
        x = features(data)
        graph, missing = x.graph, step.missing_values
        absent = graph.elementwise("Equal", x, float(missing)) if missing == missing else graph.is_nan(x)
        return graph.record("Where", x.shape, absent, np.asarray(fills, dtype=np.float64), x)
    if isinstance(data, Symbol):
        refuse("SimpleImputer", "its columns are texts that another step has changed")
    return Table([replace(column, filled=str(fill)) for column, fill in zip(data.columns, fills, strict=True)])


def _category_encoder(step: OneHotEncoder, data: Data) -> Data:
    parts = []
    for k, (categories, table) in enumerate(zip(step.categories_, _tables_of_categories(step), strict=True)):
        if not _has_texts(categories):
            x, numbers = features(_taken(data, [k])), categories.astype(np.float64)
            graph = x.graph
            equal = graph.elementwise("Equal", x, numbers)
            is_category = graph.record("Cast", equal.shape, equal)
            if np.isnan(numbers).any():
                is_category = is_category + graph.record("Cast", (1,), graph.is_nan(x)) * np.isnan(numbers)
            known = graph.reshape(graph.sum(is_category, axis=-1), (1,))
            parts.append(is_category @ table[:-1] + (1.0 - known) * table[-1])
        elif isinstance(data, Symbol):
            refuse("OneHotEncoder", "its columns are texts that another step has changed")
        else:
            graph, codes = data.columns[k].graph, data.columns[k].codes(categories.tolist())
            parts.append(graph.reshape(graph.record("Gather", (1, table.shape[1]), table, codes, axis=0), (-1,)))
    return _joined(parts)


def _tables_of_categories(step: OneHotEncoder) -> list[Matrix]:
    """Return the features (categories + 1, m) of each column; the last row is that of unknown categories."""
    step = copy(step)
    vars(step).pop("feature_names_in_", None)  # scikit-learn warns of rows without them
    first = [values[0] for values in step.categories_]
    tables = []
    end = 0
    for k, categories in enumerate(step.categories_):
        rows = np.array([[*first[:k], one, *first[k + 1 :]] for one in categories.tolist()], dtype=object)
        found = step.transform(rows)
        encoded = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
        rare = getattr(step, "infrequent_categories_", [None] * len(first))[k]
        dropped = step.drop_idx_ is not None and step.drop_idx_[k] is not None
        start, end = end, end + len(categories) - (0 if rare is None else len(rare) - 1) - dropped
        unknown = np.zeros(end - start)
        if rare is not None and step.handle_unknown == "infrequent_if_exist":
            unknown = encoded[categories.tolist().index(rare[0]), start:end]
        tables.append(np.vstack([encoded[:, start:end], unknown]))
    return tables


def _function_transformer(step: FunctionTransformer, data: Data) -> Data:
    x = features(data)
    if step.func is None:
        return x
    graph, name = x.graph, f"FunctionTransformer({getattr(step.func, '__name__', step.func)})"

    def function(rows: Any) -> Any:
        return step.func(rows, **(step.kw_args or {}))

    try:
        row = function(graph.reshape(x, (1, *x.shape)))
        mapped = graph.reshape(row, (row.shape[1],))
        points = np.random.default_rng(0).uniform(0.1, 2.0, (CHECKED, *x.shape))
        expected, found = function(points), graph.outputs({x.name: points}, {"x": mapped})["x"]
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    except (TypeError, ValueError, AttributeError, AssertionError) as error:
        refuse(name, f"its formula cannot be recorded ({str(error).strip().splitlines()[0]})")
    return mapped


def _words(step: TfidfVectorizer, data: Data) -> Data:
    """Record frequencies of words, of which the `TableEncoder` makes features."""
    known = TfidfVectorizer().get_params() | {"min_df": step.min_df}
    if isinstance(data, Symbol) or len(data.columns) != 1 or step.get_params() != known:
        refuse("TfidfVectorizer", "only that of a TableEncoder is known", "encode the texts by rkhs.preprocessing")
    [column] = data.columns
    words = step.get_feature_names_out().tolist()
    graph = column.graph
    counts = graph.record("WordCounts", (len(words),), graph.input(column.name, str), words=words)
    weighted = counts * step.idf_
    size = graph.sqrt(graph.vecdot(weighted, weighted))
    return weighted / graph.reshape(graph.clip(size, np.finfo(np.float64).tiny), (1,))


def _table_encoder(step: TableEncoder, data: Data) -> Data:
    if isinstance(data, Symbol):
        if step.category_encoder_ is None and not step.word_encoders_ and len(step.kinds_) == data.shape[0]:
            return recorded_step(step.number_encoder_, data)
        refuse("TableEncoder", "it is not the first step", "encode the table before all other steps")
    columns = dict(zip(step.kinds_, data.columns, strict=True))
    parts: list[Symbol] = []
    if step.number_encoder_ is not None:
        others = ("categorical", "words", "id", "empty")  # all others are amounts
        names = [name for name, kind in step.kinds_.items() if kind not in others]
        pairs = zip(names, step.number_encoder_[0].statistics_.tolist(), strict=True)
        amounts = [_amount(columns[name], step.orders_.get(name), median) for name, median in pairs]
        parts.append(features(recorded_step(step.number_encoder_, _joined(amounts))))
    if step.category_encoder_ is not None:
        categories = Table([columns[name] for name in step._names("categorical")])
        parts.append(features(recorded_step(step.category_encoder_, categories)))
    parts += [features(recorded_step(encoder, Table([columns[name]]))) for name, encoder in step.word_encoders_.items()]
    return _joined(parts)


def _amount(column: Column, order: list[str] | None, median: float) -> Symbol:
    """Return a column (1,) as a number; one with an order as its rank, the median for texts that are not part of it."""
    if order is None:
        return column.number()
    ranks: Vector = np.array([*range(len(order)), median])
    return column.graph.record("Gather", (1,), ranks, column.codes(order), axis=0)


STEPS: dict[type, Callable[[Any, Data], Data]] = {
    TableEncoder: _table_encoder,
    Pipeline: _pipeline,
    ColumnTransformer: _column_transformer,
    StandardScaler: _standard_scaler,
    SimpleImputer: _simple_imputer,
    OneHotEncoder: _category_encoder,
    TruncatedSVD: lambda step, data: features(data) @ step.components_.T,
    TfidfVectorizer: _words,
    FunctionTransformer: _function_transformer,
}
