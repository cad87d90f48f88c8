"""Positive definite saddle point systems whose rows are added and removed without another factorization.

    (G + diag(d)) a + Q c = b,        Q'a = 0

with d > 0 and G positive semidefinite.  With rows and columns scaled to a unit diagonal, let LL' = G + diag(d).  A new
row is a new row of L (a bordered factorization).  Without the rows r, those of L that are left satisfy

    (G + diag(d))_kk = L_kk L_kk' + L_kr L_kr'

so that the new factor is the triangle of a QR decomposition of [L_kk'; L_kr'], which LAPACK's tpqrt computes in O(N^2)
operations for each removed row.  Rows before the first removed one keep their factor.

Iterative refinement with the stored G and d makes solutions independent of the rounding errors of earlier updates.  It
also allows d to differ from the factorized one: as G + diag(d) >= diag(d), a relative difference of rho multiplies the
error of each step by at most rho.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import EPS, Matrix, Vector
from rkhs._linalg.saddle import PackedCholesky, refined

PANEL = 32  # columns per block of tpqrt


@dataclass(frozen=True, eq=False)
class UpdatableSaddle:
    """A factorized saddle point system; its updates are new objects.

    Examples
    --------
    >>> G, d = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 0.0], [1.0, 0.0, 3.0]]), np.ones(3)
    >>> saddle = UpdatableSaddle.of(G[:2, :2], d[:2]).updated(np.array([0]), G[2:, [1, 2]], d[2:])
    >>> saddle.solve(np.array([[4.0], [8.0]]), np.zeros((2, 0)))[0]
    array([[1.],
           [2.]])
    """

    G: Matrix  # (N, N)
    d: Vector  # (N,)
    L: Matrix  # (N, N), lower triangular, LL' = the scaled G + diag(d), for a d that may be slightly different
    scale: Vector  # (N,)
    factored: Vector  # (N,), the d of the factor

    @classmethod
    def of(cls, G: Matrix, d: Vector) -> UpdatableSaddle | None:
        """Factorize G + diag(d); return None if it is not positive definite up to rounding."""
        scale = 1 / np.sqrt(np.diag(G) + d)
        halves, none = PackedCholesky(scale[:, None] * G * scale, len(d)), np.zeros((len(d), 0))
        if not halves.factorize(scale**2 * d, none, none):
            return None
        return cls(G, d, np.tril(halves.factor), scale, d)

    def updated(self, removed: Vector, rows: Matrix, d: Vector) -> UpdatableSaddle | None:
        """Remove rows and append others; return None if the result is not positive definite up to rounding.

        Parameters
        ----------
        removed : ndarray of int
            The indices of the rows to remove.
        rows : ndarray of shape (t, N - len(removed) + t)
            The new rows of G: inner products with the remaining rows and with each other.
        d : ndarray of shape (t,)
            The new entries of d.
        """
        kept, size = np.delete(np.arange(len(self.d)), removed), len(d)
        count, first = len(kept), int(min(removed, default=len(self.d)))
        old, corner = slice(0, count), slice(count, count + size)
        G, L = (_principal(matrix, kept, size) for matrix in (self.G, self.L))
        G[corner], G[old, corner] = rows, rows[:, old].T
        if len(removed) and first < count:
            triangle, rest = L[first:count, first:count], self.L[np.ix_(kept[first:], removed)]
            upper, panel = np.array(triangle.T, order="F"), min(PANEL, count - first)
            triangle[...] = scipy.linalg.lapack.dtpqrt(0, panel, upper, rest.T, overwrite_a=1)[0].T
        new_scale = 1 / np.sqrt(np.diag(rows[:, corner]) + d)
        scale = np.concatenate([self.scale[kept], new_scale])
        scaled = new_scale[:, None] * rows * scale
        L[corner, corner] = np.eye(size)
        right = np.zeros((count + size, size))
        right[old] = scaled[:, old].T
        L[corner, old] = _solved(L, right)[old].T  # the whole of L is contiguous, so that it is not copied
        block = scaled[:, corner] - L[corner, old] @ L[corner, old].T
        block[np.diag_indices(size)] += new_scale**2 * d
        factor, failed = scipy.linalg.lapack.dpotrf(block, lower=1)
        if failed or not np.all(np.isfinite(factor)):
            return None
        L[corner, corner] = np.tril(factor)
        values = (np.concatenate([whole[kept], d]) for whole in (self.d, self.factored))
        return UpdatableSaddle(G, next(values), L, scale, next(values))

    def with_diagonal(self, d: Vector) -> UpdatableSaddle:
        """Return the system with another d, near the factorized one."""
        return replace(self, d=d)

    def solve(self, b: Matrix, Q: Matrix) -> tuple[Matrix, Matrix]:
        """Return a (N, k) and c (r, k) for b (N, k), with refinement as long as it halves the residuals.

        With W = L^-1 Q = UR, the equations have the solution Rc = U'L^-1 b, a = L^-T (L^-1 b - Wc).
        """
        scale = self.scale[:, None]
        U, R = np.linalg.qr(_solved(self.L, scale * Q))

        def correction(residual: Matrix) -> tuple[Matrix, Matrix]:
            V = _solved(self.L, residual)
            within = U.T @ V
            step = scale * _solved(self.L, V - U @ within, transposed=True)
            return step, scipy.linalg.solve_triangular(R, within) if len(R) else within

        a, c = np.zeros(b.shape), np.zeros((Q.shape[1], b.shape[1]))
        enough = EPS * len(b) * np.linalg.norm(scale * b, axis=0)
        return refined(a, c, correction, lambda a, c: scale * self.residual(a, c, b, Q), 40, enough)

    def residual(self, a: Matrix, c: Matrix, b: Matrix, Q: Matrix) -> Matrix:
        """Return b - (G + diag(d)) a - Q c, (N, k)."""
        return b - self.G @ a - self.d[:, None] * a - Q @ c


def _principal(matrix: Matrix, kept: Vector, more: int) -> Matrix:
    """Return the submatrix of some rows and columns, in increasing order, followed by rows and columns of zeros.

    Runs of consecutive indices are copied as blocks, which is several times faster than indexing.
    """
    out = np.zeros((len(kept) + more, len(kept) + more))
    ends = np.flatnonzero(np.diff(kept) > 1) + 1
    starts = np.concatenate([[0], ends]).astype(int)
    runs = [
        (slice(i, i + len(run)), slice(run[0], run[-1] + 1))
        for i, run in zip(starts, np.split(kept, ends), strict=True)
        if len(run)
    ]
    for new_rows, old_rows in runs:
        for new_columns, old_columns in runs:
            out[new_rows, new_columns] = matrix[old_rows, old_columns]
    return out


def _solved(L: Matrix, b: Matrix, transposed: bool = False) -> Matrix:
    """Return L^-1 b, or L^-T b."""
    if not b.size:
        return b
    return np.asarray(scipy.linalg.solve_triangular(L, b, lower=True, trans=int(transposed), check_finite=False))
