"""The finite problem in stored features: a quadratic function of theta = (c, tau) plus losses on rows.

    min over theta = (c, tau)    1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(offset_i + (E theta)_i)

tau are the coefficients of orthonormal functions of a space and c those of the basis, E = [P, L(psi)].  S contains the
squared norm |tau|^2 and 2M for the moments M of the terms whose squared losses are summed up (`sums`); the others keep
their rows E.  The same holds on the span of a few directions, on which solvers minimize J (`solvers._reduced`).

The gap of theta is that of alpha on the kept rows and, on the summed ones, alpha_i = -2 w_i (u_i - b_i) at theta,
except that c is changed such that alpha vanishes on the basis: with h = (S theta + linear - E'alpha)_tau after that,

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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, double, like, namespace, to_numpy
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.basis import UNDETERMINED, check_determined, largest_entries, on_basis, orthonormal
from rkhs._core.finite.certificate import FEASIBLE
from rkhs._core.finite.problem import FiniteProblem, Geometry, Iterate, LossBlock, Point, consecutive
from rkhs._core.finite.sums import FeatureSums, KeptRows, Moments, Rows
from rkhs._core.gram.operator import gram
from rkhs._core.linalg.saddle import Curvature, with_ridge, with_ridge_on
from rkhs._core.progress import report_progress
from rkhs.functionals._base import Functional
from rkhs.spaces._base import UNIT, FiniteSpace, Orthonormal

# Reads rows again that were too many to keep: (term, transform) -> E transform, targets and weights.
Reread = Callable[[int, Matrix], tuple[Any, Matrix, Matrix]]


@dataclass(frozen=True, eq=False)
class Accuracy:
    """The sizes from which the rounding errors of features follow; see the module."""

    values: Vector  # (m - r,) the eigenvalues of D K D
    summed_orthonormal: bool  # whether sums were computed in the orthonormal functions
    norms: Matrix  # (2, 3), norms of the moments of (c, t) with (c, t, targets)
    strongest: float  # the largest w_i s_i^2 of rows that were transformed and then summed up
    count: int  # the number of rows that were summed up
    magnitudes: Sequence[Matrix]  # for each block, s_i and the sizes of the basis functions (t, 1 + r)

    @cached_property
    def lengths(self) -> Vector:
        """The lengths |t| of the coefficients in the functions of the space, for unit vectors tau."""
        return 1 / np.sqrt(self.values)

    @property
    def resolved(self) -> int:
        """The number of functions above rounding: errors of the moments of psi D grow by 1 / values."""
        if self.summed_orthonormal:
            return len(self.values)
        threshold = min(UNIT * float(self.norms[1, 1]), float(self.values[:1].sum()) / 2)
        return int(np.count_nonzero(self.values > threshold))

    def errors(self, c: Matrix, tau: Matrix, squared: Vector, felt: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Return bounds on rounding errors: of |h|, of the rest of the gap, of J without the kept rows, of u_i / s_i.

        `squared` are the losses that were summed up at theta, and `felt` is the norm of s alpha of the kept rows.  The
        length |t| is that of coefficients in the functions in which errors were made: those of the space for norms and
        rows, those that were summed up for sums.
        """
        lengths, largest = self.lengths[:, None], float(self.values[:1].sum())
        summed_lengths = np.ones_like(lengths) if self.summed_orthonormal else lengths
        basis, long, summed = (np.linalg.norm(part, axis=0) for part in (c, lengths * tau, summed_lengths * tau))
        of_sums = UNIT * (self.norms @ np.stack([basis, summed, np.ones_like(basis)]))  # (2, c)
        turned = 2 * np.sqrt(self.strongest * squared)  # a bound of the norm of s alpha of the transformed rows
        # |dh| per function: errors of moments, and of rows, times the lengths of the functions
        force = of_sums[1] * summed_lengths + UNIT * (felt + turned + largest * long) * lengths
        excess = self.count * self.strongest * (UNIT * long) ** 2
        value = of_sums[0] * basis + of_sums[1] * summed + UNIT * (turned + largest * long) * long
        return np.linalg.norm(force, axis=0), of_sums[0] * basis + excess, value + excess, UNIT * long


