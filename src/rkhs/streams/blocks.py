"""Blocks of rows: points, what is known of each, and weights.

All that is done with a stream is a function of each block, gathered in order (`map`) or added up (`reduce`).  Blocks
without rows are passed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import issparse

from rkhs._backend.arrays import Vector, as_column, check_unmasked
from rkhs.errors import BlockError

ROWS = 2**14  # of a block of an array: with a thousand functions their features are 128 MiB
NO_ROWS = "There are no blocks of rows to learn from."
Task = Callable[[Any, "Block", Any], Any]


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a stream.

    Points X (t, n) with y (t,) and weights (t,), or None for either, and the names of the columns of X, if any.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rows = next(iter(rkhs.blocks(np.zeros((5, 2)), np.arange(5.0), rows=3)))
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
        """A checked block, with the columns that an owner of `columns` remembers; it learns them from the first one.

        A `BlockError` says what is wrong with it.
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
        finite = np.isfinite(points)
        if not finite.all():
            row, column = (int(i[0]) for i in np.nonzero(~finite))
            raise BlockError(index, f"has NaN or infinity in row {row}, feature {column}: impute or drop that row.")
        y, weight = (None if column is None else as_column(column) for column in (y, weight))
        for name, column in (("y", y), ("weights", weight)):
            if column is not None and column.shape != points.shape[:1]:
                raise BlockError(index, f"has {len(points)} rows, and its {name} have shape {column.shape}.")
        if weight is not None and not (np.all(np.isfinite(weight)) and np.all(weight >= 0)):
            raise BlockError(index, "has weights that are negative or not finite.")
        if not empty:
            _check_columns(index, X, columns, first)
        return cls(index, points, y, weight, getattr(columns, "feature_names_in_", None))


def _check_columns(index: int, X: Any, owner: Any, first: bool) -> None:
    from rkhs.streams.columns import check_columns, keep_columns  # which takes long to import

    try:
        (keep_columns if first else check_columns)(owner, X)
    except (TypeError, ValueError) as error:
        raise BlockError(index, f"cannot be used: {error}") from error


class Blocks(ABC):
    """A stream of blocks of rows; see `rkhs.blocks`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rows = rkhs.blocks(np.zeros((5, 2)), rows=2)
    >>> isinstance(rows, rkhs.Blocks)
    True
    """

    replays: bool = True  # whether it can be read more than once

    @abstractmethod
    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        """task(shared, block, argument) for each block, in their order; None for one without rows."""

    @abstractmethod
    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        """The sum of the same."""


@dataclass(frozen=True, eq=False)
class LocalBlocks(Blocks):
    """Blocks that are read here, one after the other: `read` gives (X, y, weight) of each, y and weight may be None."""

    read: Callable[[], Iterator[tuple[Any, ...]]]
    replays: bool = True

    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        return list(self._results(task, shared, arguments))

    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        return reduce(add, (found for found in self._results(task, shared, arguments) if found is not None))

    def __iter__(self) -> Iterator[Block]:
        from rkhs.streams.columns import Columns

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
