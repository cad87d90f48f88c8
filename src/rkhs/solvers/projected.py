"""The problem on a span of p functions, from its summary: small, solved to rounding, with a certificate of its own.

In orthonormal functions of the span (`whitening`) the problem is, for each output,

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
from rkhs.finite.summary import Kept, Moments, Summary
from rkhs.finite.system import Rows, System
from rkhs.functionals.evaluation import Evaluation
from rkhs.gram.matrix import GramMatrix
from rkhs.kernels import Linear
from rkhs.linalg.projection import project
from rkhs.losses.base import Loss
from rkhs.solvers.reduced import SEEN, Reduced
from rkhs.solvers.subspace import Restricted, upright
from rkhs.solvers.whitening import Matrix, whitened

FEW = 3000  # kept rows up to which losses without a gradient are eliminated exactly
WIDTHS = tuple(10.0**-k for k in range(1, 9))  # of the Moreau envelopes, beyond
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Projected:
    """What was found: coefficients tau (p, c) of the psi and c (r, c) of the basis functions, and the certificate."""

    tau: Matrix
    basis: Matrix
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class _Part:
    """Kept rows of one term, in the small variables: E (t, m)."""

    loss: Loss
    E: Any
    target: Matrix  # (t, c)
    weight: Matrix  # (t, 1)

    def rows(self, output: int, start: int = 0) -> Rows:
        where = slice(start, start + len(self.target))
        return Rows(where, self.loss, self.target[:, output : output + 1], self.weight)


class Small:
    """The small problem of a summary; `images` gives rows that were too many to keep: (term, map) -> E."""

    def __init__(self, summary: Summary, images: Any = None) -> None:
        self.summary = summary
        r, size, outputs = summary.rank, summary.rank + summary.span.size, summary.outputs or 1
        S, linear, self.constant = np.zeros((size, size)), np.zeros((size, outputs)), np.zeros(outputs)
        for term in summary.terms:
            if isinstance(term, Moments):
                S, linear, self.constant = S + 2 * term.square, linear - 2 * term.linear, self.constant + term.constant
        kept = [term for term in summary.terms if isinstance(term, Kept)]
        R = whitened(summary.span.norm, summary.span.constraints, S[r:, r:])
        self.map = np.zeros((size, r + R.shape[1]))  # from theta to (c, tau) of the summary
        self.map[:r, :r] = np.diag(self._basis_scales(np.diag(S)[:r], kept))
        self.map[r:, r:] = R
        self.rank = r
        self.S, self.linear = self.map.T @ S @ self.map, self.map.T @ linear
        self.S = (self.S + self.S.T) / 2
        self.parts = [
            self._part(k, term, images) for k, term in enumerate(summary.terms) if isinstance(term, Kept) and term.count
        ]

    def _basis_scales(self, diagonal: Matrix, kept: list[Kept]) -> Matrix:
        """Factors that make all basis functions of one size on the rows."""
        total = diagonal.copy()
        for term in kept:
            for E, _, weight in term.blocks or ():
                total += np.sum(weight * E[:, : len(total)].astype(np.float64) ** 2, axis=0)
        return 1 / np.sqrt(np.where(total > 0, total, 1.0))

    def _part(self, k: int, term: Kept, images: Any) -> _Part:
        if term.blocks is None:
            if images is None:
                raise MemoryError(
                    f"{term.count} rows have the loss {term.loss!r}, too many to keep their {len(self.map)} features "
                    "each. Use a squared loss, which is summed up, or an estimator or rkhs.StreamedProblem with rows "
                    "that can be read again: arrays, files, or a function that returns an iterator."
                )
            return _Part(term.loss, *images(k, self.map))
        E, target, weight = (np.concatenate([b[i] for b in term.blocks]).astype(np.float64) for i in range(3))
        seen = weight[:, 0] > 0
        return _Part(term.loss, E[seen] @ self.map, target[seen], weight[seen])

    def solve(self, tol: float) -> Projected:
        """All outputs, to a relative gap of at most tol if rounding allows."""
        found = [self._output(c, tol) for c in range(self.linear.shape[1])]
        theta = self.map @ np.stack([one[0] for one in found], axis=1)
        primal, dual = (np.array([one[i] for one in found]) for i in (1, 2))
        rounding = tuple(float(8 * EPS * size) for size in self.constant)
        return Projected(theta[self.rank :], theta[: self.rank], Certificate(primal, dual, rounding))

    def _output(self, c: int, tol: float) -> tuple[Matrix, float, float]:
        """theta, primal and dual value of one output."""
        linear, square = self.linear[:, c], self.S.copy()
        tau = slice(self.rank, None)
        square[tau, tau] += np.eye(len(square) - self.rank)
        if not self.parts:
            found = _minimum(square, linear, self.rank)
            return found, *self._values(c, found, [])
        if all(part.loss.smooth for part in self.parts):
            found = self._newton(c, square, linear, None, [part.loss for part in self.parts])
            return found, *self._values(c, found, self._slopes(c, found))
        kept = all(isinstance(part.E, np.ndarray) for part in self.parts)
        if kept and sum(len(part.target) for part in self.parts) <= FEW:
            return self._eliminated(c, square, linear, tol)
        theta: Matrix | None = None
        best = (np.zeros(0), inf, -inf)
        for width in WIDTHS:
            losses = [part.loss.smoothed(0.0 if part.loss.smooth else width) for part in self.parts]
            theta = self._newton(c, square, linear, theta, losses)
            primal, dual = self._values(c, theta, self._slopes(c, theta, losses))
            best = (theta if primal <= best[1] else best[0], min(primal, best[1]), max(dual, best[2]))
            if relative_gap(best[1], best[2]) <= tol:
                break
        return best

    def _newton(self, c: int, square: Matrix, linear: Matrix, start: Matrix | None, losses: list[Loss]) -> Matrix:
        """Newton's method on smooth losses."""
        rough = [
            (replace(part.rows(c), loss=loss), np.zeros(len(part.target)), part.E)
            for part, loss in zip(self.parts, losses, strict=True)
        ]
        return Restricted(0.0, linear, upright(square, square), float(self.constant[c]), rough).minimise(start)

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


def _split(S: Matrix) -> tuple[Matrix, Matrix]:
    """H with HH' = S^+, and the directions that S does not see, as columns."""
    values, vectors = np.linalg.eigh(S)
    known = values > SEEN * np.diag(S).max(initial=0.0)
    return vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known]


def _minimum(square: Matrix, linear: Matrix, rank: int) -> Matrix:
    """argmin 1/2 theta'square theta + linear'theta, positive definite in tau."""
    c, tau = slice(0, rank), slice(rank, None)
    factor = scipy.linalg.cho_factor(upright(square[tau, tau], square), lower=True, check_finite=False)
    right = np.concatenate([square[tau, c], linear[tau, None]], axis=1)
    inverse = scipy.linalg.cho_solve(factor, right, check_finite=False)
    seen = _split(square[c, c] - square[c, tau] @ inverse[:, :rank])[0]
    own = -seen @ (seen.T @ (linear[c] - square[c, tau] @ inverse[:, rank]))
    return np.concatenate([own, -inverse[:, rank] - inverse[:, :rank] @ own])
