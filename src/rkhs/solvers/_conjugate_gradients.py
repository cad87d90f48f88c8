"""Preconditioned conjugate gradients for squared losses, by Gram products only, with a certificate at no extra cost.

The equations are (G + D) a + Q c = b, Q'a = 0 with D = diag(1/(2w)).  For any a with Q'a = 0, the residual
r = b - (G + D) a, its best fit Qc and the remainder s = r - Qc give

    dual(a) = 1/2 (b'a + r'a),        J(a, c) = dual(a) + 1/2 s'D^-1 s

without another product.  Conjugate gradients maximize the dual over the directions so far.  J is not monotone, so a
second point is kept that minimizes J on the line from its predecessor to the newest a (its residual is known as well):
it is returned, with the newest a as its dual point.

The preconditioner is D, for which all but the large eigenvalues of D^-1 (G + D) are near one (the diagonal of G + D
would spread them), and with landmarks also the part of G that a few functionals span (`_preconditioning`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, double, inner, namespace, zeros
from rkhs._core.finite.certificate import relative_gap
from rkhs._core.finite.monitor import Monitor, OutOfIterations, Step, Steps
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.linalg.cg import BasisFit, BlockCG
from rkhs.solvers._base import SHARED, Estimate, Solver
from rkhs.solvers._direct import lacking_squares
from rkhs.solvers._preconditioning import check_landmarks, iterations_before, landmark_count, preconditioner


@dataclass(frozen=True)
class ConjugateGradients(Solver):
    """Preconditioned conjugate gradients on the linear equations of a problem with squared losses, of any size.

    Parameters
    ----------
    landmarks : int, optional
        The number of functionals in the preconditioner; each costs a column of the Gram matrix, which is read twice in
        each iteration.  By default it is chosen such that the preconditioner takes about as long as 15 Gram products.
    max_iterations : int, default=10_000
        The maximal number of iterations.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((300, 10))
    >>> terms = [
    ...     rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(X[:, 0]), weight=10.0),
    ...     rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1),
    ... ]
    >>> rkhs.Problem(rkhs.Gaussian(scale=3.0), terms).solve(rkhs.solvers.ConjugateGradients()).status
    'converged'
    """

    landmarks: int | None = None
    max_iterations: int = 10_000

    def __post_init__(self) -> None:
        check_landmarks(self.name, self.landmarks)

    def lacks(self, system: FiniteProblem) -> str | None:
        return lacking_squares(self, system)

    def step(self, estimate: Estimate) -> float:
        return estimate.step() * (1 + SHARED * (estimate.system.columns - 1))

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        plain = iterations_before(system.geometry, landmark_count(system.geometry, None))
        if self.landmarks is None and plain:
            start, done = yield from self._iterate(system, start, tol, monitor, 0, plain)
            if done:
                return start
        iterate, done = yield from self._iterate(system, start, tol, monitor, self.landmarks, self.max_iterations)
        if not done:
            raise OutOfIterations
        return iterate

    def _iterate(
        self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor, landmarks: int | None, most: int
    ) -> Generator[Step, None, tuple[Iterate, bool]]:
        """Run at most `most` iterations; return the iterate and whether it has converged or stagnated."""
        xp = namespace(start.a)
        gram, Q = system.gram, system.Q
        d, b = 1 / (2 * system.weight), system.target

        def product(v: Array, gram: Any = gram) -> Array:
            return gram @ v + d * v

        a = start.a - Q @ (Q.T @ start.a)
        cg = BlockCG(product, preconditioner(system.geometry, d, landmarks, monitor.left))
        if bool(xp.any(a != 0)):
            cg.begin(a, b - product(a, system.exact))
        else:
            cg.begin(a, b)
        points = _Points(BasisFit.of(d, Q), b, system.rounding, cg)
        points.update(cg)

        progress = _Progress()
        for _ in range(most):
            points.read()
            yield Step(points.iterate(cg), float(points.primal.sum()), float(points.gaps.max(initial=0.0)))
            active = np.flatnonzero(points.gaps > tol)
            if len(active) == 0 or progress.stagnates(points):
                return points.iterate(cg), True
            cg.step(slice(None) if len(active) == b.shape[1] else active)
            points.update(cg)
        return points.iterate(cg), False


class _Points:
    """The points y with their fitted residuals s, updated by line searches for J, and the bounds of the minimum."""

    def __init__(self, fit: BasisFit, b: Array, rounding: tuple[float, ...], cg: BlockCG) -> None:
        self.fit, self.b, self.rounding = fit, b, rounding
        self.y = namespace(b).asarray(cg.a, copy=True)
        c, self.s = fit(cg.residual)
        self.basis = cg.basis + c
        self.bounds = zeros((2, b.shape[1]), b)

    def update(self, cg: BlockCG) -> None:
        """Move y towards the newest point and update both bounds, in place."""
        xp = namespace(self.b)
        # s = r - Qc, c the best fit of r = b - (G + D) a
        c, rest = self.fit(cg.residual)
        step, change = cg.a - self.y, rest - self.s
        # J(y + t step) = J(y) + t slope + t^2 curvature
        # J(y) = 1/2 y'(b + s) + 1/2 s'D^-1 s;  slope and curvature of t -> J(y + t step)
        slope = _dot(step, self.b + self.s) / 2 + _dot(self.y / 2 + self.s / self.fit.d, change)
        curvature = _dot(step / 2, change) + self.fit.gap(change)
        t = (
            -slope
            / xp.where(curvature > 0, 2 * curvature, xp.ones_like(curvature))
            * xp.astype(curvature > 0, curvature.dtype)
        )
        self.y += t * step
        self.s += t * change
        self.basis += t * (cg.basis + c - self.basis)
        # J(y) at the minimum on the line, and dual(a) = 1/2 (b'a + s'a)
        self.bounds[0] = _dot(self.y, self.b + self.s) / 2 + self.fit.gap(self.s)
        self.bounds[1] = _dot(cg.a, self.b + rest) / 2

    def read(self) -> None:
        """Copy the bounds from the device."""
        self.primal, self.dual = double(self.bounds)
        self.gaps = np.array(list(map(relative_gap, self.primal, self.dual, self.rounding)))

    def iterate(self, cg: BlockCG) -> Iterate:
        return Iterate(self.y, self.basis, cg.a)


class _Progress:
    """A detector of stagnation."""

    def __init__(self) -> None:
        self.primal = self.dual = np.zeros(0)
        self.since = 0

    def stagnates(self, points: _Points) -> bool:
        """Return whether neither bound has changed beyond rounding for 100 iterations."""
        if self.primal.size == 0 or np.any(_differ(self.primal, points.primal) | _differ(self.dual, points.dual)):
            self.primal, self.dual, self.since = points.primal, points.dual, 0
        self.since += 1
        return self.since > 100


def _differ(before: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.abs(now - before) > 1e-13 * np.abs(now)


def _dot(u: Array, v: Array) -> Array:
    """Return the inner products of corresponding columns."""
    return inner(u, v, axis=0)
