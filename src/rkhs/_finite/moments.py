"""What one term says about a span, with rows in groups whose weights can still be changed.

Row i of a term has the share s_ij in group j, none (one group of all rows) or given.  With a factor f_j for each group
the weights of the rows are w_i sum_j s_ij f_j: a fold leaves out a group by a factor of 0, a grid of weights multiplies
all of them, and in neither case is a row looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs.losses.base import Loss

LIMIT = 2**29  # bytes of rows of losses that are not quadratic, up to which they are kept
PATTERNS = 4  # groups for each fold, up to which rows are grouped by the folds that they are in


@dataclass(frozen=True, eq=False)
class Moments:
    """theta'M theta - 2 m'theta + constant, for each group and output."""

    loss: Loss
    square: Matrix  # (g, r + p, r + p)
    linear: Matrix  # (g, r + p, c)
    constant: Matrix  # (g, c)
    cancelled: float = 1.0  # how much larger the numbers are, at most, that rows were computed from
    strongest: float = 0.0  # the largest weight of a row times the square of these numbers
    count: int = 0  # of functionals of positive weight

    def __add__(self, other: Moments) -> Moments:
        return replace(
            self,
            square=self.square + other.square,
            linear=self.linear + other.linear,
            constant=self.constant + other.constant,
            cancelled=max(self.cancelled, other.cancelled),
            strongest=max(self.strongest, other.strongest),
            count=self.count + other.count,
        )

    def times(self, factor: float) -> Moments:
        """The same with all weights multiplied."""
        square, linear, constant = factor * self.square, factor * self.linear, factor * self.constant
        return replace(self, square=square, linear=linear, constant=constant, strongest=factor * self.strongest)

    def in_numpy(self) -> Moments:
        """The same from sums on a device."""
        square, linear, constant = map(to_numpy, (self.square, self.linear, self.constant))
        return replace(self, square=square, linear=linear, constant=constant)

    def turned(self, turn: Matrix) -> Moments:
        """The same in other functions, the columns of psi `turn`."""
        square = np.stack([turn.T @ (own @ turn) for own in self.square])
        return replace(self, square=square, linear=turn.T @ self.linear)

    def weighted(self, factors: Any) -> tuple[Matrix, Matrix, Matrix]:
        """M, m and the constant with a factor for each group, or one for all."""
        own = np.broadcast_to(np.asarray(factors, dtype=np.float64), len(self.square))

        def total(part: Matrix) -> Matrix:
            return np.tensordot(own, part, axes=1)

        return total(self.square), total(self.linear), total(self.constant)


@dataclass(frozen=True, eq=False)
class KeptBlock:
    """Rows E (t, r + p), targets (t, c), weights (t, 1), and shares (t, g) or None for one group.

    `sizes` (t, 1 + r) are those of the numbers that rows are computed from: of functions of norm one, and of each basis
    function.
    """

    E: Matrix
    target: Matrix
    weight: Matrix
    sizes: Matrix
    shares: Matrix | None

    def turned(self, turn: Matrix) -> KeptBlock:
        """The same in other functions, the columns of psi `turn`."""
        return replace(self, E=self.E @ turn)

    def weighted(self, factors: Any) -> KeptBlock:
        """The rows of positive weight, with a factor on the weights for each group, or one for all."""
        if self.shares is None:
            weight = self.weight * float(factors)
        else:
            own = np.broadcast_to(np.asarray(factors, dtype=np.float64), self.shares.shape[1])
            weight = self.weight * (self.shares @ own)[:, None]
        seen = weight[:, 0] > 0
        if np.all(seen):
            return replace(self, weight=weight, shares=None)
        return KeptBlock(self.E[seen], self.target[seen], weight[seen], self.sizes[seen], None)


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows as they are, in blocks; None once there are too many."""

    loss: Loss
    blocks: tuple[KeptBlock, ...] | None
    count: int

    @property
    def bytes(self) -> int:
        return 0 if self.blocks is None else sum(block.E.nbytes for block in self.blocks)

    def __add__(self, other: Kept) -> Kept:
        count = self.count + other.count
        if self.blocks is None or other.blocks is None or self.bytes + other.bytes > LIMIT:
            return Kept(self.loss, None, count)
        return Kept(self.loss, self.blocks + other.blocks, count)

    def times(self, factor: float) -> Kept:
        """The same with all weights multiplied."""
        blocks = None if self.blocks is None else tuple(replace(b, weight=factor * b.weight) for b in self.blocks)
        return replace(self, blocks=blocks)

    def joined(self) -> KeptBlock:
        """All blocks as one, in float64."""
        assert self.blocks is not None
        if len(self.blocks) == 1 and self.blocks[0].E.dtype == np.float64:
            return self.blocks[0]
        E, target, weight, sizes = (
            np.concatenate([getattr(block, name) for block in self.blocks]).astype(np.float64, copy=False)
            for name in ("E", "target", "weight", "sizes")
        )
        shares = [block.shares for block in self.blocks if block.shares is not None]
        return KeptBlock(E, target, weight, sizes, np.concatenate(shares) if shares else None)


def shared_out(folds: list[Matrix]) -> tuple[Matrix, list[Matrix]]:
    """Shares (t, g) of rows in groups, and each fold's factors (g,), from each fold's factors (t,) on the rows.

    Rows that all folds treat alike are a group, and belong to no other; where there are too many such groups, each
    fold is one.

    Examples
    --------
    >>> import numpy as np
    >>> shares, factors = shared_out([np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])])
    >>> shares.tolist(), [own.tolist() for own in factors]
    ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    """
    columns = np.stack(folds, axis=1)
    patterns, codes = np.unique(columns, axis=0, return_inverse=True)
    if len(patterns) > PATTERNS * len(folds):
        return columns, list(np.eye(len(folds)))
    return (codes.reshape(-1, 1) == np.arange(len(patterns))).astype(np.float64), list(patterns.T)
