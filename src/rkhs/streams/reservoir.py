"""A uniform sample of the rows of a stream, the same wherever its blocks are read.

Each row draws a number, from the seed and the number of its block; the rows with the smallest ones are kept.  Rows of
two kinds (with and without a label) have a sample each, so that a few labels among many rows are not lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs.streams.blocks import Block


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
