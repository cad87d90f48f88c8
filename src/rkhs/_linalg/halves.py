"""A symmetric matrix and a Cholesky factor of its size in the memory of one.

The upper half of a matrix G (N, N) and the lower half of a factor, diagonals included, fill an array of N + 1 rows:

    g g g        rows 0 .. N-1:  G_ij for j >= i
    l g g        rows 1 .. N:    L_ij for j <= i
    l l g
    l l l

and LAPACK, to which a row is a column, finds each where it is told to look at one triangle only.  It could factorise
the whole in one call; but SciPy's OpenBLAS was seen to crash there (a write outside its memory, with two threads and
27,000 rows), and a call cannot be stopped.  So blocks are factorised one after the other, by products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix
from rkhs._progress import tick

ROWS = 512  # of a block: 3,000 rows in 0.60 s of one core, 8,000 in 10.1; by one call of LAPACK 0.55 and 9.6


@dataclass(frozen=True, eq=False)
class Halves:
    """`matrix` is G, whole until the factor is made; after that only its upper half is its own.

    Examples
    --------
    >>> G = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> halves = Halves.of(G)
    >>> halves.factorise(np.zeros(2), np.zeros((2, 0)), np.zeros((2, 0)))
    True
    >>> halves.product(halves.solve(np.array([[8.0], [9.0]])))
    array([[8.],
           [9.]])
    """

    room: Matrix

    @classmethod
    def of(cls, G: Matrix) -> Halves:
        """Of a matrix, which is copied."""
        room = np.empty((len(G) + 1, len(G)))
        room[:-1] = G
        return cls(room)

    @classmethod
    def zeros(cls, size: int) -> Halves:
        """Of zeros, to be written to."""
        return cls(np.zeros((size + 1, size)))

    @property
    def matrix(self) -> Matrix:
        """G (N, N); LAPACK sees its transpose."""
        return self.room[:-1]

    @property
    def factor(self) -> Matrix:
        """L (N, N), its lower half."""
        return self.room[1:]

    @property
    def pivots(self) -> Matrix:
        """The diagonal of L."""
        return np.diag(self.factor)

    def scale(self, s: Matrix) -> None:
        """s_i G_ij s_j in the place of G_ij."""
        self.matrix[...] *= s[:, None]
        self.matrix[...] *= s

    def factorise(self, d: Matrix, U: Matrix, T: Matrix) -> bool:
        """Make LL' = G + diag(d) - UT' - TU', row by row of blocks; False where that is not positive definite.

        It ticks after each block; where that ends the work, G is still there and the factor is of no use.
        """
        G, L, size = self.matrix, self.factor, self.room.shape[1]
        for start in range(0, size, ROWS):
            rows = slice(start, min(start + ROWS, size))
            for left in range(0, start, ROWS):
                columns = slice(left, left + ROWS)
                block = G[columns, rows].T - U[rows] @ T[columns].T - T[rows] @ U[columns].T
                block -= L[rows, :left] @ L[columns, :left].T
                corner = L[columns, columns].T  # upper to BLAS, which copies it as it lies
                L[rows, columns] = scipy.linalg.blas.dtrsm(1.0, corner, block.T, trans_a=1, overwrite_b=1).T
                tick((start**3 + 3 * (rows.stop - start) * min(left + ROWS, start) ** 2) / size**3)
            outer = U[rows] @ T[rows].T
            corner = np.triu(G[rows, rows]).T - outer - outer.T - L[rows, :start] @ L[rows, :start].T
            corner[np.diag_indices_from(corner)] += d[rows]
            found, failed = scipy.linalg.lapack.dpotrf(corner.T, lower=0, overwrite_a=1)
            if failed:
                return False
            for i, row in enumerate(found.T):  # what is right of the diagonal is G's
                L[start + i, start : start + i + 1] = row[: i + 1]
            tick((rows.stop / size) ** 3)
        return True

    def product(self, a: Matrix) -> Matrix:
        """G a, for columns a (N, k)."""
        if not a.size:
            return np.zeros_like(a)
        if a.shape[1] == 1:
            return np.asarray(scipy.linalg.blas.dsymv(1.0, self.matrix.T, a[:, 0], lower=1)[:, None])
        return np.asarray(scipy.linalg.blas.dsymm(1.0, self.matrix.T, a, lower=1))

    def solve(self, b: Matrix) -> Matrix:
        """(LL')^-1 b, for columns b (N, k)."""
        return np.asarray(scipy.linalg.lapack.dpotrs(self.factor.T, b, lower=0)[0]) if b.size else np.zeros_like(b)

    def inverse(self) -> Matrix:
        """(LL')^-1, (N, N)."""
        upper, failed = scipy.linalg.lapack.dpotri(np.tril(self.factor).T, lower=0)
        assert failed == 0, "a Cholesky factor has a zero on its diagonal"
        whole = np.triu(upper)
        whole += np.triu(upper, 1).T
        return whole