@dataclass(frozen=True, eq=False)
class FeatureGeometry(Geometry):
    """A quadratic function of theta = (c, tau), and rows E with the values u = offset + E theta of functionals."""

    square: Matrix  # S (m, m)
    linear: Matrix  # (m, c)
    constant: Vector  # (c,)
    rank: int  # r, the number of variables c, which come first and which S need not determine
    E: tuple[Any, ...] = ()  # (t, m) for each block
    offset: Array | None = None  # (N, 1)
    accuracy: Accuracy | None = None  # needed for certificates

    @property
    def summed_at_zero(self) -> Vector:
        return self.constant

    @property
    def size(self) -> int:
        return sum(len(E) for E in self.E)

    @cached_property
    def stored_rows(self) -> Matrix:
        """The rows E of all blocks (N, m)."""
        return np.concatenate([double(E) for E in self.E])

    @property
    def norms(self) -> Array:
        return np.linalg.norm(self.stored_rows[:, self.rank :], axis=1)[:, None]

    sizes = norms

    def inner_products(self, rows: Vector) -> tuple[Matrix, Matrix]:
        E = self.stored_rows[rows]
        return E[:, self.rank :] @ E[:, self.rank :].T, E[:, : self.rank]

    @cached_property
    def basis(self) -> Curvature:
        """The factorized part of S in c alone."""
        return Curvature.of(self.square[: self.rank, : self.rank], self.rank)

    @property
    def resolved(self) -> int:
        """The number of variables, c first, above rounding."""
        return len(self.square) if self.accuracy is None else self.rank + self.accuracy.resolved

    @cached_property
    def curvature(self) -> Curvature:
        """The factorized S of the resolved variables."""
        square = self.square[: self.resolved, : self.resolved]
        return Curvature.of(with_ridge_on(square, self.rank), self.rank)

    @cached_property
    def Q(self) -> Array:
        """The values of the basis functions that S does not determine, orthonormalized."""
        unseen = self.basis.unseen
        if not unseen.size:
            return np.zeros((self.size, 0))
        units = np.eye(self.rank, len(self.square))  # one column at a time, because rows may have to be read again
        P = np.stack([np.concatenate([E @ unit for E in self.E]) for unit in units], axis=1)
        values, sizes = P @ unseen, np.abs(P) @ np.abs(unseen)
        return orthonormal(np.where(np.abs(values) <= UNIT * sizes, 0.0, values), EPS)[0]  # zero up to rounding

    def start(self, columns: int) -> Iterate:
        return self.iterate(np.zeros((len(self.square), columns)))

    def iterate(self, theta: Matrix, alpha: Matrix | None = None) -> Iterate:
        """Return coefficients theta (m, c) as an iterate."""
        return Iterate(theta[self.rank :], theta[: self.rank], alpha)

    def some(self, which: Any) -> FeatureGeometry:
        return replace(self, linear=self.linear[:, which], constant=self.constant[which])

    def leading(self, count: int) -> FeatureGeometry:
        """Return the features of the first variables, with a diagonal of rounding errors that keeps S definite."""
        square = with_ridge(self.square[:count, :count], self.square)
        return FeatureGeometry(
            square, self.linear[:count], self.constant, self.rank, tuple(E[:, :count] for E in self.E), self.offset
        )

    def values(self, theta: Matrix) -> Array:
        """Return u (N, c) for theta (m, c)."""
        return self.changes(theta) if self.offset is None else self.offset + self.changes(theta)

    def changes(self, theta: Matrix) -> Array:
        """Return E theta (N, c)."""
        parts = [E @ (like(theta, E) if hasattr(E, "dtype") else theta) for E in self.E]
        if not parts:
            return np.zeros((0, theta.shape[1]))
        return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=0)

    def adjoint(self, system: FiniteProblem, alpha: Array) -> Matrix:
        """Return E'alpha (m, c) for alpha (N, c)."""
        total = np.zeros((len(self.square), alpha.shape[1]))
        for E, t in zip(self.E, system.terms, strict=True):
            total += E.T @ alpha[t.rows]
        return total

    def energy(self, theta: Matrix) -> Vector:
        """Return the quadratic function (c,) at theta (m, c)."""
        return self.constant + np.sum(theta * (self.linear + self.square @ theta / 2), axis=0)

    def point(self, system: FiniteProblem, iterate: Iterate, image: Array | None = None) -> FeaturePoint:
        return FeaturePoint(self, system, iterate)


