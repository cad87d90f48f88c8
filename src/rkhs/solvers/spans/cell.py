"""One cell of a grid on a span: a small problem from sums, solved to rounding, certified with what it is.

The gap is that of alpha on the kept rows and, on the quadratic ones, alpha_i = -2 w_i (u_i - b_i) at theta but for
its c, which is moved until alpha vanishes on the basis: with h = tau + (S theta + linear - E'alpha)_tau after that,

    gap = 1/2 |h|^2 + 1/2 dc'S dc + sum_i w_i excess_i

over ALL functions of the span.  Sums are right to a unit of rounding; in functions of a small norm this error is large,
so the solution keeps away from those that it drowns, and the certificate states what it may have hidden there
(`rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.basis import orthonormal
from rkhs._finite.certificate import FEASIBLE, NOTHING, PARTS, Certificate, excess
from rkhs._finite.problem import LossBlock
from rkhs._linalg.projection import project
from rkhs.losses.base import Loss
from rkhs.solvers._reduced import Part, ReducedProblem, upright
from rkhs.solvers._subspace import solve
from rkhs.solvers.spans.curvature import Curvature
from rkhs.solvers.spans.orthonormal import EPS
from rkhs.solvers.spans.rounding import UNIT, Sizes


@dataclass(frozen=True, eq=False)
class Cell:
    """The small problem of all outputs for some weights, in all functions of the span."""

    S: Matrix  # (m, m)
    linear: Matrix  # (m, c)
    constant: Matrix  # (c,)
    rows: list[tuple[Loss, Any, Matrix, Matrix, Matrix]]  # E (t, m), targets (t, c), weights (t, 1), sizes (t, 1 + r)
    rank: int
    told: int  # variables that rounding does not drown
    numbers: Sizes  # of the numbers behind all that

    @cached_property
    def curvature(self) -> Curvature:
        """S + diag(0, I), of the variables that are told."""
        return Curvature.of(self.S[: self.told, : self.told], self.rank)

    @cached_property
    def basis(self) -> Curvature:
        """The part of S in c alone."""
        return Curvature.of(self.S[: self.rank, : self.rank], self.rank)


class Output:
    """One output of a cell."""

    def __init__(self, cell: Cell, which: int) -> None:
        self.cell = cell
        self.linear, self.constant = cell.linear[:, which], float(cell.constant[which])
        self.parts, self.sizes = [], [own[4] for own in cell.rows]
        for loss, E, target, weight, _ in cell.rows:
            rows = LossBlock(slice(0, len(weight)), loss, target[:, which : which + 1], weight)
            self.parts.append(Part(rows, np.zeros(len(weight)), E))

    def solved(self, tol: float, near: Matrix | None, seconds: float = inf) -> tuple[Matrix, Certificate]:
        """theta (m,) and its certificate, to a relative gap of at most tol if rounding allows.

        It raises `Stopped` after so many seconds.
        """
        ends = perf_counter() + seconds
        told, m = self.cell.told, len(self.linear)

        def whole(theta: Matrix) -> Matrix:
            return np.concatenate([theta, np.zeros(m - told)])

        if not self.parts:
            theta = whole(self.cell.curvature.minimum(self.linear[:told, None])[:, 0])
            return theta, self.certificate(theta, [])
        square = self.cell.S[:told, :told].copy()
        square[self.cell.rank :, self.cell.rank :] += np.eye(told - self.cell.rank)
        parts = [replace(part, E=part.E[:, :told]) for part in self.parts]
        small = ReducedProblem(upright(square, square), self.linear[:told], self.constant, parts, self.cell.rank)
        start = None if near is None else near[:told]
        for enough in (tol / 100, 0.0) if small.smooth else (0.0,):
            found = solve(small, tol / 4, start, enough, ends - perf_counter())
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
        felt = sum(float(np.linalg.norm(size[:, 0] * alpha)) for size, alpha in zip(self.sizes, alphas, strict=True))
        wrong = cell.numbers.errors(theta, squared, felt)
        rounding = wrong.force * (float(np.linalg.norm(h)) + wrong.force / 2) + wrong.rest
        shift = wrong.value + squared - sums + UNIT * self.constant
        for part, alpha, size in zip(self.parts, alphas, self.sizes, strict=True):
            t, u = part.rows, part.at(theta)[:, None]
            error = UNIT * (np.abs(u[:, 0]) + size[:, 1:] @ np.abs(theta[:r])) + size[:, 0] * wrong.image
            own, more = excess(t, u, alpha[:, None], error[:, None])
            primal += float(np.sum(t.weight * t.loss.value(u, t.target)))
            gap, rounding = gap + float(own[0]), rounding + float(more[0])
            shift += float(np.linalg.norm(alpha * error))
        gap = inf if np.any(missed) else gap
        shift += UNIT * primal
        share = (gap + rounding) / (primal - shift) if primal > shift else inf  # J may be less, and this share larger
        rounding += min(shift, share * shift) if shift else 0.0
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
        P = self._basis_on_rows() if unseen.size else np.zeros((sum(map(len, alphas)), len(unseen)))
        values, sizes = P @ unseen, np.abs(P) @ np.abs(unseen)
        Q = orthonormal(np.where(np.abs(values) <= UNIT * sizes, 0.0, values), EPS)[0]  # rows need not see it either
        lows, highs = zip(*(part.rows.box for part in self.parts), strict=True)
        whole = project(np.concatenate(alphas)[:, None], np.concatenate(lows), np.concatenate(highs), Q)[:, 0]
        return list(np.split(whole, np.cumsum([len(alpha) for alpha in alphas])[:-1]))

    def _basis_on_rows(self) -> Matrix:
        """The values (t, r) of the basis functions on all kept rows, which may have to be read again."""
        units = np.eye(self.cell.rank, len(self.linear))
        return np.stack([np.concatenate([part.E @ unit for part in self.parts]) for unit in units], axis=1)
