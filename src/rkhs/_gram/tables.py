"""Tables of inner products: dense, as a diagonal, and tile by tile.

The reference way: every entry from `kernel.pair`, whatever the order and the kernel.  The faster ways
are tested against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rkhs._backend.arrays import Array, apply_matrix, namespace, zeros
from rkhs._backend.memory import tile_entries
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.pairing import AllPairs, Matched
from rkhs._progress import tick
from rkhs.functionals.base import Part
from rkhs.kernels.base import Kernel


def add_table(
    out: Array,
    kernel: Kernel,
    left: Part,
    right: Part,
    weight: float,
    budget: int,
    lower: bool = False,
) -> None:
    """Add the table of two parts to the rows and columns of `out` that they belong to.

    Tiles above the diagonal of `out` are left out where only its `lower` half is asked for.
    """
    target = out[left.rows, right.rows]
    half = lower and left.matrix is None and right.matrix is None
    for i, a, j, b in _tiles(left, right, budget, out):
        if not half or left.start + i.stop > right.start + j.start:
            target[_rows(left, i), _rows(right, j)] += _tile(kernel, left, right, (i, a), (j, b), weight)
            tick(i.stop / left.atoms.size)


def _tiles(left: Part, right: Part, budget: int, array: Array) -> Iterator[tuple[slice, Atoms, slice, Atoms]]:
    """Yield tiles of the table of the atoms of two parts, square where it allows it: their rows and columns."""
    entries = tile_entries(budget, array)
    tall = max(1, min(left.atoms.size, max(int(entries**0.5), entries // max(right.atoms.size, 1))))
    for i, a in left.atoms.tiled(tall):
        for j, b in right.atoms.tiled(max(1, entries // a.size)):
            yield i, a, j, b


def add_symmetric(out: Array, kernel: Kernel, parts: Sequence[Part], weight: float, budget: int) -> None:
    """Add the table of parts with themselves, of which one half is the mirror image of the other."""
    side = max(1, int(tile_entries(budget, out) ** 0.5))
    pieces = [(part, piece) for part in parts for piece in part.atoms.tiled(side)]
    for k, (left, one) in enumerate(pieces):
        rows = out[left.rows]
        for i, (right, other) in enumerate(pieces[: k + 1]):
            tick((k * (k + 1) / 2 + i) / (len(pieces) * (len(pieces) + 1) / 2))
            tile = _tile(kernel, left, right, one, other, weight)
            there = rows[_rows(left, one[0]), right.rows][:, _rows(right, other[0])]
            mirror = out[right.rows, left.rows][_rows(right, other[0]), _rows(left, one[0])]
            if other is one:
                there += (tile + tile.T) / 2
                continue
            there += tile
            mirror += tile.T


def _tile(
    kernel: Kernel, left: Part, right: Part, one: tuple[slice, Atoms], other: tuple[slice, Atoms], weight: float
) -> Array:
    """Return what a piece of the atoms of one part and a piece of those of another add to the table."""
    (i, a), (j, b) = one, other
    tile, factor = kernel.pair(AllPairs(a, b)), weight * left.weight * right.weight
    if factor != 1:
        tile = factor * tile
    if left.matrix is not None:
        tile = apply_matrix(left.matrix[:, i], tile)
    if right.matrix is not None:
        tile = apply_matrix(right.matrix[:, j], tile.T).T
    return tile


@dataclass(frozen=True, eq=False)
class TableProduct:
    """The product with the table of two parts, which never holds more than a tile of it."""

    kernel: Kernel
    left: Part
    right: Part
    weight: float
    budget: int
    steady: ClassVar[bool] = False  # `pair` may look for near points

    def add_to(self, out: Array, v: Array) -> None:
        """out += G @ v."""
        left, right = self.left, self.right
        coefficients = right.adjoint(self.weight * v)
        values = zeros((left.atoms.size, v.shape[1]), v)
        for i, a, j, b in _tiles(left, right, self.budget, v):
            values[i] += self.kernel.pair(AllPairs(a, b)) @ coefficients[j]
        out[left.rows] += left.forward(values)


def add_diagonal(out: Array, kernel: Kernel, left: Part, right: Part, weight: float, budget: int) -> None:
    """Add the inner products of two parts without matrices, functional by functional."""
    entries = tile_entries(budget, out, 8 * max(left.atoms.dimension, 1))
    target = out[left.rows]
    pieces = zip(left.atoms.tiled(entries), right.atoms.tiled(entries), strict=True)
    for (i, a), (_, b) in pieces:
        target[i] += (weight * left.weight * right.weight) * kernel.pair(Matched(a, b))


def mirror(table: Array) -> None:
    """Make a table symmetric, in place: its upper half becomes the mirror image of the lower one."""
    xp, size, tall = namespace(table), int(table.shape[0]), 1024  # rows of a tile
    for start in range(0, size, tall):
        rows = slice(start, start + tall)
        tile = table[rows, rows]
        table[rows, rows] = xp.tril(tile) + xp.matrix_transpose(xp.tril(tile, k=-1))
        for below in range(start + tall, size, tall):
            others = slice(below, below + tall)
            table[rows, others] = xp.matrix_transpose(table[others, rows])


def _rows(part: Part, piece: slice) -> slice:
    """Where a piece of a part's atoms is written: everywhere, if a matrix mixes them."""
    return piece if part.matrix is None else slice(None)
