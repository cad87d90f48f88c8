"""Saddle points, dense: the equations of a minimum under linear constraints.

    (G + diag(d)) a + Q c = b,        Q'a = e

with d > 0 and G positive semidefinite on {Q'a = 0}, which is all that a conditionally positive definite kernel gives.
Rows are scaled first, by s with s_i s_j |G + diag(d)|_ij <= 1 and one such entry in each row, so that weights 1/(2d)
between 1e-12 and 1e12 do no harm.  Then, with U an orthonormal basis of the columns of the scaled Q,

    K = (I - UU') (G + diag(d)) (I - UU') + UU'

is positive definite, and Cholesky's factorization of it solves the equations on {U'a = 0}; the columns of Q need not
be independent.  Residuals are computed with G and d apart and improve the solution, for as long as they fall: where d
is lost in G to rounding (heavy weights on nearly dependent functionals) that recovers it.

All this takes one matrix of memory: G is symmetric, so that its upper half and the lower factor share an array of
N + 1 rows (`Halves`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import EPS, Matrix
from rkhs._progress import tick

ROWS = 512  # of a block of the factorization: 8,000 rows take 10.1 s of one core, by one call of LAPACK 9.6


class Saddle:
    """The factorized equations, for any number of right-hand sides.

    G is (N, N) symmetric, or a function that adds it to an array of zeros, so that no copy is made; d (N,) is positive
    and Q (N, r) of any rank.

    Examples
    --------
    >>> saddle = Saddle(lambda out: np.fill_diagonal(out, 3.0), np.ones(2), np.zeros((2, 0)))
    >>> saddle.solve(np.array([[4.0], [8.0]]))[0]
    array([[1.],
           [2.]])
    """

    def __init__(self, G: Matrix | Callable[[Matrix], Any], d: Matrix, Q: Matrix) -> None:
        self.halves = halves = Halves(G, len(d))
        self.scale = equilibrate(halves.matrix, d)
        halves.matrix[...] *= self.scale[:, None]
        halves.matrix[...] *= self.scale
        self.d = self.scale**2 * d
        self.Q = self.scale[:, None] * Q
        U, sizes, Vt = np.linalg.svd(self.Q, full_matrices=False)
        rank = int(np.sum(sizes > EPS * max(Q.shape) * sizes.max(initial=0.0)))
        self.U, self.back = U[:, :rank], Vt[:rank].T / sizes[:rank]  # Q back = U
        T = halves.product(self.U) + self.d[:, None] * self.U
        middle = self.U.T @ T
        T = T - self.U @ ((middle + middle.T) / 4 + np.eye(rank) / 2)  # K = G + diag(d) - UT' - TU'
        shift = 0.0
        while not halves.factorize(self.d + shift, self.U, T):  # the smallest shift that leaves a factor
            shift = 10 * shift or EPS * len(d)

    def solve(self, b: Matrix, e: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """a (N, k) and c (r, k) for b (N, k) and e (r, k), zero when None; of several c, the shortest (scaled)."""
        halves, U, b = self.halves, self.U, self.scale[:, None] * b
        a = np.zeros_like(b) if e is None else U @ (self.back.T @ e)
        c = np.zeros((self.Q.shape[1], b.shape[1]))
        residual = self._left(a, c, b)
        size = np.full(b.shape[1], np.inf)
        for _ in range(20):  # steps of iterative refinement, at most
            step = halves.solve(residual - U @ (U.T @ residual))
            step = step - U @ (U.T @ step)
            image = halves.product(step) + self.d[:, None] * step
            tried, moved = a + step, c + self.back @ (U.T @ (residual - image))
            left = self._left(tried, moved, b)
            found = np.linalg.norm(left, axis=0)
            better = found < size / 2
            if not np.any(better):
                break
            a, c, residual = (np.where(better, new, old) for new, old in ((tried, a), (moved, c), (left, residual)))
            size = np.where(better, found, 0.0)
        return self.scale[:, None] * a, c

    def residual(self, a: Matrix, c: Matrix, b: Matrix) -> Matrix:
        """b - (G + diag(d)) a - Q c, (N, k)."""
        return self._left(a / self.scale[:, None], c, self.scale[:, None] * b) / self.scale[:, None]

    @property
    def rank(self) -> int:
        """Of Q."""
        return int(self.U.shape[1])

    def log_det(self) -> float:
        """log det of Z'(G + diag(d))Z, Z an orthonormal basis of {Q'a = 0}.

        Scaling and projection are undone: det [S, Q; Q', 0] is the same number from either side.
        """
        scaled = 2 * float(np.sum(np.log(np.diag(self.halves.factor)))) - 2 * float(np.sum(np.log(self.scale)))
        sizes = np.linalg.svd(self.Q, compute_uv=False)[: self.rank]
        plain = np.linalg.svd(self.Q / self.scale[:, None], compute_uv=False)[: self.rank]
        return scaled + 2 * float(np.sum(np.log(sizes)) - np.sum(np.log(plain)))

    def inverse(self) -> Matrix:
        """Z (Z'(G + diag(d))Z)^-1 Z' (N, N), which takes b to a."""
        whole = self.halves.inverse()
        whole -= self.U @ self.U.T
        whole *= self.scale
        whole *= self.scale[:, None]
        return whole

    def _left(self, a: Matrix, c: Matrix, b: Matrix) -> Matrix:
        """Return the residual of the scaled equations, G and d apart."""
        return b - self.halves.product(a) - self.d[:, None] * a - self.Q @ c


def equilibrate(G: Matrix, d: Matrix) -> Matrix:
    """s > 0 with max_j s_i |G + diag(d)|_ij s_j between 1/2 and 2 (Ruiz's iteration; rows of zeros are left alone).

    A positive definite matrix is done at once: with its diagonal scaled to one no entry is larger.
    """
    diagonal = np.diag(G) + d
    s = 1 / np.sqrt(diagonal) if np.all(diagonal > 0) else np.ones(len(d))
    tall = max(1, 2**22 // max(len(d), 1))  # rows of 32 MiB, scaled at a time
    for _ in range(12):  # each halves the logarithm of what is left
        sizes = np.abs(diagonal) * s**2  # the largest entry of each scaled row
        for start in range(0, len(s), tall):
            rows = slice(start, start + tall)
            block = np.abs(G[rows]) * s
            block[np.arange(len(block)), np.arange(start, start + len(block))] = 0.0
            sizes[rows] = np.maximum(sizes[rows], s[rows] * block.max(axis=1, initial=0.0))
        sizes = np.where(sizes > 0, sizes, 1.0)
        if np.all((sizes >= 0.5) & (sizes <= 2)):
            break
        s = s / np.sqrt(sizes)
    return s


def inverse_root(M: Matrix, least: float) -> Matrix:
    """R (n, k) with R'MR = I, so that RR' inverts M on its range, for a positive semidefinite M.

    Columns go from small eigenvalues to large ones, those of M with ones on its diagonal; where they are below `least`,
    directions are left out.

    Examples
    --------
    >>> import numpy as np
    >>> R = inverse_root(np.array([[4.0, 0.0], [0.0, 0.0]]), least=1e-10)
    >>> R @ R.T
    array([[0.25, 0.  ],
           [0.  , 0.  ]])
    """
    scale = 1 / np.sqrt(np.clip(np.diag(M), 1e-300, None))
    values, vectors = np.linalg.eigh(scale[:, None] * M * scale)
    kept = values > least
    return np.asarray(scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept])))


class Halves:
    """A symmetric matrix and a Cholesky factor of its size in the memory of one.

    The upper half of G (N, N) and the lower half of a factor L, diagonals included, fill an array of N + 1 rows:

        g g g        rows 0 .. N-1:  G_ij for j >= i
        l g g        rows 1 .. N:    L_ij for j <= i
        l l g
        l l l

    LAPACK, to which a row is a column, finds each where it is told to look at one triangle only.  It could factorize
    the whole in one call, but SciPy's OpenBLAS was seen to crash there (a write outside its memory, with two threads
    and 27,000 rows), and a call cannot be stopped.  So blocks are factorized one after the other.

    Examples
    --------
    >>> halves = Halves(np.array([[4.0, 2.0], [2.0, 5.0]]), 2)
    >>> halves.factorize(np.zeros(2), np.zeros((2, 0)), np.zeros((2, 0)))
    True
    >>> halves.product(halves.solve(np.array([[8.0], [9.0]])))
    array([[8.],
           [9.]])
    """

    def __init__(self, G: Matrix | Callable[[Matrix], Any], size: int) -> None:
        room = np.zeros((size + 1, size))
        self.matrix, self.factor = room[:-1], room[1:]  # G is whole until the factor is made
        if callable(G):
            G(self.matrix)
        else:
            self.matrix[...] = G

    def factorize(self, d: Matrix, U: Matrix, T: Matrix) -> bool:
        """Make LL' = G + diag(d) - UT' - TU', row by row of blocks; False where that is not positive definite.

        It ticks after each block; where that ends the work, G is still there and the factor is of no use.
        """
        G, L, size = self.matrix, self.factor, len(self.matrix)
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
