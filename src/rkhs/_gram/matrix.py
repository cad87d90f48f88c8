"""The interface of Gram matrices that solvers use, and Gram matrices that are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, namespace, to_numpy
from rkhs._backend.memory import budget_bytes


class GramOperator(Protocol):
    """The Gram matrix G of two families of functionals; in a problem both are the same, and G is (N, N)."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def budget(self) -> int:
        """The memory, in bytes, that computations with the matrix may use."""

    @property
    def stored(self) -> bool:
        """Whether the matrix is in memory, so that its entries cost nothing."""

    @property
    def recordable(self) -> bool:
        """Whether products run the same operations for all values, so that an accelerator can record them."""

    @property
    def seconds(self) -> float:
        """The estimated time of a product in seconds; 0 on an accelerator, for which there is no estimate."""

    @property
    def core_seconds(self) -> float:
        """The estimated time of a product on one core in seconds, wherever it is computed: a measure of its work."""

    @property
    def group_starts(self) -> Vector:
        """The first rows of groups that are best selected together: all functionals at a point."""

    def __matmul__(self, v: Array) -> Array: ...

    def dense(self) -> Array: ...

    def in_double(self, out: Matrix | None = None) -> Matrix:
        """Return the matrix as a float64 NumPy array, computed in float64 even for float32 points; add it to `out`."""

    def diagonal(self) -> Array: ...

    def block(self, rows: Any, columns: Any) -> Array:
        """Return a submatrix as an array."""

    def part(self, rows: Any, columns: Any) -> Any:
        """Return a submatrix as an operator, or as an array if the matrix is stored."""


CALL, ENTRY = 2e-4, 1e-9  # seconds per product and per entry, measured by `python -m benchmarks.regret`


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """A symmetric Gram matrix that is stored, with the interface of `GramOperator`."""

    matrix: Array
    double: Matrix | None = None  # the matrix in float64, if `matrix` has a lower precision
    stored = recordable = True

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
    def group_starts(self) -> Vector:
        return np.arange(self.shape[0])

    def __matmul__(self, v: Array) -> Array:
        return self.matrix @ v

    def dense(self) -> Array:
        return self.matrix

    def in_double(self, out: Matrix | None = None) -> Matrix:
        matrix = to_numpy(self.matrix).astype(np.float64, copy=False) if self.double is None else self.double
        if out is None:
            return matrix
        out += matrix
        return out

    def diagonal(self) -> Array:
        return namespace(self.matrix).linalg.diagonal(self.matrix)

    def block(self, rows: Any, columns: Any) -> Array:
        return self.matrix[rows][:, columns]

    part = block


def diagonal_part(gram: GramOperator, rows: Vector) -> GramOperator:
    """Return the principal submatrix of some rows as an operator; it is stored if the whole matrix is."""
    part = gram.part(rows, rows)
    return GramMatrix(part) if gram.stored else part
