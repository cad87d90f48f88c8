"""Newton's method by products, for problems in a space of many functions such as Fourier grids.

A Newton step solves  (diag(0, I) + [P E]'H[P E]) step = -gradient  with H = diag(w loss'') by conjugate gradients
(`NormalEquations`).  For squared losses H = 2w, and one step from zero is the solution, to the accuracy of the
equations; further steps correct it.  Losses that are not smooth are replaced by their Moreau envelopes, whose width
falls until the gap of the original losses is within the tolerance.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from rkhs._core.backend.arrays import Matrix
from rkhs._core.finite.certificate import Certificate, certificate_at, feasible
from rkhs._core.finite.monitor import SOLVING, Monitor, Step, Steps
from rkhs._core.finite.normal_equations import NormalEquations, dots
from rkhs._core.finite.operators import OperatorGeometry, OperatorPoint
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs.losses import Squared
from rkhs.solvers._base import Solver
from rkhs.solvers._reduced import line_search

INNER = 500  # iterations of conjugate gradients within a step of Newton's method
STEPS = 200  # of Newton's method for one width
NARROWER = 0.1  # factor from one width of the envelopes to the next
WIDTHS = 13  # the first one is that of the residuals of f = 0
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class OperatorNewton(Solver):
    """Newton's method with conjugate gradients, for problems in a space of many functions."""

    def lacks(self, system: FiniteProblem) -> str | None:
        by_products = isinstance(system.geometry, OperatorGeometry)
        return None if by_products else "OperatorNewton needs a space that is used by products, such as a FourierGrid."

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        outputs = [system] if system.quadratic else [system.output(k) for k in range(system.columns)]
        starts = [start] if system.quadratic else [start.output(k) for k in range(system.columns)]
        descents = [_Descent(*pair, tol, monitor) for pair in zip(outputs, starts, strict=True)]
        found: list[Iterate] = []

        def stopped() -> Iterate:
            return Iterate.joined([*found, *(descent.stopped() for descent in descents[len(found) :])])

        for descent in descents:
            for step in descent.steps():
                yield replace(step, iterate=stopped)
            found.append(descent.best_iterate())
        return Iterate.joined(found)


