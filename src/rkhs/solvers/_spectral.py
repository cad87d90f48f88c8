"""Problems on a Fourier grid: conjugate gradients for squared losses, and Newton's method around them for others.

With theta = (c, tau), u = Pc + E tau for basis functions P and waves E, and any number of outputs,

    J(theta) = 1/2 |tau|^2 + sum_i w_i loss_i(u_i; b_i)

A Newton step solves  (diag(0, I) + [P E]'H[P E]) step = -gradient  with H = diag(w loss''), whose products are FFTs
(`Normal`).  For squared losses H = 2w, and one step from zero is the solution: the rows enter by their sums alone,
which can be added up over blocks (`QuadraticSums`).  Losses that are not smooth are replaced by their Moreau envelopes,
whose width falls until the gap of the original losses is within the tolerance.

The gap of theta is that to alpha = -w loss'(u), made feasible:

    gap = 1/2 |tau - E'alpha|^2 + sum_i w_i excess_i,        P'alpha = 0

over all functions of the grid; for squared losses it is 1/2 |gradient|^2, because c is optimal given tau.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import EPS, Matrix, Vector, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.certificate import FEASIBLE, NOTHING, Certificate, excess
from rkhs._finite.monitor import Monitor
from rkhs._finite.problem import LossBlock
from rkhs._finite.term import Term
from rkhs._spaces.fourier_grid import FourierGridSpace, Grid
from rkhs._spaces.toeplitz import Normal, ToeplitzSums
from rkhs.functionals._base import Functional
from rkhs.losses import Squared

ITERATIONS, INNER = 20_000, 500  # of conjugate gradients, and of those within a step of Newton's method
STEPS = 200  # of Newton's method for one width
NARROWER = 0.1  # factor from one width of the envelopes to the next
WIDTHS = 13  # the first one is that of the residuals of f = 0
RANK_TOL = 1e-13  # relative size of eigenvalues of P'WP that belong to undetermined basis functions


@dataclass(frozen=True, eq=False)
class Rows:
    """The functionals of a term in memory, with their losses, and their values P (N, r) on the basis functions."""

    functional: Functional
    block: LossBlock
    P: Matrix

    @classmethod
    def of(cls, term: Term, basis: FunctionSpace | None, outputs: int | None) -> Rows:
        """Return the rows of a term."""
        target = to_numpy(term.target).astype(np.float64).reshape(term.size, -1)
        target = np.broadcast_to(target, (term.size, outputs or 1))
        weight = to_numpy(term.weights()).astype(np.float64).reshape(-1, 1)
        P = np.zeros((term.size, 0)) if basis is None else to_numpy(term.functional.assemble(basis.on))
        return cls(term.functional, LossBlock(slice(0, term.size), term.loss, target, weight), P.astype(np.float64))


def with_missing_variance(space: FourierGridSpace, rows: Rows) -> Rows:
    """Return the rows of a squared loss with the variance of missing frequencies added to the noise 1 / (2 w)."""
    missing, weight = space.missing(rows.functional)[:, None], rows.block.weight
    return replace(rows, block=replace(rows.block, weight=weight / (1 + 2 * weight * missing)))


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
    def of(cls, space: FourierGridSpace, rows: Sequence[Rows]) -> QuadraticSums:
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


class Curvature:
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
        size = np.sqrt(np.maximum(np.diag(self.sums.PP), np.finfo(float).tiny))
        return np.linalg.pinv(self.sums.PP / np.outer(size, size), rcond=RANK_TOL, hermitian=True) / np.outer(
            size, size
        )

    def product(self, tau: Grid) -> Grid:
        """Return the product with grids, after c is eliminated."""
        image = self.normal.on_grids(tau)
        if len(self.basis_inverse):
            image = image - self._mixed(self.basis_inverse @ _inner(self.sums.EP, tau))
        return tau + self.factor * image

    def _mixed(self, c: Matrix) -> Grid:
        """Return E'WP c for coefficients (r, k)."""
        return np.tensordot(c.T, self.sums.EP, axes=1)

    def basis_given(self, Pb: Matrix, tau: Grid) -> Matrix:
        """Return the c of the equations with the right-hand side Pb (r, k), given tau."""
        return self.basis_inverse @ (Pb / self.factor - _inner(self.sums.EP, tau))

    def solve(
        self, Pb: Matrix, Eb: Grid, tol: float, check: Callable[[], None] = lambda: None, iterations: int = ITERATIONS
    ) -> tuple[Matrix, Grid]:
        """Return the solution (c, tau) for right-hand sides (r, k) and (k, ..), to a relative residual."""
        right = Eb - self._mixed(self.basis_inverse @ Pb) if len(Pb) else Eb
        tau = self._conjugate_gradients(right, tol, check, iterations)
        return self.basis_given(Pb, tau), tau

    def _conjugate_gradients(self, b: Grid, tol: float, check: Callable[[], None], iterations: int) -> Grid:
        """Return the solution of product(x) = b for grids b (k, ..), each to a relative residual."""
        x, r = np.zeros_like(b), b.copy()
        z = self.inverse_diagonal * r
        p, size = z.copy(), _dots(r, z)
        enough = tol**2 * np.maximum(_dots(b, b), np.finfo(float).tiny)
        for _ in range(iterations if len(b) else 0):
            active = _dots(r, r) > enough
            if not np.any(active):
                break
            check()
            image = self.product(p)
            length = _spread(np.where(active, size / np.maximum(_dots(p, image), np.finfo(float).tiny), 0.0), b)
            x += length * p
            r -= length * image
            z = self.inverse_diagonal * r
            new = _dots(r, z)
            p = z + _spread(new / np.maximum(size, np.finfo(float).tiny), b) * p
            size = new
        return x


