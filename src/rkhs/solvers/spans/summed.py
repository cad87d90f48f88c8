"""A problem on a span of p functions, from the sums of its terms: small, solved to rounding, certified with what it is.

In orthonormal functions of the span the problem is, for each output,

    min over theta = (c, tau)   1/2 |tau|^2 + 1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(E_i theta)

with S = 2M from the moments of all quadratic terms.  They are turned into these functions once; each cell of a grid of
weights and folds is then a combination of p x p matrices, some of its rows and columns, and a Cholesky factorisation.

The gap is that of alpha on the kept rows and, on the quadratic ones, alpha_i = -2 w_i (u_i - b_i) at theta but for
its c, which is moved until alpha vanishes on the basis: with h = tau + (S theta + linear - E'alpha)_tau after that,

    gap = 1/2 |h|^2 + 1/2 dc'S dc + sum_i w_i excess_i

over ALL functions of the span.  Sums are right to a unit of rounding; in functions of a small norm this error is large,
so the solution keeps away from those that it drowns, and the certificate states what it may have hidden there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.finite.certificate import FEASIBLE, NOTHING, PARTS, Certificate, excess
from rkhs.finite.moments import Kept, KeptBlock, Moments
from rkhs.finite.summary import Summary
from rkhs.finite.system import Rows
from rkhs.linalg.projection import project
from rkhs.losses.base import Loss
from rkhs.solvers.small.elimination import SEEN
from rkhs.solvers.small.problem import Part, SmallProblem, upright
from rkhs.solvers.small.solution import solve
from rkhs.solvers.spans.orthonormal import EPS, UNITS, Matrix, Orthonormal, OrthonormalSpan

DEAR = 1e12  # operations, up to which rows are turned before they are summed up


@dataclass(frozen=True, eq=False)
class Found:
    """Coefficients tau (p, c) of the psi and c (r, c) of the basis functions, and the certificate."""

    tau: Matrix
    basis: Matrix
    certificate: Certificate
    theta: Matrix  # (m, c), from which a solution for other weights can start


class Summed:
    """A summary in orthonormal functions; `images` gives rows that were too many to keep: (term, map) -> E."""

    def __init__(self, summary: Summary, images: Any = None) -> None:
        self.images, self.rank = images, summary.rank
        self.functions = Orthonormal.of(summary.span)
        self.map = scipy.linalg.block_diag(np.eye(self.rank), self.functions.map)  # (r + p, m)
        self.losses = [term.loss for term in summary.terms]
        self.sizes = [self._size(term) for term in summary.terms]
        self.strongest = [term.strongest if isinstance(term, Moments) else 0.0 for term in summary.terms]
        self.terms = [self._turned(term) for term in summary.terms]
        self.summary = replace(summary, terms=())  # the sums as they were are not needed any more

    def _size(self, term: Moments | Kept) -> Matrix:
        """The norms of the moments of psi D, and of those with targets, by which their rounding is judged."""
        if isinstance(term, Kept):
            return np.zeros(2)
        D, r = self.functions.D, self.rank
        square = D[:, None] * term.square[:, r:, r:] * D
        return term.cancelled * np.array([np.linalg.norm(square), np.linalg.norm(D[:, None] * term.linear[:, r:])])

    def _turned(self, term: Moments | Kept) -> Moments | KeptBlock | Kept:
        if isinstance(term, Moments):
            return term.turned(self.map)
        if not term.count:
            return term
        if term.blocks is None and self.images is None:
            raise MemoryError(
                f"{term.count} rows have the loss {term.loss!r}, too many to keep their {len(self.map)} features "
                "each. Use a squared loss, which is summed up, or an estimator or rkhs.StreamedProblem with rows "
                "that can be read again: arrays, files, or a function that returns an iterator."
            )
        return term if term.blocks is None else term.joined().turned(self.map)

    @property
    def quadratic(self) -> bool:
        """Whether all losses are squared."""
        return all(loss.quadratic for loss in self.losses)

    @property
    def free(self) -> int:
        """N - r of squared losses: targets that neither the basis nor terms whose targets are all zero explain."""
        terms = [term for term in self.terms if isinstance(term, Moments)]
        given = [term for term in terms if not np.any(term.constant > 0)]

        def rank(some: list[Moments]) -> int:
            total = sum((term.weighted(1.0)[0][: self.rank, : self.rank] for term in some), np.zeros((self.rank,) * 2))
            return int(np.linalg.matrix_rank(total, hermitian=True)) if self.rank else 0

        data = sum(term.count for term in terms) - sum(term.count for term in given)
        return data - rank(terms) + rank(given)

    def turned(self, rows: int) -> OrthonormalSpan | None:
        """The span whose sums keep the digits that these lost; None if so many rows take too long, or it is one."""
        span = self.summary.span
        dear = rows * span.size**2 > DEAR or isinstance(span, OrthonormalSpan)
        if dear or not any(loss.quadratic for loss in self.losses):
            return None
        return OrthonormalSpan.of(span, self.functions)

    @property
    def independent(self) -> tuple[int, int]:
        """How many of the functions rounding tells apart, and how many there are."""
        return len(self.functions.values), self.summary.span.size

    def solve(self, tol: float, factors: Sequence[Any] | None = None, near: Matrix | None = None) -> Found:
        """The solution with a factor, or one for each group of rows, on the weights of each term; from one nearby."""
        cell = self.cell(factors)
        found = [
            _Output(cell, c).solved(tol, None if near is None else near[:, c]) for c in range(cell.linear.shape[1])
        ]
        theta = np.stack([one[0] for one in found], axis=1)
        whole = self.map @ theta
        return Found(whole[self.rank :], whole[: self.rank], Certificate.joined([one[1] for one in found]), theta)

    def nothing(self, factors: Sequence[Any] | None = None) -> Found:
        """f = 0, for cells that were not reached."""
        cell = self.cell(factors)
        theta = np.zeros_like(cell.linear)
        none = [np.zeros(len(weight)) for _, _, _, weight, _ in cell.rows]
        certificates = [_Output(cell, c).certificate(theta[:, c], none) for c in range(theta.shape[1])]
        return Found(
            np.zeros((self.map.shape[0] - self.rank, theta.shape[1])),
            np.zeros((self.rank, theta.shape[1])),
            Certificate.joined(certificates),
            theta,
        )

    def cell(self, factors: Sequence[Any] | None = None) -> Cell:
        """The sums for some weights."""
        own = [1.0] * len(self.terms) if factors is None else factors
        size, outputs = self.map.shape[1], self.summary.outputs or 1
        S, linear, constant = np.zeros((size, size)), np.zeros((size, outputs)), np.zeros(outputs)
        rows: list[tuple[Loss, Any, Matrix, Matrix, Any]] = []
        norms = np.zeros(2)
        for k, (term, factor) in enumerate(zip(self.terms, own, strict=True)):
            if isinstance(term, Moments):
                square, cross, own_constant = term.weighted(factor)
                S, linear, constant = S + 2 * square, linear - 2 * cross, constant + own_constant
                norms += 2 * np.max(factor) * self.sizes[k]
            elif isinstance(term, KeptBlock):
                block = term.weighted(factor)
                if len(block.weight):
                    rows.append((self.losses[k], block.E, block.target, block.weight, block.sizes[:, 0]))
            elif term.count:
                rows.append((term.loss, *self.images(k, self.map), 1.0))
        summed, rows_of = 1 / np.sqrt(self.functions.values), self.summary.span
        spread, strong = np.concatenate([np.ones(self.rank), summed]), 0.0
        if isinstance(rows_of, OrthonormalSpan):
            spread[self.rank :] = rows_of.spread
            strong = sum(float(np.max(factor)) * k for k, factor in zip(self.strongest, own, strict=True))
        told = self.rank + self.functions.told_by(float(norms[0]))
        largest = float(self.functions.values[:1].sum())
        return Cell((S + S.T) / 2, linear, constant, rows, self.rank, spread, summed, norms, strong, told, largest)


@dataclass(frozen=True, eq=False)
class Cell:
    """The small problem of all outputs for some weights, in all functions of the span."""

    S: Matrix  # (m, m)
    linear: Matrix  # (m, c)
    constant: Matrix  # (c,)
    rows: list[tuple[Loss, Any, Matrix, Matrix, Any]]  # loss, E (t, m), targets (t, c), weights (t, 1), sizes (t,)
    rank: int
    spread: Matrix  # (m,): the length of the coefficients of psi D, for one of each variable
    summed: Matrix  # (m - r,): the same for the functions that were summed up, where these were orthonormal before
    norms: Matrix  # of the moments behind S and linear
    strong: float  # the largest weight times the square of the numbers behind a row that was turned and then summed up
    told: int  # variables that rounding does not drown
    largest: float  # eigenvalue of DKD

    @cached_property
    def curvature(self) -> Curvature:
        """S + diag(0, I), of the variables that are told."""
        return Curvature.of(self.S[: self.told, : self.told], self.rank)

    @cached_property
    def basis(self) -> Curvature:
        """The part of S in c alone."""
        return Curvature.of(self.S[: self.rank, : self.rank], self.rank)


class _Output:
    """One output of a cell."""

    def __init__(self, cell: Cell, which: int) -> None:
        self.cell = cell
        self.linear, self.constant = cell.linear[:, which], float(cell.constant[which])
        self.parts, self.sizes = [], [own[4] for own in cell.rows]
        for loss, E, target, weight, _ in cell.rows:
            rows = Rows(slice(0, len(weight)), loss, target[:, which : which + 1], weight)
            self.parts.append(Part(rows, np.zeros(len(weight)), E))

    def solved(self, tol: float, near: Matrix | None) -> tuple[Matrix, Certificate]:
        """theta (m,) and its certificate, to a relative gap of at most tol if rounding allows."""
        told, m = self.cell.told, len(self.linear)

        def whole(theta: Matrix) -> Matrix:
            return np.concatenate([theta, np.zeros(m - told)])

        if not self.parts:
            theta = whole(self.cell.curvature.minimum(self.linear[:told, None])[:, 0])
            return theta, self.certificate(theta, [])
        square = self.cell.S[:told, :told].copy()
        square[self.cell.rank :, self.cell.rank :] += np.eye(told - self.cell.rank)
        parts = [replace(part, E=part.E[:, :told]) for part in self.parts]
        small = SmallProblem(upright(square, square), self.linear[:told], self.constant, parts, self.cell.rank)
        start = None if near is None else near[:told]
        for enough in (tol / 100, 0.0) if small.smooth else (0.0,):
            found = solve(small, tol / 4, start, enough)
            theta = whole(found.theta)
            certificate = self.certificate(theta, found.alphas)
            start = found.theta
            if certificate.within(tol):
                break
        return theta, certificate

    def certificate(self, theta: Matrix, alphas: list[Matrix]) -> Certificate:
        """J and the gap to the dual point that alpha on the kept rows and theta on the others make."""
        cell, r = self.cell, self.cell.rank
        alphas = self._balanced(alphas)
        forces = cell.S @ theta + self.linear
        pressed = forces - sum((part.E.T @ alpha for part, alpha in zip(self.parts, alphas, strict=True)), np.zeros(()))
        seen, unseen = cell.basis.seen, cell.basis.unseen
        move = -seen @ (seen.T @ pressed[:r])
        h = (pressed + cell.S[:, :r] @ move)[r:] + theta[r:]
        gap = float(h @ h) / 2 + float(move @ cell.S[:r, :r] @ move) / 2
        sums = self.constant + float(theta @ (cell.S @ theta / 2 + self.linear))
        squared = max(sums, 0.0)  # the losses that were summed up; what is below zero is rounding
        primal = float(theta[r:] @ theta[r:]) / 2 + squared
        pulls = sum(float(np.abs(alpha).sum()) for alpha in alphas)  # of basis functions of size 1
        scale = float(np.linalg.norm(forces[:r])) + pulls
        missed = np.abs(unseen.T @ pressed[:r]) > FEASIBLE * EPS * scale
        long = float(np.linalg.norm(cell.spread * theta))  # of the coefficients of psi D
        summed = float(np.linalg.norm(cell.summed * theta[r:]))
        felt = 2 * (cell.strong * squared) ** 0.5
        felt += sum(float(np.linalg.norm(size * alpha)) for size, alpha in zip(self.sizes, alphas, strict=True))
        error = UNITS * EPS * (cell.norms[0] * summed + cell.norms[1])  # of a force of sums, for a spread of 1
        lost = float(np.linalg.norm(error * cell.summed + UNITS * EPS * felt * cell.spread[r:]))
        rounding = lost * (float(np.linalg.norm(h)) + lost / 2) + error * summed
        rounding += UNITS * EPS * (self.constant + cell.largest * summed**2) + squared - sums
        for part, alpha, size in zip(self.parts, alphas, self.sizes, strict=True):
            t, u = part.rows, part.at(theta)[:, None]
            own, more = excess(t, u, alpha[:, None], UNITS * EPS * (np.abs(u[:, 0]) + size * long)[:, None])
            primal += float(np.sum(t.weight * t.loss.value(u, t.target)))
            gap, rounding = gap + float(own[0]), rounding + float(more[0])
        gap = inf if np.any(missed) else gap
        shift = error * summed + UNITS * EPS * (felt * long + primal)
        nothing = NOTHING * EPS * self.at_zero
        parts = zip(PARTS, (primal, gap, rounding, shift, nothing), strict=True)
        return Certificate(**{name: np.array([value]) for name, value in parts}, eps=EPS)

    @property
    def at_zero(self) -> float:
        """J(0)."""
        none = (p.rows.loss.value(0 * p.rows.target, p.rows.target) for p in self.parts)
        return self.constant + sum(float(np.sum(p.rows.weight * v)) for p, v in zip(self.parts, none, strict=True))

    def _balanced(self, alphas: list[Matrix]) -> list[Matrix]:
        """alpha within its bounds, and moved where it has to vanish on basis functions that S does not see."""
        if not alphas:
            return []
        unseen = self.cell.basis.unseen
        padded = np.concatenate([unseen, np.zeros((len(self.linear) - len(unseen), unseen.shape[1]))])
        values = [part.E @ column for column in padded.T for part in self.parts]
        table = np.concatenate(values).reshape(padded.shape[1], -1).T if padded.shape[1] else np.zeros((0, 0))
        Q = np.linalg.qr(table)[0] if table.size else np.zeros((sum(map(len, alphas)), 0))
        lows, highs = zip(*(part.rows.box for part in self.parts), strict=True)
        whole = project(np.concatenate(alphas)[:, None], np.concatenate(lows), np.concatenate(highs), Q)[:, 0]
        return list(np.split(whole, np.cumsum([len(alpha) for alpha in alphas])[:-1]))


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
        known = values > SEEN * np.diag(S)[c].max(initial=0.0)
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
