"""Sums over the rows of squared losses in an orthonormal space, and the equations of a Newton step, by products alone.

With theta = (c, tau), and u = Pc + E tau for basis functions P and the functions of the space E, the equations are

    (diag(0, I) + [P E]'H[P E]) theta = right-hand side,        H = diag(w loss'')

They are solved by conjugate gradients.  If these are slow, the functions with the largest entries on the diagonal,
which cause the ill-conditioning because all others hardly differ from the identity, are solved exactly within the
preconditioner (`NormalEquations.leading_block`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import Matrix, Vector
from rkhs._core.limits import limits
from rkhs._core.progress import report_progress
from rkhs.functionals._base import Functional
from rkhs.spaces._base import FiniteSpace

ITERATIONS = 5_000  # of conjugate gradients
BLOCK = 2_000  # functions of the leading block: 32 MB, and half a second on one core
REGULARIZATION = 1e-12, 1e-9, 1e-6  # of the leading block, relative to its mean diagonal entry
STAGNATION = 500  # iterations without a smaller residual after which conjugate gradients stop
SINGULAR = 1e-13  # relative size of eigenvalues of P'WP that belong to undetermined basis functions
TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class QuadraticSums:
    """Sums over the rows of quadratic losses: [P E]'W[P E], [P E]'Wb and b'Wb; `+` adds two blocks of data."""

    summed: tuple[Any, ...]  # the sums of families from which products follow without a pass over their rows
    others: tuple[tuple[Functional, Vector], ...]  # families without such sums, which are kept with their weights
    PP: Matrix  # (r, r)
    EP: Matrix  # (p, r)
    Pb: Matrix  # (r, c)
    Eb: Matrix  # (p, c)
    bb: Vector  # (c,)

    @classmethod
    def of(
        cls,
        space: FiniteSpace,
        rows: Sequence[tuple[Functional, Matrix]],
        weights: Sequence[Matrix],
        targets: Sequence[Matrix] | None = None,
    ) -> QuadraticSums:
        """Return the sums of families with values P (N, r), for weights (N, 1) and perhaps targets (N, c) of each."""
        known: list[Any] = []
        targets = [weight[:, :0] for weight in weights] if targets is None else targets
        summed, others, total = [], [], None
        for (functional, P), weight, target in zip(rows, weights, targets, strict=True):
            sums = space.summed(functional, weight[:, 0], known)
            if sums is None:
                others.append((functional, weight[:, 0]))
            else:
                summed.append(sums)
            joined = space.adjoint(functional, np.concatenate([P, target], axis=1) * weight)
            r, weighted = P.shape[1], weight * target
            parts = (P.T @ (weight * P), joined[:, :r], P.T @ weighted, joined[:, r:], np.sum(weighted * target, 0))
            total = parts if total is None else tuple(a + b for a, b in zip(total, parts, strict=True))
        assert total is not None
        return cls(tuple(summed), tuple(others), *total)

    def __add__(self, other: QuadraticSums) -> QuadraticSums:
        if self.others or other.others:
            raise ValueError(
                "Functionals that combine several points cannot be added up over blocks on a Fourier grid: use arrays, "
                "or rkhs.Landmarks."
            )
        summed = tuple(a + b for a, b in zip(self.summed, other.summed, strict=True))
        names = ("PP", "EP", "Pb", "Eb", "bb")
        return QuadraticSums(summed, (), *(getattr(self, name) + getattr(other, name) for name in names))


