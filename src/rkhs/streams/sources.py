"""Blocks from arrays, memory maps, iterators, Parquet files and dask collections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rkhs.streams.blocks import ROWS, Blocks, LocalBlocks


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
    >>> model = model.fit(rkhs.blocks(read))
    >>> X = np.zeros((1, 3))
    >>> bool(abs(model.predict(X)[0]) < 0.05)
    True
    """
    if isinstance(source, Blocks):
        return source
    if in_blocks(source):
        from rkhs.streams.distributed import DaskBlocks

        return DaskBlocks.of(source, y, sample_weight)
    if isinstance(source, Iterator):
        _alone(y, sample_weight)
        return LocalBlocks(lambda: map(_triple, source), replays=False)
    if callable(source):
        _alone(y, sample_weight)
        return LocalBlocks(lambda: map(_triple, iter(source())))
    return LocalBlocks(lambda: _cut(source, y, sample_weight, rows))


def in_blocks(source: Any) -> bool:
    """Whether rows come in blocks by themselves: ours, or those of dask."""
    return isinstance(source, Blocks) or hasattr(source, "__dask_graph__")


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
    ...     model = model.fit(rkhs.parquet(f"{folder}/rows.parquet", target="y"))
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
    """What to look at before learning, and what to learn from: the first rows, and all, of what is read only once."""
    if stream.replays or not isinstance(stream, LocalBlocks):
        return stream, stream
    parts = stream.read()
    first = list(_first(parts))
    return LocalBlocks(lambda: iter(first)), LocalBlocks(lambda: chain(first, parts), replays=False)


def _first(parts: Iterator[Any]) -> Iterator[Any]:
    """All up to the first one with rows."""
    for part in parts:
        yield part
        if np.shape(part[0])[:1] != (0,):
            return


def _triple(part: Any) -> tuple[Any, ...]:
    """X, y, weights from X, (X, y) or all three."""
    whole = part if isinstance(part, tuple) else (part,)
    return (*whole, None, None)[:3]


def _cut(X: Any, y: Any, weight: Any, rows: int) -> Iterator[tuple[Any, ...]]:
    """Slices of an array, of which a memory map reads no more."""
    X = X.tocsr() if issparse(X) else X  # others cannot be cut
    for start in range(0, X.shape[0] if issparse(X) else len(X), rows):
        some = slice(start, start + rows)
        yield tuple(None if column is None else _by_place(column)[some] for column in (X, y, weight))


def _by_place(column: Any) -> Any:
    """What is cut by the places of rows; a slice of a pandas object may be one of labels."""
    return getattr(column, "iloc", column)


def _alone(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ValueError("Blocks of an iterator bring y and weights themselves: yield (X, y) or (X, y, weights).")
