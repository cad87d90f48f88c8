"""The finite problem in an orthonormal space of many functions, by products with E and E' alone, such as Fourier grids.

With theta = (c, tau), u = Pc + E tau for basis functions P and the functions of the space E, and any number of outputs,

    J(theta) = 1/2 |tau|^2 + sum_i w_i loss_i(u_i; b_i)

The gap of theta is that to alpha = -w loss'(u), made feasible:

    gap = 1/2 |tau - E'alpha|^2 + sum_i w_i excess_i,        P'alpha = 0

over all functions of the space.  Squared losses whose rows are not in memory enter by their sums (`QuadraticSums`):
their gap is 1/2 |gradient|^2, because c is optimal given tau.

Rounding.  A product has the relative error `space.product_error`, in the Euclidean norm, such as that of non-uniform
Fourier transforms.  That of the gradient is relative to the sizes of tau and E'alpha; that of u, to the sum of the
lengths of all changes from which it was computed (`path`), which bounds the error of J by the
inequality of Cauchy and Schwarz.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, ClassVar

import numpy as np

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, to_numpy
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.basis import on_basis, orthonormal
from rkhs._core.finite.certificate import FEASIBLE, project_dual
from rkhs._core.finite.normal_equations import NormalEquations, QuadraticSums, dots
from rkhs._core.finite.problem import (
    FiniteProblem,
    Geometry,
    Iterate,
    LossBlock,
    Point,
    consecutive,
    degrees_of_freedom,
    prior_rows,
)
from rkhs._core.finite.representers import block_in_double
from rkhs._core.finite.term import Term
from rkhs._core.gram.operator import gram
from rkhs._core.limits import limits
from rkhs._core.progress import subtask
from rkhs.functionals._base import Functional, stack
from rkhs.spaces._base import FiniteSpace, Orthonormal

SOLVED = 100  # functionals whose variances are computed by solving equations; more have sampled variances
VARIANCE_TOL = 1e-5  # estimated relative error of these variances; the true one is up to a hundred times as large
SAMPLES = 50  # samples for variances: standard deviations to 10 %
COVARIANCE_TOL, SAMPLE_TOL = 1e-6, 1e-2  # relative residuals of solutions for covariances, and of samples
TOGETHER = 8  # right-hand sides that are solved together


@dataclass(frozen=True, eq=False)
class OperatorGeometry(Geometry):
    """The functions of a space on functionals, by products, and values P of the basis functions.

    `sums` are those of squared losses whose rows are not in memory.
    """

    space: FiniteSpace
    rows: Sequence[tuple[Functional, Matrix]]  # for each block, its functionals and P (N, r)
    rank: int  # r
    sums: QuadraticSums | None = None

    @property
    def summed_at_zero(self) -> Any:
        return 0.0 if self.sums is None else self.sums.bb

    @property
    def size(self) -> int:
        return sum(functional.size for functional, _ in self.rows)

    @cached_property
    def P(self) -> Matrix:
        """The values (N, r) of the basis functions."""
        return np.concatenate([np.zeros((0, self.rank)), *(P for _, P in self.rows)])

    @cached_property
    def Q(self) -> Matrix:
        return orthonormal(self.P, EPS)[0]

    @cached_property
    def functional(self) -> Functional:
        """The functionals of all blocks."""
        return stack([functional for functional, _ in self.rows])

    @cached_property
    def largest_norm(self) -> float:
        """The largest norm of a functional: the errors of products at few points are relative to it and |tau|."""
        norms = [float(np.max(to_numpy(gram(self.space.kernel, L).diagonal()), initial=0.0)) for L, _ in self.rows]
        return max(norms, default=0.0) ** 0.5

    def start(self, columns: int) -> Iterate:
        return Iterate(np.zeros((self.space.size, columns), order="F"), np.zeros((self.rank, columns)))

    def values(self, tau: Matrix, c: Matrix) -> Matrix:
        """Return u (N, k)."""
        return self.space.apply(self.functional, tau) + self.P @ c if self.rows else np.zeros((0, tau.shape[1]))

    def adjoint(self, alpha: Matrix) -> Matrix:
        """Return E'alpha (p, k)."""
        if not self.rows:
            return np.zeros((self.space.size, alpha.shape[1]))
        return self.space.adjoint(self.functional, alpha)

    @cached_property
    def summed_equations(self) -> NormalEquations:
        """The equations of squared losses whose rows are not in memory."""
        assert self.sums is not None
        return NormalEquations(self.space, self.sums, 2.0)

    def curvature(self, system: FiniteProblem, u: Matrix) -> NormalEquations:
        """Return the equations of a Newton step at values u, whose curvatures have to be the same for all outputs."""
        if self.sums is not None:
            return self.summed_equations
        curvatures = [t.weight * t.loss.curvature(u[t.rows, :1], t.target[:, :1]) for t in system.terms]
        return NormalEquations(self.space, QuadraticSums.of(self.space, self.rows, curvatures), 1.0)

    @property
    def finer(self) -> OperatorGeometry | None:
        """The geometry with more accurate products; None if there are none."""
        space = self.space.finer
        return None if space is None or self.sums is not None else replace(self, space=space)

    def point(self, system: FiniteProblem, iterate: Iterate, image: Array | None = None) -> OperatorPoint:
        return OperatorPoint(self, system, iterate)


