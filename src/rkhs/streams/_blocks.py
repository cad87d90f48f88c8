"""Blocks of rows from arrays, memory maps, iterators, Parquet files and dask collections.

A block has points, what is known of each, and weights.  All that is done with a stream is a function of each block,
gathered in order (`map`) or added up (`reduce`).  Blocks without rows are passed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rkhs._backend.arrays import Vector, as_column, check_unmasked
from rkhs.exceptions import BlockError

ROWS = 2**14  # of a block of an array: with a thousand functions their features are 128 MiB
NO_ROWS = "There are no blocks of rows to learn from."
Task = Callable[[Any, "Block", Any], Any]


class Columns:
    """The columns of a stream, their names and number, remembered and checked by scikit-learn as an estimator's are."""

    @classmethod
    def of(cls, X: Any) -> Columns:
        """Return the columns of X."""
        columns = cls()
        check_columns(columns, X, first=True)
        return columns

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))


def check_columns(owner: Any, X: Any, first: bool = False) -> None:
    """Refuse an X whose columns differ from those that `owner` remembers; with `first`, let it remember those of X."""
    from sklearn.utils.validation import validate_data  # which takes long to import

    validate_data(owner, X, reset=first, skip_check_array=True)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a stream.

    Points X (t, n) with y (t,) and weights (t,), or None for either, and the names of the columns of X, if any.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rows = next(iter(rkhs.streams.blocks(np.zeros((5, 2)), np.arange(5.0), rows=3)))
    >>> rows.X.shape, rows.y
    ((3, 2), array([0., 1., 2.]))
    """

    index: int
    X: Vector
    y: Vector | None
    weight: Vector | None
    names: Vector | None = None

    @classmethod
    def of(cls, index: int, X: Any, y: Any = None, weight: Any = None, *, columns: Any, first: bool = False) -> Block:
        """Return a checked block, with the columns that an owner of `columns` remembers, of the first block its own.

        A `BlockError` tells what is wrong with it.
        """
        try:
            for name, column in (("X", X), ("y", y), ("weights", weight)):
                check_unmasked(column, name)
        except ValueError as error:
            raise BlockError(index, f"cannot be used: {error}") from error
        points = X.toarray() if issparse(X) else np.asarray(X)
        if points.dtype not in (np.float32, np.float64):
            try:
                points = points.astype(np.float64)
            except (TypeError, ValueError):
                raise BlockError(
                    index, f"has entries of type {points.dtype} that are not numbers: encode them."
                ) from None
        empty = points.shape[:1] == (0,)
        if not empty and (points.ndim != 2 or points.shape[1] == 0):
            raise BlockError(index, f"has shape {points.shape}, and (rows, features) is needed.")
        if not np.isfinite(points).all():
            row, feature = np.argwhere(~np.isfinite(points))[0]
            raise BlockError(index, f"has NaN or infinity in row {row}, feature {feature}: impute or drop that row.")
        y, weight = (None if column is None else as_column(column) for column in (y, weight))
        for name, column in (("y", y), ("weights", weight)):
            if column is not None and column.shape != points.shape[:1]:
                raise BlockError(index, f"has {len(points)} rows, and its {name} have shape {column.shape}.")
        if weight is not None and not (np.all(np.isfinite(weight)) and np.all(weight >= 0)):
            raise BlockError(index, "has weights that are negative or not finite.")
        if not empty:
            try:
                check_columns(columns, X, first)
            except (TypeError, ValueError) as error:
                raise BlockError(index, f"cannot be used: {error}") from error
        return cls(index, points, y, weight, getattr(columns, "feature_names_in_", None))


class Blocks(ABC):
    """A stream of blocks of rows; see `rkhs.streams.blocks`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rows = rkhs.streams.blocks(np.zeros((5, 2)), rows=2)
    >>> isinstance(rows, rkhs.streams.Blocks)
    True
    """

    replays: bool = True  # whether it can be read more than once

    @abstractmethod
    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        """Return task(shared, block, argument) for each block, in their order; None for one without rows."""

    @abstractmethod
    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        """Return the sum of the same."""


def _added(results: Iterable[Any]) -> Any:
    """Return the sum of all results that are not None; None where there is none."""
    total = None
    for result in results:
        total = result if total is None else total if result is None else total + result
    return total


@dataclass(frozen=True, eq=False)
class LocalBlocks(Blocks):
    """Blocks that are read here, one after the other: `read` gives (X, y, weight) of each, y and weight may be None."""

    read: Callable[[], Iterator[tuple[Any, ...]]]
    replays: bool = True

    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        return list(self._results(task, shared, arguments))

    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        return _added(self._results(task, shared, arguments))

    def __iter__(self) -> Iterator[Block]:
        parts = self.read()
        columns, index, seen = Columns(), 0, False
        while True:
            try:
                part = next(parts)
            except StopIteration:
                break
            except BlockError:
                raise
            except Exception as error:
                raise BlockError(index, f"could not be read: {type(error).__name__}: {error}") from error
            block = Block.of(index, *part, columns=columns, first=not seen)
            index, seen = index + 1, seen or len(block.X) > 0
            yield block
        if not seen:
            raise ValueError(NO_ROWS)

    def _results(self, task: Task, shared: Any, arguments: Sequence[Any] | None) -> Iterator[Any]:
        for block in self:
            yield task(shared, block, None if arguments is None else arguments[block.index]) if len(block.X) else None


@dataclass(frozen=True, eq=False)
class DaskBlocks(Blocks):
    """The chunks of a dask array, or the partitions of a dask data frame, summed as a tree of dask tasks.

    They run wherever the current dask client runs them.  Workers that are lost are replaced by dask, which computes
    their blocks again; blocks are read where they are needed and forgotten after.  Without a client, dask uses the
    threads of this process.
    """

    parts: list[tuple[Any, Any, Any]]  # delayed X, y and weights
    columns: Columns  # which all partitions must have

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any) -> DaskBlocks:
        """Return rows in the chunks of X; y and weights, arrays or dask collections, are cut as it is."""
        columns = [_delayed(column, X) for column in (X, y, weight)]
        counts = [len(column) for column in columns]
        if len(set(counts)) > 1:
            raise ValueError(f"X, y and weights have {counts} chunks: rechunk or repartition them alike.")
        like = np.empty((0, X.shape[1])) if hasattr(X, "chunks") else X._meta
        return cls(list(zip(*columns, strict=True)), Columns.of(like))

    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        import dask

        return list(dask.compute(*self._tasks(task, shared, arguments)))

    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        import dask

        level, width = self._tasks(task, shared, arguments), 8  # results that are added up by one task
        add = dask.delayed(_added, pure=False)
        while len(level) > 1:
            level = [add(level[k : k + width]) for k in range(0, len(level), width)]
        found = dask.compute(level[0])[0]
        if found is None:
            raise ValueError(NO_ROWS)
        return found

    def _tasks(self, task: Task, shared: Any, arguments: Sequence[Any] | None) -> list[Any]:
        """Return one task for each block; what they share is sent to a worker once."""
        import dask

        common, columns = (dask.delayed(each, traverse=False) for each in (shared, self.columns))
        run = dask.delayed(_run, pure=False)
        each = [None] * len(self.parts) if arguments is None else arguments
        return [run(task, common, k, columns, part, each[k]) for k, part in enumerate(self.parts)]


def _run(task: Task, shared: Any, index: int, columns: Columns, part: Any, argument: Any) -> Any:
    block = Block.of(index, *part, columns=columns)
    return task(shared, block, argument) if len(block.X) else None


def _delayed(column: Any, X: Any) -> list[Any]:
    """Return one delayed piece for each block of rows of X."""
    import dask.array

    if column is None:
        return [None] * (len(X.chunks[0]) if hasattr(X, "chunks") else X.npartitions)
    if not hasattr(column, "__dask_graph__"):
        if not hasattr(X, "chunks"):
            raise TypeError("y and weights of a dask data frame must be dask series, divided as it is.")
        column = dask.array.from_array(column, chunks=(X.chunks[0],))
    if not hasattr(column, "chunks"):  # dask's whole optimization joins partitions, of X and y in different ways
        return list(column.simplify().to_delayed(optimize_graph=False))
    if column.ndim == 2:
        column = column.rechunk({1: -1})
    return list(column.to_delayed().ravel())


def blocks(source: Any, y: Any = None, sample_weight: Any = None, *, rows: int = ROWS) -> Blocks:
    """Rows in blocks, for `fit` of an estimator with an `approximation`: no more than a block is in memory at a time.

    Parameters
    ----------
    source : points, as an array or a memory map (t, n), with y and weights; a dask array or data frame, with
        y and weights of the same kind; a function without arguments that returns an iterator of blocks X, (X, y) or
        (X, y, weights); or such an iterator itself, which can be read only once: landmarks are then chosen from its
        first block
    y, sample_weight : for arrays and dask collections.  As with arrays, NaN in y is refused unless the estimator has
        unlabeled=np.nan
    rows : of a block of an array

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> def read():
    ...     random = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         X = random.standard_normal((500, 3))
    ...         yield X, np.sin(X[:, 0])
    >>> model = rkhs.InvariantRegressor(scale=2.0, C=10.0, nu=1.0, approximation=rkhs.Landmarks(200))
    >>> model = model.fit(rkhs.streams.blocks(read))
    >>> X = np.zeros((1, 3))
    >>> bool(abs(model.predict(X)[0]) < 0.05)
    True
    """
    if isinstance(source, Blocks):
        return source
    if in_blocks(source):
        return DaskBlocks.of(source, y, sample_weight)
    if not isinstance(source, Iterator) and not callable(source):
        return LocalBlocks(lambda: _cut(source, y, sample_weight, rows))
    if y is not None or sample_weight is not None:
        raise ValueError("Blocks of an iterator bring y and weights themselves: yield (X, y) or (X, y, weights).")
    if isinstance(source, Iterator):
        return LocalBlocks(lambda: map(_triple, source), replays=False)
    return LocalBlocks(lambda: map(_triple, iter(source())))


def in_blocks(source: Any) -> bool:
    """Return whether rows come in blocks by themselves: ours, or those of dask."""
    return isinstance(source, Blocks) or hasattr(source, "__dask_graph__")


def _triple(part: Any) -> tuple[Any, ...]:
    """Return X, y, weights from X, (X, y) or all three."""
    return (*(part if isinstance(part, tuple) else (part,)), None, None)[:3]


def _cut(X: Any, y: Any, weight: Any, rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield slices of an array, of which a memory map reads no more."""
    X = X.tocsr() if issparse(X) else X  # others cannot be cut
    columns = [getattr(column, "iloc", column) for column in (X, y, weight)]  # by position, not by labels
    for start in range(0, X.shape[0] if issparse(X) else len(X), rows):
        yield tuple(None if column is None else column[start : start + rows] for column in columns)


