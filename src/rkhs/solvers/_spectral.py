"""Problems on a Fourier grid: conjugate gradients for squared losses, and Newton's method around them for others.

With theta = (c, tau), u = Pc + E tau for basis functions P and waves E, and any number of outputs,

    J(theta) = 1/2 |tau|^2 + sum_i w_i loss_i(u_i; b_i)

A Newton step solves  (diag(0, I) + [P E]'H[P E]) step = -gradient  with H = diag(w loss''), by `NormalEquations`.  For
squared losses H = 2w, and one step from zero is the solution: the rows enter by their sums alone, which can be added up
over blocks (`QuadraticSums`).  Losses that are not smooth are replaced by their Moreau envelopes, whose width falls
until the gap of the original losses is within the tolerance.

The gap of theta is that to alpha = -w loss'(u), made feasible:

    gap = 1/2 |tau - E'alpha|^2 + sum_i w_i excess_i,        P'alpha = 0

over all functions of the grid; for squared losses it is 1/2 |gradient|^2, because c is optimal given tau.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import EPS, Matrix, Vector
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import orthonormal
from rkhs._finite.certificate import FEASIBLE, NOTHING, Certificate, excess, project_dual
from rkhs._finite.monitor import SOLVING, SUMMING, Monitor, Stopped
from rkhs._finite.problem import LossBlock, consecutive
from rkhs._finite.solution import Record
from rkhs._finite.term import Term
from rkhs._spaces.fourier_grid import FourierGridSpace
from rkhs._spaces.toeplitz import Grid
from rkhs.functionals import stack
from rkhs.losses import Squared
from rkhs.solvers._spectral_covariance import SpectralCovariance
from rkhs.solvers._spectral_equations import (
    NormalEquations,
    QuadraticSums,
    TermRows,
    dots,
    inner,
    with_missing_variance,
)

INNER = 500  # iterations of conjugate gradients within a step of Newton's method
FINEST = 1e-14  # smallest relative error of non-uniform Fourier transforms
STEPS = 200  # of Newton's method for one width
NARROWER = 0.1  # factor from one width of the envelopes to the next
WIDTHS = 13  # the first one is that of the residuals of f = 0


@dataclass(frozen=True, eq=False)
class SpectralSolution:
    """The coefficients c (r, k) and tau (p, k), their certificate, and the curvature at the solution."""

    basis: Matrix
    tau: Matrix
    certificate: Certificate
    curvature: NormalEquations
    history: tuple[Record, ...] = ()

    @classmethod
    def joined(cls, outputs: Sequence[SpectralSolution], monitor: Monitor) -> SpectralSolution:
        """Join the solutions of several outputs, whose curvature is that of the first one."""
        basis, tau = (np.concatenate([getattr(one, name) for one in outputs], axis=1) for name in ("basis", "tau"))
        certificate = Certificate.joined([one.certificate for one in outputs])
        return cls(basis, tau, certificate, outputs[0].curvature, tuple(monitor.history))


@dataclass(frozen=True, eq=False)
class SpectralProblem:
    """The terms of a problem on a Fourier grid."""

    space: FourierGridSpace
    basis: FunctionSpace | None
    outputs: int | None
    rows: Sequence[TermRows]
    hidden = 0  # the functions are orthonormal

    @classmethod
    def of(
        cls, space: FourierGridSpace, basis: FunctionSpace | None, terms: Sequence[Term], outputs: int | None
    ) -> SpectralProblem:
        """Return the problem of terms in memory."""
        return cls(space, basis, outputs, [TermRows.of(term, basis, outputs) for term in terms])

    @property
    def quadratic(self) -> bool:
        """Whether all losses are squared."""
        return all(one.block.loss.quadratic for one in self.rows)

    @property
    def summary(self) -> str:
        """The shape of the grid, and the error of the kernel."""
        return f"{' x '.join(map(str, self.space.shape))} frequencies, kernel to {self.space.kernel_error:.0e}"

    def covariance(self, solution: Any) -> SpectralCovariance:
        """Return the covariance of any functionals; all losses must be squared."""
        return SpectralCovariance(self.space, self.basis, solution.curvature, self.rows, self.outputs)

    def weighted(self, factors: Sequence[Any]) -> SpectralProblem:
        """Return the problem with a factor, or one for each row, on the weights of each term."""
        pairs = zip(self.rows, factors, strict=True)
        return replace(self, rows=[o.changed(weight=o.block.weight * np.reshape(f, (-1, 1))) for o, f in pairs])

    def solve_weightings(
        self, weightings: Sequence[Sequence[Any]], monitor: Monitor
    ) -> Iterator[tuple[int, tuple[SpectralProblem, SpectralSolution]]]:
        """Yield the index, problem and solution of each weighting; one that is stopped has its current iterate."""
        for k, factors in enumerate(weightings):
            problem, found = self.weighted(factors), list[SpectralSolution]()
            solvers = problem._solvers(monitor)
            try:
                found.extend(solver.solve() for solver in solvers)
            except (Stopped, KeyboardInterrupt):
                found += [solver.certified() for solver in solvers[len(found) :]]
                yield k, (problem, SpectralSolution.joined(found, monitor))
                raise
            yield k, (problem, SpectralSolution.joined(found, monitor))

    def _solvers(self, monitor: Monitor) -> Sequence[QuadraticSolver | NewtonSolver]:
        """Return one solver for all outputs of squared losses, or one for each output of others."""
        if self.quadratic:
            noisy = [with_missing_variance(self.space, one) for one in self.rows]
            with monitor.showing(SUMMING):
                sums = QuadraticSums.of(self.space, noisy)
            return [QuadraticSolver(self.space, sums, monitor, noisy)]
        outputs = [[o.changed(target=o.block.target[:, k, None]) for o in self.rows] for k in range(self.outputs or 1)]
        return [NewtonSolver(self.space, rows, monitor) for rows in outputs]


class QuadraticSolver:
    """The minimization of a problem whose losses are all squared, from sums over its rows.

    J is computed from the rows if they are given, because sums lose digits if the fit is close.
    """

    def __init__(
        self, space: FourierGridSpace, sums: QuadraticSums, monitor: Monitor, rows: Sequence[TermRows] = ()
    ) -> None:
        self.space, self.sums, self.monitor, self.rows = space, sums, monitor, rows
        self.curvature = NormalEquations(space, sums, 2.0)
        self.tau = np.zeros_like(sums.Eb)

    def solve(self) -> SpectralSolution:
        """Solve to the tolerance of the monitor, or as accurately as rounding permits, by corrections."""
        tol, previous = self.monitor.tol, inf
        right, accuracy = 2 * self.sums.Eb, 1e-2 * max(tol, 1e-12) ** 0.5
        basis = 2 * self.sums.Pb
        while True:
            with self.monitor.showing(SOLVING):
                self.tau = self.tau + self.curvature.solve(basis, right, accuracy)[1]
            solution, gradient = self._state()
            relative = solution.certificate.relative
            self.monitor.report(None, float(solution.certificate.primal.sum()), relative)
            if solution.certificate.within(tol):
                return solution
            if self.rows and self.space.transform_error > FINEST and solution.certificate.uncertain > 0.5 * tol:
                self._transform_again()
                solution, gradient = self._state()
            elif not relative < 0.5 * previous:
                return solution
            right, basis, previous = -gradient, np.zeros_like(self.sums.Pb), relative
            accuracy = max(1e-8, min(0.1, 0.3 * (tol / max(relative, np.finfo(float).tiny)) ** 0.5))

    def _transform_again(self) -> None:
        """Compute the sums with the most accurate transforms, for close fits of many values."""
        self.space = replace(self.space, transform_error=FINEST)
        self.sums = QuadraticSums.of(self.space, self.rows)
        self.curvature = NormalEquations(self.space, self.sums, self.curvature.factor)

    def certified(self) -> SpectralSolution:
        """Return the current waves, with the coefficients of the basis functions that are optimal for them."""
        return self._state()[0]

    def _state(self) -> tuple[SpectralSolution, Grid]:
        """Return the current iterate and its gradient."""
        sums, space, tau = self.sums, self.space, self.tau
        image, c = self.curvature.normal.on_grids(tau), self.curvature.basis_given(2 * sums.Pb, tau)
        gradient = tau + 2 * (image + np.tensordot(c.T, sums.EP, axes=1) - sums.Eb)
        linear = np.einsum("rk,rk->k", c, sums.PP @ c + 2 * (inner(sums.EP, tau) - sums.Pb))
        losses = sums.bb + dots(tau, image) - 2 * dots(tau, sums.Eb) + linear
        rounding = 10 * space.transform_error * sums.bb
        if self.rows:
            losses = _losses(space, self.rows, c, tau)
            missed = space.transform_error * (np.sqrt(losses) + np.sqrt(sums.bb))  # of the values, weighted
            rounding = 1e3 * EPS * sums.bb + missed * (2 * np.sqrt(losses) + missed)
        primal = dots(tau, tau) / 2 + np.clip(losses, 0.0, None)
        sizes = [np.sqrt(dots(grids, grids)) for grids in (gradient, tau, image, sums.Eb)]
        error = space.transform_error * (sizes[1] + 2 * sizes[2] + 2 * sizes[3])  # of the gradient
        gaps, nothing = sizes[0] ** 2 / 2, NOTHING * EPS * sums.bb
        certificate = Certificate(primal, gaps, error * (sizes[0] + error / 2), rounding, nothing, EPS)
        return SpectralSolution(c, space.columns(tau), certificate, self.curvature), gradient


def _losses(space: FourierGridSpace, rows: Sequence[TermRows], c: Matrix, tau: Grid) -> Vector:
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

    def __init__(self, space: FourierGridSpace, rows: Sequence[TermRows], monitor: Monitor) -> None:
        self.space, self.rows, self.monitor = space, rows, monitor
        self.functional, self.P = stack([one.functional for one in rows]), np.concatenate([one.P for one in rows])
        self.original = self.blocks = consecutive([one.block for one in rows])  # `blocks` may have envelopes
        self.c, self.tau = np.zeros((self.P.shape[1], 1)), np.zeros((1, *space.shape))
        self.u, self.enveloped = np.zeros((len(self.P), 1)), False
        self.path = 0.0  # the lengths of all changes of u, to whose sum the errors of transforms are relative
        self.at_zero = self._objective(self.original)
        self.best: SpectralSolution | None = None

    def solve(self) -> SpectralSolution:
        """Solve to the tolerance of the monitor, for envelopes of decreasing width if that is necessary.

        It is if a loss is not smooth, and for smooth losses without curvature at most residuals, such as those of Huber
        far from zero, where the basis functions have no Newton step.
        """
        self._start()
        if all(t.loss.smooth for t in self.original):
            self.best = self._descend_accurately()
            if self.best.certificate.within(self.monitor.tol):
                return self.best
        self.enveloped = True
        width = self.at_zero / max(sum(map(_largest_slopes, self.original)), np.finfo(float).tiny)
        for _ in range(WIDTHS):
            self.blocks = tuple(
                t if t.loss.quadratic else replace(t, loss=t.loss.smoothed(width)) for t in self.original
            )
            self.best = self._better(self._descend_accurately())
            if self.best.certificate.within(self.monitor.tol):
                break
            width *= NARROWER
        assert self.best is not None
        return self.best

    def _descend_accurately(self) -> SpectralSolution:
        """Minimize, once more with the most accurate transforms if their errors change J by more than the tolerance."""
        found = self._descend()
        certificate = found.certificate
        uncertain = float(certificate.shift[0]) > 0.1 * self.monitor.tol * abs(float(certificate.primal[0]))
        if uncertain and self.space.transform_error > FINEST:
            self.space, self.best = replace(self.space, transform_error=FINEST), None
            self.u, self.path = self._values(self.c, self.tau), 0.0
            found = self._descend()
        return found

    def _better(self, found: SpectralSolution) -> SpectralSolution:
        """Return the better one of the best solution so far and of another one."""
        best = self.best
        return found if best is None or _is_better(found.certificate, best.certificate) else best

    def _start(self) -> None:
        """Start from the solution with squared losses instead, if it is better than f = 0."""
        squared = [one.changed(loss=Squared()) for one in self.rows]
        before = self.c, self.tau, self.u
        curvature = NormalEquations(self.space, QuadraticSums.of(self.space, squared), 2.0)
        right = 2 * curvature.sums.Pb, 2 * curvature.sums.Eb
        with self.monitor.showing(SOLVING):
            self.c, self.tau = curvature.solve(*right, 1e-3, INNER)
        self.u = self._values(self.c, self.tau)
        if not self._objective(self.original) < self.at_zero:
            self.c, self.tau, self.u = before

    def certified(self) -> SpectralSolution:
        """Return the better one of the best solution so far and of the current iterate, or f = 0 if both are worse."""
        if not self._objective(self.original) <= self.at_zero:  # envelopes of losses may be far below these
            self.c, self.tau, self.u = np.zeros_like(self.c), np.zeros_like(self.tau), np.zeros_like(self.u)
        return self._better(self._state()[0])

    def _state(self) -> tuple[SpectralSolution, Grid, Matrix]:
        """Return the current iterate, and the gradients in tau and c with the losses of `blocks`."""
        space, u = self.space, self.u
        slopes = np.concatenate([t.weight * t.loss.gradient(u[t.rows], t.target) for t in self.blocks])
        bends = np.concatenate([t.weight * t.loss.curvature(u[t.rows], t.target) for t in self.blocks])
        gradient = self.tau + space.adjoint(self.functional, slopes)
        pairs = zip(self.rows, self.blocks, strict=True)
        curved = [one.changed(weight=bends[t.rows], target=0 * t.target) for one, t in pairs]
        curvature = NormalEquations(space, QuadraticSums.of(space, curved), 1.0)
        certificate = self._certificate(slopes, bends, gradient, curvature.sums.PP)
        return SpectralSolution(self.c, space.columns(self.tau), certificate, curvature), gradient, self.P.T @ slopes

    def _descend(self) -> SpectralSolution:
        """Minimize with the losses of `blocks`, from the current point."""
        tol, previous = self.monitor.tol, inf
        for _ in range(STEPS):
            solution, gradient, basis_gradient = self._state()
            self.monitor.report(None, float(solution.certificate.primal.sum()), solution.certificate.relative)
            objective, gap = self._objective(self.blocks), float(dots(gradient, gradient)[0]) / 2
            if solution.certificate.within(tol) or objective >= previous:
                break
            allowed = tol * abs(objective)
            decrement = basis_gradient.T @ solution.curvature.basis_inverse @ basis_gradient
            if self.enveloped and gap + float(decrement[0, 0]) / 2 <= 0.05 * allowed:
                break  # the rest of the gap is that of the envelopes
            accuracy = min(0.1, max(1e-3, 0.1 * (allowed / max(gap, allowed, np.finfo(float).tiny)) ** 0.5))
            with self.monitor.showing(SOLVING):
                dc, dtau = solution.curvature.solve(-basis_gradient, -gradient, accuracy, INNER)
            du = self._values(dc, dtau)
            if not np.all(np.isfinite(du)):  # the curvatures are too far apart for the equations
                break
            step = self._line_search(dtau, du)
            previous = objective if step > 0 else -inf
            self.c, self.tau, self.u = self.c + step * dc, self.tau + step * dtau, self.u + step * du
            self.path += step * float(np.linalg.norm(du))
        return solution

    def _values(self, c: Matrix, tau: Grid) -> Matrix:
        """Return the values (N, 1) of all functionals."""
        return self.space.apply(self.functional, self.space.columns(tau)) + self.P @ c

    def _objective(self, blocks: Sequence[LossBlock]) -> float:
        losses = sum(float(np.sum(t.weight * t.loss.value(self.u[t.rows], t.target))) for t in blocks)
        return float(np.sum(self.tau**2)) / 2 + losses

    def _line_search(self, dtau: Grid, du: Matrix) -> float:
        """Return the step in [0, 1] at which the derivative along the direction is nearly zero, by bisection."""
        a, b = float(np.sum(self.tau * dtau)), float(np.sum(dtau**2))

        def slope(step: float) -> float:
            u = self.u + step * du
            losses = [np.sum(t.weight * t.loss.gradient(u[t.rows], t.target) * du[t.rows]) for t in self.blocks]
            return a + step * b + float(sum(losses))

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

    def _certificate(self, slopes: Matrix, bends: Matrix, gradient: Grid, PP: Matrix) -> Certificate:
        """Return the certificate for the original losses with alpha = -slopes, corrected such that P'alpha = 0."""
        P, alpha, force, gap = self.P, -slopes, gradient, 0.0
        if np.any(P.T @ alpha):
            shift = bends * (P @ np.linalg.lstsq(PP, P.T @ alpha, rcond=1e-13)[0])
            if not all(t.loss.separable for t in self.original):  # the shifted alpha leaves balls and cones
                shift = alpha - project_dual(self.original, orthonormal(P, EPS)[0], alpha)
            alpha, force = alpha - shift, force + self.space.adjoint(self.functional, shift)
            gap = inf if np.any(np.abs(P.T @ alpha) > FEASIBLE * EPS * (np.abs(P).T @ np.abs(alpha))) else 0.0
        gap += float(dots(force, force)[0]) / 2
        for t in self.original:
            inside = t.project_dual(alpha[t.rows])
            sizes = np.abs(inside) if t.loss.separable else np.max(np.abs(inside), initial=0.0)
            if np.any(np.abs(alpha[t.rows] - inside) > 8 * EPS * sizes):
                gap = inf
                break
            gap += float(excess(t, self.u[t.rows], alpha[t.rows], np.zeros_like(inside))[0][0])
        primal = np.array([self._objective(self.original)])
        norms = [float(np.linalg.norm(grids)) for grids in (force, self.tau, force - self.tau)]
        error = self.space.transform_error * (norms[1] + norms[2])  # of the gradient
        rounding = np.array([error * (norms[0] + error / 2)])
        missed = self.space.transform_error * (float(np.linalg.norm(self.u)) + self.path)  # a bound for each value
        steepest = [  # slopes increase, so that those at both ends bound all between them
            np.maximum(*(np.abs(t.loss.gradient(self.u[t.rows] + error, t.target)) for error in (-missed, missed)))
            for t in self.original
        ]
        change = missed * sum(float(np.sum(t.weight * s)) for t, s in zip(self.original, steepest, strict=True))
        shift, nothing = np.array([1e3 * EPS * self.at_zero + change]), np.array([NOTHING * EPS * self.at_zero])
        return Certificate(primal, np.array([gap]), rounding, shift, nothing, EPS)


def _is_better(one: Certificate, other: Certificate) -> bool:
    """Return whether a certificate has a smaller gap, or the smaller J if no gap is known."""
    return one.gap < other.gap or (not np.isfinite(other.gap) and float(one.primal[0]) < float(other.primal[0]))


def _largest_slopes(block: LossBlock) -> float:
    """Return the sum of w s^2 / 2 with the largest slope s of each loss, 1 if it is infinite."""
    low, high = block.loss.domain(block.target)
    largest = np.maximum(np.abs(low), np.abs(high))
    return float(np.sum(block.weight * np.where(np.isfinite(largest), largest, 1.0) ** 2)) / 2
