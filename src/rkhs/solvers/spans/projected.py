"""The problem on a span of p functions: small, solved to rounding, with a certificate of its own.

In orthonormal functions of the span (`rotated`) the problem is, for each output,

    min over theta = (c, tau)   1/2 |tau|^2 + 1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(E_i theta)

with S = 2M from the moments of all quadratic terms.  The dual value is computed at alpha on the kept rows and, on the
quadratic ones, alpha_i = -2 w_i (u_i - b_i) at some theta', which enters by the moments again:

    -1/2 |g_tau|^2 - 1/2 theta'S theta' + constant - sum_i w_i loss_i*(-alpha_i / w_i),  g = E'alpha - S theta' - linear

where g_c = 0.  Primal and dual are those of the problem in the span: the gap says nothing about functions outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.finite.certificate import FEASIBLE, Certificate, relative_gap
from rkhs.finite.parts import orthonormal
from rkhs.finite.system import Rows, System
from rkhs.functionals.evaluation import Evaluation
from rkhs.gram.matrix import GramMatrix
from rkhs.kernels import Linear
from rkhs.linalg.projection import project
from rkhs.losses.base import Loss
from rkhs.solvers.reduced import SEEN, Reduced
from rkhs.solvers.spans.whitening import Matrix
from rkhs.solvers.subspace import Restricted, upright

FEW = 3000  # kept rows up to which losses without a gradient are eliminated exactly
WIDTHS = tuple(10.0**-k for k in range(1, 9))  # of the Moreau envelopes, beyond
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Projected:
    """What was found: coefficients tau (p, c) of the psi and c (r, c) of the basis functions, and the certificate."""

    tau: Matrix
    basis: Matrix
    certificate: Certificate
    theta: Matrix  # (m, c), in the small variables


@dataclass(frozen=True, eq=False)
class Part:
    """Kept rows of one term, in the small variables: E (t, m)."""

    loss: Loss
    E: Any
    target: Matrix  # (t, c)
    weight: Matrix  # (t, 1)

    def rows(self, output: int, start: int = 0) -> Rows:
        where = slice(start, start + len(self.target))
        return Rows(where, self.loss, self.target[:, output : output + 1], self.weight)


@dataclass(frozen=True, eq=False)
class Small:
    """The small problem, in the functions of a span and a basis that are the columns of `map`."""

    map: Matrix  # (r + p, m), from theta to (c, tau) of the summary
    rank: int
    S: Matrix  # (m, m)
    linear: Matrix  # (m, c)
    constant: Matrix  # (c,)
    parts: list[Part]

    def solve(self, tol: float, start: Matrix | None = None) -> Projected:
        """All outputs, to a relative gap of at most tol if rounding allows; from a theta (m, c) near the solution."""
        if self.parts:
            square = self.S.copy()
            square[self.rank :, self.rank :] += np.eye(len(square) - self.rank)
            found = [self._output(c, square, tol, start) for c in range(self.linear.shape[1])]
        else:
            columns = Curvature.of(self.S, self.rank).minimum(self.linear).T
            found = [(column, *self._values(c, column, [])) for c, column in enumerate(columns)]
        theta = np.stack([one[0] for one in found], axis=1)
        primal, dual = (np.array([one[i] for one in found]) for i in (1, 2))
        rounding = tuple(float(8 * EPS * size) for size in self.constant)
        whole = self.map @ theta
        return Projected(whole[self.rank :], whole[: self.rank], Certificate(primal, dual, rounding), theta)

    def _output(self, c: int, square: Matrix, tol: float, start: Matrix | None) -> tuple[Matrix, float, float]:
        """theta, primal and dual value of one output."""
        linear = self.linear[:, c]
        theta = None if start is None else start[:, c]
        if all(part.loss.smooth for part in self.parts):
            losses = [part.loss for part in self.parts]
            near = self._newton(c, square, linear, theta, losses, tol / 100)
            values = self._values(c, near, self._slopes(c, near))
            if relative_gap(*values) <= tol:
                return near, *values
            found = self._newton(c, square, linear, near, losses)
            return found, *self._values(c, found, self._slopes(c, found))
        kept = all(isinstance(part.E, np.ndarray) for part in self.parts)
        if kept and sum(len(part.target) for part in self.parts) <= FEW:
            return self._eliminated(c, square, linear, tol)
        best = (np.zeros(0), inf, -inf)
        for width in WIDTHS:
            losses = [part.loss.smoothed(0.0 if part.loss.smooth else width) for part in self.parts]
            theta = self._newton(c, square, linear, theta, losses)
            primal, dual = self._values(c, theta, self._slopes(c, theta, losses))
            best = (theta if primal <= best[1] else best[0], min(primal, best[1]), max(dual, best[2]))
            if relative_gap(best[1], best[2]) <= tol:
                break
        return best

    def _newton(
        self,
        c: int,
        square: Matrix,
        linear: Matrix,
        start: Matrix | None,
        losses: list[Loss],
        enough: float = 0.0,
    ) -> Matrix:
        """Newton's method on smooth losses."""
        rough = [
            (replace(part.rows(c), loss=loss), np.zeros(len(part.target)), part.E)
            for part, loss in zip(self.parts, losses, strict=True)
        ]
        return Restricted(0.0, linear, upright(square, square), float(self.constant[c]), rough).minimise(start, enough)

    def _eliminated(self, c: int, square: Matrix, linear: Matrix, tol: float) -> tuple[Matrix, float, float]:
        """A few rows of any loss, exactly (`reduced`)."""
        rows, start = [], 0
        for part in self.parts:
            rows.append(part.rows(c, start))
            start += len(part.target)
        E = np.concatenate([part.E for part in self.parts])
        rest = System(Linear(), Evaluation(np.zeros((start, 1))), None, tuple(rows), None)
        rest = rest.with_matrices(GramMatrix(np.zeros((start, start))), np.zeros((start, 0)))
        theta, alpha = Reduced(rest, tuple(rows), E, upright(square, square), linear, self.rank).solve(tol / 4)
        return theta, *self._values(c, theta, [alpha[own.rows] for own in rows])

    def _slopes(self, c: int, theta: Matrix, losses: list[Loss] | None = None) -> list[Matrix]:
        """alpha = -w loss'(u) on the kept rows, moved where it has to vanish on basis functions that S does not see."""
        alphas = []
        for part, loss in zip(self.parts, losses or [part.loss for part in self.parts], strict=True):
            alphas.append(-part.weight[:, 0] * loss.gradient(part.E @ theta, part.target[:, c]))
        unseen = _split(self.S[: self.rank, : self.rank])[1]
        if not unseen.shape[1]:
            return alphas
        padded = np.zeros((len(theta), unseen.shape[1]))
        padded[: self.rank] = unseen
        Q = orthonormal(np.concatenate([part.E @ padded for part in self.parts]))[0]
        lows, highs = zip(*(part.rows(c).box for part in self.parts), strict=True)
        ends = np.cumsum([0, *(len(alpha) for alpha in alphas)])
        whole = project(np.concatenate(alphas)[:, None], np.concatenate(lows), np.concatenate(highs), Q)[:, 0]
        return [whole[a:b] for a, b in pairwise(ends)]

    def _values(self, c: int, theta: Matrix, alphas: list[Matrix]) -> tuple[float, float]:
        """Primal value of theta, and dual value of alpha with theta' = theta but for c, which makes it feasible."""
        r, linear, constant = self.rank, self.linear[:, c], float(self.constant[c])
        primal = float(theta[r:] @ theta[r:]) / 2 + constant + float(theta @ (self.S @ theta / 2 + linear))
        g, size, conjugates = -linear, np.abs(linear[:r]), 0.0
        for part, alpha in zip(self.parts, alphas, strict=True):
            w, b = part.weight[:, 0], part.target[:, c]
            primal += float(np.sum(w * part.loss.value(part.E @ theta, b)))
            conjugates += float(part.rows(c).conjugate(alpha[:, None])[0])
            g = g + part.E.T @ alpha
            size = size + np.abs(alpha).sum() * np.sqrt(np.diag(self.S)[:r] + 1)
        seen = _split(self.S[:r, :r])[0]
        other = theta.copy()
        other[:r] += seen @ (seen.T @ (g - self.S @ theta)[:r])
        g = g - self.S @ other
        size = size + np.abs(self.S[:r]) @ np.abs(other)
        if np.any(np.abs(g[:r]) > FEASIBLE * EPS * size):
            return primal, -inf
        dual = constant - float(g[r:] @ g[r:]) / 2 - float(other @ self.S @ other) / 2 - conjugates
        return primal, min(dual, primal)


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
        return cls(L, T, *_split(S[c, c] - T.T @ T))

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

    def down(self, right: Matrix) -> Matrix:
        """L^-1 right."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False))


def _split(S: Matrix) -> tuple[Matrix, Matrix]:
    """H with HH' = S^+, and the directions that S does not see, as columns."""
    values, vectors = np.linalg.eigh(S)
    known = values > SEEN * np.diag(S).max(initial=0.0)
    return vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known]