def parquet(
    path: Any,
    target: str | None = None,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    rows: int = ROWS,
) -> Blocks:
    """Rows of a Parquet file, or of a folder of them, in blocks; needs pyarrow.

    Parameters
    ----------
    path : a file or a folder
    target, weight : the columns of y and of weights
    features : the columns of X, by default all others
    rows : of a block, at most

    Examples
    --------
    >>> import numpy as np, pandas as pd, rkhs, tempfile
    >>> frame = pd.DataFrame(np.random.default_rng(0).standard_normal((1000, 3)), columns=["a", "b", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/rows.parquet")
    ...     model = rkhs.InvariantRegressor(approximation=rkhs.FourierFeatures(50))
    ...     model = model.fit(rkhs.streams.parquet(f"{folder}/rows.parquet", target="y"))
    >>> model.n_features_in_
    2
    """
    import pyarrow.dataset

    data = pyarrow.dataset.dataset(str(Path(path)), format="parquet")
    named = [name for name in (target, weight) if name is not None]
    own = list(features) if features is not None else [name for name in data.schema.names if name not in named]
    missing = [name for name in [*own, *named] if name not in data.schema.names]
    if missing:
        raise ValueError(f"{path} has no columns {missing}; it has {data.schema.names}.")

    def read() -> Iterator[tuple[Any, ...]]:
        for batch in data.to_batches(columns=[*own, *named], batch_size=rows):
            table = pyarrow.Table.from_batches([batch])
            extras = [None if name is None else table[name].to_numpy() for name in (target, weight)]
            yield table.select(own), *extras

    return LocalBlocks(read)


def replayed(stream: Blocks) -> tuple[Blocks, Blocks]:
    """Return what to look at before learning, and what to learn from; of a single-use stream the first rows and all."""
    if stream.replays or not isinstance(stream, LocalBlocks):
        return stream, stream
    parts, first = stream.read(), []
    for part in parts:
        first.append(part)
        if np.shape(part[0])[:1] != (0,):
            break
    return LocalBlocks(lambda: iter(first)), LocalBlocks(lambda: chain(first, parts), replays=False)