class OperatorPoint(Point):
    """An iterate c, tau with its values u; `path` is the sum of the lengths of the changes that u was computed from.

    `shown` are the losses with whose gradients a dual point is made, such as envelopes of those of the problem.
    """

    eps = EPS

    def __init__(
        self,
        geometry: OperatorGeometry,
        system: FiniteProblem,
        iterate: Iterate,
        u: Matrix | None = None,
        path: Vector | float = 0.0,
        shown: FiniteProblem | None = None,
    ) -> None:
        self.geometry, self.system, self.iterate = geometry, system, iterate
        c, tau = iterate.basis, iterate.a
        self.u = geometry.values(tau, c) if u is None else u
        self.error = np.zeros_like(self.u)
        self.shown = system if shown is None else shown
        self.slopes = self.shown.gradient(self.u)
        # dJ/dtau = tau + E'w loss'(u),  dJ/dc = P'w loss'(u)
        self.gradient = tau + geometry.adjoint(self.slopes)
        self.basis_gradient = geometry.P.T @ self.slopes
        norm, error = dots(tau, tau) / 2, geometry.space.product_error
        self.primal = norm + system.loss(self.u)
        waves, lengths = self.u - geometry.P @ c, np.sqrt(2 * norm) * geometry.largest_norm
        sizes = sum(np.linalg.norm(values, axis=0) for values in (self.u, waves))
        missed = error * (sizes + lengths + path)  # of u, in the Euclidean norm
        change = 0.0
        for t in system.terms:  # slopes increase, so that those at both ends bound all between them
            ends = (np.abs(t.loss.gradient(self.u[t.rows] + sign * missed, t.target)) for sign in (-1, 1))
            # |J(u + e) - J(u)| <= |e| |w loss'|, by Cauchy and Schwarz
            change = change + missed * np.linalg.norm(t.weight * np.maximum(*ends), axis=0)
        self.shift = 1e3 * EPS * system.at_zero + change
        if geometry.sums is not None:
            self._add_sums(geometry.sums)

    def _add_sums(self, sums: QuadraticSums) -> None:
        """Add the squared losses whose rows are not in memory to J and the gradient."""
        c, tau = self.iterate.basis, self.iterate.a
        # 2 (E'WE tau + E'WP c - E'Wb)
        image = self.geometry.summed_equations.image(tau)
        self.gradient = self.gradient + 2 * (image + sums.EP @ c - sums.Eb)
        mixed = sums.EP.T @ tau - sums.Pb
        self.basis_gradient = self.basis_gradient + 2 * (sums.PP @ c + mixed)
        # b'Wb + tau'E'WE tau - 2 tau'E'Wb + c'(P'WP c + 2 (P'WE tau - P'Wb))
        linear = np.einsum("rk,rk->k", c, sums.PP @ c + 2 * mixed)
        losses = sums.bb + dots(tau, image) - 2 * dots(tau, sums.Eb) + linear
        self.primal = self.primal + np.clip(losses, 0.0, None)
        self.shift = self.shift + 10 * self.geometry.space.product_error * sums.bb
        self.summed = 2 * (np.sqrt(dots(image, image)) + np.sqrt(dots(sums.Eb, sums.Eb)))

    def candidates(self, quick: bool) -> Iterator[Array]:
        yield from super().candidates(quick)
        alpha, P = -self.slopes, self.geometry.P
        if self.geometry.sums is None and np.any(P.T @ alpha):
            alpha = alpha - self._balancing(alpha)
        yield alpha

    def _balancing(self, alpha: Matrix) -> Matrix:
        """Return what to subtract from alpha to make it vanish on the basis functions, in proportion to curvatures."""
        P = self.geometry.P
        if not self.system.separable:  # the corrected alpha would leave balls and cones
            return alpha - project_dual(self.system.terms, self.geometry.Q, alpha)
        H = self.shown.hessian_diagonal(self.u)
        columns = []
        for h, a in zip(H.T, alpha.T, strict=True):
            columns.append(h * (P @ np.linalg.lstsq(P.T @ (h[:, None] * P), P.T @ a, rcond=1e-13)[0]))
        return np.stack(columns, axis=1)

    def distance(self, alpha: Array, energy: Array | None = None) -> tuple[Vector, Vector]:
        """Return 1/2 |tau - E'alpha|^2, and its rounding error, for each output."""
        geometry, tau, P = self.geometry, self.iterate.a, self.geometry.P
        change = alpha + self.slopes
        # tau - E'alpha = dJ/dtau - E'(alpha + w loss'(u))
        force = self.gradient - geometry.adjoint(change) if np.any(change) else self.gradient
        sizes = [np.sqrt(dots(columns, columns)) for columns in (force, tau, force - tau)]
        error = geometry.space.product_error * (sizes[1] + (sizes[2] if geometry.sums is None else self.summed))
        rounding = error * (sizes[0] + error / 2)
        if geometry.sums is not None:  # P'alpha = g instead of 0 makes the dual value too large by g'c, about
            return sizes[0] ** 2 / 2, rounding + np.sum(np.abs(self.basis_gradient * self.iterate.basis), axis=0)
        unbalanced = np.any(np.abs(P.T @ alpha) > FEASIBLE * EPS * (np.abs(P).T @ np.abs(alpha)), axis=0)
        return np.where(unbalanced, inf, sizes[0] ** 2 / 2), rounding


