"""What solvers ask of a Gram matrix, stored or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, namespace, to_numpy
from rkhs._backend.memory import budget_bytes


class GramOperator(Protocol):
    """The Gram matrix G of two families of functionals, in a problem (N, N) of one with itself."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def budget(self) -> int:
        """Bytes that work with it may take."""

    @property
    def stored(self) -> bool:
        """Whether the matrix is at hand, so that its entries cost nothing."""

    @property
    def steady(self) -> bool:
        """Whether products do the same whatever their numbers are, so that an accelerator can record them."""

    @property
    def seconds(self) -> float:
        """What a product is estimated to take; nothing on an accelerator, where that is not known."""

    @property
    def core_seconds(self) -> float:
        """What a product is estimated to take on one core, wherever it is computed: a measure of its work."""

    @property
    def firsts(self) -> Vector:
        """Return the rows at which groups begin that are best taken together: all functionals of a point."""

    def __matmul__(self, v: Array) -> Array: ...

    def dense(self) -> Array: ...

    def in_double(self, out: Matrix | None = None) -> Matrix:
        """Return the whole matrix in NumPy and float64, computed so even for points in float32; added to `out`."""

    def diagonal(self) -> Array: ...

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the dense submatrix of some rows and columns."""

    def part(self, rows: Any, columns: Any) -> Any:
        """Return the same submatrix: an operator where the whole is one, an array where it is stored."""


CALL, ENTRY = 2e-4, 1e-9  # seconds of a product, and for each entry: `python -m benchmarks.regret`


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """The interface of `Gram` for a symmetric matrix that has been computed."""

    matrix: Array
    stored = steady = True

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    @property
    def budget(self) -> int:
        return budget_bytes(None, self.matrix)

    @property
    def core_seconds(self) -> float:
        return CALL + ENTRY * self.shape[0] * self.shape[1]

    seconds = core_seconds

    @property
    def firsts(self) -> Vector:
        return np.arange(self.shape[0])

    def __matmul__(self, v: Array) -> Array:
        return self.matrix @ v

    def dense(self) -> Array:
        return self.matrix

    def in_double(self, out: Matrix | None = None) -> Matrix:
        found = to_numpy(self.matrix).astype(np.float64, copy=False)
        if out is None:
            return found
        out += found
        return out

    def diagonal(self) -> Array:
        return namespace(self.matrix).linalg.diagonal(self.matrix)

    def block(self, rows: Any, columns: Any) -> Array:
        return self.matrix[rows][:, columns]

    part = block


def diagonal_part(gram: GramOperator, rows: Vector) -> GramOperator:
    """Return the operator of some functionals with each other; stored where the whole is."""
    part = gram.part(rows, rows)
    return GramMatrix(part) if gram.stored else part
