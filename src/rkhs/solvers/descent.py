"""Conjugate gradients in the RKHS: one Gram product per iteration, and the certificate for nothing.

For smooth losses the gradient of J in H is the function with coefficients

    g = a + w loss'(u),        u = Ga + Qc

no product beyond the one that gives u.  With its image Gg (the one product) all of J on the span of g, of the last
steps and of f itself is known without another, and is minimised there exactly (`small.problem`): on quadratic losses
these are conjugate gradients, on others they need no rule for step lengths or conjugacy.  The basis coefficients are
minimised along, so Q'w loss'(u) = 0 and alpha = -w loss'(u) is feasible for the dual, with gap 1/2 g'Gg.

Losses without a gradient are smoothed (`smoothing`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.certificate import bounds, relative_gap
from rkhs.finite.monitor import Monitor, OutOfIterations
from rkhs.finite.system import Iterate, System
from rkhs.solvers.base import Solver
from rkhs.solvers.costs import Estimate
from rkhs.solvers.small.problem import SmallProblem
from rkhs.solvers.smoothing import SHRINK, Smoothing

SMOOTH, ROUGH = 1.5, 20  # times the iterations of conjugate gradients, without kinks and with
DEPENDENT = 1e-2  # units of the root of rounding, under which directions count as dependent


@dataclass(frozen=True)
class Descent(Solver):
    """Conjugate gradients in the RKHS, for any losses and any size.

    Parameters
    ----------
    memory : how many of the last steps are kept as directions
    max_iterations : after which it gives up

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Logistic(), target=[-1.0, 1.0])
    >>> rkhs.Problem(rkhs.Gaussian(), [term]).solve(rkhs.solvers.Descent()).status
    'converged'
    """

    memory: int = 3
    max_iterations: int = 10_000

    def check(self, system: System) -> None:
        """Every problem will do."""

    def cost(self, estimate: Estimate) -> float:
        return (SMOOTH if estimate.system.smooth else ROUGH) * estimate.iterating * estimate.system.columns

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        xp = namespace(start.a)
        images = system.exact @ start.a if bool(xp.any(start.a != 0)) else system.zeros()
        columns = [
            _Point(system.output(c), start.a[:, c], images[:, c], start.basis[:, c], self.memory)
            for c in range(system.columns)
        ]
        for _ in range(self.max_iterations):
            open_ones = [column for column in columns if column.gap > monitor.tol]
            if not open_ones:
                return _together(columns)
            gradients = xp.stack([column.gradient() for column in open_ones], axis=1)
            products = system.gram @ gradients
            for k, column in enumerate(open_ones):
                column.certify(gradients[:, k], products[:, k])
            worst = max(column.gap for column in columns)
            monitor.report(_together(columns), sum(column.lowest for column in columns), worst)
            open_ones = [column for column in open_ones if column.gap > monitor.tol]
            for column in open_ones:
                column.step()
            if all(column.stuck for column in open_ones):
                return _together(columns)
        raise OutOfIterations


class _Point:
    """One output: its point, image and directions, and the best points of the primal and of the dual so far."""

    def __init__(self, system: System, a: Array, image: Array, basis: Array, memory: int) -> None:
        self.true = system
        self.a, self.image, self.basis = a, image, basis
        self.memory = memory
        self.steps: list[tuple[Array, Array]] = []
        self.gap, self.dual, self.alpha = float("inf"), -float("inf"), a
        self.lowest, self.best = float("inf"), (a, basis)
        self.stuck = self.sharpened = False
        self.wider: tuple[Array, Array, Array] | None = None  # the minimiser of the width before
        self.largest = 0.0  # |Gd| / |d| so far
        self.smoothing = Smoothing.of(system.terms, self.u[:, None])
        self.system = system.with_rows(self.smoothing.terms(system.terms))
        self._minimise(a[:, None][:, :0], image[:, None][:, :0])  # the basis alone

    @property
    def u(self) -> Array:
        return self.image + self.true.Q @ self.basis

    def gradient(self) -> Array:
        """The coefficients of the gradient of J in H."""
        return self.a + self.system.slope(self.u[:, None])[:, 0]

    def certify(self, g: Array, product: Array) -> None:
        """The bounds on the true minimum from the gradient and its image; a smaller width where it is time."""
        self.g, self.product = g, product
        a, image, u = self.a[:, None], self.image[:, None], self.u[:, None]
        primal, dual = bounds(self.true, a, image, u, g[:, None], product[:, None])
        if dual > self.dual:
            self.dual, self.alpha = dual, self.a - g
        self._judge(primal, self.a, self.basis)
        own = float(namespace(g).vecdot(g, product)) / 2
        self.sharpened = self.smoothing.sharpen(own, self.lowest - self.dual)
        if self.sharpened:
            self._extrapolate()
            self.system = self.true.with_rows(self.smoothing.terms(self.true.terms))

    def _judge(self, primal: float, a: Array, basis: Array) -> None:
        """Keep the best point so far."""
        if primal < self.lowest:
            self.lowest, self.best = primal, (a, basis)
        self.gap = relative_gap(self.lowest, self.dual)

    def _extrapolate(self) -> None:
        """The minimisers of two widths on a line to width 0: exact where the losses are made of lines and parabolas."""
        here = (self.a, self.image, self.basis)
        if self.wider is not None:
            a, image, basis = (x + (x - y) * (SHRINK / (1 - SHRINK)) for x, y in zip(here, self.wider, strict=True))
            u = (image + self.true.Q @ basis)[:, None]
            self._judge(float(namespace(a).vecdot(a, image)) / 2 + float(self.true.risk(u)[0]), a, basis)
        self.wider = here

    def step(self) -> None:
        """Minimise over the gradient, the last steps and f itself."""
        xp = namespace(self.a)
        directions = [(self.g, self.product), *self.steps]
        if bool(xp.any(self.a != 0)):
            directions.append((self.a, self.image))
        directions = [pair for pair in directions if self._seen(*pair)]
        if not directions:
            self.stuck = not self.sharpened
            return
        sizes = [float(xp.vecdot(d, Gd)) ** 0.5 for d, Gd in directions]
        D = xp.stack([d / s for (d, _), s in zip(directions, sizes, strict=True)], axis=1)
        U = xp.stack([Gd / s for (_, Gd), s in zip(directions, sizes, strict=True)], axis=1)
        before = self.a
        move = self._minimise(*_orthonormal(D, U))
        self.steps = [move, *self.steps[: self.memory - 1]]
        self.stuck = not (self.sharpened or bool(xp.any(self.a != before)))

    def _seen(self, d: Array, image: Array) -> bool:
        """Whether d'Gd is more than the rounding of the product."""
        xp = namespace(d)
        size = float(xp.linalg.vector_norm(d))
        self.largest = max(self.largest, float(xp.linalg.vector_norm(image)) / (size or 1.0))
        return float(xp.vecdot(d, image)) > 4 * float(xp.finfo(d.dtype).eps) * self.largest * size**2

    def _minimise(self, D: Array, U: Array) -> tuple[Array, Array]:
        r = int(self.true.Q.shape[1])
        small = SmallProblem.around(self.system, self.a, self.image, self.u, D, U)
        theta = like(small.minimise(), self.a)
        step, moved = D @ theta[r:], U @ theta[r:]
        self.a, self.image, self.basis = self.a + step, self.image + moved, self.basis + theta[:r]
        return step, moved


def _orthonormal(D: Array, U: Array) -> tuple[Array, Array]:
    """Directions that span the same, orthonormal in H, and their images; what depends on the others is left out."""
    values, vectors = np.linalg.eigh(to_numpy(D.T @ U).astype(np.float64))
    apart = values > DEPENDENT * float(namespace(D).finfo(D.dtype).eps) ** 0.5
    turn = like(vectors[:, apart] / np.sqrt(values[apart]), D)
    return D @ turn, U @ turn


def _together(columns: list[_Point]) -> Iterate:
    xp = namespace(columns[0].a)
    parts = zip(*((*column.best, column.alpha) for column in columns), strict=True)
    return Iterate(*(xp.stack(part, axis=1) for part in parts))