@dataclass(frozen=True, eq=False)
class OperatorTerms:
    """The terms of a problem in a space that is used by products: those in memory, and sums of others."""

    space: FiniteSpace
    basis: FunctionSpace | None
    outputs: int | None
    rows: Sequence[tuple[Functional, Matrix]]
    blocks: Sequence[LossBlock]
    sums: QuadraticSums | None = None  # of squared losses whose rows are not in memory
    shares: Mapping[int, Matrix] = field(default_factory=dict)  # by the index of a term, those (N, g) of rows in groups
    hidden = 0  # the functions are orthonormal
    functions: ClassVar[Orthonormal | None] = None  # and so are those of sums
    operations: ClassVar[float] = 0.0  # until the first iteration

    @classmethod
    def of(
        cls,
        space: FiniteSpace,
        basis: FunctionSpace | None,
        terms: Sequence[Term],
        outputs: int | None,
        shares: Mapping[int, Matrix] | None = None,
    ) -> OperatorTerms:
        """Return the terms in a space."""
        rows = [(term.functional, on_basis(term.functional, basis)) for term in terms]
        return cls(space, basis, outputs, rows, [block_in_double(term, outputs) for term in terms], shares=shares or {})

    @property
    def quadratic(self) -> bool:
        """Whether all losses are squared."""
        return all(block.loss.quadratic for block in self.blocks)

    @property
    def summary(self) -> str:
        """The size of the space, and its accuracy."""
        return self.space.summary

    def may_gain_digits(self, rows: float) -> bool:
        """Return False: solvers repeat products in a higher accuracy where that helps."""
        return False

    def coefficients(self, iterate: Iterate) -> tuple[Matrix, Matrix]:
        """Return the coefficients of the functions of the space (p, c), and those of the basis functions (r, c)."""
        return iterate.a, iterate.basis

    def weighted(self, factors: Sequence[Any] | None = None) -> FiniteProblem:
        """Return the problem with a factor, or one for each group of rows, on the weights of each term.

        If all losses are squared, the variance that the space misses is added to their noise.
        """
        factors = [1.0] * len(self.blocks) if factors is None else factors
        of_rows = [self.shares[k] @ f if k in self.shares else f for k, f in enumerate(factors)]
        weights = [t.weight * np.reshape(f, (-1, 1)) for t, f in zip(self.blocks, of_rows, strict=True)]
        if self.quadratic:
            weights = [with_missing_variance(self.space, *pair) for pair in zip(self.rows, weights, strict=True)]
        blocks = [replace(t, weight=weight) for t, weight in zip(self.blocks, weights, strict=True)]
        rank = 0 if self.basis is None else self.basis.size(self.space.dimension)
        return FiniteProblem(
            OperatorGeometry(self.space, self.rows, rank, self.sums), consecutive(blocks), self.outputs
        )

    def covariance(self, system: FiniteProblem) -> OperatorCovariance:
        """Return the covariance of any functionals; all losses must be squared."""
        weights = [t.weight for t in system.terms]
        return OperatorCovariance(self.space, self.basis, self.rows, weights, self.blocks, self.outputs)


