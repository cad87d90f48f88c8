"""Blocks of rows: points, what is known of each, and weights.

All that is done with a stream is a function of each block, gathered in order (`map`) or added up (`reduce`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from rkhs.errors import BlockError

ROWS = 2**14  # of a block of an array: with a thousand functions their features are 128 MiB
Vector = np.ndarray[Any, Any]
Task = Callable[[Any, "Block", Any], Any]


@dataclass(frozen=True, eq=False)
class Block:
    """Points X (t, n) with y (t,) and weights (t,), or None for either."""

    index: int
    X: Vector
    y: Vector | None
    weight: Vector | None

    @classmethod
    def of(cls, index: int, X: Any, y: Any = None, weight: Any = None) -> Block:
        """A checked block; a `BlockError` says what is wrong with it."""
        X = np.asarray(X)
        if X.dtype not in (np.float32, np.float64):
            try:
                X = X.astype(np.float64)
            except (TypeError, ValueError):
                raise BlockError(index, f"has entries of type {X.dtype} that are not numbers: encode them.") from None
        if X.ndim != 2 or X.shape[1] == 0:
            raise BlockError(index, f"has shape {X.shape}, and (rows, features) is needed.")
        finite = np.isfinite(X)
        if not finite.all():
            row, column = (int(i[0]) for i in np.nonzero(~finite))
            raise BlockError(index, f"has NaN or infinity in row {row}, feature {column}: impute or drop that row.")
        y, weight = (None if column is None else np.asarray(column) for column in (y, weight))
        for name, column in (("y", y), ("weights", weight)):
            if column is not None and column.shape != X.shape[:1]:
                raise BlockError(index, f"has {len(X)} rows, and its {name} have shape {column.shape}.")
        if weight is not None and not (np.all(np.isfinite(weight)) and np.all(weight >= 0)):
            raise BlockError(index, "has weights that are negative or not finite.")
        return cls(index, X, y, weight)

    def like(self, width: int | None, owner: str = "learning") -> Block:
        """The same block, if it has as many features as those before."""
        if width is not None and self.X.shape[1] != width:
            have = f"X has {self.X.shape[1]} features, but {owner} is expecting {width} features as input"
            raise BlockError(self.index, f"cannot be used: {have}.")
        return self


class Blocks(ABC):
    """A stream of blocks of rows; see `rkhs.blocks`."""

    replays: bool = True  # whether it can be read more than once

    @abstractmethod
    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        """task(shared, block, argument) for each block, in their order."""

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
        return reduce(add, self._results(task, shared, arguments))

    def __iter__(self) -> Iterator[Block]:
        parts = self.read()
        width, index = None, 0
        while True:
            try:
                part = next(parts)
            except StopIteration:
                break
            except BlockError:
                raise
            except Exception as error:
                raise BlockError(index, f"could not be read: {type(error).__name__}: {error}") from error
            block = Block.of(index, *part).like(width)
            width, index = block.X.shape[1], index + 1
            yield block
        if index == 0:
            raise ValueError("There are no blocks of rows to learn from.")

    def _results(self, task: Task, shared: Any, arguments: Sequence[Any] | None) -> Iterator[Any]:
        for block in self:
            yield task(shared, block, None if arguments is None else arguments[block.index])
