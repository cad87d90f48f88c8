"""Dense saddle point systems: the optimality conditions of a quadratic problem with linear constraints.

    (G + diag(d)) a + Q c = b,        Q'a = e

with d > 0 and G positive semidefinite on {Q'a = 0}, as for conditionally positive definite kernels.  Rows and columns
are equilibrated first, by s with s_i s_j |G + diag(d)|_ij <= 1 and equality in each row, so that weights 1/(2d) may
range from 1e-12 to 1e12.  Then, with U an orthonormal basis of the columns of the scaled Q,

    K = (I - UU') (G + diag(d)) (I - UU') + UU'

is positive definite, and its Cholesky factorization solves the equations on {U'a = 0}; the columns of Q need not be
independent.  Iterative refinement, with residuals that treat G and d separately, continues as long as residuals
decrease: it recovers d if rounding loses it in G + diag(d) (large weights on nearly dependent functionals).

This takes the memory of one matrix: G is symmetric, so that its upper triangle and the lower Cholesky factor share an
array of N + 1 rows (`PackedCholesky`).  The matrix stays where its memory is, in NumPy or on an accelerator
(`PackedOnDevice`); right-hand sides and solutions may be of either kind.

`Curvature` factorizes the matrix of a quadratic function of (c, tau) that may leave parts of c undetermined.

`UpdatableSaddle` adds and removes rows without another factorization, for positive semidefinite G and e = 0.  With rows
and columns scaled to a unit diagonal, let LL' = G + diag(d).  A new row is a new row of L (a bordered factorization).
Without the rows r, those of L that are left satisfy

    (G + diag(d))_kk = L_kk L_kk' + L_kr L_kr'

so that the new factor is the triangle of a QR decomposition of [L_kk'; L_kr'], which LAPACK's tpqrt computes in O(N^2)
operations for each removed row.  Rows before the first removed one keep their factor.  Iterative refinement with the
stored G and d makes solutions independent of the rounding errors of earlier updates.  It also allows d to differ from
the factorized one: as G + diag(d) >= diag(d), a relative difference of rho multiplies the error of each step by at most
rho.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, indices, like, namespace, to_numpy, zeros
from rkhs._core.backend.memory import tile_entries
from rkhs._core.limits import limits
from rkhs._core.progress import report_progress

Correction = Callable[[Array], tuple[Array, Array]]  # residuals -> changes of a and c
Residual = Callable[[Array, Array], Array]  # a, c -> residuals


def refined(
    a: Array, c: Array, correction: Correction, residual_of: Residual, limit: int, enough: Any = 0.0
) -> tuple[Array, Array]:
    """Return a (N, k) and c (r, k) after iterative refinement, as long as it halves the residuals of a column.

    `correction` solves the system approximately for residuals (N, k).  There are at most `limit` steps, and no further
    one if the norms of all residuals are at most `enough`.
    """
    xp, residual = namespace(a), residual_of(a, c)
    size = zeros((a.shape[1],), a) + inf
    for _ in range(limit):
        # x <- x + S^-1 (b - S x), with the residual computed from S itself (Higham 2002, chapter 12)
        steps = correction(residual)
        new_a, new_c = a + steps[0], c + steps[1]
        new_residual = residual_of(new_a, new_c)
        new_size = xp.linalg.vector_norm(new_residual, axis=0)
        better = new_size < size / 2
        if not bool(xp.any(better)):
            break
        pairs = ((new_a, a), (new_c, c), (new_residual, residual))
        a, c, residual = (xp.where(better, new, old) for new, old in pairs)
        size = xp.where(better, new_size, 0 * new_size)
        if bool(xp.all(size <= enough)):
            break
    return a, c


class Saddle:
    """A factorized saddle point system, for any number of right-hand sides.

        (G + diag(d)) a + Q c = b,        Q'a = e

    Parameters
    ----------
    G : array of shape (N, N) or callable
        A symmetric matrix, or a function that adds it to an array of zeros, which avoids a copy.
    d : array of shape (N,)
        Positive numbers.
    Q : array of shape (N, r)
        A matrix of any rank.
    place : array, optional
        An array whose library and device the matrix gets; by default those of G, or of d if G is a function.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import Saddle
    >>> saddle = Saddle(lambda out: np.fill_diagonal(out, 3.0), np.ones(2), np.zeros((2, 0)))
    >>> saddle.solve(np.array([[4.0], [8.0]]))[0]
    array([[1.],
           [2.]])
    """

    def __init__(self, G: Array | Callable[[Array], Any], d: Array, Q: Array, place: Array = None) -> None:
        if place is None:
            place = d if callable(G) else G
        kind = PackedCholesky if isinstance(place, np.ndarray) else PackedOnDevice
        self.halves = halves = kind(G, len(d), place)
        d, Q = like(d, halves.matrix), like(Q, halves.matrix)
        self.scale = equilibrate(halves.matrix, d)
        halves.matrix[...] *= self.scale[:, None]
        halves.matrix[...] *= self.scale
        self.d = self.scale**2 * d
        self.Q = self.scale[:, None] * Q
        # U back^-1 = Q, of the numerical rank
        U, sizes, Vt = np.linalg.svd(to_numpy(self.Q), full_matrices=False)
        rank = int(np.sum(sizes > EPS * max(Q.shape) * sizes.max(initial=0.0)))
        self.U, self.back = like(U[:, :rank], Q), like(Vt[:rank].T / sizes[:rank], Q)  # Q back = U
        self.T = T = halves.product(self.U) + self.d[:, None] * self.U  # (G + diag(d)) U
        # K = (I - UU') M (I - UU') + UU' = M - UT' - TU' for M = G + diag(d) and T = MU - U (U'MU + I) / 2
        middle = self.U.T @ T
        T = T - self.U @ ((middle + middle.T) / 4 + like(np.eye(rank) / 2, T))  # K = G + diag(d) - UT' - TU'
        self.shift = 0.0
        while not halves.factorize(self.d + self.shift, self.U, T):  # the smallest shift for which Cholesky succeeds
            self.shift = 10 * self.shift or EPS * len(d)

    def solve(self, b: Array, e: Array | None = None) -> tuple[Array, Array]:
        """Solve the system; if Q is rank-deficient, c has minimal norm in the scaled system.

        Parameters
        ----------
        b : array of shape (N, k)
            The right-hand sides.
        e : array of shape (r, k), optional
            Those of the second equation; zero by default.

        Returns
        -------
        a : array of shape (N, k)
            The coefficients a, an array like b.
        c : array of shape (r, k)
            The coefficients c, an array like b.
        """
        halves, U, given, b = self.halves, self.U, b, self.scale[:, None] * like(b, self.U)

        def correction(residual: Array) -> tuple[Array, Array]:
            # a = (I - UU') K^-1 (I - UU') r solves the equations on {U'a = 0}
            step = halves.solve(residual - U @ (U.T @ residual))
            step = step - U @ (U.T @ step)
            # Q c = r - M a, so that c = back U' (r - M a)
            return step, self.back @ (U.T @ residual - self.T.T @ step)

        # Q'a = e at the start, and steps keep it: a = U (back'e)
        a = 0 * b if e is None else U @ (self.back.T @ like(e, U))
        c = zeros((self.Q.shape[1], b.shape[1]), U)
        a, c = refined(a, c, correction, lambda a, c: self._scaled_residual(a, c, b), 20)
        return like(self.scale[:, None] * a, given), like(c, given)

    def quadratic_forms(self, b: Matrix, e: Matrix) -> Matrix:
        """Return [b; e]' S^-1 [b; e] (k,) of columns b (N, k) and e (r, k), for S = [G + diag(d), Q; Q', 0].

        With a = U z + s, where z solves Q'a = e, s'U = 0 and r = b - (G + diag(d)) U z, they are

            2 z'U'b - z'U'(G + diag(d)) U z + |L^-1 (I - UU') r|^2

        which takes half of a solution, and no refinement.
        """
        if self.shift:  # the factor is that of another matrix
            a, c = self.solve(b, e)
            return np.sum(b * a, axis=0) + np.sum(e * c, axis=0)
        U, T, z, right = self.U, self.T, self.back.T @ like(e, self.U), self.scale[:, None] * like(b, self.U)
        # what is left for s: r = b - M U z
        r = right - T @ z
        half = self.halves.half_solve(r - U @ (U.T @ r))
        xp = namespace(U)
        return like(xp.sum(z * (2 * (U.T @ right) - U.T @ (T @ z)), axis=0) + xp.sum(half**2, axis=0), b)

    def residual(self, a: Array, c: Array, b: Array) -> Array:
        """Return b - (G + diag(d)) a - Q c, (N, k)."""
        scale, right = self.scale[:, None], like(b, self.U)
        return like(self._scaled_residual(like(a, right) / scale, like(c, right), scale * right) / scale, b)

    @property
    def rank(self) -> int:
        """The numerical rank of Q."""
        return int(self.U.shape[1])

    def log_det(self) -> float:
        """Return log det of Z'(G + diag(d))Z for an orthonormal basis Z of {Q'a = 0}.

        The scaling and the projection are undone by det [S, Q; Q', 0], which is the same for both bases.
        """
        # log det K = 2 sum log L_ii, and det of the scaled matrix = det * prod s_i^2
        xp = namespace(self.U)
        scaled = 2 * float(xp.sum(xp.log(xp.linalg.diagonal(self.halves.factor)) - xp.log(self.scale)))
        sizes = np.linalg.svd(to_numpy(self.Q), compute_uv=False)[: self.rank]
        plain = np.linalg.svd(to_numpy(self.Q / self.scale[:, None]), compute_uv=False)[: self.rank]
        return scaled + 2 * float(np.sum(np.log(sizes)) - np.sum(np.log(plain)))

    def inverse(self) -> Array:
        """Return Z (Z'(G + diag(d))Z)^-1 Z' (N, N), which maps b to a, where the matrix is."""
        inverse = self.halves.inverse()
        # K^-1 = Z (Z'MZ)^-1 Z' + UU' since K is the identity on U
        inverse -= self.U @ self.U.T
        inverse *= self.scale
        inverse *= self.scale[:, None]
        return inverse

    def _scaled_residual(self, a: Array, c: Array, b: Array) -> Array:
        """Return the residual of the scaled equations, without forming G + diag(d)."""
        return b - self.halves.product(a) - self.d[:, None] * a - self.Q @ c


def equilibrate(G: Array, d: Array) -> Array:
    """Return s > 0 with max_j s_i |G + diag(d)|_ij s_j between 1/2 and 2, by Ruiz's iteration; zero rows get s = 1.

    A positive definite matrix takes one step: with a unit diagonal no entry is larger than one.
    """
    xp, diagonal = namespace(G), namespace(G).linalg.diagonal(G) + d
    s = 1 / xp.sqrt(diagonal) if bool(xp.all(diagonal > 0)) else xp.ones_like(d)
    # rows of a block: 1 MiB stays in the cache of a CPU
    height = max(1, (2**17 if isinstance(G, np.ndarray) else tile_entries(2**40, G)) // max(len(d), 1))
    for _ in range(12):  # each step halves the logarithms of the row maxima
        sizes = abs(diagonal) * s**2  # the largest entry of each scaled row
        for start in range(0, len(s), height):
            rows = slice(start, start + height)
            block = abs(G[rows]) * s
            within = indices(np.arange(len(block)), block)
            block[within, start + within] = 0.0
            sizes[rows] = xp.maximum(sizes[rows], s[rows] * xp.max(block, axis=1))
        sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
        if bool(xp.all((sizes >= 0.5) & (sizes <= 2))):
            break
        # s_i <- s_i / sqrt(max_j s_i |M_ij| s_j)  (Ruiz 2001)
        s = s / xp.sqrt(sizes)
    return s


def inverse_root(M: Matrix, least: float) -> Matrix:
    """Return R (n, k) with R'MR = I, so that RR' inverts a positive semidefinite M on its range.

    The columns are ordered by increasing eigenvalues of M scaled to a unit diagonal; eigenvectors with eigenvalues of
    at most `least` are omitted.

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


class PackedCholesky:
    """A symmetric matrix and its Cholesky factor in the memory of one matrix.

    The upper triangle of G (N, N) and the lower triangle of L, diagonals included, fill an array of N + 1 rows:

        g g g        rows 0 .. N-1:  G_ij for j >= i
        l g g        rows 1 .. N:    L_ij for j <= i
        l l g
        l l l

    LAPACK, in whose column-major order a row is a column, reads one triangle only.  It could factorize the matrix in
    one call, but SciPy's OpenBLAS crashed there (a write out of bounds, with two threads and 27,000 rows), and a call
    cannot be interrupted.  So the factorization proceeds in blocks.

    Examples
    --------
    >>> halves = PackedCholesky(np.array([[4.0, 2.0], [2.0, 5.0]]), 2, np.zeros(0))
    >>> halves.factorize(np.zeros(2), np.zeros((2, 0)), np.zeros((2, 0)))
    True
    >>> halves.product(halves.solve(np.array([[8.0], [9.0]])))
    array([[8.],
           [9.]])
    """

    def __init__(self, G: Array | Callable[[Array], Any], size: int, place: Array) -> None:
        memory = zeros((size + 1, size), namespace(place).astype(place[:0], namespace(place).float64))
        self.matrix, self.factor = memory[:-1], memory[1:]  # `factorize` overwrites the lower triangle of G
        if callable(G):
            G(self.matrix)
        else:
            self.matrix[...] = G

    def factorize(self, d: Array, U: Array, T: Array) -> bool:
        """Compute LL' = G + diag(d) - UT' - TU'; return False if that is not positive definite.

        Progress is reported after each block.  If the callback cancels, the upper triangle of G is still intact.
        """
        G, L, size, xp = self.matrix, self.factor, len(self.matrix), namespace(self.matrix)
        width, height = limits().factor_columns, limits().factor_rows
        left, right = xp.concat([U, T], axis=1), xp.concat([T, U], axis=1)  # UT' + TU' = left right'
        for start in range(0, size, width):
            columns = slice(start, min(start + width, size))
            for top in range(start, size, height):
                rows = slice(top, min(top + height, size))
                # L_ij L_jj' = M_ij - sum_(k<j) L_ik L_jk', block column by block column (left-looking)
                block = L[rows, :start] @ L[columns, :start].T
                block += left[rows] @ right[columns].T
                xp.subtract(G[columns, rows].T, block, out=block)
                if top == start:  # the diagonal block comes first
                    corner, block, rows = block[:width], block[width:], slice(columns.stop, rows.stop)
                    within = indices(np.arange(len(corner)), corner)
                    corner[within, within] += d[columns]
                    factor = self._corner(corner)
                    if factor is None:
                        return False
                    own = indices(np.tri(len(corner), dtype=bool), corner)  # entries right of the diagonal belong to G
                    L[columns, columns] = xp.where(own, factor, L[columns, columns])
                if len(block):
                    L[rows, columns] = self._below(factor, block)
                report_progress(self._done(start) + (self._done(columns.stop) - self._done(start)) * rows.stop / size)
        return True

    def _done(self, columns: int) -> float:
        """Return the part of the work that the first columns of the factorization take."""
        part = columns / len(self.matrix)
        return part**2 * (3 - 2 * part)

    def _corner(self, M: Array) -> Array | None:
        """Return the lower Cholesky factor of a block, or None if it is not positive definite."""
        factor, failed = scipy.linalg.lapack.dpotrf(M.T, lower=0)  # reads and cleans one triangle
        return None if failed else factor.T

    def _below(self, factor: Array, block: Array) -> Array:
        """Return X with X L' = block, for the lower triangle L of `factor`."""
        return scipy.linalg.blas.dtrsm(1.0, factor.T, block.T, trans_a=1, overwrite_b=1).T

    def product(self, a: Array) -> Array:
        """Return G a for columns a (N, k)."""
        if not a.size:
            return np.zeros_like(a)
        if a.shape[1] == 1:
            return np.asarray(scipy.linalg.blas.dsymv(1.0, self.matrix.T, a[:, 0], lower=1)[:, None])
        return np.asarray(scipy.linalg.blas.dsymm(1.0, self.matrix.T, a, lower=1))

    def solve(self, b: Array) -> Array:
        """Return (LL')^-1 b for columns b (N, k)."""
        return np.asarray(scipy.linalg.lapack.dpotrs(self.factor.T, b, lower=0)[0]) if b.size else np.zeros_like(b)

    def half_solve(self, b: Array) -> Array:
        """Return L^-1 b for columns b (N, k)."""
        return np.asarray(scipy.linalg.blas.dtrsm(1.0, self.factor.T, b, trans_a=1)) if b.size else np.zeros_like(b)

    def inverse(self) -> Array:
        """Return (LL')^-1, (N, N)."""
        upper, failed = scipy.linalg.lapack.dpotri(np.tril(self.factor).T, lower=0)
        assert failed == 0, "a Cholesky factor has a zero on its diagonal"
        inverse = np.triu(upper)
        inverse += np.triu(upper, 1).T
        return inverse


class PackedOnDevice(PackedCholesky):
    """The same in PyTorch, which has no routine that reads one triangle only: products and solutions go by blocks.

    Examples
    --------
    >>> import torch
    >>> halves = PackedOnDevice(torch.tensor([[4.0, 2.0], [2.0, 5.0]]), 2, torch.zeros(0))
    >>> none = torch.zeros((2, 0), dtype=torch.float64)
    >>> halves.factorize(none.sum(1), none, none)
    True
    >>> halves.product(halves.solve(torch.tensor([[8.0], [9.0]], dtype=torch.float64)))[:, 0].tolist()
    [8.0, 9.0]
    """

    @property
    def _blocks(self) -> list[slice]:
        size, width = len(self.matrix), limits().factor_columns
        return [slice(start, min(start + width, size)) for start in range(0, size, width)]

    def _corner(self, M: Array) -> Array | None:
        factor, failed = torch().linalg.cholesky_ex(M)
        return None if bool(failed) else factor

    def _below(self, factor: Array, block: Array) -> Array:
        return torch().linalg.solve_triangular(factor, block.T, upper=False).T

    def product(self, a: Array) -> Array:
        out = torch().zeros_like(a)
        for rows in self._blocks:
            # G = U + U' - diag for the upper triangle U, of which a block row is read twice
            corner, right = self.matrix[rows, rows].triu(), self.matrix[rows, rows.stop :]
            out[rows] += corner @ a[rows] + corner.triu(1).T @ a[rows] + right @ a[rows.stop :]
            out[rows.stop :] += right.T @ a[rows]
        return out

    def solve(self, b: Array) -> Array:
        x = self.half_solve(b)
        for rows in reversed(self._blocks):
            # L_jj' x_j = y_j - sum_(i>j) L_ij' x_i
            x[rows] -= self.factor[rows.stop :, rows].T @ x[rows.stop :]
            x[rows] = torch().linalg.solve_triangular(self.factor[rows, rows].T, x[rows], upper=True)
        return x

    def half_solve(self, b: Array) -> Array:
        y = b.clone()
        for rows in self._blocks:
            # L_jj y_j = b_j - sum_(k<j) L_jk y_k
            y[rows] -= self.factor[rows, : rows.start] @ y[: rows.start]
            y[rows] = torch().linalg.solve_triangular(self.factor[rows, rows], y[rows], upper=False)
        return y

    def inverse(self) -> Array:
        return torch().cholesky_inverse(self.factor.tril())


def torch() -> Any:
    """Return PyTorch, which whoever has a tensor has imported."""
    return sys.modules["torch"]


@dataclass(frozen=True, eq=False)
class Curvature:
    """S, positive definite in tau, factorized in blocks of tau and c: [LL', LT; T'L', T'T + (HH')^-1]."""

    L: Matrix
    T: Matrix
    seen: Matrix  # H, on the directions of c that S determines
    unseen: Matrix  # the directions of c that S does not determine, as columns

    @classmethod
    def of(cls, S: Matrix, rank: int) -> Curvature:
        """Factorize S, whose first `rank` variables are c."""
        c, tau = slice(0, rank), slice(rank, None)
        # S = [LL', LT; T'L', S_cc], whose Schur complement S_cc - T'T = (HH')^-1 on what S determines
        L = scipy.linalg.cholesky(S[tau, tau], lower=True, check_finite=False)
        T = scipy.linalg.solve_triangular(L, S[tau, c], lower=True, check_finite=False)
        values, vectors = np.linalg.eigh(S[c, c] - T.T @ T)
        # A direction of c is determined if more than 1e-12 of its curvature remains after elimination of tau.
        known = values > 1e-12 * np.diag(S)[c].max(initial=0.0)
        return cls(L, T, vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known])

    def minimum(self, linear: Matrix, unseen: Any = 0.0) -> Matrix:
        """Return argmin 1/2 theta'S theta + linear'theta, (m, c), for a given undetermined part of c."""
        r = self.T.shape[1]
        # tau eliminated:  (S_cc - T'T) c = -(linear_c - T'L^-1 linear_tau),  L'tau = -L^-1 linear_tau - T c
        reduced = self.down(linear[r:])
        c = unseen - self.seen @ (self.seen.T @ (linear[:r] - self.T.T @ reduced))
        tau = scipy.linalg.solve_triangular(self.L, -reduced - self.T @ c, lower=True, trans="T", check_finite=False)
        return np.concatenate([c, tau])

    def variance(self, E: Matrix) -> Vector:
        """Return the diagonal of E S^-1 E' on the determined directions, (t,)."""
        return np.sum(self.roots(E) ** 2, axis=1)

    def covariance(self, D: Matrix, E: Matrix) -> Matrix:
        """Return D S^-1 E' on the determined directions, (s, t)."""
        return self.roots(D) @ self.roots(E).T

    def roots(self, E: Matrix) -> Matrix:
        """Return F (t, ..) with FF' = E S^-1 E' on the determined directions."""
        r = self.T.shape[1]
        # F = [E_tau L^-T, (E_c - E_tau L^-T T) H]: FF' = E S^-1 E'
        known = self.down(E[:, r:].T).T
        return np.concatenate([known, (E[:, :r] - known @ self.T) @ self.seen], axis=1)

    def down(self, right: Matrix) -> Matrix:
        """Return L^-1 right."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False))


def with_ridge(square: Matrix, array: Array) -> Matrix:
    """Return the matrix plus a diagonal of rounding errors, in the precision of `array`, to keep it definite."""
    size = len(square)
    return square + np.diag(8 * size * float(namespace(array).finfo(array.dtype).eps) * np.diag(square))


def with_ridge_on(square: Matrix, rank: int) -> Matrix:
    """Return the matrix with such a diagonal on all but the first `rank` variables."""
    square, tau = square.copy(), slice(rank, None)
    square[tau, tau] = with_ridge(square[tau, tau], square)
    return square


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
        halves, none = PackedCholesky(scale[:, None] * G * scale, len(d), d), np.zeros((len(d), 0))
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
            # M_kk = L_kk L_kk' + L_kr L_kr': the triangle of a QR decomposition of [L_kk'; L_kr']
            triangle, rest = L[first:count, first:count], self.L[np.ix_(kept[first:], removed)]
            upper, panel = np.array(triangle.T, order="F"), min(PANEL, count - first)
            triangle[...] = scipy.linalg.lapack.dtpqrt(0, panel, upper, rest.T, overwrite_a=1)[0].T
        new_scale = 1 / np.sqrt(np.diag(rows[:, corner]) + d)
        scale = np.concatenate([self.scale[kept], new_scale])
        # new rows [L_no, L_nn]:  L_no = M_no L_oo^-T,  L_nn L_nn' = M_nn - L_no L_no'
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
        # W = L^-1 Q = UR:  R c = U'L^-1 b,  a = L^-T (I - UU') L^-1 b
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
    """Return the submatrix of some rows and columns, in increasing order, followed by rows and columns of zeros."""
    out = np.zeros((len(kept) + more, len(kept) + more))
    out[: len(kept), : len(kept)] = matrix[kept][:, kept]
    return out


def _solved(L: Matrix, b: Matrix, transposed: bool = False) -> Matrix:
    """Return L^-1 b, or L^-T b."""
    if not b.size:
        return b
    return np.asarray(scipy.linalg.solve_triangular(L, b, lower=True, trans=int(transposed), check_finite=False))
