"""A quadratic function of a few variables plus losses on a few rows: the variables eliminated, exactly.

    min over theta   1/2 theta'S theta + linear'theta + sum_i w_i loss_i((E theta)_i)

with theta = (c, tau), S positive definite in tau and positive semidefinite in c.  Given alpha = -w loss'(u),
S theta = E'alpha - linear.  What S determines is eliminated, which leaves the finite problem of an RKHS,

    u = G alpha + u_0 + Q e,        G = E S^+ E',   u_0 = -E S^+ linear,

with e the coefficients of those directions of c that S does not see, as its basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from rkhs.finite.monitor import Monitor
from rkhs.finite.parts import orthonormal, with_shift
from rkhs.finite.system import Rows, System
from rkhs.gram.matrix import GramMatrix
from rkhs.linalg.projection import project
from rkhs.solvers.exact import exact

Matrix = np.ndarray[Any, Any]
SEEN = 1e-12  # of the curvature in c alone, the least that counts as determined


class Reduced:
    """The problem that is left, as a `System` with rows of one output, and the way back to theta.

    `rest` is any system with as many functionals as E has rows; its losses and Gram matrix are replaced.
    """

    def __init__(self, rest: System, rows: tuple[Rows, ...], E: Matrix, S: Matrix, linear: Matrix, rank: int) -> None:
        c, tau = slice(0, rank), slice(rank, None)
        self.rank = rank
        self.L = np.linalg.cholesky(S[tau, tau])
        self.T = self._down(S[tau, c])
        F, self.still = self._down(E[:, tau].T), self._down(linear[tau])
        B = E[:, c] - F.T @ self.T
        values, vectors = np.linalg.eigh(S[c, c] - self.T.T @ self.T)
        known = values > SEEN * np.diag(S)[c].max(initial=0.0)
        self.seen = vectors[:, known] / np.sqrt(values[known])
        Q, back = orthonormal(B @ vectors[:, ~known])
        self.unseen = vectors[:, ~known] @ back
        self.F, self.B = F, B
        self.force = linear[c] - self.T.T @ self.still
        W = B @ self.seen
        mean = -F.T @ self.still - W @ (self.seen.T @ self.force)
        self.system = with_shift(rest.with_rows(rows).with_matrices(GramMatrix(F.T @ F + W @ W.T), Q), mean)

    def solve(self, tol: float) -> tuple[Matrix, Matrix]:
        """theta, and alpha on the rows, to a relative gap of at most tol if rounding allows."""
        found = exact(self.system).run(self.system, self.system.start(), Monitor(tol, verbose=False))
        alpha, e = project(found.a, *self.system.box, self.system.Q)[:, 0], found.basis[:, 0]
        c = self.seen @ (self.seen.T @ (self.B.T @ alpha - self.force)) + self.unseen @ e
        tau = scipy.linalg.solve_triangular(
            self.L, self.F @ alpha - self.still - self.T @ c, lower=True, trans="T", check_finite=False
        )
        return np.concatenate([c, tau]), alpha

    def _down(self, right: Matrix) -> Matrix:
        """L^-1 right."""
        return scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False)
