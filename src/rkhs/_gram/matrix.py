"""A Gram operator whose matrix is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, namespace, to_numpy
from rkhs._backend.memory import budget_bytes
from rkhs._gram.base import GramOperator

CALL, ENTRY = 2e-4, 1e-9  # seconds of a product, and for each entry: `python -m benchmarks.regret`


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
        """Bytes that what is done with it may take."""
        return budget_bytes(None, self.matrix)

    @property
    def stored(self) -> bool:
        return True

    @property
    def steady(self) -> bool:
        """A product never looks at its numbers."""
        return True

    @property
    def seconds(self) -> float:
        return self.core_seconds

    @property
    def core_seconds(self) -> float:
        return CALL + ENTRY * self.shape[0] * self.shape[1]

    @property
    def firsts(self) -> np.ndarray[Any, Any]:
        return np.arange(self.shape[0])

    def __matmul__(self, v: Array) -> Array:
        return self.matrix @ v

    def energies(self, v: Array) -> Array:
        return namespace(v).vecdot(v, self.matrix @ v, axis=0)

    def dense(self) -> Array:
        return self.matrix

    def in_double(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        found = to_numpy(self.matrix).astype(np.float64, copy=False)
        if out is None:
            return found
        out += found
        return out

    def diagonal(self) -> Array:
        return namespace(self.matrix).linalg.diagonal(self.matrix)

    def block(self, rows: Any, columns: Any) -> Array:
        return self.matrix[rows][:, columns]

    def part(self, rows: Any, columns: Any) -> Array:
        return self.block(rows, columns)

    def gradient_moments(self, weight: Array) -> Array | None:
        return None


def diagonal_part(gram: GramOperator, rows: np.ndarray[Any, Any]) -> GramOperator:
    """The operator of some functionals with each other; stored where the whole is."""
    part = gram.part(rows, rows)
    return GramMatrix(part) if gram.stored else part
