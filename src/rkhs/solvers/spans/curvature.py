"""The curvature of squared losses on a span, factored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix
from rkhs.solvers._reduced import DETERMINED, upright


@dataclass(frozen=True, eq=False)
class Curvature:
    """S + diag(0, I), positive definite in tau, in blocks of tau and c: [LL', LT; T'L', T'T + (HH')^-1]."""

    L: Matrix
    T: Matrix
    seen: Matrix  # H, in the directions of c that it sees
    unseen: Matrix  # the others, as columns

    @classmethod
    def of(cls, S: Matrix, rank: int) -> Curvature:
        c, tau = slice(0, rank), slice(rank, None)
        own = S[tau, tau] + np.eye(len(S) - rank)
        L = scipy.linalg.cholesky(upright(own, S), lower=True, check_finite=False)
        T = scipy.linalg.solve_triangular(L, S[tau, c], lower=True, check_finite=False)
        values, vectors = np.linalg.eigh(S[c, c] - T.T @ T)
        known = values > DETERMINED * np.diag(S)[c].max(initial=0.0)
        return cls(L, T, vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known])

    def minimum(self, linear: Matrix) -> Matrix:
        """argmin 1/2 theta'(S + diag(0, I)) theta + linear'theta, (m, c)."""
        r = self.T.shape[1]
        still = self.down(linear[r:])
        c = -self.seen @ (self.seen.T @ (linear[:r] - self.T.T @ still))
        tau = scipy.linalg.solve_triangular(self.L, -still - self.T @ c, lower=True, trans="T", check_finite=False)
        return np.concatenate([c, tau])

    def variance(self, E: Matrix) -> Matrix:
        """The diagonal of E (S + diag(0, I))^-1 E', in the directions that are seen, (t,)."""
        r = self.T.shape[1]
        known = self.down(E[:, r:].T)
        return np.sum(known**2, axis=0) + np.sum(((E[:, :r] - known.T @ self.T) @ self.seen) ** 2, axis=1)

    def covariance(self, E: Matrix) -> Matrix:
        """E (S + diag(0, I))^-1 E', in the directions that are seen, (t, t)."""
        r = self.T.shape[1]
        known = self.down(E[:, r:].T)
        basis = (E[:, :r] - known.T @ self.T) @ self.seen
        return known.T @ known + basis @ basis.T

    def down(self, right: Matrix) -> Matrix:
        """L^-1 right."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False))
