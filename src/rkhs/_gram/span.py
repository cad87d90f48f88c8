"""Spans of finitely many functions: where approximations look for f.

    f = sum_a tau_a psi_a,        |f|^2 = tau'K tau

Every functional of a problem is applied to the psi exactly.  Quadratic terms need only the sums

    sum_i w_i L_i(psi_a) L_i(psi_b)        and        sum_i w_i <grad psi_a, grad psi_b>(x_i)

over rows, which add up over blocks of rows; the second has closed forms that never hold the gradients (`Sums`).

All of it in float64, whatever the points are in, and where the span is (`home`), which may be an accelerator: rows are
brought there a tile at a time and sums stay there until they are done.  What is solved with these sums multiplies their
rounding by the inverse of K: see docs/scaling.md for what float32 does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

from rkhs._backend.arrays import Array, Matrix, in_one_place, namespace
from rkhs._backend.memory import budget_bytes, on_cpu, tile_entries
from rkhs.functionals.base import Functional
from rkhs.kernels.base import Kernel

TILE = 2**21  # entries of a tile of rows x functions on a CPU: large enough for the matrix products, 16 MiB
LEAST = 128  # rows of a tile
COPIES = 12  # arrays of the size of a tile that are alive at once


class Tile(ABC):
    """What the functions do at some points; `alike` if the sums of the values are a part of the gradients'.

    That is so for the Gaussian, all of whose rungs are one, and for pairs of cosine and sine.
    """

    alike: bool = False

    @property
    @abstractmethod
    def values(self) -> Array:
        """psi_a(x_i), (t, p)."""


class Sums(ABC):
    """sum_i w_i <grad psi_a, grad psi_b>(x_i), tile by tile."""

    @abstractmethod
    def add(self, tile: Any, root: Array, known: Array | None = None) -> None:
        """Add the points of a tile, with the square roots (t, 1) of their weights, an array of the span's kind.

        `known` is sum_i w_i psi_a(x_i) psi_b(x_i), where the tile is `alike` and it has been computed already.
        """

    @abstractmethod
    def total(self) -> Matrix:
        """(p, p), in float64 and NumPy."""


class Span(ABC):
    """The span of p functions of (or near) the RKHS of a kernel."""

    kernel: Kernel

    @property
    @abstractmethod
    def size(self) -> int:
        """p."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """n, of the points."""

    @property
    @abstractmethod
    def home(self) -> Array:
        """No numbers, in float64: all is computed with arrays of this kind, on its device."""

    @abstractmethod
    def moved(self, home: Array) -> Self:
        """The same span with another home."""

    @property
    @abstractmethod
    def norm(self) -> Matrix:
        """K (p, p)."""

    @property
    @abstractmethod
    def constraints(self) -> Matrix:
        """(r, p): the combinations C tau = 0 are those in the space; r = 0 where all are."""

    @abstractmethod
    def rows(self, functional: Functional) -> Array:
        """L_i(psi_a), (size, p), at home."""

    def tile(self, points: Array) -> Tile | None:
        """What the functions do at the points; None where there is no closed form for it."""
        return None

    def sums(self) -> Sums | None:
        """No points yet; None where `tile` is."""
        return None

    def brought(self, functional: Functional) -> Functional:
        """The functionals where the span is."""
        return functional if in_one_place(functional.prototype, self.home) else functional.like(self.home)

    @property
    def tall(self) -> int:
        """Rows of a tile."""
        entries = TILE if on_cpu(self.home) else tile_entries(budget_bytes(None, self.home), self.home, COPIES)
        return max(LEAST, entries // max(self.size, 1))

    def tiles(self, points: Array, tall: int | None = None) -> Iterator[tuple[slice, Tile | None]]:
        """The points in tiles."""
        tall = tall or self.tall
        for start in range(0, int(points.shape[0]), tall):
            rows = slice(start, min(start + tall, int(points.shape[0])))
            yield rows, self.tile(points[rows])


def in_double(points: Array) -> Array:
    """The points in float64, where they are."""
    xp = namespace(points)
    return points if points.dtype == xp.float64 else xp.astype(points, xp.float64)


def square(F: Array, root: Array) -> Array:
    """F' diag(root^2) F; F is overwritten."""
    F *= root
    return F.T @ F
