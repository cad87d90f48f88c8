"""Sums over the rows of squared losses on a Fourier grid, and the solution of their equations.

With theta = (c, tau), and u = Pc + E tau for basis functions P and waves E, the equations of a Newton step are

    (diag(0, I) + [P E]'H[P E]) theta = right-hand side,        H = diag(w loss'')

They are solved by conjugate gradients.  If these are slow, the frequencies with the largest entries on the diagonal,
which cause the ill-conditioning because all others hardly differ from the identity, are solved exactly within the
preconditioner (`LeadingBlock`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix, Vector
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._finite.problem import LossBlock
from rkhs._finite.representers import block_in_double
from rkhs._finite.term import Term
from rkhs._progress import report_progress
from rkhs._spaces.fourier_grid import FourierGridSpace
from rkhs._spaces.toeplitz import Grid, Normal, ToeplitzSums
from rkhs.functionals._base import Functional

ITERATIONS = 5_000  # of conjugate gradients
PLAIN = 100  # iterations after which the preconditioner gets a leading block
BLOCK = 2_000  # frequencies of the leading block: 32 MB, and half a second on one core
REGULARIZATION = 1e-12, 1e-9, 1e-6  # of the leading block, relative to its mean diagonal entry
STAGNATION = 500  # iterations without a smaller residual after which conjugate gradients stop
RANK_TOL = 1e-13  # relative size of eigenvalues of P'WP that belong to undetermined basis functions
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class TermRows:
    """The functionals of a term in memory, with their losses, and their values P (N, r) on the basis functions."""

    functional: Functional
    block: LossBlock
    P: Matrix

    @classmethod
    def of(cls, term: Term, basis: FunctionSpace | None, outputs: int | None) -> TermRows:
        """Return the rows of a term."""
        return cls(term.functional, block_in_double(term, outputs), on_basis(term.functional, basis))

    def changed(self, **changes: Any) -> TermRows:
        """Return the rows with another loss, other targets or other weights."""
        return replace(self, block=replace(self.block, **changes))


def with_missing_variance(space: FourierGridSpace, rows: TermRows) -> TermRows:
    """Return the rows of a squared loss with the variance of missing frequencies added to the noise 1 / (2 w)."""
    missing, weight = space.missing(rows.functional)[:, None], rows.block.weight
    return rows.changed(weight=weight / (1 + 2 * weight * missing))


@dataclass(frozen=True, eq=False)
class QuadraticSums:
    """Sums over the rows of quadratic losses: [P E]'W[P E], [P E]'Wb and b'Wb; `+` adds two blocks of data."""

    toeplitz: tuple[ToeplitzSums, ...]
    others: tuple[tuple[Functional, Vector], ...]  # families that combine several points, which are kept
    PP: Matrix  # (r, r)
    EP: Grid  # (r, ..) grids
    Pb: Matrix  # (r, c)
    Eb: Grid  # (c, ..) grids
    bb: Vector  # (c,)

    @classmethod
    def of(cls, space: FourierGridSpace, rows: Sequence[TermRows]) -> QuadraticSums:
        """Return the sums of terms in memory."""
        known: list[Any] = []
        toeplitz, others, total = [], [], None
        for one in rows:
            weight, target, P = one.block.weight[:, 0], one.block.target, one.P
            sums = ToeplitzSums.of(space, one.functional, weight, known)
            if sums is None:
                others.append((one.functional, weight))
            else:
                toeplitz.append(sums)
            joined = space.adjoint(one.functional, np.concatenate([P, target], axis=1) * weight[:, None])
            r, weighted = P.shape[1], weight[:, None] * target
            parts = (P.T @ (weight[:, None] * P), joined[:r], P.T @ weighted, joined[r:], np.sum(weighted * target, 0))
            total = parts if total is None else tuple(a + b for a, b in zip(total, parts, strict=True))
        assert total is not None
        return cls(tuple(toeplitz), tuple(others), *total)

    def __add__(self, other: QuadraticSums) -> QuadraticSums:
        if self.others or other.others:
            raise ValueError(
                "Functionals that combine several points cannot be added up over blocks on a Fourier grid: use arrays, "
                "or rkhs.Landmarks."
            )
        toeplitz = tuple(a + b for a, b in zip(self.toeplitz, other.toeplitz, strict=True))
        names = ("PP", "EP", "Pb", "Eb", "bb")
        return QuadraticSums(toeplitz, (), *(getattr(self, name) + getattr(other, name) for name in names))