def _dots(a: Grid, b: Grid) -> Vector:
    """Return the inner products of grids (k, ..) with the same index."""
    return np.array([np.vdot(x, y) for x, y in zip(a, b, strict=True)]) if len(a) else np.zeros(0)


def _inner(a: Grid, b: Grid) -> Matrix:
    """Return the inner products of all pairs of grids (r, ..) and (k, ..)."""
    return np.tensordot(a, b, axes=(range(1, a.ndim), range(1, b.ndim)))


def _spread(values: Vector, grids: Grid) -> Grid:
    """Return one number for each grid in a shape that broadcasts."""
    return values.reshape(-1, *(1 for _ in grids.shape[1:]))


@dataclass(frozen=True, eq=False)
class SpectralSolution:
    """The coefficients c (r, k) and tau (p, k), their certificate, and the curvature at the solution."""

    basis: Matrix
    tau: Matrix
    certificate: Certificate
    curvature: Curvature


class QuadraticSolver:
    """The minimization of a problem whose losses are all squared, from sums over its rows.

    J is computed from the rows if they are given, because sums lose digits if the fit is close.
    """

    def __init__(
        self, space: FourierGridSpace, sums: QuadraticSums, monitor: Monitor, rows: Sequence[Rows] = ()
    ) -> None:
        self.space, self.sums, self.monitor, self.rows = space, sums, monitor, rows
        self.curvature = Curvature(space, sums, 2.0)
        self.tau = np.zeros_like(sums.Eb)

    def solve(self) -> SpectralSolution:
        """Solve to the tolerance of the monitor, or as accurately as rounding permits."""
        tol, accuracy = self.monitor.tol, 1e-2 * max(self.monitor.tol, 1e-12) ** 0.5
        while True:
            self.tau = self.curvature.solve(2 * self.sums.Pb, 2 * self.sums.Eb, accuracy, self.monitor.check)[1]
            solution = self.certified()
            self.monitor.report(None, float(solution.certificate.primal.sum()), solution.certificate.relative)
            if solution.certificate.within(tol) or accuracy < 1e-13:
                return solution
            ratio = tol / max(solution.certificate.relative, np.finfo(float).tiny)
            accuracy = max(1e-14, accuracy * min(0.1, 0.3 * ratio**0.5))

    def certified(self) -> SpectralSolution:
        """Return the current waves, with the coefficients of the basis functions that are optimal for them."""
        sums, space, tau = self.sums, self.space, self.tau
        image, c = self.curvature.normal.on_grids(tau), self.curvature.basis_given(2 * sums.Pb, tau)
        gradient = tau + 2 * (image + np.tensordot(c.T, sums.EP, axes=1) - sums.Eb)
        linear = np.einsum("rk,rk->k", c, sums.PP @ c + 2 * (_inner(sums.EP, tau) - sums.Pb))
        losses = sums.bb + _dots(tau, image) - 2 * _dots(tau, sums.Eb) + linear
        rounding = 10 * space.transform_error * sums.bb
        if self.rows:
            losses, rounding = _losses(space, self.rows, c, tau), 1e3 * EPS * sums.bb
        primal = _dots(tau, tau) / 2 + np.clip(losses, 0.0, None)
        sizes = [np.sqrt(_dots(grids, grids)) for grids in (gradient, tau, image, sums.Eb)]
        error = space.transform_error * (sizes[1] + 2 * sizes[2] + 2 * sizes[3])  # of the gradient
        gaps, nothing = sizes[0] ** 2 / 2, NOTHING * EPS * sums.bb
        certificate = Certificate(primal, gaps, error * (sizes[0] + error / 2), rounding, nothing, EPS)
        return SpectralSolution(c, space.columns(tau), certificate, self.curvature)


