"""The best dual point in the span of all directions: a lower bound on the minimum that needs no product.

Let the representers of all rows o whose losses are not quadratic be in the span of the H-orthonormal directions D.
Then alpha = D'gamma is free on these rows, and on the quadratic ones, q, it is D_q'beta.  The dual problem in the span,

    max over alpha_o and beta   -1/2 |gamma|^2 - 1/4 beta'M beta + beta'D_q b_q - sum_o w_o loss_o*(-alpha_o / w_o)

with M = D_q W^-1 D_q' and gamma = beta + U_o (alpha_o - D_o'beta), is the dual of another reduced problem, in which
quadratic losses count as far as the directions see them,

    min over theta   1/2 |tau|^2 + |D_q (u_q - b_q)|^2 in the norm of M^-1 + sum_o w_o loss_o(u_o),    u = E theta

with alpha_o = -w loss'(u_o) and beta = -2 M^-1 D_q (u_q - b_q) at its minimum.
"""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Matrix, like, namespace, to_numpy
from rkhs._linalg.saddle import inverse_root
from rkhs.solvers._base import double
from rkhs.solvers._reduced import ReducedProblem, upright
from rkhs.solvers._subspace import SMALLER, Directions, Task, solve

SEEN = 1e-10  # of M with ones on its diagonal, eigenvalues under which its directions are left out


class SpanDual:
    """Lower bounds from directions whose first ones are the representers of the rows o."""

    def __init__(self, directions: Directions) -> None:
        self.directions, self.first = directions, directions.first
        self.moments = {k: np.zeros((0, 0)) for k in directions.moments}  # D_q W^-1 D_q' of each quadratic block
        self.basis = np.zeros((0, directions.rank))  # D_q Q_q

    def serves(self, task: Task) -> bool:
        """Return whether all representers are there, and each quadratic block has one factor for all its rows."""
        whole = self.first == len(self.directions.rows) > 0
        return whole and all(isinstance(task.multiples[k], float) and task.multiples[k] > 0 for k in self.moments)

    def bound(self, task: Task, reduced: ReducedProblem, tol: float, seconds: float) -> tuple[float, Matrix]:
        """Return the dual value of a task, up to rounding, and the gamma of its alpha = D'gamma."""
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
        R = inverse_root(M, SEEN)
        C, e = R.T @ cross, R.T @ b
        square = 2 * C.T @ C
        square[d.rank :, d.rank :] += np.eye(d.count)
        lower = ReducedProblem(upright(square, d.U), -2 * C.T @ e, float(e @ e), reduced.parts, reduced.rank)
        found = solve(lower, SMALLER * tol, task.theta, seconds=seconds)
        off, boxes = C @ found.theta - e, [part.rows.box for part in reduced.parts]
        beta = -2 * R @ off
        gamma = U_o @ (found.alpha - D_o.T @ beta)
        gamma[self.first :] += beta
        low, high = (np.concatenate([double(end)[:, 0] for end in ends]) for ends in zip(*boxes, strict=True))
        alpha_o = D.T @ gamma
        gamma += U_o @ (np.clip(alpha_o, low, high) - alpha_o)  # by which rounding has left the box
        conjugates = (
            float(part.rows.conjugate(like(alpha[:, None], part.u))[0])
            for part, alpha in zip(reduced.parts, found.alphas, strict=True)
        )
        return float(beta @ b - gamma @ gamma / 2 - off @ off) - sum(conjugates), gamma

    def _update(self) -> None:
        """Take in what was added to the directions."""
        d, before, after = self.directions, len(self.basis), self.directions.count - self.first
        if after == before:
            return
        new, all_of_them = slice(self.first + before, d.count), slice(self.first, d.count)
        seen = np.zeros((after - before, d.rank))
        for k, moment in self.moments.items():
            t = d.system.terms[k]
            own = d.D[new, t.rows]
            against = to_numpy((own / t.weight[:, 0]) @ d.D[all_of_them, t.rows].T)
            grown = np.zeros((after, after))
            grown[:before, :before], grown[before:], grown[:, before:] = moment, against, against.T
            self.moments[k] = grown
            seen = seen + to_numpy(own @ d.system.Q[t.rows])
        self.basis = np.concatenate([self.basis, seen])