class NormalEquations:
    """The matrix diag(0, I) + factor [P E]'W[P E] of theta = (c, tau), and the solution of its equations.

    Eliminating c leaves  I + factor (E'WE - E'WP (P'WP)^-1 P'WE)  for tau, whose eigenvalues are at least one.
    """

    def __init__(self, space: FourierGridSpace, sums: QuadraticSums, factor: float) -> None:
        self.space, self.sums, self.factor = space, sums, factor
        self.normal = Normal(space, sums.toeplitz, sums.others)
        self.inverse_diagonal = 1 / (1 + factor * self.normal.diagonal)

    @cached_property
    def basis_inverse(self) -> Matrix:
        """The inverse (r, r) of P'WP, on the basis functions that the rows determine."""
        size = np.sqrt(np.maximum(np.diag(self.sums.PP), TINY))
        scale = np.outer(size, size)
        return np.linalg.pinv(self.sums.PP / scale, rcond=RANK_TOL, hermitian=True) / scale

    def product(self, tau: Grid) -> Grid:
        """Return the product with grids, after c is eliminated."""
        image = self.normal.on_grids(tau)
        if len(self.basis_inverse):
            image = image - self._mixed(self.basis_inverse @ inner(self.sums.EP, tau))
        return tau + self.factor * image

    def _mixed(self, c: Matrix) -> Grid:
        """Return E'WP c for coefficients (r, k)."""
        return np.tensordot(c.T, self.sums.EP, axes=1)

    def basis_given(self, Pb: Matrix, tau: Grid) -> Matrix:
        """Return the c of the equations with the right-hand side Pb (r, k), given tau."""
        return self.basis_inverse @ (Pb / self.factor - inner(self.sums.EP, tau))

    def solve(self, Pb: Matrix, Eb: Grid, tol: float, iterations: int = ITERATIONS) -> tuple[Matrix, Grid]:
        """Return the solution (c, tau) for right-hand sides (r, k) and (k, ..), to a relative residual."""
        tau, _ = self._conjugate_gradients(self._eliminated(Pb, Eb), tol, iterations)
        return self.basis_given(Pb, tau), tau

    def quadratic_forms(self, Pb: Matrix, Eb: Grid, tol: float) -> Vector:
        """Return b'A^-1 b (k,) for the matrix A and b of columns (r, k) and (k, ..), to an estimated relative error.

        An approximate solution x with the residual r has x'(b + r) = b'A^-1 b - r'A^-1 r.  The error is at most |r|^2,
        because all eigenvalues are at least one, and it is estimated with the preconditioner in place of A.  It is
        quadratic in r, so that it takes far fewer iterations than an accurate solution.
        """
        b = self._eliminated(Pb, Eb)
        x, r = self._conjugate_gradients(b, tol, ITERATIONS, of_forms=True)
        return np.einsum("rk,rk->k", Pb, self.basis_inverse @ Pb) / self.factor + dots(x, b + r)

    def _eliminated(self, Pb: Matrix, Eb: Grid) -> Grid:
        """Return the right-hand sides of the equations for tau."""
        return Eb - self._mixed(self.basis_inverse @ Pb) if len(Pb) else Eb

    @cached_property
    def leading_block(self) -> LeadingBlock:
        """The block of the matrix on the frequencies with the largest entries on the diagonal."""
        return LeadingBlock.of(self)

    def _conjugate_gradients(self, b: Grid, tol: float, iterations: int, of_forms: bool = False) -> tuple[Grid, Grid]:
        """Return x and r = b - product(x) for grids b (k, ..), each to a relative residual, or error of b'x."""
        x, r = np.zeros_like(b), b.copy()
        z = self._preconditioned(r, 0)
        p, size = z.copy(), dots(r, z)
        first = np.maximum(size if of_forms else dots(b, b), TINY)
        smallest, since = np.full(len(b), np.inf), 0
        for k in range(iterations if len(b) else 0):
            residual = dots(r, r)
            error, enough = (size, tol * dots(x, b + r)) if of_forms else (residual, tol**2 * first)
            active = error > enough
            since = 0 if np.any(residual < 0.5 * smallest) else since + 1
            smallest = np.where(residual < 0.5 * smallest, residual, smallest)
            if not np.any(active) or since > STAGNATION:
                break
            report_progress(_fraction(first, error, enough))
            image = self.product(p)
            curvature = dots(p, image)
            if not np.any(active & (curvature > 0)):  # rounding errors of the transforms make the matrix indefinite
                break
            length = _spread(np.where(active & (curvature > 0), size / np.maximum(curvature, TINY), 0.0), b)
            x += length * p
            r -= length * image
            z = self._preconditioned(r, k + 1)
            new = dots(r, z)
            # A new preconditioner starts the method again.
            p = z if k + 1 == PLAIN else z + _spread(new / np.maximum(size, TINY), b) * p
            size = new
        return x, r

    def _preconditioned(self, r: Grid, iteration: int) -> Grid:
        z = self.inverse_diagonal * r
        return z if iteration < PLAIN or not self.sums.toeplitz else self.leading_block.solve(r, z)


