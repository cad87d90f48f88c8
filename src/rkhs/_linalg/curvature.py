"""Factorization of the curvature S of a quadratic function of theta = (c, tau); S may leave parts of c undetermined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, Vector, namespace


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
        L = scipy.linalg.cholesky(S[tau, tau], lower=True, check_finite=False)
        T = scipy.linalg.solve_triangular(L, S[tau, c], lower=True, check_finite=False)
        values, vectors = np.linalg.eigh(S[c, c] - T.T @ T)
        # A direction of c is determined if more than 1e-12 of its curvature remains after elimination of tau.
        known = values > 1e-12 * np.diag(S)[c].max(initial=0.0)
        return cls(L, T, vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known])

    def minimum(self, linear: Matrix, unseen: Any = 0.0) -> Matrix:
        """Return argmin 1/2 theta'S theta + linear'theta, (m, c), for a given undetermined part of c."""
        r = self.T.shape[1]
        reduced = self.down(linear[r:])
        c = unseen - self.seen @ (self.seen.T @ (linear[:r] - self.T.T @ reduced))
        tau = scipy.linalg.solve_triangular(self.L, -reduced - self.T @ c, lower=True, trans="T", check_finite=False)
        return np.concatenate([c, tau])

    def variance(self, E: Matrix) -> Vector:
        """Return the diagonal of E S^-1 E' on the determined directions, (t,)."""
        return np.sum(self.roots(E) ** 2, axis=1)

    def covariance(self, E: Matrix) -> Matrix:
        """Return E S^-1 E' on the determined directions, (t, t)."""
        roots = self.roots(E)
        return roots @ roots.T

    def roots(self, E: Matrix) -> Matrix:
        """Return F (t, ..) with FF' = E S^-1 E' on the determined directions."""
        r = self.T.shape[1]
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
