"""Conjugate gradients in the RKHS: one Gram product per iteration, and the certificate for nothing.

For smooth losses the gradient of J in H is the function with coefficients

    g = a + w loss'(u),        u = Ga + Qc

no product beyond the one that gives u.  With its image Gg (the one product) all of J on the span of g, of the last
steps and of f itself is known without another, and is minimized there exactly (`_reduced`): on quadratic losses
these are conjugate gradients, on others they need no rule for step lengths or conjugacy.  The basis coefficients are
minimized along, so Q'w loss'(u) = 0 and alpha = -w loss'(u) is feasible for the dual, with gap 1/2 g'Gg.

A few landmarks tell about what G is (`_preconditioning`), and so what Newton's step would be,

    (I + HG)^-1 g,             H = diag(w loss''(u)),

which is one more direction, multiplied by G together with the gradient.  H is looked at again when it has changed.

Losses without a gradient are smoothed (`_reduced.Smoothing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, like, namespace, to_numpy
from rkhs._finite.certificate import bounds, relative_gap
from rkhs._finite.monitor import Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._linalg.cg import Preconditioner
from rkhs.solvers._base import Solver
from rkhs.solvers._costs import Estimate
from rkhs.solvers._preconditioning import Nystroem, check_landmarks, iterations_before, landmark_count
from rkhs.solvers._reduced import SHRINK, ReducedProblem, Smoothing

SEEN = 0.25  # share that rounding may have in the energy of a direction


@dataclass(frozen=True)
class NonlinearCG(Solver):
    """Conjugate gradients in the RKHS, for any losses and any size.

    Parameters
    ----------
    memory : how many of the last steps are kept as directions
    landmarks : how many functionals tell about what Newton's step would be; by default as many as pay, after some
        iterations without where these may do
    max_iterations : after which it gives up

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Logistic(), target=[-1.0, 1.0])
    >>> rkhs.Problem(rkhs.Gaussian(), [term]).solve(rkhs.solvers.NonlinearCG()).status
    'converged'
    """

    memory: int = 3
    max_iterations: int = 10_000
    landmarks: int | None = None

    def __post_init__(self) -> None:
        check_landmarks(self.name, self.landmarks)

    def check(self, system: FiniteProblem) -> None:
        """Every problem will do."""

    def cost(self, estimate: Estimate) -> float:
        times = 1.5 if estimate.system.smooth else 6  # the iterations of conjugate gradients
        return times * estimate.iterating(self.step(estimate)) * estimate.system.columns

    def step(self, estimate: Estimate) -> float:
        return estimate.step * (1 if estimate.system.smooth else 4)  # losses are smoothed

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        xp = namespace(start.a)
        images = system.exact @ start.a if bool(xp.any(start.a != 0)) else system.zeros()
        columns = [
            _DescentPoint(system.output(c), start.a[:, c], images[:, c], start.basis[:, c], self.memory)
            for c in range(system.columns)
        ]
        # For each output about 5 updates of the second derivatives use the landmarks.
        count = landmark_count(system.geometry, self.landmarks, 4 + 2 * 5 * system.columns)
        plain = 0 if self.landmarks else iterations_before(system.geometry, count)
        near: Nystroem | None = None
        for iteration in range(self.max_iterations):
            open_ones = [column for column in columns if column.gap > monitor.tol]
            stale = [column for column in columns if system.inexact and column.stale(monitor.tol)]
            if not open_ones and not stale:
                return _together(columns)
            if stale:
                images = system.exact @ xp.stack([a for column in stale for a in (column.a, column.best[0])], axis=1)
                for k, column in enumerate(stale):
                    column.correct(images[:, 2 * k], images[:, 2 * k + 1], monitor.tol)
                open_ones = [column for column in columns if column.gap > monitor.tol]
            if count and iteration == plain:
                near = Nystroem.of(system.geometry, sum(column.bend for column in columns), count, monitor.left)
            directions = [column.gradient() for column in open_ones]
            if near is not None:
                directions += [column.towards(g, near) for column, g in zip(open_ones, directions, strict=True)]
            products = system.gram @ xp.stack(directions, axis=1)
            pairs = [(d, products[:, k]) for k, d in enumerate(directions)]
            for k, column in enumerate(open_ones):
                column.certify(*pairs[k])
                column.directions = pairs[k :: len(open_ones)]
            worst = max(column.gap for column in columns)
            monitor.report(_together(columns), sum(column.lowest for column in columns), worst)
            open_ones = [column for column in open_ones if column.gap > monitor.tol]
            for column in open_ones:
                column.step()
            if open_ones and all(column.stuck for column in open_ones):
                return _together(columns)
        raise OutOfIterations


class _DescentPoint:
    """One output: its point, image and directions, and the best points of the primal and of the dual so far."""

    def __init__(self, system: FiniteProblem, a: Array, image: Array, basis: Array, memory: int) -> None:
        self.true = system
        self.a, self.image, self.basis = a, image, basis
        self.memory = memory
        self.directions: list[tuple[Array, Array]] = []  # the gradient, Newton's step, with their images
        self.steps: list[tuple[Array, Array]] = []
        self.model: tuple[Array, Preconditioner] | None = None  # the second derivatives, and Newton's steps with these
        self.gap, self.dual, self.alpha = float("inf"), -float("inf"), a
        self.lowest, self.best = float("inf"), (a, basis)
        self.stuck = self.sharpened = False
        self.moved = False  # since its image was computed from it
        self.wider: tuple[Array, Array, Array] | None = None  # the minimizer of the width before
        self.largest = 0.0  # |Gd| / |d| so far
        self.smoothing = Smoothing.of(system.terms, self.u[:, None])
        self.system = system.with_rows(self.smoothing.terms(system.terms))
        self._minimize(a[:, None][:, :0], image[:, None][:, :0])  # the basis alone

    @property
    def u(self) -> Array:
        return self.image + self.true.Q @ self.basis

    def gradient(self) -> Array:
        """The coefficients of the gradient of J in H."""
        return self.a + self.system.gradient(self.u[:, None])[:, 0]

    @property
    def bend(self) -> Array:
        """The second derivatives of the losses, (N, 1)."""
        return self.system.hessian_diagonal(self.u[:, None])

    def towards(self, g: Array, near: Nystroem) -> Array:
        """What Newton's step has beside the gradient, with what landmarks know of G in the place of G.

        The two may be nearly parallel, and images of differences that are taken after the product have lost digits.
        """
        xp, h = namespace(g), self.bend
        if self.model is None or float(xp.sum(abs(h - self.model[0]))) > 0.5 * float(xp.sum(self.model[0])):
            self.model = h, near.with_diagonal(h)
        h, model = self.model
        step = model.solve(g[:, None] / (1 + h * near.left))[:, 0]
        return self.true.inside((step - xp.vecdot(g, step) / (float(xp.vecdot(g, g)) or 1.0) * g)[:, None])[:, 0]

    def certify(self, g: Array, product: Array) -> None:
        """The bounds on the true minimum from the gradient and its image; a smaller width where it is time."""
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

    def stale(self, tol: float) -> bool:
        """Whether it is time for the image of the point itself, which inexact products have led astray.

        Before it is believed to be the minimum, and before smaller widths, which see smaller errors.
        """
        return self.moved and (self.sharpened or self.gap <= tol)

    def correct(self, image: Array, best: Array, tol: float) -> None:
        """Go on with the true images of the point and of the best one; at the end forget bounds that may be none."""
        self.image, self.moved = image, False
        if self.gap <= tol:
            self.dual, self.lowest = -float("inf"), float("inf")
            self._judge_at(self.best[0], best, self.best[1])
        self._minimize(self.a[:, None][:, :0], image[:, None][:, :0])

    def _judge_at(self, a: Array, image: Array, basis: Array) -> None:
        u = (image + self.true.Q @ basis)[:, None]
        self._judge(float(namespace(a).vecdot(a, image)) / 2 + float(self.true.loss(u)[0]), a, basis)

    def _judge(self, primal: float, a: Array, basis: Array) -> None:
        """Keep the best point so far."""
        if primal < self.lowest:
            self.lowest, self.best = primal, (a, basis)
        self.gap = relative_gap(self.lowest, self.dual)

    def _extrapolate(self) -> None:
        """The minimizers of two widths on a line to width 0: exact where the losses are made of lines and parabolas."""
        here = (self.a, self.image, self.basis)
        if self.wider is not None:
            self._judge_at(*(x + (x - y) * (SHRINK / (1 - SHRINK)) for x, y in zip(here, self.wider, strict=True)))
        self.wider = here

    def step(self) -> None:
        """Minimize over the gradient, Newton's step, the last steps and f itself."""
        xp = namespace(self.a)
        directions = [*self.directions, *self.steps]
        if bool(xp.any(self.a != 0)):
            directions.append((self.a, self.image))
        lost = [self._lost(*pair) for pair in directions]
        seen = sorted((share, k) for k, share in enumerate(lost) if share < SEEN)  # the most certain ones first
        if not seen:
            self.stuck = not self.sharpened
            return
        directions = [directions[k] for _, k in seen]
        sizes = [float(xp.vecdot(d, Gd)) ** 0.5 for d, Gd in directions]
        D = xp.stack([d / s for (d, _), s in zip(directions, sizes, strict=True)], axis=1)
        U = xp.stack([Gd / s for (_, Gd), s in zip(directions, sizes, strict=True)], axis=1)
        before, self.moved = self.a, True
        move = self._minimize(*_orthonormal(D, U, [share for share, _ in seen]))
        self.steps = [move, *self.steps[: self.memory - 1]]
        self.stuck = not (self.sharpened or bool(xp.any(self.a != before)))

    def _lost(self, d: Array, image: Array) -> float:
        """The share of d'Gd that is the rounding of the product; infinite where there is nothing else."""
        xp = namespace(d)
        size = float(xp.linalg.vector_norm(d))
        self.largest = max(self.largest, float(xp.linalg.vector_norm(image)) / (size or 1.0))
        energy = float(xp.vecdot(d, image))
        return float(xp.finfo(d.dtype).eps) * self.largest * size**2 / energy if energy > 0 else inf

    def _minimize(self, D: Array, U: Array) -> tuple[Array, Array]:
        r = int(self.true.Q.shape[1])
        small = ReducedProblem.around(self.system, self.a, self.image, self.u, D, U)
        theta = like(small.minimize(), self.a)
        step, moved = D @ theta[r:], U @ theta[r:]
        self.a, self.image, self.basis = self.a + step, self.image + moved, self.basis + theta[:r]
        return step, moved