def _losses(space: FourierGridSpace, rows: Sequence[Rows], c: Matrix, tau: Grid) -> Vector:
    """Return the sum of all losses for each output."""
    columns = space.columns(tau)
    return sum(
        np.sum(
            one.block.weight * one.block.loss.value(space.apply(one.functional, columns) + one.P @ c, one.block.target),
            axis=0,
        )
        for one in rows
    )


class NewtonSolver:
    """The minimization of one output of a problem with any losses, by Newton's method."""

    def __init__(self, space: FourierGridSpace, rows: Sequence[Rows], monitor: Monitor) -> None:
        self.space, self.rows, self.monitor = space, rows, monitor
        self.c, self.tau = np.zeros((rows[0].P.shape[1], 1)), np.zeros((1, *space.shape))
        self.u = [np.zeros_like(one.block.target) for one in rows]
        self.smooth, self.enveloped = all(one.block.loss.smooth for one in rows), False
        self.blocks = [one.block for one in rows]  # with envelopes in place of losses that are not smooth
        self.at_zero = self._objective([one.block for one in rows])

    def solve(self) -> SpectralSolution:
        """Solve to the tolerance of the monitor, for envelopes of decreasing width if that is necessary.

        It is if a loss is not smooth, and for smooth losses without curvature at most residuals, such as those of Huber
        far from zero, where the basis functions have no Newton step.
        """
        self._start()
        best = self._descend() if self.smooth else None
        if best is not None and best.certificate.within(self.monitor.tol):
            return best
        self.enveloped = True
        width = self.at_zero / max(sum(_largest_slopes(one.block) for one in self.rows), np.finfo(float).tiny)
        for _ in range(WIDTHS):
            losses = [one.block.loss for one in self.rows]
            envelopes = [loss if loss.quadratic else loss.smoothed(width) for loss in losses]
            self.blocks = [replace(one.block, loss=e) for one, e in zip(self.rows, envelopes, strict=True)]
            found = self._descend()
            if best is None or _is_better(found.certificate, best.certificate):
                best = found
            if best.certificate.within(self.monitor.tol):
                break
            width *= NARROWER
        assert best is not None
        return best

    def _start(self) -> None:
        """Start from the solution with squared losses instead, if it is better than f = 0."""
        squared = [replace(one, block=replace(one.block, loss=Squared())) for one in self.rows]
        before = self.c, self.tau, self.u
        curvature = Curvature(self.space, QuadraticSums.of(self.space, squared), 2.0)
        right = 2 * curvature.sums.Pb, 2 * curvature.sums.Eb
        self.c, self.tau = curvature.solve(*right, 1e-3, self.monitor.check, INNER)
        columns = self.space.columns(self.tau)
        self.u = [self.space.apply(one.functional, columns) + one.P @ self.c for one in self.rows]
        if not self._objective([one.block for one in self.rows]) < self.at_zero:
            self.c, self.tau, self.u = before

    def certified(self) -> SpectralSolution:
        """Return the current iterate with its certificate."""
        return self._state()[0]

    def _state(self) -> tuple[SpectralSolution, Grid, Matrix]:
        """Return the current iterate, and the gradients in tau and c with the losses of `blocks`."""
        space, pairs = self.space, list(zip(self.rows, self.blocks, self.u, strict=True))
        slopes = [b.weight * b.loss.gradient(u, b.target) for _, b, u in pairs]
        bends = [b.weight * b.loss.curvature(u, b.target) for _, b, u in pairs]
        gradient = self.tau + sum(space.adjoint(o.functional, g) for o, g in zip(self.rows, slopes, strict=True))
        basis_gradient = sum(o.P.T @ g for o, g in zip(self.rows, slopes, strict=True))
        curved = [
            replace(o, block=replace(o.block, weight=h, target=np.zeros_like(h)))
            for o, h in zip(self.rows, bends, strict=True)
        ]
        curvature = Curvature(space, QuadraticSums.of(space, curved), 1.0)
        certificate = self._certificate(slopes, bends, gradient, curvature.sums.PP)
        return SpectralSolution(self.c, space.columns(self.tau), certificate, curvature), gradient, basis_gradient

    def _descend(self) -> SpectralSolution:
        """Minimize with the losses of `blocks`, from the current point."""
        tol, previous = self.monitor.tol, inf
        for _ in range(STEPS):
            solution, gradient, basis_gradient = self._state()
            self.monitor.report(None, float(solution.certificate.primal.sum()), solution.certificate.relative)
            objective, gap = self._objective(self.blocks), float(_dots(gradient, gradient)[0]) / 2
            if solution.certificate.within(tol) or objective >= previous:
                break
            allowed, decrement = (
                tol * abs(objective),
                basis_gradient.T @ solution.curvature.basis_inverse @ basis_gradient,
            )
            if self.enveloped and gap + float(decrement[0, 0]) / 2 <= 0.05 * allowed:
                break  # the rest of the gap is that of the envelopes
            accuracy = min(0.1, max(1e-3, 0.1 * (allowed / max(gap, allowed, np.finfo(float).tiny)) ** 0.5))
            direction = solution.curvature.solve(-basis_gradient, -gradient, accuracy, self.monitor.check, INNER)
            dc, dtau = direction
            columns = self.space.columns(dtau)
            du = [self.space.apply(o.functional, columns) + o.P @ dc for o in self.rows]
            step = self._line_search(dtau, du)
            previous = objective if step > 0 else -inf
            self.c, self.tau = self.c + step * dc, self.tau + step * dtau
            self.u = [u + step * d for u, d in zip(self.u, du, strict=True)]
        return solution

    def _objective(self, blocks: Sequence[LossBlock]) -> float:
        losses = sum(float(np.sum(b.weight * b.loss.value(u, b.target))) for b, u in zip(blocks, self.u, strict=True))
        return float(np.sum(self.tau**2)) / 2 + losses

    def _line_search(self, dtau: Grid, du: Sequence[Matrix]) -> float:
        """Return the step in [0, 1] at which the derivative along the direction is nearly zero, by bisection."""
        a, b = float(np.sum(self.tau * dtau)), float(np.sum(dtau**2))

        def slope(step: float) -> float:
            losses = sum(
                float(np.sum(t.weight * t.loss.gradient(u + step * d, t.target) * d))
                for t, u, d in zip(self.blocks, self.u, du, strict=True)
            )
            return a + step * b + losses

        start, low, high = slope(0.0), 0.0, 1.0
        if start >= 0:
            return 0.0
        if slope(1.0) <= 0.1 * abs(start):
            return 1.0
        for _ in range(30):
            middle = (low + high) / 2
            value = slope(middle)
            if abs(value) <= 0.1 * abs(start):
                return middle
            low, high = (middle, high) if value < 0 else (low, middle)
        return low

    def _certificate(
        self, slopes: Sequence[Matrix], bends: Sequence[Matrix], gradient: Grid, PP: Matrix
    ) -> Certificate:
        """Return the certificate for the original losses with alpha = -slopes, corrected such that P'alpha = 0."""
        P, alphas = [one.P for one in self.rows], [-g for g in slopes]
        force: Grid = gradient
        unbalanced = sum(p.T @ alpha for p, alpha in zip(P, alphas, strict=True))
        gap = 0.0
        if np.any(unbalanced):
            move = np.linalg.lstsq(PP, unbalanced, rcond=1e-13)[0]
            shifts = [h * (p @ move) for h, p in zip(bends, P, strict=True)]
            alphas = [alpha - shift for alpha, shift in zip(alphas, shifts, strict=True)]
            for one, shift in zip(self.rows, shifts, strict=True):
                force = force + self.space.adjoint(one.functional, shift)
            rest = sum(p.T @ alpha for p, alpha in zip(P, alphas, strict=True))
            sizes = sum(np.abs(p).T @ np.abs(alpha) for p, alpha in zip(P, alphas, strict=True))
            gap = inf if np.any(np.abs(rest) > FEASIBLE * EPS * sizes) else gap
        gap += float(_dots(force, force)[0]) / 2
        for one, u, alpha in zip(self.rows, self.u, alphas, strict=True):
            low, high = one.block.box
            if np.any(alpha < low - 8 * EPS * np.abs(low)) or np.any(alpha > high + 8 * EPS * np.abs(high)):
                gap = inf
                break
            gap += float(excess(one.block, u, alpha, np.zeros_like(u))[0][0])
        primal = np.array([self._objective([one.block for one in self.rows])])
        norms = [float(np.linalg.norm(grids)) for grids in (force, self.tau, force - self.tau)]
        error = self.space.transform_error * (norms[1] + norms[2])  # of the gradient
        rounding = np.array([error * (norms[0] + error / 2)])
        shift, nothing = np.array([1e3 * EPS * self.at_zero]), np.array([NOTHING * EPS * self.at_zero])
        return Certificate(primal, np.array([gap]), rounding, shift, nothing, EPS)


def _is_better(one: Certificate, other: Certificate) -> bool:
    """Return whether a certificate has a smaller gap, or the smaller J if no gap is known."""
    return one.gap < other.gap or (not np.isfinite(other.gap) and float(one.primal[0]) < float(other.primal[0]))


def _largest_slopes(block: LossBlock) -> float:
    """Return the sum of w s^2 / 2 with the largest slope s of each loss, 1 if it is infinite."""
    low, high = block.loss.domain(block.target)
    largest = np.maximum(np.abs(low), np.abs(high))
    return float(np.sum(block.weight * np.where(np.isfinite(largest), largest, 1.0) ** 2)) / 2