class FeaturePoint(Point):
    """An iterate theta = (c, tau) with u = E theta; see the module for its rounding errors."""

    eps = EPS

    def __init__(self, geometry: FeatureGeometry, system: FiniteProblem, iterate: Iterate) -> None:
        assert geometry.accuracy is not None, "a certificate needs the accuracy of the features"
        self.geometry, self.system, self.iterate, self.accuracy = geometry, system, iterate, geometry.accuracy
        self.theta = theta = np.concatenate([iterate.basis, iterate.a])
        c, tau = iterate.basis, iterate.a
        self.u = geometry.values(theta)
        self.slopes = geometry.square @ theta + geometry.linear  # of the quadratic function
        norm = np.sum(tau**2, axis=0) / 2
        sums = geometry.constant + np.sum(theta * (self.slopes + geometry.linear), axis=0) / 2 - norm
        self.squared = np.maximum(sums, 0.0)  # the losses that were summed up; negative values are rounding errors
        self.primal = norm + self.squared + system.loss(self.u)
        _, _, value, image = self.accuracy.errors(c, tau, self.squared, 0.0 * norm)
        sizes = np.concatenate([np.zeros((0, 1 + geometry.rank)), *self.accuracy.magnitudes])
        self.sizes, self.error = sizes[:, :1], UNIT * (np.abs(self.u) + sizes[:, 1:] @ np.abs(c)) + sizes[:, :1] * image
        self.value_error = value + self.squared - sums + UNIT * (geometry.constant + self.primal)
        self.shift = self.value_error

    def reach(self, norms: Matrix) -> Matrix:
        P = self.geometry.stored_rows[:, : self.geometry.rank]
        return norms * np.linalg.norm(self.iterate.a, axis=0) + np.abs(P) @ np.abs(self.iterate.basis)

    def candidates(self, quick: bool) -> Iterator[Array]:
        yield from super().candidates(quick)
        yield -self.system.gradient(self.u)

    def distance(self, alpha: Array, energy: Array | None = None) -> tuple[Vector, Vector]:
        """Return 1/2 |h|^2 + 1/2 dc'S dc, and its rounding error, for each output."""
        geometry, r = self.geometry, self.geometry.rank
        pressed, basis = self.slopes - geometry.adjoint(self.system, alpha), geometry.basis
        # dc = -S_cc^+ (S theta + linear - E'alpha)_c makes alpha vanish on the basis
        move = -basis.seen @ (basis.seen.T @ pressed[:r])
        h = (pressed + geometry.square[:, :r] @ move)[r:]
        # 1/2 |h|^2 + 1/2 dc'S dc
        gaps = np.sum(h**2, axis=0) / 2 + np.sum(move * (geometry.square[:r, :r] @ move), axis=0) / 2
        scale = np.linalg.norm(self.slopes[:r], axis=0) + np.sum(np.abs(alpha), axis=0)  # basis functions of size 1
        unbalanced = np.any(np.abs(basis.unseen.T @ pressed[:r]) > FEASIBLE * EPS * scale, axis=0)
        blocks = self.system.terms
        felt = sum((np.linalg.norm((self.sizes * alpha)[t.rows], axis=0) for t in blocks), np.zeros(len(gaps)))
        force, rest, _, _ = self.accuracy.errors(self.iterate.basis, self.iterate.a, self.squared, felt)
        moved = sum((np.linalg.norm((alpha * self.error)[t.rows], axis=0) for t in blocks), np.zeros(len(gaps)))
        self.shift = np.maximum(self.shift, self.value_error + moved)
        rounding = force * (np.linalg.norm(h, axis=0) + force / 2) + rest
        return np.where(unbalanced, inf, gaps), rounding