class _Descent:
    """The minimization of a problem of one output, or of all outputs if all losses are squared."""

    def __init__(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> None:
        self.system, self.geometry, self.tol, self.monitor = system, system.geometry, tol, monitor
        self.shown = system  # with envelopes of the losses in their place
        self.c, self.tau = start.basis, start.a
        self.u, self.path = self.geometry.values(self.tau, self.c), 0.0
        self.best: tuple[Iterate, Certificate] | None = None

    def steps(self) -> Generator[Step, None, None]:
        """Solve to the tolerance, for envelopes of decreasing width if that is necessary.

        It is if a loss is not smooth, and for smooth losses without curvature at most residuals, such as those of Huber
        far from zero, where the basis functions have no Newton step.
        """
        if self.system.quadratic:
            yield from self._solve_equations()
            return
        self._start()
        if self.system.smooth and (yield from self._descend_accurately()):
            return
        width = float(self.system.at_zero[0]) / max(sum(map(_largest_slopes, self.system.terms)), TINY)
        for _ in range(WIDTHS):
            envelopes = (t if t.loss.quadratic else replace(t, loss=t.loss.smoothed(width)) for t in self.system.terms)
            self.shown = self.system.with_rows(tuple(envelopes))
            if (yield from self._descend_accurately()):
                break
            width *= NARROWER

    def stopped(self) -> Iterate:
        """Return the better one of the best iterate so far and of the current one, or f = 0 if both are worse."""
        at_zero = float(self.system.at_zero.sum())
        if not self._objective(self.system) <= at_zero:  # envelopes may be far below the losses
            self.c, self.tau, self.u, self.path = 0 * self.c, 0 * self.tau, 0 * self.u, 0.0
        self._assess(self._point())
        return self.best_iterate()

    def best_iterate(self) -> Iterate:
        assert self.best is not None
        return self.best[0]

    def _point(self) -> OperatorPoint:
        iterate = Iterate(self.tau, self.c)
        return OperatorPoint(self.geometry, self.system, iterate, self.u, self.path, self.shown)

    def _assess(self, point: OperatorPoint) -> Certificate:
        """Return the certificate of a point, and keep the point if it is the best one so far."""
        alpha = feasible(self.system, next(point.candidates(False)))
        point.iterate = replace(point.iterate, alpha=alpha)
        found = certificate_at(self.system, point, inf)
        if self.best is None or _is_better(found, self.best[1]):
            self.best = point.iterate, found
        return found

    def _solve_equations(self) -> Generator[Step, None, None]:
        """Solve the equations of squared losses, by corrections as long as rounding permits."""
        tol, previous, point = self.tol, inf, self._point()
        accuracy, equations = 1e-2 * max(tol, 1e-12) ** 0.5, self.geometry.curvature(self.system, self.u)
        while True:
            with self.monitor.showing(SOLVING):
                dc, dtau = equations.solve(-point.basis_gradient, -point.gradient, accuracy)
            self.c, self.tau = self.c + dc, self.tau + dtau
            self.u = self.geometry.values(self.tau, self.c)
            point = self._point()
            certificate = self._assess(point)
            yield Step(None, float(certificate.primal.sum()), certificate.relative)
            stuck = not certificate.gap < 0.5 * previous  # the relative gap is about 1 if the dual value is negative
            finer = self.geometry.finer if stuck or certificate.uncertain > 0.5 * tol else None
            if certificate.within(tol) or (stuck and finer is None):
                return
            if finer is not None:
                equations, point = self._refine(finer), self._point()
            previous = certificate.gap
            # the gap falls with the square of the residual of the equations
            accuracy = max(1e-8, min(0.1, 0.3 * (tol / max(certificate.relative, TINY)) ** 0.5))

    def _refine(self, finer: OperatorGeometry) -> NormalEquations:
        """Continue with more accurate products, for close fits of many values; return their equations."""
        self.geometry, self.best = finer, None
        shown = self.shown.terms
        self.system = self.shown = FiniteProblem(finer, self.system.terms, self.system.outputs)
        if shown is not self.system.terms:
            self.shown = self.system.with_rows(shown, self.system.outputs)
        self.u, self.path = finer.values(self.tau, self.c), 0.0
        return finer.curvature(self.shown, self.u)

    def _descend_accurately(self) -> Generator[Step, None, bool]:
        """Minimize, once more with the most accurate products if their errors change J by more than the tolerance.

        Return whether the best iterate so far is within the tolerance.
        """
        certificate = yield from self._descend()
        finer = self.geometry.finer
        if finer is not None and certificate.shift[0] > 0.1 * self.tol * abs(certificate.primal[0]):
            self._refine(finer)
            yield from self._descend()
        assert self.best is not None
        return self.best[1].within(self.tol)

    def _start(self) -> None:
        """Start from the solution with squared losses instead, if it is better."""
        blocks = tuple(replace(t, loss=Squared()) for t in self.system.terms)
        squared = FiniteProblem(self.geometry, blocks)
        point = OperatorPoint(self.geometry, squared, Iterate(self.tau, self.c), self.u)
        with self.monitor.showing(SOLVING):
            right = -point.basis_gradient, -point.gradient
            dc, dtau = self.geometry.curvature(squared, self.u).solve(*right, 1e-3, INNER)
        before, objective = (self.c, self.tau, self.u), self._objective(self.system)
        self.c, self.tau = self.c + dc, self.tau + dtau
        self.u = self.geometry.values(self.tau, self.c)
        if not self._objective(self.system) < objective:
            self.c, self.tau, self.u = before

    def _descend(self) -> Generator[Step, None, Certificate]:
        """Minimize with the losses of `shown`, from the current point; return the last certificate."""
        tol, previous = self.tol, inf
        for _ in range(STEPS):
            point = self._point()
            certificate = self._assess(point)
            yield Step(None, float(certificate.primal.sum()), certificate.relative)
            objective, gap = self._objective(self.shown), float(dots(point.gradient, point.gradient)[0]) / 2
            if certificate.within(tol) or objective >= previous:
                break
            allowed, right = tol * abs(objective), point.basis_gradient
            equations = self.geometry.curvature(self.shown, self.u)
            # the part of the Newton decrement in c, g'(P'HP)^-1 g, is not in 1/2 |gradient|^2
            decrement = float((right.T @ equations.basis_inverse @ right)[0, 0])
            if self.shown is not self.system and gap + decrement / 2 <= 0.05 * allowed:
                break  # the rest of the gap is that of the envelopes
            # accuracy^2 gap is a hundredth of the allowed gap, so that one step may reach it
            accuracy = min(0.1, max(1e-3, 0.1 * (allowed / max(gap, allowed, TINY)) ** 0.5))
            with self.monitor.showing(SOLVING):
                # (diag(0, I) + [P E]'H[P E]) (dc, dtau) = -(dJ/dc, dJ/dtau)
                dc, dtau = equations.solve(-right, -point.gradient, accuracy, INNER)
            du = self.geometry.values(dtau, dc)
            if not np.all(np.isfinite(du)):  # the curvatures are too far apart for the equations
                break
            step = self._step_length(objective, dtau, du)
            previous = objective if step > 0 else -inf
            self.c, self.tau, self.u = self.c + step * dc, self.tau + step * dtau, self.u + step * du
            # rounding errors of u grow with the length of all its changes
            self.path += step * float(np.linalg.norm(du))
        return certificate

    def _step_length(self, objective: float, dtau: Matrix, du: Matrix) -> float:
        norm, slope, curvature = (
            float(np.sum(a * b)) for a, b in ((self.tau, self.tau), (self.tau, dtau), (dtau, dtau))
        )
        decrease = -slope - float(np.sum(self.shown.gradient(self.u) * du))
        if not decrease > 0:
            return 0.0
        return line_search(self.shown, self.u, du, (norm / 2, slope, curvature), objective, decrease)[0]

    def _objective(self, system: FiniteProblem) -> float:
        return float(np.sum(self.tau**2)) / 2 + float(np.sum(system.loss(self.u)))


def _is_better(one: Certificate, other: Certificate) -> bool:
    """Return whether a certificate has a smaller gap, or the smaller J if no gap is known."""
    return one.gap < other.gap or (not np.isfinite(other.gap) and float(one.primal.sum()) < float(other.primal.sum()))


def _largest_slopes(block: LossBlock) -> float:
    """Return the sum of w s^2 / 2 with the largest slope s of each loss, 1 if it is infinite."""
    low, high = block.loss.domain(block.target)
    largest = np.maximum(np.abs(low), np.abs(high))
    return float(np.sum(block.weight * np.where(np.isfinite(largest), largest, 1.0) ** 2)) / 2
