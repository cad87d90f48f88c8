"""Blocks of rows from arrays, memory maps, iterators, Parquet files and dask collections.

A block has points, targets and weights.  Every computation on a stream applies a function to each block and collects
the results in order (`map`) or adds them up (`reduce`).  Blocks without rows are skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rkhs._core.backend.arrays import Vector, as_column, check_unmasked, import_optional
from rkhs.exceptions import BlockError

ROWS = 2**14  # rows per block of an array: with a thousand functions, 128 MiB of features
NO_ROWS = "There are no blocks of rows to learn from."
Task = Callable[[Any, "Block", Any], Any]


class Columns:
    """The names and the number of the columns of a stream, stored and checked by scikit-learn as for an estimator."""

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
    """Check that X has the columns stored in `owner`; with `first`, store those of X."""
    from sklearn.utils.validation import validate_data  # imported here because it is slow

    validate_data(owner, X, reset=first, skip_check_array=True)


@contextmanager
def naming_block(index: int, what: str = "cannot be used") -> Iterator[None]:
    """Convert errors of values and types to a BlockError that names the block."""
    try:
        yield
    except (TypeError, ValueError, FloatingPointError) as error:
        raise BlockError(index, f"{what}: {error}") from error


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a stream.

    Parameters
    ----------
    index : int
        The number of the block in the stream.
    X : ndarray of shape (t, n)
        The points.
    y : ndarray of shape (t,) or None
        The targets.
    weight : ndarray of shape (t,) or None
        The weights of the rows.
    names : ndarray of shape (n,), optional
        The names of the columns of X.

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
        """Validate the rows of a block and return it.

        Parameters
        ----------
        index : int
            The number of the block.
        X : array-like or sparse matrix of shape (t, n)
            The points.
        y : array-like of shape (t,), optional
            The targets.
        weight : array-like of shape (t,), optional
            The nonnegative weights.
        columns : object
            An estimator, or `Columns`, with which the columns must agree.
        first : bool, default=False
            Whether to store the columns of this block in `columns`.

        Returns
        -------
        Block
            The block.

        Raises
        ------
        BlockError
            If the rows are invalid.
        """
        with naming_block(index):
            for name, column in (("X", X), ("y", y), ("weights", weight)):
                check_unmasked(column, name)
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
            raise BlockError(index, f"has shape {points.shape}, but (rows, features) is needed.")
        if not np.isfinite(points).all():
            row, feature = np.argwhere(~np.isfinite(points))[0]
            raise BlockError(index, f"has NaN or infinity in row {row}, feature {feature}: impute or drop that row.")
        y, weight = (None if column is None else as_column(column) for column in (y, weight))
        for name, column in (("y", y), ("weights", weight)):
            if column is not None and column.shape != points.shape[:1]:
                raise BlockError(index, f"has {len(points)} rows, but its {name} have shape {column.shape}.")
        if weight is not None and not (np.all(np.isfinite(weight)) and np.all(weight >= 0)):
            raise BlockError(index, "has weights that are negative or not finite.")
        if not empty:
            with naming_block(index):
                check_columns(columns, X, first)
        return cls(index, points, y, weight, getattr(columns, "feature_names_in_", None))


def row_weights(block: Block) -> Vector:
    """Return the weights of the rows of a block, which are one by default."""
    return np.ones(len(block.X)) if block.weight is None else block.weight


def total_weights(block: Block, mask: Vector) -> Vector:
    """Return the total weights (2,) of the rows of a mask and of the others."""
    return np.bincount(np.where(mask, 0, 1), weights=row_weights(block), minlength=2)


class Blocks(ABC):
    """A stream of blocks of rows; use `rkhs.streams.blocks` to construct one.

    Attributes
    ----------
    replays : bool
        Whether the stream can be read more than once.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rows = rkhs.streams.blocks(np.zeros((5, 2)), rows=2)
    >>> isinstance(rows, rkhs.streams.Blocks)
    True
    """

    replays: bool = True

    @abstractmethod
    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        """Return task(shared, block, argument) for each block.

        Parameters
        ----------
        task : callable
            A function (shared, block, argument) -> result.
        shared : object
            The first argument of all calls.
        arguments : sequence, optional
            The last argument for each block; None by default.

        Returns
        -------
        list
            The results in the order of the blocks; None for a block without rows.
        """

    @abstractmethod
    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        """Return the sum of task(shared, block, argument) over all blocks.

        Parameters
        ----------
        task : callable
            A function (shared, block, argument) -> result that supports addition.
        shared : object
            The first argument of all calls.
        arguments : sequence, optional
            The last argument for each block; None by default.

        Returns
        -------
        object
            The sum.
        """


def _sum(results: Iterable[Any]) -> Any:
    """Return the sum of all results that are not None, or None if there is none."""
    total = None
    for result in results:
        total = result if total is None else total if result is None else total + result
    return total


@dataclass(frozen=True, eq=False)
class LocalBlocks(Blocks):
    """Blocks that are read one after the other in this process.

    `read` returns an iterator of (X, y, weight), where y and weight may be None.
    """

    read: Callable[[], Iterator[tuple[Any, ...]]]
    replays: bool = True

    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        return list(self._results(task, shared, arguments))

    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        return _sum(self._results(task, shared, arguments))

    def __iter__(self) -> Iterator[Block]:
        parts = self.read()
        columns, index, any_rows = Columns(), 0, False
        while True:
            try:
                part = next(parts)
            except StopIteration:
                break
            except BlockError:
                raise
            except Exception as error:
                raise BlockError(index, f"could not be read: {type(error).__name__}: {error}") from error
            block = Block.of(index, *part, columns=columns, first=not any_rows)
            index, any_rows = index + 1, any_rows or len(block.X) > 0
            yield block
        if not any_rows:
            raise ValueError(NO_ROWS)

    def _results(self, task: Task, shared: Any, arguments: Sequence[Any] | None) -> Iterator[Any]:
        for block in self:
            yield task(shared, block, None if arguments is None else arguments[block.index]) if len(block.X) else None


@dataclass(frozen=True, eq=False)
class DaskBlocks(Blocks):
    """The chunks of a dask array, or the partitions of a dask data frame, summed by a tree of dask tasks.

    They run where the current dask client runs them; without a client, in threads of this process.  If a worker is
    lost, dask computes its blocks again.  Blocks are read where they are needed and released afterwards.
    """

    parts: list[tuple[Any, Any, Any]]  # delayed X, y and weights
    columns: Columns  # the columns of all partitions

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any) -> DaskBlocks:
        """Return rows in the chunks of X; y and weights, arrays or dask collections, are divided like X."""
        columns = [_delayed(column, X) for column in (X, y, weight)]
        counts = [len(column) for column in columns]
        if len(set(counts)) > 1:
            raise ValueError(f"X, y and weights have {counts} chunks: rechunk or repartition them alike.")
        prototype = np.empty((0, X.shape[1])) if hasattr(X, "chunks") else X._meta
        return cls(list(zip(*columns, strict=True)), Columns.of(prototype))

    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        import dask

        return list(dask.compute(*self._tasks(task, shared, arguments)))

    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        import dask

        level, width = self._tasks(task, shared, arguments), 8  # results per addition task
        add = dask.delayed(_sum, pure=False)
        while len(level) > 1:
            level = [add(level[k : k + width]) for k in range(0, len(level), width)]
        total = dask.compute(level[0])[0]
        if total is None:
            raise ValueError(NO_ROWS)
        return total

    def _tasks(self, task: Task, shared: Any, arguments: Sequence[Any] | None) -> list[Any]:
        """Return one task per block; shared objects are sent to each worker once."""
        import dask

        common, columns = (dask.delayed(value, traverse=False) for value in (shared, self.columns))
        run = dask.delayed(_run, pure=False)
        arguments = [None] * len(self.parts) if arguments is None else arguments
        return [run(task, common, k, columns, part, arguments[k]) for k, part in enumerate(self.parts)]


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
            raise TypeError("y and weights of a dask data frame must be dask series with the same partitions.")
        column = dask.array.from_array(column, chunks=(X.chunks[0],))
    if not hasattr(column, "chunks"):  # dask's full optimization would merge partitions of X and y differently
        return list(column.simplify().to_delayed(optimize_graph=False))
    if column.ndim == 2:
        column = column.rechunk({1: -1})
    return list(column.to_delayed().ravel())


def blocks(source: Any, y: Any = None, sample_weight: Any = None, *, rows: int = ROWS) -> Blocks:
    """Return rows in blocks, for `fit` of an estimator with an `approximation`; only one block is in memory at a time.

    Parameters
    ----------
    source : array-like of shape (t, n), dask collection, callable or iterator
        The points as an array, a memory map, or a dask array or data frame, with `y` and `sample_weight`; a function
        without arguments that returns an iterator of blocks X, (X, y) or (X, y, weights); or such an iterator itself,
        which can be read only once: landmarks are then chosen from its first block.
    y : array-like of shape (t,), optional
        The targets, for arrays and dask collections.  NaN is an error unless the estimator has unlabeled=np.nan.
    sample_weight : array-like of shape (t,), optional
        The weights of the rows, for arrays and dask collections.
    rows : int, default=16384
        The number of rows per block of an array.

    Returns
    -------
    Blocks
        The stream.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> def read():
    ...     random = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         X = random.standard_normal((500, 3))
    ...         yield X, np.sin(X[:, 0])
    >>> model = rkhs.InvariantRegressor(scale=2.0, C=10.0, approximation=rkhs.Landmarks(200))
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
        raise ValueError("Blocks of an iterator contain y and weights: yield (X, y) or (X, y, weights) instead.")
    if isinstance(source, Iterator):
        return LocalBlocks(lambda: map(_triple, source), replays=False)
    return LocalBlocks(lambda: map(_triple, iter(source())))


