"""Computations on each block of a stream: the sums of its terms, a sample of its rows, products with them.

*Sampling.*  The sample is uniform, and does not depend on where blocks are read: each row draws a random key, seeded by
the seed and the index of its block, and the rows with the smallest keys are kept.  Rows of two kinds (with and without
a label) are sampled separately, so that a few labels among many rows are not lost.

*Lazy rows.*  The rows E of losses that are not quadratic are read again whenever they are needed: one number per row is
stored instead of p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.operators import OperatorTerms, with_missing_variance
from rkhs._finite.sums import FeatureSums, KeptRows
from rkhs._finite.term import Term
from rkhs._spaces.base import FiniteSpace, Orthonormal
from rkhs._spaces.normal_equations import QuadraticSums
from rkhs.exceptions import BlockError
from rkhs.streams._blocks import Block, Blocks

TermsOf = Callable[[Block], Sequence[Term]]


@dataclass(frozen=True, eq=False)
class Plan:
    """The functions in which f is sought, and the terms of a block."""

    space: FiniteSpace
    basis: FunctionSpace | None
    terms: TermsOf
    outputs: int | None
    functions: Orthonormal | None = None  # the functions for the sums; None for those of the space

    def features(self, block: Block, only: int | None = None) -> FeatureSums:
        """Return the sums of a block, of all terms or of the term `only`, whose rows are then all kept."""
        terms = list(self.terms(block))
        selected = terms if only is None else terms[only : only + 1]
        try:
            limit = None if only is None else inf
            return FeatureSums.of(self.space, self.basis, selected, self.outputs, self.functions, limit=limit)
        except (FloatingPointError, ValueError) as error:
            raise BlockError(block.index, f"cannot be summed up: {error}") from error

    def quadratic_sums(self, block: Block, _: Any = None) -> QuadraticSums:
        """Return the sums of a block on a Fourier grid."""
        found = OperatorTerms.of(self.space, self.basis, list(self.terms(block)), self.outputs)
        for one in found.blocks:
            if not one.loss.quadratic:
                raise ValueError(
                    f"A FourierGrid adds up squared losses over blocks, and one is {one.loss!r}: use arrays, or "
                    "rkhs.Landmarks."
                )
        problem = self.space.outside_of_box([functional for functional, _ in found.rows])
        if problem is not None:
            raise BlockError(block.index, problem)
        weights = [
            with_missing_variance(self.space, rows, t.weight) for rows, t in zip(found.rows, found.blocks, strict=True)
        ]
        return QuadraticSums.of(self.space, found.rows, weights, [t.target for t in found.blocks])


@dataclass(frozen=True, eq=False)
class Extent:
    """The corners of the box of all points; `+` joins two boxes."""

    low: Vector
    high: Vector

    @classmethod
    def of(cls, block: Block) -> Extent:
        """Return the box of the points of a block."""
        return cls(np.min(block.X, axis=0), np.max(block.X, axis=0))

    def __add__(self, other: Extent) -> Extent:
        return Extent(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, eq=False)
class SampleSpec:
    """The parameters of a sample: `size` rows of each kind, and facts to add up over blocks (`describe`)."""

    size: int
    seed: int
    kind: Callable[[Block], Vector] | None = None  # returns a mask of the rows of the first kind
    describe: Callable[[Block], Any] | None = None


COLUMNS = ("keys", "X", "weight", "kind")  # the arrays of a reservoir that are never None


@dataclass(frozen=True, eq=False)
class Reservoir:
    """A sample of rows of two kinds, those of a mask and the others, and the total weight of all rows of each kind."""

    size: int  # maximal number of rows of each kind
    keys: Vector
    X: Vector
    y: Vector | None
    weight: Vector
    kind: Vector  # 0 for rows of the mask, 1 for others
    totals: Vector  # (2,), the weights of all rows of each kind
    facts: Any

    def smallest(self, size: int) -> Reservoir:
        """Return the rows of each kind with the smallest keys."""
        order = np.argsort(self.keys, kind="stable")
        rows = np.concatenate([order[self.kind[order] == kind][:size] for kind in (0, 1)])
        taken = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, y=None if self.y is None else self.y[rows], **taken)

    def __add__(self, other: Reservoir) -> Reservoir:
        joined: dict[str, Any] = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in COLUMNS}
        y = None if self.y is None or other.y is None else np.concatenate([self.y, other.y])
        facts = None if self.facts is None else self.facts + other.facts
        return replace(self, y=y, totals=self.totals + other.totals, facts=facts, **joined).smallest(self.size)

    def block(self) -> Block:
        """Return the sample as a block whose weights are scaled to those of all rows."""
        sums = np.bincount(self.kind, weights=self.weight, minlength=2)
        factors = self.totals / np.where(sums > 0, sums, 1.0)
        return Block(-1, self.X, self.y, self.weight * factors[self.kind])

    def of_kind(self, kind: int) -> Block:
        """Return the rows of one kind as a block with their original weights."""
        rows = self.kind == kind
        return Block(-1, self.X[rows], None if self.y is None else self.y[rows], self.weight[rows])


def sample(wanted: SampleSpec, block: Block, _: Any = None) -> Reservoir:
    """Return the sample of one block."""
    keys = np.random.default_rng([wanted.seed, block.index]).random(len(block.X))
    mask = np.zeros(len(keys), dtype=bool) if wanted.kind is None else wanted.kind(block)
    weight = np.ones(len(keys)) if block.weight is None else block.weight
    kind = np.where(mask, 0, 1)
    totals = np.bincount(kind, weights=weight, minlength=2)
    facts = None if wanted.describe is None else wanted.describe(block)
    return Reservoir(wanted.size, keys, block.X, block.y, weight, kind, totals, facts).smallest(wanted.size)


@dataclass(frozen=True, eq=False)
class LazyRows:
    """The matrix E (t, m) of one term with the operations that Newton's method needs.

    These are E @ theta, E.T @ v, E.T @ (h * E) and E[:, columns].
    """

    blocks: Blocks
    plan: Plan
    term: int
    matrix: Vector  # (p, m), the map from the functions of the plan to the columns
    counts: list[int]  # rows of each block
    h: Vector | None = None  # the weights h of the rows in h * E
    transposed: bool = False
    __array_ufunc__ = None  # NumPy must leave `h * E` to __rmul__

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, key: tuple[slice, slice]) -> LazyRows:
        return replace(self, matrix=self.matrix[:, key[1]])

    @property
    def T(self) -> LazyRows:
        return replace(self, transposed=True)

    def __rmul__(self, column: Vector) -> LazyRows:
        return replace(self, h=column[:, 0])

    def __matmul__(self, other: Vector | LazyRows) -> Vector:
        if not self.transposed:
            parts = self.blocks.map(_product, (self.plan, self.term, "E @ v", self.matrix @ other))
            return np.concatenate([part for part in parts if part is not None])
        what, vector = ("E.T @ (h * E)", other.h) if isinstance(other, LazyRows) else ("E.T @ v", other)
        assert vector is not None
        pieces = np.split(vector, np.cumsum(self.counts)[:-1])
        total = self.blocks.reduce(_product, (self.plan, self.term, what, None), pieces)
        return np.asarray(self.matrix.T @ (total @ self.matrix if isinstance(other, LazyRows) else total))


def lazy_images(blocks: Blocks, plan: Plan) -> Any:
    """Return a function (term, matrix) -> (E, targets, weights) that reads rows again; None for a single use."""
    if not blocks.replays:
        return None

    def images(term: int, matrix: Vector) -> tuple[LazyRows, Vector, Vector]:
        parts = blocks.map(_product, (plan, term, "targets and weights", None))
        rows = LazyRows(blocks, plan, term, matrix, [0 if part is None else len(part[0]) for part in parts])
        target, weight = zip(*(part for part in parts if part is not None), strict=True)
        return rows, np.concatenate(target), np.concatenate(weight)

    return images


def _product(shared: tuple[Plan, int, str, Any], block: Block, v: Any) -> Any:
    """Return a product with the rows E of one term in one block, or their targets and weights."""
    plan, term, what, coefficients = shared
    features = plan.features(block, only=term)
    kept = features.blocks[0]
    assert isinstance(kept, KeptRows)
    E, target, weight = np.zeros((0, features.size)), np.zeros((0, features.outputs or 1)), np.zeros((0, 1))
    if kept.tiles:
        rows = kept.joined()
        E, target, weight = rows.E, rows.target, rows.weight
    if what == "targets and weights":
        return target, weight
    if what == "E @ v":
        return np.asarray(E @ coefficients)
    return np.asarray(E.T @ (v if what == "E.T @ v" else v[:, None] * E))