@dataclass(frozen=True, eq=False)
class LeadingBlock:
    """The Cholesky factor of the block of a `NormalEquations` on some frequencies, as indices of flattened grids."""

    indices: Vector
    factor: Matrix

    @classmethod
    def of(cls, curvature: NormalEquations) -> LeadingBlock:
        """Return the block of at most `BLOCK` frequencies, which contains -j with every j."""
        size = curvature.normal.diagonal.ravel()
        size = np.maximum(size, size[::-1])
        indices = (
            np.arange(len(size)) if len(size) <= BLOCK else np.flatnonzero(size > np.partition(size, -BLOCK)[-BLOCK])
        )
        block = np.eye(len(indices)) + curvature.factor * curvature.normal.block(indices)
        if len(curvature.basis_inverse) and not curvature.sums.others:  # otherwise it might be indefinite
            EP = curvature.sums.EP.reshape(len(curvature.sums.EP), -1)[:, indices]
            block -= curvature.factor * EP.T @ (curvature.basis_inverse @ EP)
        # Transforms have errors, so that the smallest eigenvalues may be negative if the weights are far apart.
        mean, diagonal = float(np.trace(block)) / max(len(indices), 1), np.arange(len(indices))
        for share in REGULARIZATION:
            block[diagonal, diagonal] += share * mean
            with suppress(np.linalg.LinAlgError):
                return cls(indices, scipy.linalg.cholesky(block, lower=True, check_finite=False))
        return cls(indices, np.diag(np.sqrt(np.diag(block))))

    def solve(self, r: Grid, z: Grid) -> Grid:
        """Return z with the solutions for the residuals r in place of its values at the frequencies of the block."""
        flat = r.reshape(len(r), -1)
        z.reshape(len(r), -1)[:, self.indices] = scipy.linalg.cho_solve(
            (self.factor, True), flat[:, self.indices].T, check_finite=False
        ).T
        return z


def dots(a: Grid, b: Grid) -> Vector:
    """Return the inner products of grids (k, ..) with the same index."""
    return np.array([np.vdot(x, y) for x, y in zip(a, b, strict=True)]) if len(a) else np.zeros(0)


def inner(a: Grid, b: Grid) -> Matrix:
    """Return the inner products of all pairs of grids (r, ..) and (k, ..)."""
    return np.tensordot(a, b, axes=(range(1, a.ndim), range(1, b.ndim)))


def _spread(values: Vector, grids: Grid) -> Grid:
    """Return one number for each grid in a shape that broadcasts."""
    return values.reshape(-1, *(1 for _ in grids.shape[1:]))


def _fraction(first: Vector, error: Vector, enough: Vector) -> float:
    """Return the least completed fraction of equations (k,), on the scale of the logarithm of their errors."""
    if np.any((error > enough) & ~((enough > 0) & (enough < first))):
        return 0.0
    active = error > enough
    done = np.log(first[active] / error[active]) / np.log(first[active] / enough[active])
    return float(np.clip(np.min(done, initial=1.0), 0.0, 1.0))
