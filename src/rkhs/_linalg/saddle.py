"""Saddle points, dense: the equations of a minimum under linear constraints.

    (G + diag(d)) a + Q c = b,        Q'a = e

with d > 0 and G positive semidefinite on {Q'a = 0}, which is all that a conditionally positive definite kernel gives.
Rows are scaled first, by s with s_i s_j |G + diag(d)|_ij <= 1 and one such entry in each row, so that weights 1/(2d)
between 1e-12 and 1e12 do no harm.  Then, with U an orthonormal basis of the columns of the scaled Q,

    K = (I - UU') (G + diag(d)) (I - UU') + UU'

is positive definite, and Cholesky's factorisation of it solves the equations on {U'a = 0}; the columns of Q need not
be independent.  Residuals are computed with G and d apart and improve the solution, for as long as they fall: where d
is lost in G to rounding (heavy weights on nearly dependent functionals) that recovers it.

All this takes one matrix of memory: G is symmetric, so that its upper half and the lower factor share an array of
N + 1 rows (`linalg.halves`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._linalg.halves import Halves
from rkhs._linalg.scaling import equilibrate

EPS = float(np.finfo(np.float64).eps)
REFINEMENTS = 20


class Saddle:
    """The factorised equations, for any number of right-hand sides.

    G is (N, N) symmetric, d (N,) positive, Q (N, r) of any rank.
    """

    def __init__(self, G: Matrix, d: Matrix, Q: Matrix) -> None:
        self._factorise(Halves.of(G), d, Q)

    @classmethod
    def of(cls, write: Callable[[Matrix], Any], d: Matrix, Q: Matrix) -> Saddle:
        """The same for a G that `write` writes into an array of zeros (N, N): no copy of it is made.

        Examples
        --------
        >>> saddle = Saddle.of(lambda out: np.fill_diagonal(out, 3.0), np.ones(2), np.zeros((2, 0)))
        >>> saddle.solve(np.array([[4.0], [8.0]]))[0]
        array([[1.],
               [2.]])
        """
        found = cls.__new__(cls)
        halves = Halves.zeros(len(d))
        write(halves.matrix)
        found._factorise(halves, d, Q)
        return found

    def _factorise(self, halves: Halves, d: Matrix, Q: Matrix) -> None:
        self.halves = halves
        self.scale = equilibrate(halves.matrix, d)
        halves.scale(self.scale)
        self.d = self.scale**2 * d
        self.Q = self.scale[:, None] * Q
        U, sizes, Vt = np.linalg.svd(self.Q, full_matrices=False)
        rank = int(np.sum(sizes > EPS * max(Q.shape) * sizes.max(initial=0.0)))
        self.U, self.back = U[:, :rank], Vt[:rank].T / sizes[:rank]  # Q back = U
        outer = self._projection()
        shift = 0.0
        while not halves.factorise(self.d + shift, self.U, outer):  # the smallest shift that leaves a factor
            shift = 10 * shift or EPS * len(d)

    def solve(self, b: Matrix, e: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """a (N, k) and c (r, k) for b (N, k) and e (r, k), zero when None; of several c, the shortest (scaled)."""
        b = self.scale[:, None] * b
        a = np.zeros_like(b) if e is None else self.U @ (self.back.T @ e)
        c = np.zeros((self.Q.shape[1], b.shape[1]))
        residual = self._left(a, c, b)
        size = np.full(b.shape[1], np.inf)
        for _ in range(REFINEMENTS):
            step, shift = self._solve(residual)
            tried, moved = a + step, c + shift
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
        scaled = 2 * float(np.sum(np.log(self.halves.pivots))) - 2 * float(np.sum(np.log(self.scale)))
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

    def _solve(self, residual: Matrix) -> tuple[Matrix, Matrix]:
        """a and c of a right-hand side, once."""
        inside = residual - self.U @ (self.U.T @ residual)
        a = self.halves.solve(inside)
        a = a - self.U @ (self.U.T @ a)
        return a, self.back @ (self.U.T @ (residual - self._product(a)))

    def _product(self, a: Matrix) -> Matrix:
        return self.halves.product(a) + self.d[:, None] * a

    def _left(self, a: Matrix, c: Matrix, b: Matrix) -> Matrix:
        """The residual of the scaled equations, G and d apart."""
        return b - self.halves.product(a) - self.d[:, None] * a - self.Q @ c

    def _projection(self) -> Matrix:
        """T with K = G + diag(d) - UT' - TU', (N, rank)."""
        T = self._product(self.U)
        middle = self.U.T @ T
        return np.asarray(T - self.U @ ((middle + middle.T) / 4 + np.eye(len(middle)) / 2))
