"""Posterior covariances on a Fourier grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._progress import subtask
from rkhs._spaces.fourier_grid import FourierGrid, FourierGridSpace
from rkhs._spaces.toeplitz import Grid
from rkhs.functionals._base import Functional
from rkhs.solvers._spectral_equations import NormalEquations, QuadraticSums, TermRows, with_missing_variance

EXACT = 100  # functionals whose variances are computed by solving equations; more have sampled variances
VARIANCE_TOL = 1e-5  # estimated relative error of these variances; the true one is up to a hundred times as large
SAMPLES = 50  # samples for variances: standard deviations to 10 %
EXACT_TOL, SAMPLE_TOL = 1e-6, 1e-2  # relative residuals of solutions for covariances, and of samples
BLOCK = 8  # right-hand sides that are solved together
COARSE = 2**16  # largest number of frequencies of samples


@dataclass(frozen=True, eq=False)
class SpectralCovariance:
    """The covariance of any functionals given squared losses on a Fourier grid.

    It is  L (diag(0, I) + 2 [P E]'W[P E])^-1 L'.  For up to `EXACT` functionals the equations are solved until the
    variances have the relative accuracy `VARIANCE_TOL`.  For more, the variances are means of squares over samples z of
    f, which take one solution each:

        (diag(0, I) + 2 [P E]'W[P E]) z = (0, g) + 2 [P E]'W e,        g ~ N(0, I),  e_i ~ N(0, 1 / (2 w_i))

    (Papandreou and Yuille 2010, Gaussian sampling by local perturbations).  With `SAMPLES` of them standard deviations
    have a relative error of 1 / sqrt(2 SAMPLES).  Samples have at most `COARSE` frequencies, and the variance of those
    that are missing is added: a coarser grid changes variances much less than the mean.
    """

    space: FourierGridSpace
    basis: FunctionSpace | None
    curvature: NormalEquations
    rows: Sequence[TermRows]  # with the weights of the problem
    outputs: int | None

    @property
    def degrees_of_freedom(self) -> int:
        """The degrees of freedom N - r, without terms whose targets are all zero."""
        priors = [one for one in self.rows if not np.any(one.block.target)]
        count = sum(int(np.sum(one.block.weight > 0)) for one in self.rows if np.any(one.block.target))
        return count - _rank(self.rows) + _rank(priors)

    def variance(self, M: Functional) -> Vector:
        """Return the variances (m,), infinite where M depends on a basis function that no row determines."""
        P = on_basis(M, self.basis)
        if M.size <= EXACT:
            parts = self._in_blocks(M, P, lambda Pb, Eb: self.curvature.quadratic_forms(Pb, Eb, VARIANCE_TOL))
            variances = np.concatenate([np.zeros(0), *parts]) + self.space.missing(M)
        else:
            space, c, tau = self.samples
            variances = np.mean((space.apply(M, space.columns(tau)) + P @ c) ** 2, axis=1) + space.missing(M)
        missed = P - P @ (self.curvature.basis_inverse @ self.curvature.sums.PP)
        undetermined = np.any(np.abs(missed) > 1e-6 * np.max(np.abs(P), initial=0.0, axis=1, keepdims=True), axis=1)
        return np.where(undetermined, inf, variances)

    def covariance(self, M: Functional) -> Matrix:
        """Return the covariances (m, m)."""
        P = on_basis(M, self.basis)

        def columns(Pb: Matrix, Eb: Grid) -> Matrix:
            c, tau = self.curvature.solve(Pb, Eb, EXACT_TOL)
            return self.space.apply(M, self.space.columns(tau)) + P @ c

        result = np.concatenate([np.zeros((M.size, 0)), *self._in_blocks(M, P, columns)], axis=1)
        return (result + result.T) / 2

    def _in_blocks(self, M: Functional, P: Matrix, compute: Callable[[Matrix, Grid], Array]) -> list[Array]:
        """Return what is computed for the functionals of M as right-hand sides, a few of them at a time."""
        found = []
        for start in range(0, M.size, BLOCK):
            unit = np.eye(M.size)[:, start : start + BLOCK]
            with subtask(start // BLOCK, -(-M.size // BLOCK)):
                found.append(compute(P.T @ unit, self.space.adjoint(M, unit)))
        return found

    @cached_property
    def samples(self) -> tuple[FourierGridSpace, Matrix, Grid]:
        """A space, and samples c (r, s) and tau (s, ..) of f minus its mean in it."""
        space, random = self.space, np.random.default_rng(0)
        if space.size > COARSE:
            coarse = FourierGrid(modes=COARSE, box=space.box)
            space = coarse.choose(space.kernel, [one.functional for one in self.rows])
        rows = [with_missing_variance(space, one) for one in self.rows]
        curvature = NormalEquations(space, QuadraticSums.of(space, rows), 2.0)
        found = []
        for start in range(0, SAMPLES, BLOCK):
            count = min(BLOCK, SAMPLES - start)
            Pb, Eb = np.zeros((len(curvature.sums.PP), count)), random.standard_normal((count, *space.shape))
            for one in rows:
                noise = np.sqrt(2 * one.block.weight) * random.standard_normal((one.functional.size, count))
                Pb += one.P.T @ noise
                Eb += space.adjoint(one.functional, noise)
            with subtask(start // BLOCK, -(-SAMPLES // BLOCK)):
                found.append(curvature.solve(Pb, Eb, SAMPLE_TOL))
        return space, np.concatenate([c for c, _ in found], axis=1), np.concatenate([tau for _, tau in found])


def _rank(rows: Sequence[TermRows]) -> int:
    """Return the number of basis functions that are independent on some rows."""
    total = sum((one.P.T @ one.P for one in rows[1:]), rows[0].P.T @ rows[0].P) if rows else np.zeros((0, 0))
    return int(np.linalg.matrix_rank(total, hermitian=True)) if np.size(total) else 0
