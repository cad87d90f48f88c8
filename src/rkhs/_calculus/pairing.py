"""Two blocks of atoms and the layout in which they meet.

Every inner product of representers is built from three bilinear products: within the left atoms,
within the right ones, and between them.  `AllPairs` lays the result out as a table, one entry for each
pair of atoms; `Matched` as a list, one entry for each atom and its counterpart (the diagonal of the
table).  Kernels are written once, against either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rkhs._backend.arrays import Array, namespace
from rkhs._calculus.atoms import Atoms, LinearMap


@dataclass(frozen=True, eq=False)
class Pairing(ABC):
    """Left and right atoms in a layout; vectors of either are (t or 1, k or 1, n)."""

    left: Atoms
    right: Atoms

    @abstractmethod
    def within_left(self, p: Array, q: Array) -> Array:
        """<p, q> for vectors of the left atoms."""

    @abstractmethod
    def within_right(self, p: Array, q: Array) -> Array:
        """<p, q> for vectors of the right atoms."""

    @abstractmethod
    def between(self, p: Array, q: Array) -> Array:
        """<p, q> for p of the left atoms and q of the right ones."""

    @abstractmethod
    def flat(self, values: Array) -> Array:
        """Broadcast values to the layout and merge each side's points and directions into one axis."""

    def pushed(self, linear: LinearMap) -> Self:
        """Return the same pairing after a linear change of input."""
        return self if linear is None else type(self)(self.left.pushed(linear), self.right.pushed(linear))

    def restricted(self, left: Sequence[int], right: Sequence[int]) -> Self:
        """Return the same pairing with only some of the directions on each side."""
        return type(self)(self.left.restricted(left), self.right.restricted(right))


class AllPairs(Pairing):
    """Each left atom with each right atom: values broadcast to (t, k, s, l)."""

    def within_left(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[:, :, None, None]

    def within_right(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[None, None, :, :]

    def between(self, p: Array, q: Array) -> Array:
        xp, n = namespace(p, q), self.left.dimension
        product = xp.reshape(p, (-1, n)) @ xp.reshape(q, (-1, n)).T
        return xp.reshape(product, (*p.shape[:2], *q.shape[:2]))

    def flat(self, values: Array) -> Array:
        xp, left, right = namespace(self.left.points), self.left, self.right
        shape = (left.points.shape[0], left.per_point, right.points.shape[0], right.per_point)
        return xp.reshape(xp.broadcast_to(values, shape), (left.size, right.size))


class Matched(Pairing):
    """Each left atom with the right atom of the same index: values broadcast to (t, k)."""

    def between(self, p: Array, q: Array) -> Array:
        return _inner(p, q)

    within_left = between
    within_right = between

    def flat(self, values: Array) -> Array:
        xp, left = namespace(self.left.points), self.left
        return xp.reshape(xp.broadcast_to(values, (left.points.shape[0], left.per_point)), (left.size,))


def _inner(p: Array, q: Array) -> Array:
    """<p, q> along the last axis, (t or 1, k or 1); for points and shared directions as a matrix product."""
    if p.shape[1] == 1 and q.shape[0] == 1:
        return p[:, 0, :] @ q[0].T
    if p.shape[0] == 1 and q.shape[1] == 1:
        return q[:, 0, :] @ p[0].T
    return namespace(p, q).sum(p * q, axis=-1)
