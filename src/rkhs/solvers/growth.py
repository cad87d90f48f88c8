"""Coordinate-wise growth: a few representers, chosen one after the other, and all of them corrected each time.

The span of the chosen representers S has an orthonormal basis e_1, e_2, .. whose images under all functionals are the
columns of a partial Cholesky factor of the Gram matrix,

    U U' ~ G,   U = G[:, S] C^-T,   C C' = G[S, S],       d_i = G_ii - |U_i|^2

where d_i is the squared distance of the representer z_i from the span.  On it J is a small, well conditioned problem,

    min over b, c    1/2 |b|^2 + sum_i w_i loss_i(u_i),    u = U b + Qc,        a_S = C^-T b

which Newton's method solves (`subspace`).  The gradient g = a + w loss'(u) is then orthogonal to the span, so the slope
of J along what z_i would add to it, at unit length, is

    (Gg)_i / sqrt(d_i)

The steepest choice is the largest of these.  (Dividing by sqrt(G_ii) instead would neglect representers that are near
the span but differ from it in the right direction.)  The one full product per choice, that of alpha = -w loss'(u), also
gives the dual value: the certificate costs nothing more.

A conditionally positive definite kernel gives G~ = A G A' in place of G, with A = I - Q Q_T^-1 [T] for r functionals T
that determine the basis: the inner products of z_i - sum_T (..) z_j, which are in the space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.certificate import lower_bound, relative_gap
from rkhs.finite.monitor import Monitor, Stopped
from rkhs.finite.system import Iterate, System
from rkhs.linalg.projection import project
from rkhs.losses.base import Smoothed
from rkhs.solvers.base import Solver
from rkhs.solvers.subspace import Restricted, newton_step

Matrix = np.ndarray[Any, Any]

SHRINK = 0.25  # of the width of the smoothed losses, each time
SOLVED = 0.5  # share of the true gap under which the smoothed problem counts as solved
DEPENDENT = 1e3  # units of rounding under which d_i counts as zero


@dataclass(frozen=True)
class Growth(Solver):
    """Coordinate-wise growth of a sparse expansion, for any losses.

    All coefficients but those of the chosen representers are exactly zero.  The N x S images of these are stored.

    Parameters
    ----------
    representers : how many there may be; as many as the gap needs when None
    selection : "steepest", along which J falls fastest, or "random"
    together : how many are chosen from one gradient, that is, per Gram product
    random_state : seed of the random selection

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=10.0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.2), [labels]).solve(rkhs.Growth(representers=10))
    >>> solution.status, solution.function.active
    ('limit of representers', 10)
    >>> solution.function.compress().functionals.size
    10
    """

    representers: int | None = None
    selection: str = "steepest"
    together: int = 1
    random_state: int | None = 0

    def __post_init__(self) -> None:
        if self.selection not in ("steepest", "random"):
            raise ValueError(f'Growth has selection "steepest" or "random", got {self.selection!r}.')
        if self.representers is not None and self.representers < 1:
            raise ValueError(f"Growth needs representers >= 1, or None for no limit, got {self.representers!r}.")
        if self.together < 1:
            raise ValueError(f"Growth needs together >= 1, got {self.together!r}.")

    def check(self, system: System) -> None:
        """Every problem will do."""

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        span, rng = _Span(system), np.random.default_rng(self.random_state)
        limit = min(system.size, self.representers or system.size)
        for i in _support(start, span)[: max(0, limit - span.active)]:
            span.add(i)
        columns = [_Column(system, k, start.basis[:, k]) for k in range(system.columns)]
        while True:
            for column in columns:
                column.minimise(span)
            alpha = namespace(start.a).concat([column.alpha for column in columns], axis=1)
            products = system.gram @ alpha
            monitor.product()
            for k, column in enumerate(columns):
                column.certify(alpha[:, k : k + 1], products[:, k : k + 1])
            iterate = span.iterate(columns)
            worst = max(column.gap for column in columns)
            monitor.report(iterate, sum(column.primal for column in columns), worst)
            if worst <= monitor.tol:
                return iterate
            open_ones = [k for k, column in enumerate(columns) if column.gap > monitor.tol]
            full = span.active >= limit
            sharpened = [columns[k].sharpen(monitor.tol, full) for k in open_ones]
            if any(sharpened):
                continue
            if full and limit < system.size:
                raise Stopped("limit of representers")
            if span.bytes > system.gram.budget:
                raise Stopped("memory limit")
            gradients = span.gradients(columns, products)[:, open_ones]
            if not self._grow(span, gradients, min(self.together, limit - span.active), rng):
                return iterate

    def _grow(self, span: _Span, gradients: Matrix, count: int, rng: np.random.Generator) -> bool:
        """Add representers to the span; False if none is left that would add anything."""
        before = span.active
        for _ in range(count):
            outside = span.rest > 0
            score = np.sum(gradients**2, axis=1) / np.where(outside, span.rest, np.inf)
            if not np.any(score > 0):
                break
            i = int(np.argmax(score)) if self.selection == "steepest" else int(rng.choice(np.flatnonzero(outside)))
            direction = span.add(i)
            if direction is not None:  # go on with the part of the gradient that is orthogonal to it
                gradients = gradients - np.outer(direction, gradients[i] / direction[i])
        return span.active > before


class _Span:
    """The span of the chosen representers: its orthonormal basis, and the images of this and of the basis Q."""

    def __init__(self, system: System) -> None:
        self.system, self.chosen = system, list[int]()
        self.images = system.Q  # (N, r + k): Q, then U
        N, r = system.size, int(system.Q.shape[1])
        self.r, Q = r, to_numpy(system.Q).astype(np.float64)
        fixed = r if system.kernel.order else 0
        self.fixed = scipy.linalg.qr(Q.T, mode="r", pivoting=True)[1][:fixed]  # T
        self.shares = np.linalg.solve(Q[self.fixed].T, Q.T).T if fixed else np.zeros((N, 0))  # Q Q_T^-1
        self.columns = self._columns(self.fixed)  # G[:, T]
        diagonal = to_numpy(system.gram.diagonal()).astype(np.float64)
        cross = np.sum(self.shares * to_numpy(self.columns), axis=1)
        square = np.sum((self.shares @ to_numpy(self.columns)[self.fixed]) * self.shares, axis=1)
        eps = float(namespace(system.Q).finfo(system.Q.dtype).eps)
        self.least = DEPENDENT * eps * (abs(diagonal) + 2 * abs(cross) + abs(square))
        self.rest = diagonal - 2 * cross + square  # d, zero where a representer has nothing to add
        self.rest[self.fixed] = 0.0
        self.rest[self.rest <= self.least] = 0.0
        self.moments = self._moments(self.images)

    @property
    def active(self) -> int:
        """The number of representers with a coefficient."""
        return len(self.chosen) + len(self.fixed)

    @property
    def bytes(self) -> int:
        return int(self.system.size * len(self.chosen) * self.images.itemsize)

    def add(self, i: int) -> Matrix | None:
        """Add a representer; the image of the new direction, or None if it is in the span already."""
        xp = namespace(self.images)
        if self.rest[i] <= 0:
            return None
        image = self._reduce(self._columns([i]) - self.columns @ like(self.shares[[i]].T, self.columns))
        image = image - self.images[:, self.r :] @ self.images[i, self.r :][:, None]
        square = float(image[i, 0])
        self.rest[i] = 0.0
        if square <= self.least[i]:
            return None
        image = image / square**0.5
        self.images = xp.concat([self.images, image], axis=1)
        self.chosen.append(i)
        direction: Matrix = to_numpy(image)[:, 0].astype(np.float64)
        self.rest -= direction**2
        self.rest[self.rest <= self.least] = 0.0
        new = self._moments(image)
        self.moments = np.block([[self.moments, new[:-1]], [new.T]])
        return direction

    def gradients(self, columns: list[_Column], products: Array) -> Matrix:
        """The inner products (N, c) of the gradients of J with what each representer would add to the span."""
        xp = namespace(products)
        b = like(np.stack([column.coefficients[self.r :] for column in columns], axis=1), products)
        values = self.images[:, self.r :] @ b - self._reduce(products)
        return np.where(self.rest[:, None] > 0, to_numpy(xp.asarray(values)).astype(np.float64), 0.0)

    def iterate(self, columns: list[_Column]) -> Iterate:
        """The best coefficients of the representers and of Q, and the best dual point."""
        size = int(self.images.shape[1])
        coefficients = np.stack([np.r_[column.best, np.zeros(size - len(column.best))] for column in columns], axis=1)
        a = np.zeros((self.system.size, len(columns)))
        factor = to_numpy(self.images[self.chosen][:, self.r :]).astype(np.float64)
        a[self.chosen] = scipy.linalg.solve_triangular(factor.T, coefficients[self.r :])
        basis = coefficients[: self.r]
        if len(self.fixed):
            a[self.fixed] = -self.shares.T @ a
            Q = to_numpy(self.system.Q).astype(np.float64)
            basis = basis - np.linalg.solve(Q[self.fixed], to_numpy(self.columns).T @ a)
        alpha = namespace(self.images).concat([column.bound for column in columns], axis=1)
        return Iterate(like(a, self.images), like(basis, self.images), alpha)

    def _columns(self, which: Sequence[int]) -> Array:
        """G[:, which]."""
        return self.system.gram.block(slice(None), which) if len(which) else self.images[:, :0]

    def _reduce(self, images: Array) -> Array:
        """A times images."""
        return images - like(self.shares, images) @ images[self.fixed]

    def _moments(self, new: Array) -> Matrix:
        """E'HE with the Hessian H of the quadratic losses, between all images and the new ones."""
        total = np.zeros((int(self.images.shape[1]), int(new.shape[1])))
        for t in self.system.terms:
            if t.loss.quadratic:
                total += to_numpy(self.images[t.rows].T @ (2 * t.weight * new[t.rows]))
        return total