class FeatureTerms:
    """The terms of a problem in the orthonormal functions of a space whose matrices are stored.

    Sums are transformed into these functions once; for each weighting in a grid of weights and folds the problem is
    then a combination of p x p matrices.
    """

    def __init__(self, sums: FeatureSums, reread: Reread | None = None) -> None:
        self.space, self.basis, self.outputs = sums.space, sums.basis, sums.outputs
        self.reread, self.rank, self.columns = reread, sums.rank, sums.outputs or 1
        self.functions = sums.functions or Orthonormal.of(sums.space)
        self.size = self.rank + len(self.functions.values)  # m
        self.summed_orthonormal = sums.functions is not None
        basis = np.eye(self.rank)
        self.to_orthonormal = (
            np.eye(self.size) if self.summed_orthonormal else scipy.linalg.block_diag(basis, self.functions.map)
        )
        self.losses = [block.loss for block in sums.blocks]
        self.norms = [self._norms(block) for block in sums.blocks]
        self.blocks = [self._transformed(block) for block in sums.blocks]

    def _norms(self, block: Moments | KeptRows) -> Matrix:
        """Return the norms (2, 3) of the moments of basis functions and psi D with each other and with the targets."""
        if isinstance(block, KeptRows):
            return np.zeros((2, 3))
        size = len(self.to_orthonormal)
        D = np.ones(size) if self.summed_orthonormal else np.concatenate([np.ones(self.rank), self.functions.D])
        D = np.concatenate([D, np.ones(self.columns)])
        sums, ends = D[:, None] * block.sums * D, [0, self.rank, size, len(D)]
        c, psi, b = (slice(*pair) for pair in pairwise(ends))
        return block.cancellation_ratio * np.array(
            [[np.linalg.norm(sums[:, i, j]) for j in (c, psi, b)] for i in (c, psi)]
        )

    def _transformed(self, block: Moments | KeptRows) -> Moments | Rows | KeptRows:
        """Return a block in orthonormal functions; one whose rows must be read again is returned unchanged."""
        if isinstance(block, Moments):
            if self.summed_orthonormal:
                return block
            transform = scipy.linalg.block_diag(self.to_orthonormal, np.eye(self.columns))
            return replace(block, sums=np.stack([transform.T @ (matrix @ transform) for matrix in block.sums]))
        if block.count and block.tiles is None and self.reread is None:
            raise MemoryError(
                f"{block.count} rows with the loss {block.loss!r} and {len(self.to_orthonormal)} features do not fit "
                "in memory: use a squared loss, which is summed up, or an estimator or rkhs.streams.StreamedProblem "
                "with rows that can be read again: arrays, files, or a function that returns an iterator."
            )
        if not block.count or block.tiles is None:
            return block
        rows = block.joined()
        return rows if self.summed_orthonormal else rows._replace(E=rows.E @ self.to_orthonormal)

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

    @property
    def operations(self) -> float:
        """The operations until the first solution: an eigendecomposition, and products with the kept rows."""
        kept = sum(block.count for block in self.blocks if isinstance(block, KeptRows))
        kept += sum(len(block.target) for block in self.blocks if isinstance(block, Rows))
        return (15 * self.space.size + 2 * kept) * float(self.space.size) ** 2

    @property
    def free(self) -> int:
        """The degrees of freedom N - r of squared losses, without terms whose targets are all zero."""
        blocks = [block for block in self.blocks if isinstance(block, Moments)]
        zero_targets = [block for block in blocks if not np.any(block.sums[:, -self.columns :, -self.columns :])]

        def degrees(subset: list[Moments]) -> int:
            total = sum((block.weighted(1.0)[: self.rank, : self.rank] for block in subset), np.zeros((self.rank,) * 2))
            rank = int(np.linalg.matrix_rank(total, hermitian=True)) if self.rank else 0
            return sum(block.count for block in subset) - rank

        return degrees(blocks) - degrees(zero_targets)

    def may_gain_digits(self, rows: float) -> bool:
        """Return whether sums in orthonormal functions may be more accurate than these, at an acceptable cost."""
        # 1e12 operations take about a minute.
        cheap = rows * self.space.size**2 <= 1e12
        return cheap and not self.summed_orthonormal and any(loss.quadratic for loss in self.losses)

    def coefficients(self, iterate: Iterate) -> tuple[Matrix, Matrix]:
        """Return the coefficients of the psi (p, c), and those of the basis functions (r, c)."""
        return self.functions.map @ iterate.a, iterate.basis

    def weighted(self, factors: Sequence[Any] | None = None) -> FiniteProblem:
        """Return the problem with a factor, or one for each group of rows, on the weights of each term."""
        factors = [1.0] * len(self.blocks) if factors is None else factors
        m, sums = self.size, np.zeros((self.size + self.columns,) * 2)
        kept: list[LossBlock] = []
        rows: list[Rows] = []
        norms, strongest, count = np.zeros((2, 3)), 0.0, 0
        for k, (block, factor) in enumerate(zip(self.blocks, factors, strict=True)):
            if isinstance(block, Moments):
                sums += block.weighted(factor)
                norms += 2 * np.max(factor) * self.norms[k]
                strongest += float(np.max(factor)) * block.strongest if self.summed_orthonormal else 0.0
                count += block.count
                continue
            if isinstance(block, Rows):
                found = block.weighted(factor)
            elif block.count:
                assert self.reread is not None
                ones = np.ones((1, 1 + self.rank))
                found = Rows(*self.reread(k, self.to_orthonormal), ones, ones[:, :1])
            else:
                continue
            if len(found.weight):
                sizes = np.broadcast_to(found.magnitudes, (len(found.weight), 1 + self.rank))
                rows.append(found._replace(magnitudes=sizes))
                kept.append(LossBlock(slice(0, len(found.weight)), self.losses[k], found.target, found.weight))
        # 1/2 theta'S theta + linear'theta + constant, with S = diag(0, I) + 2 E'WE, linear = -2 E'Wb, constant = b'Wb
        square, linear, constant = sums[:m, :m] + sums[:m, :m].T, -2 * sums[:m, m:], np.diag(sums[m:, m:])
        tau = np.arange(self.rank, m)
        square[tau, tau] += 1.0
        accuracy = Accuracy(
            self.functions.values, self.summed_orthonormal, norms, strongest, count, [one.magnitudes for one in rows]
        )
        E = tuple(one.E for one in rows)
        geometry = FeatureGeometry(square, linear, constant, self.rank, E, accuracy=accuracy)
        return FiniteProblem(geometry, consecutive(kept), self.outputs)

    def covariance(self, system: FiniteProblem) -> FeatureCovariance:
        """Return the covariance of any functionals, given the weights of a problem; all losses must be squared."""
        geometry = system.geometry
        R = self.functions.map[:, : geometry.resolved - self.rank]
        return FeatureCovariance(self.space, self.basis, R, geometry.curvature, self.free, self.outputs)


