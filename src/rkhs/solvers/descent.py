"""Conjugate gradients in the RKHS: one Gram product per iteration, and the certificate for nothing.

For smooth losses the gradient of J in H is the function with coefficients

    g = a + w loss'(u),        u = Ga + Qc

no product beyond the one that gives u.  With its image Gg (the one product) all of J on the span of g, of the last
steps and of f itself is known without another, and is minimised there exactly (`subspace`): on quadratic losses
these are conjugate gradients, on others they need no rule for step lengths or conjugacy.  The basis coefficients are
minimised along, so Q'w loss'(u) = 0 and alpha = -w loss'(u) is feasible for the dual, with gap 1/2 g'Gg.

Losses without a gradient are replaced by their Moreau envelopes, whose width shrinks whenever the smoothed problem
is solved better than it approximates the true one.  Any alpha of a smoothed problem is feasible for the true dual,
and its image is known, so the gap that is reported is always the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.certificate import bounds, relative_gap
from rkhs.finite.monitor import Monitor, OutOfIterations
from rkhs.finite.system import Iterate, System
from rkhs.solvers.base import Solver
from rkhs.solvers.subspace import Restricted

SHRINK = 0.25  # of the width, each time
DEPENDENT = 1e-2  # units of the root of rounding, under which directions count as dependent
SOLVED = 0.5  # share of the true gap under which the smoothed problem counts as solved


@dataclass(frozen=True)
class Descent(Solver):
    """Conjugate gradients in the RKHS, for any losses and any size.

    Parameters
    ----------
    memory : how many of the last steps are kept as directions
    max_iterations : after which it gives up
    """

    memory: int = 3
    max_iterations: int = 10_000

    def check(self, system: System) -> None:
        """Every problem will do."""

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        xp = namespace(start.a)
        images = system.zeros()
        if bool(xp.any(start.a != 0)):
            images = system.exact @ start.a
            monitor.product()
        columns = [
            _Column(system, c, start.a[:, c], images[:, c], start.basis[:, c], self.memory)
            for c in range(system.columns)
        ]
        for _ in range(self.max_iterations):
            open_ones = [column for column in columns if column.gap > monitor.tol]
            if not open_ones:
                return _together(columns)
            gradients = xp.stack([column.gradient() for column in open_ones], axis=1)
            products = system.gram @ gradients
            monitor.product()
            for k, column in enumerate(open_ones):
                column.certify(gradients[:, k], products[:, k])
            worst = max(column.gap for column in columns)
            monitor.report(_together(columns), sum(column.primal for column in columns), worst)
            for k, column in enumerate(open_ones):
                if column.gap > monitor.tol:
                    column.step(gradients[:, k], products[:, k])
            if all(column.stuck for column in open_ones if column.gap > monitor.tol):
                break
        else:
            raise OutOfIterations
        return _together(columns)


class _Column:
    """One output: its iterate, image, directions and bounds."""

    def __init__(self, system: System, which: int, a: Array, image: Array, basis: Array, memory: int) -> None:
        self.which = which
        self.true = system.output(which)
        self.a, self.image, self.basis = a, image, basis
        self.memory = memory
        self.steps: list[tuple[Array, Array]] = []
        self.primal = self.gap = float("inf")
        self.dual = -float("inf")
        self.alpha = a  # of the best dual value so far
        self.stuck = self.sharpened = False
        self.lowest, self.best = float("inf"), (a, image, basis)
        self.wider: tuple[Array, Array, Array] | None = None  # the minimiser of the width before
        self.largest = 0.0  # |Gd| / |d| so far
        xp = namespace(a)
        self.width = 0.0
        if not self.true.smooth:
            rough = sum(float(xp.sum(t.weight)) for t in self.true.terms if not t.loss.smooth)
            self.width = 2 * float(self.true.risk(self.u[:, None])[0]) / max(rough, 1e-300)
        self._smooth()
        self._minimise(self.a[:, None][:, :0], self.image[:, None][:, :0])  # the basis alone

    @property
    def u(self) -> Array:
        return self.image + self.true.Q @ self.basis

    def _smooth(self) -> None:
        """The system with envelopes in place of losses that have no gradient."""
        soft = tuple(t if t.loss.smooth else replace(t, loss=t.loss.smoothed(self.width)) for t in self.true.terms)
        self.system = self.true.with_rows(soft)

    def gradient(self) -> Array:
        """The coefficients of the gradient of J in H."""
        return self.a + self.system.slope(self.u[:, None])[:, 0]

    def certify(self, g: Array, image: Array) -> None:
        """Update the bounds on the true minimum from the gradient and its image."""
        xp = namespace(g)
        u = self.u[:, None]
        self.primal, dual = bounds(self.true, self.a[:, None], self.image[:, None], u, g[:, None], image[:, None])
        if dual > self.dual:
            self.dual, self.alpha = dual, self.a - g
        self._judge(self.primal, (self.a, self.image, self.basis))
        self.gap = relative_gap(self.primal, self.dual)
        self.sharpened = bool(self.width) and float(xp.vecdot(g, image)) / 2 <= SOLVED * (self.primal - self.dual)
        if self.sharpened:
            self._extrapolate()
            self.width *= SHRINK
            self._smooth()

    def _judge(self, primal: float, point: tuple[Array, Array, Array]) -> None:
        """Keep the best point so far."""
        if primal < self.lowest:
            self.lowest, self.best = primal, point
        self.primal = self.lowest

    def _extrapolate(self) -> None:
        """The minimisers of two widths on a line to width 0: exact where the losses are made of lines and parabolas."""
        here = (self.a, self.image, self.basis)
        if self.wider is not None:
            a, image, basis = (x + (x - y) * (SHRINK / (1 - SHRINK)) for x, y in zip(here, self.wider, strict=True))
            u = (image + self.true.Q @ basis)[:, None]
            primal = float(namespace(a).vecdot(a, image)) / 2 + float(self.true.risk(u)[0])
            self._judge(primal, (a, image, basis))
            self.gap = relative_gap(self.primal, self.dual)
        self.wider = here

    def step(self, g: Array, image: Array) -> None:
        """Minimise over the gradient, the last steps and f itself."""
        xp = namespace(g)
        directions = [(g, image), *self.steps]
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
        k = D.shape[1]
        psi = Restricted.of(self.system, self.system.terms, self.a, self.image, self.u, D, U)
        theta = like(psi.minimise(), self.a)
        step, moved = D @ theta[:k], U @ theta[:k]
        self.a, self.image, self.basis = self.a + step, self.image + moved, self.basis + theta[k:]
        return step, moved


def _orthonormal(D: Array, U: Array) -> tuple[Array, Array]:
    """Directions that span the same, orthonormal in H, and their images; what depends on the others is left out."""
    values, vectors = np.linalg.eigh(to_numpy(D.T @ U).astype(np.float64))
    apart = values > DEPENDENT * float(namespace(D).finfo(D.dtype).eps) ** 0.5
    turn = like(vectors[:, apart] / np.sqrt(values[apart]), D)
    return D @ turn, U @ turn


def _together(columns: list[_Column]) -> Iterate:
    xp = namespace(columns[0].a)
    parts = zip(*((column.best[0], column.best[2], column.alpha) for column in columns), strict=True)
    return Iterate(*(xp.stack(part, axis=1) for part in parts))
