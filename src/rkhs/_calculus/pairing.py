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
    """Left and right atoms in a layout; factors are arrays that broadcast to `shape`."""

    left: Atoms
    right: Atoms

    @property
    def dimension(self) -> int:
        return self.left.dimension

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape to which all factors broadcast."""

    @property
    @abstractmethod
    def flat_shape(self) -> tuple[int, ...]:
        """The same with each side's points and directions merged into one axis."""

    @abstractmethod
    def within_left(self, p: Array, q: Array) -> Array:
        """<p, q> for vectors of the left atoms, each (t or 1, k or 1, n)."""

    @abstractmethod
    def within_right(self, p: Array, q: Array) -> Array:
        """<p, q> for vectors of the right atoms."""

    @abstractmethod
    def between(self, p: Array, q: Array) -> Array:
        """<p, q> for p of the left atoms and q of the right ones."""

    def flat(self, values: Array) -> Array:
        """Values in the layout, broadcast to `shape` and reshaped to `flat_shape`."""
        xp = namespace(self.left.points)
        return xp.reshape(xp.broadcast_to(values, self.shape), self.flat_shape)

    def pushed(self, linear: LinearMap) -> Self:
        """Return the same pairing after a linear change of input."""
        return self if linear is None else type(self)(self.left.pushed(linear), self.right.pushed(linear))

    def restricted(self, left: Sequence[int], right: Sequence[int]) -> Self:
        """Return the same pairing with only some of the directions on each side."""
        return type(self)(self.left.restricted(left), self.right.restricted(right))

    def centred(self) -> Self:
        """Return the same pairing seen from the middle of the right points (for translation-invariant forms)."""
        xp = namespace(self.right.points)
        if self.right.points.shape[0] == 0:
            return self
        origin = xp.mean(self.right.points, axis=0)
        return type(self)(self.left.shifted(origin), self.right.shifted(origin))


class AllPairs(Pairing):
    """Each left atom with each right atom: factors broadcast to (t, k, s, l)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for side in (self.left, self.right) for n in (side.points.shape[0], side.per_point))

    @property
    def flat_shape(self) -> tuple[int, ...]:
        return self.left.size, self.right.size

    def within_left(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[:, :, None, None]

    def within_right(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[None, None, :, :]

    def between(self, p: Array, q: Array) -> Array:
        xp = namespace(p, q)
        n = self.dimension
        product = xp.reshape(p, (-1, n)) @ xp.reshape(q, (-1, n)).T
        return xp.reshape(product, (*p.shape[:2], *q.shape[:2]))


class Matched(Pairing):
    """Each left atom with the right atom of the same index: factors broadcast to (t, k)."""

    @property
    def shape(self) -> tuple[int, ...]:
        return int(self.left.points.shape[0]), self.left.per_point

    @property
    def flat_shape(self) -> tuple[int, ...]:
        return (self.left.size,)

    def between(self, p: Array, q: Array) -> Array:
        return _inner(p, q)

    within_left = between
    within_right = between


def _inner(p: Array, q: Array) -> Array:
    """<p, q> along the last axis, (t or 1, k or 1); for points and shared directions as a matrix product."""
    if p.shape[1] == 1 and q.shape[0] == 1:
        return p[:, 0, :] @ q[0].T
    if p.shape[0] == 1 and q.shape[1] == 1:
        return q[:, 0, :] @ p[0].T
    return namespace(p, q).sum(p * q, axis=-1)