def _orthonormal(D: Array, U: Array, lost: list[float]) -> tuple[Array, Array]:
    """Directions that span the same, orthonormal in H, and their images; D is of length one there.

    What depends on the directions before it is left out, as far as can be told with the shares that rounding has.
    """
    between = to_numpy(D.T @ U).astype(np.float64)
    # Directions count as dependent below a hundredth of the root of the unit of rounding.
    least = 1e-2 * float(namespace(D).finfo(D.dtype).eps) ** 0.5
    kept: list[int] = []
    for k, share in enumerate(lost):
        own = between[np.ix_(kept, [k])]
        rest = 1 - float(own[:, 0] @ np.linalg.lstsq(between[np.ix_(kept, kept)], own, rcond=None)[0][:, 0])
        if rest > max(least, share / SEEN):
            kept.append(k)
    values, vectors = np.linalg.eigh(between[np.ix_(kept, kept)])
    apart = values > max(least, max(lost[k] for k in kept) / SEEN)
    turn = like(vectors[:, apart] / np.sqrt(values[apart]), D)
    return D[:, kept] @ turn, U[:, kept] @ turn


def _together(columns: list[_DescentPoint]) -> Iterate:
    xp = namespace(columns[0].a)
    parts = zip(*((*column.best, column.alpha) for column in columns), strict=True)
    return Iterate(*(xp.stack(part, axis=1) for part in parts))
