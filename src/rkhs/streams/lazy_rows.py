"""The rows E of losses that are not quadratic, read again each time they are needed: a number a row is kept, not p."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs._finite.moments import Kept
from rkhs.streams.blocks import Block, Blocks
from rkhs.streams.plan import Plan


class LazyRows:
    """E (t, m) of one term, as far as Newton's method needs it: E @ theta, E.T @ v, E.T @ (h * E)."""

    __array_ufunc__ = None  # so that `h * E` comes to us

    def __init__(self, blocks: Blocks, plan: Plan, term: int, matrix: Vector, counts: list[int]) -> None:
        self.blocks, self.plan, self.term, self.matrix = blocks, plan, term, matrix
        self.ends, self.total = np.cumsum(counts)[:-1], int(sum(counts))

    def __matmul__(self, theta: Vector) -> Vector:
        return np.concatenate(_with_rows(self.blocks.map(_forward, (self.plan, self.term, self.matrix @ theta))))

    def __getitem__(self, key: tuple[slice, slice]) -> LazyRows:
        """Some of the columns."""
        counts = np.diff(np.concatenate([[0], self.ends, [self.total]]))
        return LazyRows(self.blocks, self.plan, self.term, self.matrix[:, key[1]], counts.tolist())

    @property
    def T(self) -> LazyAdjoint:
        return LazyAdjoint(self)

    def __rmul__(self, column: Vector) -> Weighted:
        return Weighted(self, column[:, 0])

    def split(self, v: Vector) -> list[Vector]:
        """The shares of the blocks."""
        return list(np.split(v, self.ends))


class Weighted:
    """h * E."""

    __array_ufunc__ = None

    def __init__(self, rows: LazyRows, h: Vector) -> None:
        self.rows, self.h = rows, h


class LazyAdjoint:
    """E'."""

    def __init__(self, rows: LazyRows) -> None:
        self.rows = rows

    def __matmul__(self, other: Any) -> Vector:
        rows = self.rows
        shared = (rows.plan, rows.term, rows.matrix)
        if isinstance(other, Weighted):
            inner = rows.blocks.reduce(_square, (rows.plan, rows.term, None), rows.split(other.h))
            return np.asarray(rows.matrix.T @ inner @ rows.matrix)
        return np.asarray(rows.blocks.reduce(_adjoint, shared, rows.split(other)))


def lazy_images(blocks: Blocks, plan: Plan) -> Any:
    """What the small problem asks for where rows were not kept: (term, matrix) -> E, targets and weights."""
    if not blocks.replays:
        return None

    def images(term: int, matrix: Vector) -> tuple[LazyRows, Vector, Vector]:
        parts = blocks.map(_columns, (plan, term, None))
        rows = LazyRows(blocks, plan, term, matrix, [0 if part is None else len(part[0]) for part in parts])
        there = _with_rows(parts)
        return rows, np.concatenate([part[0] for part in there]), np.concatenate([part[1] for part in there])

    return images


def _with_rows(results: list[Any]) -> list[Any]:
    """Those of the blocks that have rows."""
    return [result for result in results if result is not None]


def _rows(plan: Plan, term: int, block: Block) -> tuple[Vector, Vector, Vector]:
    """E, targets and weights of one term in one block."""
    summary = plan.summary(block, only=term)
    kept = summary.terms[0]
    assert isinstance(kept, Kept)
    if not kept.blocks:
        return np.zeros((0, summary.size)), np.zeros((0, summary.outputs or 1)), np.zeros((0, 1))
    rows = kept.joined()
    return rows.E, rows.target, rows.weight


def _columns(shared: Any, block: Block, _: Any) -> tuple[Vector, Vector]:
    return _rows(shared[0], shared[1], block)[1:]


def _forward(shared: Any, block: Block, _: Any) -> Vector:
    plan, term, coefficients = shared
    return np.asarray(_rows(plan, term, block)[0] @ coefficients)


def _adjoint(shared: Any, block: Block, v: Vector) -> Vector:
    plan, term, matrix = shared
    return np.asarray(matrix.T @ (_rows(plan, term, block)[0].T @ v))


def _square(shared: Any, block: Block, h: Vector) -> Vector:
    E = _rows(shared[0], shared[1], block)[0]
    return np.asarray(E.T @ (h[:, None] * E))
