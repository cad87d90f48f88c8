"""The interface of Gram matrices that solvers use, and Gram matrices that are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, like, namespace, to_numpy
from rkhs._core.backend.memory import budget_bytes, cores, map_in_threads
from rkhs._core.limits import limits
from rkhs._core.progress import subtask


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
    def core_seconds(self) -> float:
        """The estimated time of a product on one core in seconds, wherever it is computed: a measure of its work."""

    def __matmul__(self, v: Array) -> Array: ...

    def dense(self) -> Array: ...

    def in_double(self, out: Array | None = None) -> Array:
        """Return the matrix in float64, computed in float64 even for float32 points; add it to `out` if that is given.

        It is an array of the library and on the device of the points.
        """

    def diagonal(self) -> Array: ...

    def block(self, rows: Any, columns: Any) -> Array:
        """Return a submatrix as an array."""

    def part(self, rows: Any, columns: Any) -> Any:
        """Return a submatrix as an operator, or as an array if the matrix is stored."""


CALL, ENTRY = 2e-4, 1e-9  # seconds per product and per entry, measured by `python -m benchmarks.regret`


@dataclass(frozen=True, eq=False)
class GramMatrix:
    """A symmetric Gram matrix that is stored, with the interface of `GramOperator`.

    It may be on another device than the vectors of a problem, or in a higher precision: dense solvers factorize
    `matrix` where it is, and all else has and returns arrays like `vectors`.
    """

    matrix: Array
    vectors: Array | None = None  # an empty array like those of the problem, if `matrix` is not
    stored = True
    SHARE = 1.0  # of the entries that are computed

    @staticmethod
    def product_seconds(size: int) -> float:
        """Return the seconds of a product with a stored matrix of this many rows, on one core."""
        return CALL + ENTRY * size**2

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    @property
    def budget(self) -> int:
        return budget_bytes(None, self.matrix)

    @property
    def core_seconds(self) -> float:
        return self.product_seconds(self.shape[0])

    def _given(self, array: Array) -> Array:
        return array if self.vectors is None else like(array, self.vectors)

    def __matmul__(self, v: Array) -> Array:
        return self.matrix @ v if self.vectors is None else self._given(self.matrix @ like(v, self.matrix))

    def dense(self) -> Array:
        return self._given(self.matrix)

    def in_double(self, out: Array | None = None) -> Array:
        matrix = namespace(self.matrix).astype(self.matrix, namespace(self.matrix).float64, copy=False)
        if out is not None:
            out += matrix
        return matrix if out is None else out

    def diagonal(self) -> Array:
        return self._given(namespace(self.matrix).linalg.diagonal(self.matrix))

    def block(self, rows: Any, columns: Any) -> Array:
        return self._given(self.matrix[rows][:, columns])

    part = block


class SingleGram:
    """A symmetric Gram matrix that is stored in float32, as tiles of its upper triangle: 2 bytes per entry.

    A product with a large stored matrix takes as long as reading it, so each tile T serves both T v and T'v.  Entries
    are computed in float64 and rounded after FF', a part of the matrix for a given F (N, p), was subtracted; the
    products of tiles are added up in float64.  Everything but products is that of the operator `exact`.
    """

    stored = False
    SHARE = 0.5  # of the entries that are computed

    def __init__(self, exact: GramOperator, F: Matrix | None = None) -> None:
        self.exact, size = exact, exact.shape[0]
        self.F = F = np.zeros((size, 0)) if F is None else F
        side = limits().single_side
        cuts = [slice(start, min(start + side, size)) for start in range(0, size, side)]
        pairs = [(rows, columns) for k, rows in enumerate(cuts) for columns in cuts[k:]]

        def tile(number: int) -> Array:
            with subtask(number, len(pairs)):
                rows, columns = pairs[number]
                # T = G - FF' on the tile, rounded to float32
                return (to_numpy(exact.block(rows, columns)) - F[rows] @ F[columns].T).astype(np.float32)

        self.tiles = list(zip(pairs, map_in_threads(tile, range(len(pairs))), strict=True))

    @staticmethod
    def bytes(size: int) -> int:
        """Return the memory of a matrix with this many rows."""
        return 2 * size * (size + limits().single_side)

    @staticmethod
    def product_seconds(size: int) -> float:
        """Return the seconds of a product with a matrix of this many rows, on one core."""
        return CALL + 0.25 * ENTRY * size**2  # a quarter of the bytes of a `GramMatrix`

    @property
    def core_seconds(self) -> float:
        return self.product_seconds(self.shape[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.exact, name)

    def __matmul__(self, v: Array) -> Array:
        columns = v.reshape(len(v), -1)
        size = np.max(np.abs(columns), axis=0, initial=np.finfo(np.float64).tiny)  # so that float32 does not overflow
        single = (columns / size).astype(np.float32)

        def total(tiles: Sequence[Any]) -> Matrix:
            out = np.zeros(columns.shape)
            for (rows, others), T in tiles:
                # (G v)_rows += T v_others, and (G v)_others += T' v_rows for the tile below the diagonal
                out[rows] += T @ single[others]
                if rows != others:
                    out[others] += T.T @ single[rows]
            return out

        count = cores(v)
        image = sum(map_in_threads(total, [self.tiles[k::count] for k in range(count)]))
        return (image * size + self.F @ (self.F.T @ columns)).reshape(v.shape)


def diagonal_part(gram: GramOperator, rows: Vector) -> GramOperator:
    """Return the principal submatrix of some rows as an operator; it is stored if the whole matrix is."""
    part = gram.part(rows, rows)
    return GramMatrix(part) if gram.stored else part
