"""What to do with each block of a stream.

A uniform sample of the rows of a stream, the same wherever its blocks are read.

Each row draws a number, from the seed and the number of its block; the rows with the smallest ones are kept.  Rows of
two kinds (with and without a label) have a sample each, so that a few labels among many rows are not lost.

The rows E of losses that are not quadratic, read again each time they are needed: a number a row is kept, not p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.features import FeatureBlocks, KeptRows
from rkhs._finite.term import Term
from rkhs.errors import BlockError
from rkhs.spaces.base import DenseSpace, Orthonormal
from rkhs.streams.blocks import Block, Blocks

TermsOf = Callable[[Block], Sequence[Term]]


@dataclass(frozen=True, eq=False)
class Plan:
    """The functions among which f is sought, and the terms of a block."""

    space: DenseSpace
    basis: FunctionSpace | None
    terms: TermsOf
    outputs: int | None
    functions: Orthonormal | None = None  # in which rows are summed up; None for those of the space

    def features(self, block: Block, only: int | None = None) -> FeatureBlocks:
        """The sums of a block, of all terms or of one, whose rows are then kept whatever their number."""
        terms = list(self.terms(block))
        some = terms if only is None else terms[only : only + 1]
        try:
            limit = None if only is None else inf
            return FeatureBlocks.of(self.space, self.basis, some, self.outputs, self.functions, limit=limit)
        except (FloatingPointError, ValueError) as error:
            raise BlockError(block.index, f"cannot be summed up: {error}") from error


def summarise(plan: Plan, block: Block, _: Any = None) -> FeatureBlocks:
    """The sums of a block."""
    return plan.features(block)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What to sample: `size` rows of each kind, and what else to learn from each block (`describe`, with a sum)."""

    size: int
    seed: int
    kind: Callable[[Block], Vector] | None = None  # a mask
    describe: Callable[[Block], Any] | None = None


@dataclass(frozen=True, eq=False)
class Kind:
    """The rows of one kind that are kept, and the weight of all that there were."""

    keys: Vector
    X: Vector
    y: Vector | None
    weight: Vector
    total: float

    def smallest(self, size: int) -> Kind:
        rows = np.argsort(self.keys, kind="stable")[:size]
        y = None if self.y is None else self.y[rows]
        return replace(self, keys=self.keys[rows], X=self.X[rows], y=y, weight=self.weight[rows])

    def block(self) -> Block:
        """The rows as a block, with their own weights."""
        return Block(-1, self.X, self.y, self.weight)

    def __add__(self, other: Kind) -> Kind:
        y = None if self.y is None or other.y is None else np.concatenate([self.y, other.y])
        columns = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("keys", "X", "weight")]
        return Kind(columns[0], columns[1], y, columns[2], self.total + other.total)


@dataclass(frozen=True, eq=False)
class Reservoir:
    """The sample of both kinds."""

    size: int
    kinds: tuple[Kind, Kind]
    facts: Any

    def __add__(self, other: Reservoir) -> Reservoir:
        first, second = ((a + b).smallest(self.size) for a, b in zip(self.kinds, other.kinds, strict=True))
        facts = None if self.facts is None else self.facts + other.facts
        return Reservoir(self.size, (first, second), facts)

    def block(self) -> Block:
        """The sample as a block, its weights those of all the rows it stands for."""
        parts = [part for part in self.kinds if len(part.keys)]
        weight = [part.weight * (part.total / (part.weight.sum() or 1.0)) for part in parts]
        y = None if parts[0].y is None else np.concatenate([part.y for part in parts if part.y is not None])
        return Block(-1, np.concatenate([part.X for part in parts]), y, np.concatenate(weight))


def sample(wanted: Wanted, block: Block, _: Any = None) -> Reservoir:
    """The sample of one block."""
    keys = np.random.default_rng([wanted.seed, block.index]).random(len(block.X))
    mask = np.zeros(len(keys), dtype=bool) if wanted.kind is None else wanted.kind(block)
    weight = np.ones(len(keys)) if block.weight is None else block.weight

    def some(rows: Vector) -> Kind:
        y = None if block.y is None else block.y[rows]
        return Kind(keys[rows], block.X[rows], y, weight[rows], float(weight[rows].sum())).smallest(wanted.size)

    facts = None if wanted.describe is None else wanted.describe(block)
    return Reservoir(wanted.size, (some(np.flatnonzero(mask)), some(np.flatnonzero(~mask))), facts)


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
    features = plan.features(block, only=term)
    kept = features.blocks[0]
    assert isinstance(kept, KeptRows)
    if not kept.tiles:
        return np.zeros((0, features.size)), np.zeros((0, features.outputs or 1)), np.zeros((0, 1))
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