@dataclass(frozen=True, eq=False)
class FeatureCovariance:
    """The covariance of any functionals, given the quadratic terms of a problem in stored features.

    The process splits into its part in the space, with independent standard normal coefficients tau of orthonormal
    functions psi R, and an independent part.  Given the terms, (c, tau) has the covariance S^-1, with a flat prior on
    the basis functions; so a functional M has the variance

        k_MM - |e|^2  +  E S^-1 E',        e = M(psi R),  E = [M(p), e]

    The first difference is the variance of M outside the space.  If the functionals of all terms are among the
    landmarks, the terms carry no information about it, and the sum is the variance in the whole RKHS.  Otherwise they
    do, and the sum neglects it: it is the variance of the best Gaussian approximation that keeps the prior outside the
    space.  For random features, which define the kernel themselves, nothing is outside.  For conditionally positive
    definite kernels k_MM - |e|^2 is the variance of M - sum_b a_b L_b, with landmarks L and coefficients a that
    reproduce the polynomials of M; the variance of M itself is not defined.
    """

    space: FiniteSpace
    basis: FunctionSpace | None
    R: Matrix  # (p, m), from coefficients of orthonormal functions to those of the psi
    curvature: Curvature
    degrees_of_freedom: int
    outputs: int | None

    def variance(self, M: Functional) -> Array:
        """Return the variances (m,), infinite where M depends on a basis function that no term determines."""
        variances = [np.zeros(0)]
        for piece in map(M.take, self.space.tiles(M.size)):
            psi, A, left, E, undetermined = self._rows(piece)
            # E S^-1 E'
            variance = self.curvature.variance(E)
            if not self.space.defines_kernel:
                # k_MM - |e|^2, of M - sum_b a_b L_b where the kernel has a null space
                outside = double(gram(self.space.kernel, piece).diagonal()) - np.sum((psi + left) * A, axis=1)
                variance += np.clip(outside - np.sum((left @ self.R) ** 2, axis=1), 0, None)
            variances.append(np.where(undetermined, inf, variance))
            report_progress(sum(map(len, variances)) / M.size)
        return like(np.concatenate(variances), M.prototype)

    def within(self, M: Functional) -> Matrix:
        """Return the part (m,) of the variances that is inside the space."""
        parts = [self.curvature.variance(self._rows(piece)[3]) for piece in map(M.take, self.space.tiles(M.size))]
        return np.concatenate([np.zeros(0), *parts])

    def covariance(self, L: Functional, M: Functional | None = None) -> Array:
        """Return the covariances, (l, m); those of L, (l, l), without M."""
        given = [L] if M is None else [L, M]
        rows = [self._rows(one) for one in given]
        for one, (*_, undetermined) in zip(given, rows, strict=True):
            check_determined(undetermined, one)
        (_, A, left, E, _), (psi_M, A_M, left_M, E_M, _) = rows[0], rows[-1]
        covariance = self.curvature.covariance(E, E_M)
        if not self.space.defines_kernel:
            prior = double(gram(self.space.kernel, L, M).dense())
            covariance += prior - left @ A_M.T - A @ psi_M.T - (left @ self.R) @ (left_M @ self.R).T
        return like((covariance + covariance.T) / 2 if M is None else covariance, L.prototype)

    def _rows(self, M: Functional) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
        """Return psi (m, p) on M, the coefficients a (m, p), psi on M - sum_b a_b L_b, E, and undetermined rows."""
        psi, (A, missed) = to_numpy(self.space.rows(M)), self.space.annihilated(M)
        P = on_basis(M, self.basis)
        E = np.concatenate([P, psi @ self.R], axis=1)
        undetermined = missed | (largest_entries(P @ self.curvature.unseen) > UNDETERMINED * largest_entries(P))
        left = psi - A @ self.space.gram if len(self.space.constraints) else psi
        return psi, A, left, E, undetermined
