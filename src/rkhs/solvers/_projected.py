"""A problem in a finite-dimensional space: solved to rounding, and certified over all functions of the space.

In orthonormal functions of the space the problem is, for each output,

    min over theta = (c, tau)   1/2 |tau|^2 + 1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(E_i theta)

with S = 2M from the moments of all quadratic terms.  They are transformed into these functions once; each weighting in
a grid of weights and folds is then a combination of p x p matrices and a Cholesky factorization.

The gap is that of alpha on the kept rows and, on the quadratic ones, alpha_i = -2 w_i (u_i - b_i) at theta, except that
c is changed such that alpha vanishes on the basis: with h = tau + (S theta + linear - E'alpha)_tau after that,

    gap = 1/2 |h|^2 + 1/2 dc'S dc + sum_i w_i excess_i

over all functions of the space.  Sums are accurate to a unit of rounding, and this error is large in functions of a
small norm: the solution avoids functions whose part of S is lost in it, and the certificate includes it.

Rounding.  With tau on orthonormal functions psi D t, t = V tau / sqrt(values), three quantities are inexact.  To first
order, and at worst (Higham, Accuracy and Stability of Numerical Algorithms, ch. 2 and 3; for eigenvectors: Golub and
Van Loan, Matrix Computations, 8.1):

* the norm: D K D is accurate to units of its largest eigenvalue, in its entries and in the residual of its
  eigenvectors.  The nominally orthonormal functions have the Gram matrix I + dM, |tau'dM tau| <= e largest |t|^2;
* sums: moments of psi D are accurate to units of their norm;
* rows that were transformed into orthonormal functions, to be kept or summed up after that: u_i is accurate to
  e s_i |t|, s_i the size of the numbers that row i is computed from.  It contributes sum_i alpha_i s_i e |t| to the
  gap, and where alpha is small sum_i w_i (e s_i |t|)^2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import EPS, Matrix, Vector
from rkhs._finite.basis import orthonormal
from rkhs._finite.certificate import FEASIBLE, NOTHING, PARTS, Certificate, excess, project_dual
from rkhs._finite.features import FeatureBlocks, KeptRows, Moments, Rows
from rkhs._finite.problem import LossBlock, consecutive
from rkhs._finite.solution import Record
from rkhs._spaces.base import UNIT, Orthonormal
from rkhs.losses._base import Loss
from rkhs.solvers._conditioned import SubspaceCovariance
from rkhs.solvers._reduced import Curvature, FeatureBlock, ReducedProblem, with_ridge
from rkhs.solvers._subspace import solve

# Reads rows again that were too many to keep: (term, transform) -> E transform, targets and weights.
Reread = Callable[[int, Matrix], tuple[Any, Matrix, Matrix]]


@dataclass(frozen=True, eq=False)
class ProjectedSolution:
    """Coefficients tau (p, c) of the psi and c (r, c) of the basis functions, and the certificate."""

    tau: Matrix
    basis: Matrix
    certificate: Certificate
    theta: Matrix  # (m, c), a start for other weights
    history: tuple[Record, ...] = ()


class ProjectedProblem:
    """The loss blocks of a problem in orthonormal functions of its space."""

    def __init__(self, features: FeatureBlocks, reread: Reread | None = None) -> None:
        self.space, self.basis, self.outputs = features.space, features.basis, features.outputs
        self.reread, self.rank, self.columns = reread, features.rank, features.outputs or 1
        self.functions = features.functions or Orthonormal.of(features.space)
        self.size = self.rank + len(self.functions.values)  # m
        self.turned = features.functions is not None  # whether the features are orthonormal already
        basis = np.eye(self.rank)
        self.turn = np.eye(self.size) if self.turned else scipy.linalg.block_diag(basis, self.functions.map)
        self.losses = [block.loss for block in features.blocks]
        self.norms = [self._norms(block) for block in features.blocks]
        self.strongest = [block.strongest if isinstance(block, Moments) else 0.0 for block in features.blocks]
        self.count = sum(block.count for block in features.blocks if isinstance(block, Moments))
        self.blocks = [self._transformed(block) for block in features.blocks]

    def _norms(self, block: Moments | KeptRows) -> Matrix:
        """Return the norms (2, 3) of the moments of basis functions and psi D with each other and with the targets."""
        if isinstance(block, KeptRows):
            return np.zeros((2, 3))
        D = np.ones(len(self.turn)) if self.turned else np.concatenate([np.ones(self.rank), self.functions.D])
        D = np.concatenate([D, np.ones(self.columns)])
        sums, ends = D[:, None] * block.sums * D, [0, self.rank, len(self.turn), len(D)]
        c, psi, b = (slice(*pair) for pair in pairwise(ends))
        return block.cancellation_ratio * np.array(
            [[np.linalg.norm(sums[:, i, j]) for j in (c, psi, b)] for i in (c, psi)]
        )

    def _transformed(self, block: Moments | KeptRows) -> Moments | Rows | KeptRows:
        """Return a block in orthonormal functions; one whose rows must be read again is returned unchanged."""
        if isinstance(block, Moments):
            if self.turned:
                return block
            turn = scipy.linalg.block_diag(self.turn, np.eye(self.columns))
            return replace(block, sums=np.stack([turn.T @ (matrix @ turn) for matrix in block.sums]))
        if block.count and block.tiles is None and self.reread is None:
            raise MemoryError(
                f"{block.count} rows with the loss {block.loss!r} and {len(self.turn)} features do not fit in memory: "
                "use a squared loss, which is summed up, or an estimator or rkhs.streams.StreamedProblem with rows "
                "that can be read again: arrays, files, or a function that returns an iterator."
            )
        if not block.count or block.tiles is None:
            return block
        rows = block.joined()
        return rows if self.turned else rows._replace(E=rows.E @ self.turn)

    @property
    def quadratic(self) -> bool:
        """Whether all losses are squared."""
        return all(loss.quadratic for loss in self.losses)

    @property
    def summary(self) -> str:
        """The number of functions of the space, and their rank if they are dependent."""
        rank, size = len(self.functions.values), self.space.size
        return f"{size} functions" if rank == size else f"{size} functions of numerical rank {rank}"

    @property
    def hidden(self) -> int:
        """The number of functions that rounding hides."""
        return self.space.hidden(self.functions) if len(self.functions.values) < self.space.size else 0

    def covariance(self, _: Any = None) -> SubspaceCovariance:
        """Return the covariance of any functionals; all losses must be squared."""
        weighted = self.weighted()
        R = self.functions.map[:, : weighted.resolved - self.rank]
        return SubspaceCovariance(self.space, self.basis, R, weighted.curvature, self.free, self.outputs)

    @property
    def free(self) -> int:
        """The degrees of freedom N - r of squared losses, without terms whose targets are all zero."""
        blocks = [block for block in self.blocks if isinstance(block, Moments)]
        zero_targets = [block for block in blocks if not np.any(block.sums[:, -self.columns :, -self.columns :])]

        def degrees(subset: list[Moments]) -> int:
            total = sum((block.weighted(1.0)[: self.rank, : self.rank] for block in subset), np.zeros((self.rank,) * 2))
            return sum(block.count for block in subset) - int(np.linalg.matrix_rank(total, hermitian=True))

        return degrees(blocks) - degrees(zero_targets)

    def may_gain_digits(self, rows: float) -> bool:
        """Return whether sums in orthonormal functions may be more accurate than these, at an acceptable cost."""
        # 1e12 operations take about a minute.
        cheap = rows * self.space.size**2 <= 1e12
        return cheap and not self.turned and any(loss.quadratic for loss in self.losses)

    def solve(
        self, tol: float, factors: Sequence[Any] | None = None, near: Matrix | None = None, seconds: float = inf
    ) -> ProjectedSolution:
        """Solve with a factor, or one for each group of rows, on the weights of each term.

        Parameters
        ----------
        tol : float
            The relative gap to reach.
        factors : sequence of float or array, optional
            The factors on the weights of each term; by default 1.
        near : ndarray of shape (m, c), optional
            The theta of a similar problem, as a start.
        seconds : float, default=inf
            The time after which `Stopped` is raised.

        Returns
        -------
        ProjectedSolution
            The solution of all outputs.
        """
        ends, weighted, outputs = perf_counter() + seconds, self.weighted(factors), []
        for c in range(weighted.linear.shape[1]):
            start = None if near is None else near[:, c]
            outputs.append(weighted.solve(c, tol, start, ends - perf_counter()))
        theta = np.stack([column for column, _ in outputs], axis=1)
        certificate = Certificate.joined([certificate for _, certificate in outputs])
        return ProjectedSolution(self.functions.map @ theta[self.rank :], theta[: self.rank], certificate, theta)

    def weighted(self, factors: Sequence[Any] | None = None) -> WeightedProblem:
        """Return the problem with factors on the weights of the terms."""
        factors = [1.0] * len(self.blocks) if factors is None else factors
        m, sums = self.size, np.zeros((self.size + self.columns,) * 2)
        rows: list[tuple[Loss, Rows]] = []
        norms, strong = np.zeros((2, 3)), 0.0
        for k, (block, factor) in enumerate(zip(self.blocks, factors, strict=True)):
            if isinstance(block, Moments):
                sums += block.weighted(factor)
                norms += 2 * np.max(factor) * self.norms[k]
                strong += float(np.max(factor)) * self.strongest[k] if self.turned else 0.0
            elif isinstance(block, Rows):
                weighted = block.weighted(factor)
                if len(weighted.weight):
                    rows.append((self.losses[k], weighted))
            elif block.count:
                assert self.reread is not None
                ones = np.ones((1, 1 + self.rank))
                rows.append((block.loss, Rows(*self.reread(k, self.turn), ones, ones[:, :1])))
        S, linear, constant = sums[:m, :m] + sums[:m, :m].T, -2 * sums[:m, m:], np.diag(sums[m:, m:])
        return WeightedProblem(self, S, linear, constant, rows, norms, strong)


@dataclass(frozen=True, eq=False)
class WeightedProblem:
    """A projected problem of all outputs with fixed weights."""

    projected: ProjectedProblem
    S: Matrix  # (m, m)
    linear: Matrix  # (m, c)
    constant: Vector  # (c,)
    rows: list[tuple[Loss, Rows]]
    norms: Matrix  # (2, 3), norms of the moments of (c, t) with (c, t, targets)
    strong: float  # the largest w_i s_i^2 of rows that were transformed and then summed up

    @property
    def rank(self) -> int:
        return self.projected.rank

    @cached_property
    def resolved(self) -> int:
        """The number of variables, c first, above rounding: errors of the moments of psi D grow by 1 / values."""
        values = self.projected.functions.values
        if self.projected.turned:
            return self.rank + len(values)
        threshold = min(UNIT * float(self.norms[1, 1]), float(values[:1].sum()) / 2)
        return self.rank + int(np.count_nonzero(values > threshold))

    @cached_property
    def curvature(self) -> Curvature:
        """The factorized matrix S + diag(0, I) of the resolved variables."""
        square, tau = self.S[: self.resolved, : self.resolved].copy(), slice(self.rank, None)
        square[tau, tau] = with_ridge(square[tau, tau] + np.eye(self.resolved - self.rank), square)
        return Curvature.of(square, self.rank)

    @cached_property
    def basis(self) -> Curvature:
        """The factorized part of S in c alone."""
        return Curvature.of(self.S[: self.rank, : self.rank], self.rank)

    def parts(self, c: int) -> list[FeatureBlock]:
        """Return the kept rows of output c."""
        blocks = []
        for loss, rows in self.rows:
            block = LossBlock(slice(0, len(rows.weight)), loss, rows.target[:, c : c + 1], rows.weight)
            blocks.append(FeatureBlock(block, np.zeros(len(rows.weight)), rows.E))
        return blocks

    def solve(self, c: int, tol: float, near: Vector | None, seconds: float) -> tuple[Vector, Certificate]:
        """Return theta (m,) of output c and its certificate, to a relative gap of at most tol if rounding allows."""
        ends, resolved, rest = perf_counter() + seconds, self.resolved, np.zeros(len(self.S) - self.resolved)
        parts = self.parts(c)
        if not parts:
            theta = np.concatenate([self.curvature.minimum(self.linear[:resolved, c : c + 1])[:, 0], rest])
            return theta, self.certificate(c, theta, [], [])
        square = self.S[:resolved, :resolved].copy()
        square[self.rank :, self.rank :] += np.eye(resolved - self.rank)
        blocks = [replace(part, E=part.E[:, :resolved]) for part in parts]
        constant = float(self.constant[c])
        reduced = ReducedProblem(with_ridge(square, square), self.linear[:resolved, c], constant, blocks, self.rank)
        start = None if near is None else near[:resolved]
        for enough in (tol / 100, 0.0) if reduced.smooth else (0.0,):
            solution = solve(reduced, tol / 4, start, enough, ends - perf_counter())
            theta, start = np.concatenate([solution.theta, rest]), solution.theta
            certificate = self.certificate(c, theta, parts, solution.alphas)
            if certificate.within(tol):
                break
        return theta, certificate

    def certificate(self, c: int, theta: Vector, parts: list[FeatureBlock], alphas: list[Vector]) -> Certificate:
        """Return J and the gap to the dual point given by alpha on the kept rows and theta on the others."""
        S, r, linear, constant = self.S, self.rank, self.linear[:, c], float(self.constant[c])
        alphas = self._balanced(parts, alphas)
        gradient = S @ theta + linear
        pressed = gradient - sum((part.E.T @ alpha for part, alpha in zip(parts, alphas, strict=True)), np.zeros(()))
        seen, unseen = self.basis.seen, self.basis.unseen
        move = -seen @ (seen.T @ pressed[:r])
        h = (pressed + S[:, :r] @ move)[r:] + theta[r:]
        gap = float(h @ h) / 2 + float(move @ S[:r, :r] @ move) / 2
        sums = constant + float(theta @ (S @ theta / 2 + linear))
        squared = max(sums, 0.0)  # the losses that were summed up; negative values are rounding errors
        primal = float(theta[r:] @ theta[r:]) / 2 + squared
        pulls = sum(float(np.abs(alpha).sum()) for alpha in alphas)  # for basis functions of size 1
        scale = float(np.linalg.norm(gradient[:r])) + pulls
        if np.any(np.abs(unseen.T @ pressed[:r]) > FEASIBLE * EPS * scale):
            gap = inf
        sizes = [rows.magnitudes for _, rows in self.rows]
        felt = sum(float(np.linalg.norm(size[:, 0] * alpha)) for size, alpha in zip(sizes, alphas, strict=True))
        force, rest, value, image = self._errors(theta, squared, felt)
        rounding = force * (float(np.linalg.norm(h)) + force / 2) + rest
        shift = value + squared - sums + UNIT * constant
        at_zero = constant
        for part, alpha, size in zip(parts, alphas, sizes, strict=True):
            t, u = part.rows, part.at(theta)[:, None]
            error = UNIT * (np.abs(u[:, 0]) + size[:, 1:] @ np.abs(theta[:r])) + size[:, 0] * image
            block_gap, block_rounding = excess(t, u, alpha[:, None], error[:, None])
            primal += float(np.sum(t.weight * t.loss.value(u, t.target)))
            at_zero += float(np.sum(t.weight * t.loss.value(0 * t.target, t.target)))
            gap, rounding = gap + float(block_gap[0]), rounding + float(block_rounding[0])
            shift += float(np.linalg.norm(alpha * error))
        shift += UNIT * primal
        share = (gap + rounding) / (primal - shift) if primal > shift else inf  # J may be smaller by the shift
        rounding += min(shift, share * shift) if shift else 0.0
        numbers = zip(PARTS, (primal, gap, rounding, shift, NOTHING * EPS * at_zero), strict=True)
        return Certificate(**{name: np.array([number]) for name, number in numbers}, eps=EPS)

    def _errors(self, theta: Vector, squared: float, felt: float) -> tuple[float, float, float, float]:
        """Return bounds on rounding errors: of |h|, of the rest of the gap, of J without the kept rows, of u_i / s_i.

        `squared` are the losses that were summed up at theta, and `felt` is the norm of s alpha of the kept rows.  The
        length |t| is that of coefficients in the functions in which errors were made: those of the space for norms and
        rows, those that were summed up for sums.
        """
        c, tau = np.split(theta, [self.rank])
        values = self.projected.functions.values
        lengths, largest = 1 / np.sqrt(values), float(values[:1].sum())
        summed_lengths = np.ones(len(values)) if self.projected.turned else lengths
        basis, long, summed = (float(np.linalg.norm(part)) for part in (c, lengths * tau, summed_lengths * tau))
        of_sums = UNIT * self.norms @ [basis, summed, 1.0]
        turned = 2 * (self.strong * squared) ** 0.5  # a bound of the norm of s alpha of the transformed rows
        force = of_sums[1] * summed_lengths + UNIT * (felt + turned + largest * long) * lengths
        excess = self.projected.count * self.strong * (UNIT * long) ** 2
        value = of_sums @ [basis, summed] + UNIT * (turned + largest * long) * long
        return float(np.linalg.norm(force)), float(of_sums[0]) * basis + excess, float(value) + excess, UNIT * long

    def _balanced(self, parts: list[FeatureBlock], alphas: list[Vector]) -> list[Vector]:
        """Return alpha within its bounds, projected to vanish on basis functions that S does not determine."""
        if not alphas:
            return []
        unseen = self.basis.unseen
        P = np.zeros((sum(map(len, alphas)), self.rank))
        if unseen.size:  # one column at a time, because rows may have to be read again
            units = np.eye(self.rank, len(self.S))
            P = np.stack([np.concatenate([part.E @ unit for part in parts]) for unit in units], axis=1)
        values, sizes = P @ unseen, np.abs(P) @ np.abs(unseen)
        Q = orthonormal(np.where(np.abs(values) <= UNIT * sizes, 0.0, values), EPS)[0]  # zero up to rounding
        whole = project_dual(consecutive([part.rows for part in parts]), Q, np.concatenate(alphas)[:, None])[:, 0]
        return list(np.split(whole, np.cumsum([len(alpha) for alpha in alphas])[:-1]))
