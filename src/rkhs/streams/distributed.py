"""Blocks on a cluster: the same sums as a tree of dask tasks, wherever the current dask client runs them.

Workers that are lost are replaced by dask, which computes their blocks again; blocks are read where they are needed
and forgotten after.  Without a client, dask uses the threads of this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from rkhs.streams.blocks import NO_ROWS, Block, Blocks, Columns, Task

WIDTH = 8  # results that are added up by one task


@dataclass(frozen=True, eq=False)
class DaskBlocks(Blocks):
    """The chunks of a dask array, or the partitions of a dask data frame."""

    parts: list[tuple[Any, Any, Any]]  # delayed X, y and weights
    columns: Any  # `Columns`, which all partitions must have

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any) -> DaskBlocks:
        """Rows in the chunks of X; y and weights, arrays or dask collections, are cut as it is."""
        columns = [_delayed(X, X), _delayed(y, X), _delayed(weight, X)]
        if any(len(column) != len(columns[0]) for column in columns[1:]):
            counts = [len(column) for column in columns]
            raise ValueError(f"X, y and weights have {counts} chunks: rechunk or repartition them alike.")
        like = np.empty((0, X.shape[1])) if hasattr(X, "chunks") else X._meta
        return cls(list(zip(*columns, strict=True)), Columns.of(like))

    def map(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> list[Any]:
        import dask

        return list(dask.compute(*self._tasks(task, shared, arguments)))

    def reduce(self, task: Task, shared: Any, arguments: Sequence[Any] | None = None) -> Any:
        import dask

        level = self._tasks(task, shared, arguments)
        while len(level) > 1:
            level = [_summed(level[k : k + WIDTH]) for k in range(0, len(level), WIDTH)]
        found = dask.compute(level[0])[0]
        if found is None:
            raise ValueError(NO_ROWS)
        return found

    def _tasks(self, task: Task, shared: Any, arguments: Sequence[Any] | None) -> list[Any]:
        """One for each block; what they share is sent to a worker once."""
        import dask

        common, columns = (dask.delayed(each, traverse=False) for each in (shared, self.columns))
        run = dask.delayed(_run, pure=False)
        return [
            run(task, common, k, columns, part, None if arguments is None else arguments[k])
            for k, part in enumerate(self.parts)
        ]


def _run(task: Task, shared: Any, index: int, columns: Any, part: Any, argument: Any) -> Any:
    block = Block.of(index, *part, columns=columns)
    return task(shared, block, argument) if len(block.X) else None


def _summed(parts: list[Any]) -> Any:
    import dask

    return dask.delayed(_sum, pure=False)(parts)


def _sum(parts: list[Any]) -> Any:
    there = [part for part in parts if part is not None]
    return reduce(add, there) if there else None


def _delayed(column: Any, X: Any) -> list[Any]:
    """One delayed piece for each block of rows of X."""
    import dask
    import dask.array

    if column is None:
        return [None] * (len(X.chunks[0]) if hasattr(X, "chunks") else X.npartitions)
    if not hasattr(column, "__dask_graph__"):
        if not hasattr(X, "chunks"):
            raise TypeError("y and weights of a dask data frame must be dask series, divided as it is.")
        column = dask.array.from_array(column, chunks=(X.chunks[0],))
    if not hasattr(column, "chunks"):  # dask's whole optimisation joins partitions, of X and y in different ways
        return list(column.simplify().to_delayed(optimize_graph=False))
    if column.ndim == 2:
        column = column.rechunk({1: -1})
    return list(column.to_delayed().ravel())