class _Column:
    """One output: its coefficients over the span, its image and bounds."""

    def __init__(self, system: System, which: int, basis: Array) -> None:
        self.true = self.system = system.output(which)
        self.coefficients = self.best = to_numpy(basis).astype(np.float64)  # (r + k,): c, then b
        self.u = (system.Q @ basis)[:, None]
        self.primal = self.gap = self.own = self.before = float("inf")
        self.dual, self.bound = -float("inf"), system.zeros(1)
        self.width = 0.0
        if not system.smooth:
            rough = [t for t in self.true.terms if not t.loss.smooth]
            weight = sum(float(namespace(t.weight).sum(t.weight)) for t in rough)
            risk = sum(float(namespace(t.weight).sum(t.weight * t.loss.value(self.u[t.rows], t.target))) for t in rough)
            self.width = 2 * risk / weight or 1.0
            self._smooth()

    def _smooth(self) -> None:
        """The system with envelopes in place of losses that have no gradient."""
        soft = tuple(t if t.loss.smooth else replace(t, loss=t.loss.smoothed(self.width)) for t in self.true.terms)
        self.system = self.true.with_rows(soft)

    @property
    def alpha(self) -> Array:
        """-w loss'(u) of the smoothed losses, which is feasible for the dual of the true ones: Q'alpha = 0."""
        return project(-self.system.slope(self.u), *self.true.box, self.true.Q)  # rounding only

    def minimise(self, span: _Span) -> None:
        """Newton's method over the whole span."""
        size, r = int(span.images.shape[1]), span.r
        own = np.r_[np.zeros(r), np.ones(size - r)]  # J has 1/2 |b|^2 and nothing for c
        at = np.r_[self.coefficients, np.zeros(size - len(self.coefficients))]
        linear, constant, rough = own * at, 0.0, []
        for t in self.system.terms:
            u, E = self.u[t.rows], span.images[t.rows]
            if t.loss.quadratic:
                linear += to_numpy(E.T @ (t.weight * t.loss.gradient(u, t.target)))[:, 0]
                constant += float(namespace(u).sum(t.weight * t.loss.value(u, t.target)))
            else:
                rough.append((t, u[:, 0], E))
        psi = Restricted(float(at[r:] @ at[r:]), linear, np.diag(own) + span.moments, constant, rough)
        step = psi.minimise()
        self.coefficients = at + step
        self.u = span.images @ like(self.coefficients[:, None], span.images)
        self._judge(self.coefficients, self.u)
        if self.width and size:
            beyond = self.coefficients + self._unsmoothing(psi, step)
            self._judge(beyond, span.images @ like(beyond[:, None], span.images))

    def _unsmoothing(self, psi: Restricted, step: Matrix) -> Matrix:
        """-width d(minimiser)/d(width): to first order, the way to the minimiser without smoothing.

        At a kink the smoothed slope is (u - kink) / width, so the gradient changes with the width by minus curvature
        times slope.  For losses made of lines and parabolas the way is exact as soon as the pieces are the right ones.
        """
        _, hessian = psi.derivatives(step)
        change = np.zeros(len(step))
        for t, u, E in psi.rough:
            if isinstance(t.loss, Smoothed):
                v, w, b = u + E @ like(step, E), t.weight[:, 0], t.target[:, 0]
                change += to_numpy(E.T @ (w * t.loss.curvature(v, b) * t.loss.gradient(v, b)))
        return newton_step(hessian, self.width * change)

    def _judge(self, coefficients: Matrix, u: Array) -> None:
        """Keep the coefficients if J is lower there."""
        b = coefficients[int(self.true.Q.shape[1]) :]
        value = float(b @ b) / 2 + float(self.true.risk(u)[0])
        if value < self.primal:
            self.primal, self.best = value, coefficients

    def certify(self, alpha: Array, product: Array) -> None:
        """Update the bounds on the true minimum from alpha and its image."""
        dual = float(lower_bound(self.true, alpha, product)[0])
        if dual > self.dual:
            self.dual, self.bound = dual, alpha
        self.gap = relative_gap(self.primal, self.dual)
        if self.width:
            b = self.coefficients[int(self.true.Q.shape[1]) :]
            smoothed = float(b @ b) / 2 + float(self.system.risk(self.u)[0])
            self.own = smoothed - float(lower_bound(self.system, alpha, product)[0])

    def sharpen(self, tol: float, full: bool) -> bool:
        """Shrink the width if smoothing, not the span, keeps the gap open; in a full span, as long as it pays."""
        solved = self.own <= SOLVED * (self.primal - self.dual)
        pays = full and self.primal < self.before - tol * abs(self.primal)
        if not self.width or not (solved or pays):
            return False
        self.before = self.primal
        self.width *= SHRINK
        self._smooth()
        return True


def _support(start: Iterate, span: _Span) -> list[int]:
    """The representers that an iterate uses, the ones that carry most of it first."""
    size = np.max(np.abs(to_numpy(start.a)), axis=1) * np.sqrt(span.rest)
    return [int(i) for i in np.argsort(-size, kind="stable") if size[i] > 0]
