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

from rkhs.backend.arrays import Array, like, namespace
from rkhs.finite.certificate import bounds, relative_gap
from rkhs.finite.monitor import Monitor, Stopped
from rkhs.finite.system import Iterate, System
from rkhs.losses.base import Smoothed
from rkhs.solvers.base import Solver
from rkhs.solvers.subspace import Restricted

SHRINK = 0.25  # of the width, each time
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
            images = system.gram @ start.a
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
            raise Stopped("iteration limit")
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
        self.stuck = False
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
        soft = tuple(t if t.loss.smooth else replace(t, loss=Smoothed(t.loss, self.width)) for t in self.true.terms)
        self.system = self.true.with_rows(soft)

    def gradient(self) -> Array:
        """The coefficients of the gradient of J in H."""
        return self.a + self.system.slope(self.u[:, None])[:, 0]

    def certify(self, g: Array, image: Array) -> None:
        """Update the bounds on the true minimum from the gradient and its image."""
        xp = namespace(g)
        u = self.u[:, None]
        self.primal, dual = bounds(self.true, self.a[:, None], self.image[:, None], u, g[:, None], image[:, None])
        self.dual = max(self.dual, dual)
        self.gap = relative_gap(self.primal, self.dual)
        if self.width and float(xp.vecdot(g, image)) / 2 <= SOLVED * (self.primal - dual):
            self.width *= SHRINK
            self._smooth()

    def step(self, g: Array, image: Array) -> None:
        """Minimise over the gradient, the last steps and f itself."""
        xp = namespace(g)
        directions = [(g, image), *self.steps]
        if bool(xp.any(self.a != 0)):
            directions.append((self.a, self.image))
        sizes = [max(float(xp.vecdot(d, Gd)), 0.0) ** 0.5 or 1.0 for d, Gd in directions]
        D = xp.stack([d / s for (d, _), s in zip(directions, sizes, strict=True)], axis=1)
        U = xp.stack([Gd / s for (_, Gd), s in zip(directions, sizes, strict=True)], axis=1)
        before = self.a
        move = self._minimise(D, U)
        self.steps = [move, *self.steps[: self.memory - 1]]
        self.stuck = not bool(xp.any(self.a != before))

    def _minimise(self, D: Array, U: Array) -> tuple[Array, Array]:
        k = D.shape[1]
        psi = Restricted.of(self.system, self.system.terms, self.a, self.image, self.u, D, U)
        theta = like(psi.minimise(), self.a)
        step, moved = D @ theta[:k], U @ theta[:k]
        self.a, self.image, self.basis = self.a + step, self.image + moved, self.basis + theta[k:]
        return step, moved


def _together(columns: list[_Column]) -> Iterate:
    xp = namespace(columns[0].a)
    a = xp.stack([column.a for column in columns], axis=1)
    return Iterate(a, xp.stack([column.basis for column in columns], axis=1))
