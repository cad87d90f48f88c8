"""The best dual point in the span of all directions: a lower bound of the minimum that needs no product.

Let the representers of all rows o whose losses are not quadratic be in the span of the H-orthonormal directions D.
Then alpha = D'gamma is arbitrary on these rows, and on the quadratic ones, q, it is D_q'beta.  The dual problem in the
span,

    max over alpha_o and beta   -1/2 |gamma|^2 - 1/4 beta'M beta + beta'D_q b_q - sum_o w_o loss_o*(-alpha_o / w_o)

with M = D_q W^-1 D_q' and gamma = beta + U_o (alpha_o - D_o'beta), is the dual of another reduced problem, in which
quadratic losses enter by their components along the directions,

    min over theta   1/2 |tau|^2 + |D_q (u_q - b_q)|^2 in the norm of M^-1 + sum_o w_o loss_o(u_o),    u = E theta

with alpha_o = -w loss'(u_o) and beta = -2 M^-1 D_q (u_q - b_q) at its minimum.
"""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Matrix, double, like, namespace, to_numpy
from rkhs._finite.problem import FiniteProblem
from rkhs._linalg.curvature import with_ridge
from rkhs._linalg.saddle import inverse_root
from rkhs.solvers._features import solve
from rkhs.solvers._reduced import reduced
from rkhs.solvers._subspace import SMALLER, Directions, Task

RANK_TOL = 1e-10  # eigenvectors of M, scaled to unit diagonal, are dropped below this eigenvalue


class SpanDual:
    """Lower bounds from directions, the first of which are the representers of the rows o."""

    def __init__(self, directions: Directions) -> None:
        self.directions, self.first = directions, directions.first
        self.moments = {k: np.zeros((0, 0)) for k in directions.moments}  # D_q W^-1 D_q' for each quadratic block
        self.basis = np.zeros((0, directions.rank))  # D_q Q_q

    def serves(self, task: Task) -> bool:
        """Return whether all representers are directions and each quadratic block has one factor for all rows."""
        whole = self.first == len(self.directions.rows) > 0
        return whole and all(isinstance(task.multiples[k], float) and task.multiples[k] > 0 for k in self.moments)

    def bound(self, task: Task, problem: FiniteProblem, tol: float, seconds: float) -> tuple[float, Matrix]:
        """Return the dual value of a task, up to rounding, and the coefficients gamma of its alpha = D'gamma."""
        self._update()
        d = self.directions
        D, U_o = double(d.D[: d.count, d.rows]), double(d.U[: d.count, d.rows])
        D_o = D[self.first :]
        cross = np.concatenate([self.basis, np.eye(d.count)[self.first :] - D_o @ U_o.T], axis=1)
        M, b = np.zeros((len(cross),) * 2), np.zeros(len(cross))
        for k, moment in self.moments.items():
            t = task.system.terms[k]
            M += moment / task.multiples[k]
            if bool(namespace(t.target).any(t.target != 0)):
                b += to_numpy(d.D[self.first : d.count, t.rows] @ t.target[:, 0])
        R = inverse_root(M, RANK_TOL)
        C, e = R.T @ cross, R.T @ b
        square = 2 * C.T @ C
        square[d.rank :, d.rank :] += np.eye(d.count)
        lower = reduced(with_ridge(square, d.U), -2 * C.T @ e, float(e @ e), d.rank, problem.terms, problem.geometry.E)
        theta, alpha = solve(lower, SMALLER * tol, task.theta, seconds=seconds)
        residual = C @ theta - e
        beta = -2 * R @ residual
        gamma = U_o @ (alpha - D_o.T @ beta)
        gamma[self.first :] += beta
        alpha_o = D.T @ gamma
        inside = [double(t.project_dual(like(alpha_o[t.rows, None], t.target)))[:, 0] for t in problem.terms]
        gamma += U_o @ (np.concatenate([np.zeros(0), *inside]) - alpha_o)  # rounding may have left the feasible set
        conjugate = sum(float(t.conjugate(like(alpha[t.rows, None], t.target))[0]) for t in problem.terms)
        return float(beta @ b - gamma @ gamma / 2 - residual @ residual) - conjugate, gamma

    def _update(self) -> None:
        """Update the moments for directions that were added."""
        d, before, after = self.directions, len(self.basis), self.directions.count - self.first
        if after == before:
            return
        new, whole = slice(self.first + before, d.count), slice(self.first, d.count)
        on_basis = np.zeros((after - before, d.rank))
        for k, moment in self.moments.items():
            t = d.system.terms[k]
            added = d.D[new, t.rows]
            cross = to_numpy((added / t.weight[:, 0]) @ d.D[whole, t.rows].T)
            extended = np.zeros((after, after))
            extended[:before, :before], extended[before:], extended[:, before:] = moment, cross, cross.T
            self.moments[k] = extended
            on_basis = on_basis + to_numpy(added @ d.system.Q[t.rows])
        self.basis = np.concatenate([self.basis, on_basis])
