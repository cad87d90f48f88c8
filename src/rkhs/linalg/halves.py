"""A symmetric matrix and a Cholesky factor of its size in the memory of one.

The upper half of a matrix G (N, N) and the lower half of a factor, diagonals included, fill an array of N + 1 rows:

    g g g        rows 0 .. N-1:  G_ij for j >= i
    l g g        rows 1 .. N:    L_ij for j <= i
    l l g
    l l l

and LAPACK, to which a row is a column, finds each where it is told to look at one triangle only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

Matrix = np.ndarray[Any, Any]
ROWS = 256  # that are copied together


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
        """Make LL' = G + diag(d) - UT' - TU'; False where that is not positive definite."""
        if not len(d):
            return True
        self._copy_down()
        self.factor[np.diag_indices_from(self.factor)] += d
        seen = self.factor.T
        if U.shape[1]:
            seen = scipy.linalg.blas.dsyr2k(-1.0, U, T, beta=1.0, c=seen, lower=0, overwrite_c=1)
        seen, failed = scipy.linalg.lapack.dpotrf(seen, lower=0, clean=0, overwrite_a=1)
        assert np.shares_memory(seen, self.room), "LAPACK made a copy"
        return bool(failed == 0)

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

    def _copy_down(self) -> None:
        """The upper half of G as the lower half of the factor-to-be."""
        size = self.room.shape[1]
        for start in range(0, size, ROWS):
            stop = min(start + ROWS, size)
            self.factor[start:stop, :start] = self.matrix[:start, start:stop].T
            corner = self.matrix[start:stop, start:stop].copy()
            for i in range(start, stop):  # what is right of the diagonal is G's
                self.factor[i, start : i + 1] = corner[: i + 1 - start, i - start]
