"""Saddle points, dense: the equations of a minimum under linear constraints.

    (G + diag(d)) a + Q c = b,        Q'a = e

with d > 0 and G positive semidefinite on {Q'a = 0}, which is all that a conditionally positive definite kernel gives.
Rows are scaled first, by s with s_i s_j |G + diag(d)|_ij <= 1 and one such entry in each row, so that weights 1/(2d)
between 1e-12 and 1e12 do no harm.  Then, with U an orthonormal basis of the columns of the scaled Q,

    K = (I - UU') (G + diag(d)) (I - UU') + UU'

is positive definite, and Cholesky's factorisation of it solves the equations on {U'a = 0}; the columns of Q need not
be independent.  Residuals are computed with G and d apart and improve the solution, for as long as they fall: where d
is lost in G to rounding (heavy weights on nearly dependent functionals) that recovers it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from rkhs.linalg.scaling import equilibrate

Matrix = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float64).eps)
REFINEMENTS = 20


class Saddle:
    """The factorised equations, for any number of right-hand sides.

    G is (N, N) symmetric, d (N,) positive, Q (N, r) of any rank.
    """

    def __init__(self, G: Matrix, d: Matrix, Q: Matrix) -> None:
        self.scale = equilibrate(G, d)
        self.G = self.scale[:, None] * G * self.scale
        self.d = self.scale**2 * d
        self.Q = self.scale[:, None] * Q
        U, sizes, Vt = np.linalg.svd(self.Q, full_matrices=False)
        rank = int(np.sum(sizes > EPS * max(Q.shape) * sizes.max(initial=0.0)))
        self.U, self.back = U[:, :rank], Vt[:rank].T / sizes[:rank]  # Q back = U
        self.factor = _cholesky(self._definite())

    def solve(self, b: Matrix, e: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """a (N, k) and c (r, k) for b (N, k) and e (r, k), zero when None; of several c, the shortest (scaled)."""
        b = self.scale[:, None] * b
        a = np.zeros_like(b) if e is None else self.U @ (self.back.T @ e)
        c = np.zeros((self.Q.shape[1], b.shape[1]))
        residual = self._residual(a, c, b)
        size = np.full(b.shape[1], np.inf)
        for _ in range(REFINEMENTS):
            step, shift = self._solve(residual)
            tried, moved = a + step, c + shift
            left = self._residual(tried, moved, b)
            found = np.linalg.norm(left, axis=0)
            better = found < size / 2
            if not np.any(better):
                break
            a, c, residual = (np.where(better, new, old) for new, old in ((tried, a), (moved, c), (left, residual)))
            size = np.where(better, found, 0.0)
        return self.scale[:, None] * a, c

    @property
    def rank(self) -> int:
        """Of Q."""
        return int(self.U.shape[1])

    def log_det(self) -> float:
        """log det of Z'(G + diag(d))Z, Z an orthonormal basis of {Q'a = 0}.

        Scaling and projection are undone: det [S, Q; Q', 0] is the same number from either side.
        """
        scaled = 2 * float(np.sum(np.log(np.diag(self.factor)))) - 2 * float(np.sum(np.log(self.scale)))
        sizes = np.linalg.svd(self.Q, compute_uv=False)[: self.rank]
        plain = np.linalg.svd(self.Q / self.scale[:, None], compute_uv=False)[: self.rank]
        return scaled + 2 * float(np.sum(np.log(sizes)) - np.sum(np.log(plain)))

    def inverse(self) -> Matrix:
        """Z (Z'(G + diag(d))Z)^-1 Z' (N, N), which takes b to a."""
        lower, failed = scipy.linalg.lapack.dpotri(self.factor, lower=1)
        assert failed == 0, "a Cholesky factor has a zero on its diagonal"
        whole = np.tril(lower)
        whole += np.tril(lower, -1).T
        whole -= self.U @ self.U.T
        whole *= self.scale
        whole *= self.scale[:, None]
        return whole

    def _solve(self, residual: Matrix) -> tuple[Matrix, Matrix]:
        """a and c of a right-hand side, once."""
        inside = residual - self.U @ (self.U.T @ residual)
        a = scipy.linalg.cho_solve((self.factor, True), inside, check_finite=False)
        a = a - self.U @ (self.U.T @ a)
        return a, self.back @ (self.U.T @ (residual - self._product(a)))

    def _product(self, a: Matrix) -> Matrix:
        return self.G @ a + self.d[:, None] * a

    def _residual(self, a: Matrix, c: Matrix, b: Matrix) -> Matrix:
        return b - self.G @ a - self.d[:, None] * a - self.Q @ c

    def _definite(self) -> Matrix:
        K = self.G.copy()
        K[np.diag_indices_from(K)] += self.d
        if self.U.shape[1]:
            T = K @ self.U
            middle = self.U.T @ T
            T -= self.U @ ((middle + middle.T) / 4 + np.eye(len(middle)) / 2)
            K -= self.U @ T.T
            K -= T @ self.U.T
        return K


def _cholesky(K: Matrix) -> Matrix:
    """The lower factor of K, which has entries of size one; with the smallest shift under which it exists."""
    if K.size == 0:
        return K
    shift = EPS * len(K)
    while True:
        try:
            return scipy.linalg.cholesky(K, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            K[np.diag_indices_from(K)] += shift
            shift *= 10
