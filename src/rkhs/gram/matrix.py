"""A Gram operator whose matrix is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rkhs.backend.arrays import Array, namespace


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """The interface of `Gram` for a symmetric matrix that has been computed."""

    matrix: Array

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    @property
    def budget(self) -> int:
        """Bytes that went into the matrix: what is done with it may take as much again."""
        return int(self.shape[0] * self.shape[1] * 8)

    @property
    def steady(self) -> bool:
        """A product never looks at its numbers."""
        return True

    @property
    def T(self) -> GramMatrix:
        return self

    def __matmul__(self, v: Array) -> Array:
        return self.matrix @ v

    def energies(self, v: Array) -> Array:
        return namespace(v).vecdot(v, self.matrix @ v, axis=0)

    def dense(self) -> Array:
        return self.matrix

    def diagonal(self) -> Array:
        return namespace(self.matrix).linalg.diagonal(self.matrix)

    def block(self, rows: Any, columns: Any) -> Array:
        return self.matrix[rows][:, columns]