class NormalEquations:
    """The matrix diag(0, I) + factor [P E]'W[P E] of theta = (c, tau), and the solution of its equations.

    Eliminating c leaves  I + factor (E'WE - E'WP (P'WP)^-1 P'WE)  for tau, whose eigenvalues are at least one.
    """

    def __init__(self, space: FiniteSpace, sums: QuadraticSums, factor: float) -> None:
        self.space, self.sums, self.factor = space, sums, factor
        self.summed: Any = space.normal_of(sums.summed) if sums.summed else None

    @cached_property
    def basis_inverse(self) -> Matrix:
        """The inverse (r, r) of P'WP, on the basis functions that the rows determine."""
        size = np.sqrt(np.maximum(np.diag(self.sums.PP), TINY))
        scale = np.outer(size, size)
        return np.linalg.pinv(self.sums.PP / scale, rcond=SINGULAR, hermitian=True) / scale

    def image(self, tau: Matrix) -> Matrix:
        """Return E'WE tau (p, k): of families with sums without their rows, and of others by products with E and E'."""
        result = np.zeros_like(tau) if self.summed is None else self.summed @ tau
        for functional, weight in self.sums.others:
            result = result + self.space.adjoint(functional, weight[:, None] * self.space.apply(functional, tau))
        return result

    def product(self, tau: Matrix) -> Matrix:
        """Return the product with tau (p, k), after c is eliminated."""
        # (I + factor (E'WE - E'WP (P'WP)^-1 P'WE)) tau
        image = self.image(tau)
        if len(self.basis_inverse):
            image = image - self.sums.EP @ (self.basis_inverse @ (self.sums.EP.T @ tau))
        return tau + self.factor * image

    def basis_given(self, Pb: Matrix, tau: Matrix) -> Matrix:
        """Return the c of the equations with the right-hand side Pb (r, k), given tau."""
        # P'WP c = Pb / factor - P'WE tau
        right = Pb / self.factor - self.sums.EP.T @ tau
        c = self.basis_inverse @ right
        return c + self.basis_inverse @ (right - self.sums.PP @ c)  # one step of iterative refinement

    def solve(self, Pb: Matrix, Eb: Matrix, tol: float, iterations: int = ITERATIONS) -> tuple[Matrix, Matrix]:
        """Return the solution (c, tau) for right-hand sides (r, k) and (p, k), to a relative residual."""
        tau, _ = self._conjugate_gradients(self._eliminated(Pb, Eb), tol, iterations)
        return self.basis_given(Pb, tau), tau

    def quadratic_forms(self, Pb: Matrix, Eb: Matrix, tol: float) -> Vector:
        """Return b'A^-1 b (k,) for the matrix A and b of columns (r, k) and (p, k), to an estimated relative error.

        An approximate solution x with the residual r has x'(b + r) = b'A^-1 b - r'A^-1 r.  The error is at most |r|^2,
        because all eigenvalues are at least one, and it is estimated with the preconditioner in place of A.  It is
        quadratic in r, so that it takes far fewer iterations than an accurate solution.
        """
        b = self._eliminated(Pb, Eb)
        x, r = self._conjugate_gradients(b, tol, ITERATIONS, of_forms=True)
        # Pb'(factor P'WP)^-1 Pb, and x'(b + r) for the Schur complement of tau
        return np.einsum("rk,rk->k", Pb, self.basis_inverse @ Pb) / self.factor + dots(x, b + r)

    def _eliminated(self, Pb: Matrix, Eb: Matrix) -> Matrix:
        """Return the right-hand sides of the equations for tau."""
        return Eb - self.sums.EP @ (self.basis_inverse @ Pb) if len(Pb) else Eb

    @cached_property
    def inverse_diagonal(self) -> Matrix:
        """The inverse (p, 1) of an approximate diagonal."""
        diagonal = np.zeros(self.space.size) if self.summed is None else self.summed.diagonal
        return 1 / (1 + self.factor * diagonal[:, None])

    @cached_property
    def leading_block(self) -> tuple[Vector, Matrix]:
        """The functions with the largest entries on the diagonal, and the Cholesky factor of their block."""
        leading = self.summed.leading(BLOCK)
        # I + factor (E'WE - E'WP (P'WP)^-1 P'WE) on the functions of the block
        block = np.eye(len(leading)) + self.factor * self.summed.block(leading)
        if len(self.basis_inverse) and not self.sums.others:  # otherwise it might be indefinite
            EP = self.sums.EP[leading]
            block -= self.factor * EP @ (self.basis_inverse @ EP.T)
        # Transforms have errors, so that the smallest eigenvalues may be negative if the weights are far apart.
        mean, diagonal = float(np.trace(block)) / max(len(leading), 1), np.arange(len(leading))
        for share in REGULARIZATION:
            block[diagonal, diagonal] += share * mean
            with suppress(np.linalg.LinAlgError):
                return leading, scipy.linalg.cholesky(block, lower=True, check_finite=False)
        return leading, np.diag(np.sqrt(np.diag(block)))

    def _conjugate_gradients(
        self, b: Matrix, tol: float, iterations: int, of_forms: bool = False
    ) -> tuple[Matrix, Matrix]:
        """Return x and r = b - product(x) for columns b (p, k), each to a relative residual, or error of b'x."""
        b = np.asfortranarray(b)  # columns are contiguous, and so are those of all vectors that are computed from them
        x, r = np.zeros_like(b), b.copy(order="K")
        z = self._preconditioned(r, 0)
        p, size = z.copy(order="K"), dots(r, z)
        first = np.maximum(size if of_forms else dots(b, b), TINY)
        smallest, since = np.full(b.shape[1], np.inf), 0
        for k in range(iterations if b.shape[1] else 0):
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
            # length = r'z / p'Ap  (Hestenes and Stiefel 1952)
            length = np.where(active & (curvature > 0), size / np.maximum(curvature, TINY), 0.0)
            x += length * p
            r -= length * image
            # p = z + (r'z / r'z before) p
            z = self._preconditioned(r, k + 1)
            new = dots(r, z)
            # A new preconditioner starts the method again.
            p = z if k + 1 == limits().plain_iterations else z + new / np.maximum(size, TINY) * p
            size = new
        return x, r

    def _preconditioned(self, r: Matrix, iteration: int) -> Matrix:
        z = self.inverse_diagonal * r
        if iteration >= limits().plain_iterations and self.sums.summed:
            leading, factor = self.leading_block
            z[leading] = scipy.linalg.cho_solve((factor, True), r[leading], check_finite=False)
        return z


def dots(a: Matrix, b: Matrix) -> Vector:
    """Return the inner products of the columns with the same index."""
    return np.array([np.vdot(x, y) for x, y in zip(a.T, b.T, strict=True)]) if a.shape[1] else np.zeros(0)


def _fraction(first: Vector, error: Vector, enough: Vector) -> float:
    """Return the least completed fraction of equations (k,), on the scale of the logarithm of their errors."""
    if np.any((error > enough) & ~((enough > 0) & (enough < first))):
        return 0.0
    active = error > enough
    done = np.log(first[active] / error[active]) / np.log(first[active] / enough[active])
    return float(np.clip(np.min(done, initial=1.0), 0.0, 1.0))
