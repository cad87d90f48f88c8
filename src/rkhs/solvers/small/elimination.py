"""A small problem with few rows of losses: its variables eliminated, exactly.

    min over theta   1/2 theta'S theta + linear'theta + sum_i w_i loss_i(u_i + (E theta)_i)

with theta = (c, tau), S positive definite in tau and positive semidefinite in c.  Given alpha = -w loss'(u),
S theta = E'alpha - linear.  What S determines is eliminated, which leaves the finite problem of an RKHS,

    u = G alpha + u_0 + Q e,        G = E S^+ E',   u_0 = -E S^+ linear,

with e the coefficients of those directions of c that S does not see, as its basis.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._finite.certificate import feasible, lower_bound
from rkhs._finite.monitor import Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate, consecutive
from rkhs._linalg.projection import project
from rkhs.solvers.base import Solver
from rkhs.solvers.small.problem import SmallProblem

SEEN = 1e-12  # of the curvature in c alone, the least that counts as determined
BASIS = 1e-9  # the size of a basis function on the rows, among those of size one elsewhere, that counts as zero


class Elimination:
    """The problem that is left, as a `FiniteProblem` of one output, and the way back to theta."""

    def __init__(self, problem: SmallProblem) -> None:
        c, tau = slice(0, problem.rank), slice(problem.rank, None)
        S, linear = problem.square, problem.linear
        E = np.concatenate([_double(part.E) for part in problem.parts])
        self.L = np.linalg.cholesky(S[tau, tau])
        self.T = self._down(S[tau, c])
        self.F, self.still = self._down(E[:, tau].T), self._down(linear[tau])
        self.B = E[:, c] - self.F.T @ self.T
        values, vectors = np.linalg.eigh(S[c, c] - self.T.T @ self.T)
        known = values > SEEN * np.diag(S)[c].max(initial=0.0)
        self.seen = vectors[:, known] / np.sqrt(values[known])
        U, sizes, Vt = np.linalg.svd(self.B @ vectors[:, ~known], full_matrices=False)
        apart = sizes > BASIS * sizes.max(initial=0.0)
        self.unseen = vectors[:, ~known] @ (Vt[apart].T / sizes[apart])
        self.force = linear[c] - self.T.T @ self.still
        W = self.B @ self.seen
        mean = -self.F.T @ self.still - W @ (self.seen.T @ self.force)
        offset = np.concatenate([_double(part.u) for part in problem.parts])
        rows = [
            replace(part.rows, target=_double(part.rows.target), weight=_double(part.rows.weight))
            for part in problem.parts
        ]
        Q = np.ascontiguousarray(U[:, apart])
        self.system = FiniteProblem.stored(self.F.T @ self.F + W @ W.T, Q, consecutive(rows)).shifted(offset + mean)

    def solve(self, solver: Solver, monitor: Monitor) -> tuple[Matrix, Matrix]:
        """theta, and alpha on the rows, to the monitor's tolerance if rounding allows."""
        try:
            found = solver.run(self.system, self.system.start(), monitor)
        except OutOfIterations:
            found = monitor.best or self.system.start()
        if found.alpha is not None:
            found = replace(found, alpha=self._best_dual_point(found))
        alpha, e = project(found.a, *self.system.box, self.system.Q)[:, 0], found.basis[:, 0]
        c = self.seen @ (self.seen.T @ (self.B.T @ alpha - self.force)) + self.unseen @ e
        tau = scipy.linalg.solve_triangular(
            self.L, self.F @ alpha - self.still - self.T @ c, lower=True, trans="T", check_finite=False
        )
        return np.concatenate([c, tau]), alpha if found.alpha is None else found.alpha[:, 0]

    def _best_dual_point(self, found: Iterate) -> Matrix:
        """Return the best of the dual points that come with an iterate, (t, 1).

        Coefficients a of a solver of the primal problem are any with the right image Ga, and with fewer variables than
        rows that says little about alpha: nothing where G = 0.
        """
        system = self.system
        u = system.exact @ found.a + system.Q @ found.basis
        points = [feasible(system, alpha) for alpha in (found.alpha, -system.slope(u), found.a)]
        values = [float(lower_bound(system, alpha, system.exact @ alpha)[0]) for alpha in points]
        return np.asarray(points[int(np.argmax(values))])

    def _down(self, right: Matrix) -> Matrix:
        """L^-1 right."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False))


def _double(array: object) -> Matrix:
    return to_numpy(array).astype(np.float64)