def in_blocks(source: Any) -> bool:
    """Return whether the source is already divided into blocks: a `Blocks` or a dask collection."""
    return isinstance(source, Blocks) or hasattr(source, "__dask_graph__")


def collected(source: Any, y: Any = None, sample_weight: Any = None) -> tuple[Any, Vector | None, Vector | None]:
    """Return all rows of a stream or dask collection in memory: X, y and the weights, None if there are none.

    Examples
    --------
    >>> X, y, weight = collected(blocks(np.zeros((5, 2)), np.arange(5.0), rows=3))
    >>> X.shape, y, weight
    ((5, 2), array([0., 1., 2., 3., 4.]), None)
    """
    if isinstance(source, Blocks) and (y is not None or sample_weight is not None):
        raise ValueError("Blocks contain y and weights: pass them to rkhs.streams.blocks.")
    stream = source if isinstance(source, Blocks) else blocks(source, y, sample_weight)
    parts = [block for block in stream.map(lambda shared, block, argument: block, None) if len(block.X)]
    if not parts:
        raise ValueError(NO_ROWS)
    X: Any = np.concatenate([block.X for block in parts])
    columns = [[getattr(block, name) for block in parts] for name in ("y", "weight")]
    joined = [None if column[0] is None else np.concatenate(column) for column in columns]
    if parts[0].names is not None:
        pandas = import_optional("pandas", "Rows with names need pandas: pip install 'rkhs[distributed]'.")
        X = pandas.DataFrame(X, columns=parts[0].names)
    return X, joined[0], joined[1]