def with_missing_variance(space: FiniteSpace, rows: tuple[Functional, Matrix], weight: Matrix) -> Matrix:
    """Return weights (N, 1) of squared losses with the variance outside of the space added to the noise 1 / (2 w)."""
    # 1 / (2 w') = 1 / (2 w) + variance outside of the space
    return weight / (1 + 2 * weight * space.missing(rows[0])[:, None])


@dataclass(frozen=True, eq=False)
class OperatorCovariance:
    """The covariance of any functionals given squared losses, in a space that is used by products.

    It is  L (diag(0, I) + 2 [P E]'W[P E])^-1 L'.  For up to `SOLVED` functionals the equations are solved until the
    variances have the relative accuracy `VARIANCE_TOL`.  For more, the variances are means of squares over samples z of
    f, which take one solution each:

        (diag(0, I) + 2 [P E]'W[P E]) z = (0, g) + 2 [P E]'W e,        g ~ N(0, I),  e_i ~ N(0, 1 / (2 w_i))

    (Papandreou and Yuille 2010, Gaussian sampling by local perturbations).  With `SAMPLES` of them standard deviations
    have a relative error of 1 / sqrt(2 SAMPLES).  Samples have at most `Limits.sampled_functions` functions, and the
    variance of those that are missing is added: a coarser space changes variances much less than the mean.
    """

    space: FiniteSpace
    basis: FunctionSpace | None
    rows: Sequence[tuple[Functional, Matrix]]
    weights: Sequence[Matrix]  # (N, 1), with the variance that the space misses
    blocks: Sequence[LossBlock]  # with the weights of the problem
    outputs: int | None

    @cached_property
    def curvature(self) -> NormalEquations:
        """The equations of the posterior."""
        return NormalEquations(self.space, QuadraticSums.of(self.space, self.rows, self.weights), 2.0)

    @property
    def degrees_of_freedom(self) -> int:
        """The degrees of freedom N - r, without terms whose targets are all zero."""
        positive = np.concatenate([t.weight[:, 0] > 0 for t in self.blocks])
        P = np.concatenate([P for _, P in self.rows])
        priors = np.zeros(len(P), dtype=bool)
        priors[prior_rows(consecutive(self.blocks))] = True
        return degrees_of_freedom(P[positive], np.flatnonzero(priors[positive]))

    def variance(self, M: Functional) -> Vector:
        """Return the variances (m,), infinite where M depends on a basis function that no row determines."""
        P = on_basis(M, self.basis)
        if M.size <= SOLVED:
            parts = self._in_blocks(M, P, lambda Pb, Eb: self.curvature.quadratic_forms(Pb, Eb, VARIANCE_TOL))
            variances = np.concatenate([np.zeros(0), *parts]) + self.space.missing(M)
        else:
            space, c, tau = self.samples
            variances = np.mean((space.apply(M, tau) + P @ c) ** 2, axis=1) + space.missing(M)
        # P - P (P'WP)^+ P'WP: the part of the basis that no row determines
        missed = P - P @ (self.curvature.basis_inverse @ self.curvature.sums.PP)
        undetermined = np.any(np.abs(missed) > 1e-6 * np.max(np.abs(P), initial=0.0, axis=1, keepdims=True), axis=1)
        return np.where(undetermined, inf, variances)

    def covariance(self, L: Functional, M: Functional | None = None) -> Matrix:
        """Return the covariances (l, m); those of L, (l, l), without M."""
        P, right = on_basis(L, self.basis), L if M is None else M

        def columns(Pb: Matrix, Eb: Matrix) -> Matrix:
            c, tau = self.curvature.solve(Pb, Eb, COVARIANCE_TOL)
            return self.space.apply(L, tau) + P @ c

        blocks = self._in_blocks(right, on_basis(right, self.basis), columns)
        result = np.concatenate([np.zeros((L.size, 0)), *blocks], axis=1)
        return (result + result.T) / 2 if M is None else result

    def _in_blocks(self, M: Functional, P: Matrix, compute: Callable[[Matrix, Matrix], Array]) -> list[Array]:
        """Return what is computed for the functionals of M as right-hand sides, a few of them at a time."""
        found = []
        for start in range(0, M.size, TOGETHER):
            unit = np.eye(M.size)[:, start : start + TOGETHER]
            with subtask(start // TOGETHER, -(-M.size // TOGETHER)):
                found.append(compute(P.T @ unit, self.space.adjoint(M, unit)))
        return found

    @cached_property
    def samples(self) -> tuple[FiniteSpace, Matrix, Matrix]:
        """A space, and samples c (r, s) and tau (p, s) of f minus its mean in it."""
        random, r = np.random.default_rng(0), self.rows[0][1].shape[1]
        space = self.space.coarser(limits().sampled_functions, [functional for functional, _ in self.rows])
        weights = [with_missing_variance(space, rows, t.weight) for rows, t in zip(self.rows, self.blocks, strict=True)]
        curvature = NormalEquations(space, QuadraticSums.of(space, self.rows, weights), 2.0)
        found = []
        for start in range(0, SAMPLES, TOGETHER):
            count = min(TOGETHER, SAMPLES - start)
            Pb, Eb = np.zeros((r, count)), random.standard_normal((count, space.size)).T
            for (functional, P), weight in zip(self.rows, weights, strict=True):
                # 2 W e = sqrt(2 W) n with n ~ N(0, I)
                noise = np.sqrt(2 * weight) * random.standard_normal((functional.size, count))
                Pb += P.T @ noise
                Eb = Eb + space.adjoint(functional, noise)
            with subtask(start // TOGETHER, -(-SAMPLES // TOGETHER)):
                found.append(curvature.solve(Pb, Eb, SAMPLE_TOL))
        return space, np.concatenate([c for c, _ in found], axis=1), np.concatenate([tau for _, tau in found], axis=1)