def _triple(part: Any) -> tuple[Any, ...]:
    """Return (X, y, weights) from X, (X, y) or (X, y, weights)."""
    return (*(part if isinstance(part, tuple) else (part,)), None, None)[:3]


def _cut(X: Any, y: Any, weight: Any, rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield slices of an array; a memory map is read slice by slice."""
    X = X.tocsr() if issparse(X) else X  # other sparse formats cannot be sliced
    columns = [getattr(column, "iloc", column) for column in (X, y, weight)]  # by position, not by label
    for start in range(0, X.shape[0] if issparse(X) else len(X), rows):
        yield tuple(None if column is None else column[start : start + rows] for column in columns)


def read_parquet(
    path: Any,
    target: str | None = None,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    *,
    rows: int = ROWS,
) -> Blocks:
    """Return the rows of a Parquet file, or of a folder of them, in blocks; it needs pyarrow.

    Parameters
    ----------
    path : str or Path
        A file or a folder.
    target : str, optional
        The column of y.
    features : sequence of str, optional
        The columns of X; by default all others.
    weight : str, optional
        The column of the weights.
    rows : int, default=16384
        The maximal number of rows per block.

    Returns
    -------
    Blocks
        The stream.

    Examples
    --------
    >>> import numpy as np, pandas as pd, rkhs, tempfile
    >>> frame = pd.DataFrame(np.random.default_rng(0).standard_normal((1000, 3)), columns=["a", "b", "y"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/rows.parquet")
    ...     model = rkhs.InvariantRegressor(approximation=rkhs.FourierFeatures(50))
    ...     model = model.fit(rkhs.streams.read_parquet(f"{folder}/rows.parquet", target="y"))
    >>> model.n_features_in_
    2
    """
    pyarrow = import_optional("pyarrow", "Parquet files need pyarrow: pip install 'rkhs[distributed]'.")
    data = import_module("pyarrow.dataset").dataset(str(Path(path)), format="parquet")
    extra_names = [name for name in (target, weight) if name is not None]
    others = [name for name in data.schema.names if name not in extra_names]
    feature_names = others if features is None else list(features)
    missing = [name for name in [*feature_names, *extra_names] if name not in data.schema.names]
    if missing:
        raise ValueError(f"{path} has no columns {missing}; it has {data.schema.names}.")

    def read() -> Iterator[tuple[Any, ...]]:
        for batch in data.to_batches(columns=[*feature_names, *extra_names], batch_size=rows):
            table = pyarrow.Table.from_batches([batch])
            extras = [None if name is None else table[name].to_numpy() for name in (target, weight)]
            yield table.select(feature_names), *extras

    return LocalBlocks(read)


def replayed(stream: Blocks) -> tuple[Blocks, Blocks]:
    """Return a stream to inspect and one to learn from; for a single-use stream, its first rows and all rows."""
    if stream.replays or not isinstance(stream, LocalBlocks):
        return stream, stream
    parts, first = stream.read(), []
    for part in parts:
        first.append(part)
        if np.shape(part[0])[:1] != (0,):
            break
    return LocalBlocks(lambda: iter(first)), LocalBlocks(lambda: chain(first, parts), replays=False)
