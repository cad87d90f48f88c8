"""A problem on a subspace: a quadratic function of a few variables plus losses on rows.

    min over theta = (c, tau)    1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(u_i + (E theta)_i)

It is the finite problem with explicit features E: on the span of some directions around a point
(`ReducedProblem.around`), of landmarks, of random features, or of all directions so far.  tau are the coefficients of
these functions and c those of the basis.  Quadratic losses enter S, linear and constant by their moments; the others
keep their rows.  Where all of these are smooth, Newton's method with a line search finds the minimum to rounding.

Where they are few, what S determines can be eliminated (`Elimination`).  With alpha = -w loss'(u), S theta = E'alpha -
linear, which leaves a finite problem with a Gram matrix,

    u = G alpha + u_0 + Q e,        G = E S^+ E',   u_0 = -E S^+ linear,

and e the coefficients of those directions of c that S does not see, as its basis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, Vector, like, namespace, to_numpy
from rkhs._finite.certificate import feasible, lower_bound
from rkhs._finite.monitor import Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate, LossBlock, consecutive
from rkhs._linalg.projection import project
from rkhs.solvers._base import Solver, blocks_in_double, double

ROUNDING = 45  # units in which a fall of the objective is lost
SHRINK = 0.25  # of the width of envelopes, each time
SEEN = 1e-9  # the size of a basis function on the rows, among those of size one elsewhere, that counts as zero


@dataclass
class Smoothing:
    """Moreau envelopes of a width that shrinks, in place of losses without a gradient (Nesterov's smoothing).

    Any alpha of a smoothed problem is feasible for the dual of the true one (the envelope's conjugate has the same
    domain), so the gap that a smoothed problem leaves is known for the true one at any width; 0 where all losses have
    gradients.  The width shrinks whenever the smoothed problem is solved better than it approximates the true one.
    """

    width: float

    def __post_init__(self) -> None:
        self.least = 1e-30 * self.width  # less is rounding, and then no number

    @classmethod
    def of(cls, terms: Sequence[LossBlock], u: Array) -> Smoothing:
        """Twice the mean loss of the rows that have no gradient, at u (N, 1): what a slope of one saves within it."""
        rough = [t for t in terms if not t.loss.smooth]
        xp = namespace(u)
        weight = sum(float(xp.sum(t.weight)) for t in rough)
        risk = sum(float(xp.sum(t.weight * t.loss.value(u[t.rows], t.target))) for t in rough)
        return cls((2 * risk / weight or 1.0) if weight > 0 else 0.0)

    def terms(self, terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
        """The rows with envelopes in place of losses that have no gradient."""
        return tuple(t if t.loss.smooth else replace(t, loss=t.loss.smoothed(self.width)) for t in terms)

    def sharpen(self, own: float, gap: float) -> bool:
        """Shrink the width if `own`, the gap of the smoothed problem, is small beside that of the true one."""
        if not self.width or own > gap / 2:
            return False
        self.shrink()
        return True

    def shrink(self) -> None:
        """To the next width."""
        self.width = max(SHRINK * self.width, self.least)


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Rows of a loss that is not quadratic, of one output: at u + E theta, E (t, m) with u (t,)."""

    rows: LossBlock
    u: Array
    E: Any

    def at(self, theta: Matrix) -> Array:
        return self.u + self.E @ like(theta, self.u)

    def slope(self, theta: Matrix) -> Array:
        """w loss' (t,)."""
        return self.rows.weight[:, 0] * self.rows.loss.gradient(self.at(theta), self.rows.target[:, 0])


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """The problem on a subspace; `rank` is the number of the c, which S need not determine."""

    square: Matrix
    linear: Matrix
    constant: float
    parts: Sequence[FeatureBlock]
    rank: int

    @classmethod
    def around(cls, system: FiniteProblem, a: Array, image: Array, u: Array, D: Array, U: Array) -> ReducedProblem:
        """J of one output at a + D tau and u + U tau + Q c, for directions D (N, k) with images U."""
        xp = namespace(a)
        k, r = int(D.shape[1]), int(system.Q.shape[1])
        linear, square = np.zeros(r + k), np.zeros((r + k, r + k))
        linear[r:] = to_numpy(D.T @ image)
        cross = to_numpy(D.T @ U).astype(np.float64)
        square[r:, r:] = (cross + cross.T) / 2
        constant = float(xp.vecdot(a, image)) / 2
        parts = []
        for t in system.terms:
            E = xp.concat([system.Q[t.rows], U[t.rows]], axis=1)
            if t.loss.quadratic:
                residual = u[t.rows] - t.target[:, 0]
                weighted = t.weight * E
                linear += 2 * to_numpy(weighted.T @ residual)
                square += 2 * to_numpy(weighted.T @ E)
                constant += float(xp.sum(t.weight[:, 0] * residual**2))
            else:
                parts.append(FeatureBlock(t, u[t.rows], E))
        return cls(upright(square, a), linear, constant, parts, r)

    @property
    def smooth(self) -> bool:
        return all(part.rows.loss.smooth for part in self.parts)

    @cached_property
    def seen(self) -> float:
        """The share of psi under which its fall is lost in the rounding of its rows."""
        units = [float(namespace(part.u).finfo(part.u.dtype).eps) for part in self.parts]
        return ROUNDING * max([float(np.finfo(np.float64).eps), *units])

    def smoothed(self, smoothing: Smoothing) -> ReducedProblem:
        """The problem with envelopes in place of losses that have no gradient."""
        soft = smoothing.terms([part.rows for part in self.parts])
        return replace(self, parts=[replace(part, rows=t) for part, t in zip(self.parts, soft, strict=True)])

    def slopes(self, theta: Matrix) -> list[Matrix]:
        """w loss'(u) on the rows of each part."""
        return [to_numpy(part.slope(theta)).astype(np.float64) for part in self.parts]

    def value(self, theta: Matrix) -> float:
        total = self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        for part in self.parts:
            v, t = part.at(theta), part.rows
            total += float(namespace(v).sum(t.weight[:, 0] * t.loss.value(v, t.target[:, 0])))
        return total

    def derivatives(self, theta: Matrix) -> tuple[Matrix, Matrix]:
        """The gradient and Hessian."""
        gradient, hessian = self.linear + self.square @ theta, self.square.copy()
        for part in self.parts:
            v, w, b = part.at(theta), part.rows.weight[:, 0], part.rows.target[:, 0]
            gradient += to_numpy(part.E.T @ (w * part.rows.loss.gradient(v, b)))
            hessian += _bend(part.E, w * part.rows.loss.curvature(v, b))
        return gradient, hessian

    def minimize(
        self, theta: Matrix | None = None, enough: float = 0.0, check: Callable[[], None] = lambda: None
    ) -> Matrix:
        """argmin psi, by Newton's method with a line search: to rounding, or to a step that gains less than `enough`.

        That is a share of psi, and the step is taken, which leaves far less.  `check` is called before each step, and
        may raise what ends it.
        """
        theta = np.zeros(len(self.linear)) if theta is None else theta
        if theta.size == 0:
            return theta
        value = self.value(theta)
        last, before = float("inf"), theta
        for _ in range(100):
            check()
            gradient, hessian = self.derivatives(theta)
            step = newton_step(hessian, gradient)
            decrement = -float(gradient @ step)
            if decrement <= enough * abs(value):
                return self._lower(theta, step, value)
            if decrement <= self.seen * abs(value):  # psi no longer tells: Newton's steps, as long as they shrink
                if not self.parts:
                    return self._lower(theta, step, value)
                if decrement > last / 2:
                    return theta if decrement < last else before
                if not self.value(theta + step) <= value + self.seen * abs(value):  # out of a flat piece
                    return theta
                last, before, theta = decrement, theta, theta + step
                continue
            fraction, lower = self._search(theta, step, value, decrement)
            if not lower < value:
                return theta
            theta, value = theta + fraction * step, lower
        return theta

    def _lower(self, theta: Matrix, step: Matrix, value: float) -> Matrix:
        """theta + step, unless rounding has made that a step up."""
        return theta + step if self.value(theta + step) <= value + self.seen * abs(value) else theta

    def _search(self, theta: Matrix, step: Matrix, value: float, decrement: float) -> tuple[float, float]:
        """A length of the step at which psi has fallen enough and is no longer steep, and psi there.

        Curvature ends where a loss becomes linear or flat, so a step of Newton's may be far too long or too short:
        the length is bracketed, and a secant of the slope and the middle (in logarithms) are tried in turn.
        """
        flat = float(theta @ self.square @ step + self.linear @ step)
        bend = float(step @ self.square @ step)
        level = self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        rows = [(part.rows, part.at(theta), part.E @ like(step, part.u)) for part in self.parts]

        def at(length: float) -> tuple[float, float]:
            total, slope = level + length * (flat + length * bend / 2), flat + length * bend
            for t, v, e in rows:
                moved, w, b = v + length * e, t.weight[:, 0], t.target[:, 0]
                xp = namespace(moved)
                total += float(xp.sum(w * t.loss.value(moved, b)))
                slope += float(xp.sum(w * t.loss.gradient(moved, b) * e))
            return total, slope

        low, high, length = 0.0, float("inf"), 1.0
        low_slope, best = -decrement, (0.0, value)
        for attempt in range(60):
            tried, slope = at(length)
            if tried < best[1]:
                best = (length, tried)
            if tried > value - 1e-4 * length * decrement or slope > 0.5 * decrement:
                high, high_slope = length, slope
            elif slope < -0.5 * decrement:
                low, low_slope = length, slope
            else:
                return length, tried
            if high == float("inf"):
                length *= 8
            else:
                secant = low - low_slope * (high - low) / (high_slope - low_slope) if high_slope > 0 else 0.0
                middle = (low * high) ** 0.5 if low > 0 else high / 16
                margin = 0.05 * (high - low)
                length = secant if attempt % 2 == 0 and low + margin < secant < high - margin else middle
        return best


def _bend(E: Array, h: Array) -> Matrix:
    """E' diag(h) E for h >= 0; for many columns without the rows where h = 0, as a square, in half the time or less.

    A root and its square round more than h does, which few columns with weights from 1e-12 to 1e12 can tell; from 64
    columns on a product costs more than passes over its factors.
    """
    if not isinstance(E, np.ndarray) or E.shape[1] < 64:
        return to_numpy(E.T @ (h[:, None] * E))
    active = h > 0
    F = np.sqrt(h[active])[:, None] * E[active]
    return F.T @ F


def upright(square: Matrix, array: Array) -> Matrix:
    """The matrix with a little more on its diagonal, so that rounding as of an array does not make it bend down."""
    size = len(square)
    return square + np.diag(8 * size * float(namespace(array).finfo(array.dtype).eps) * np.diag(square))


def newton_step(hessian: Matrix, gradient: Matrix) -> Matrix:
    """-H^-1 g in the directions that H sees, after scaling its diagonal to one."""
    diagonal = np.diag(hessian)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = hessian * np.outer(scale, scale)
    try:
        factor = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return _pseudo_step(scaled, scale, gradient)
    if np.min(np.diag(factor)) < 1e-6:
        return _pseudo_step(scaled, scale, gradient)
    return -scale * scipy.linalg.cho_solve((factor, True), scale * gradient, check_finite=False)


def _pseudo_step(scaled: Matrix, scale: Matrix, gradient: Matrix) -> Matrix:
    """The step for a Hessian that is singular, or nearly so: where it sees nothing, a long step downhill."""
    values, vectors = np.linalg.eigh(scaled)
    slopes = vectors.T @ (scale * gradient)
    floor = np.maximum(
        1e-13 * abs(values[-1]), np.abs(slopes) / 1e3
    )  # at most a thousand times what a unit curvature would give
    return -scale * (vectors @ (slopes / np.maximum(np.maximum(values, floor), np.finfo(np.float64).tiny)))


@dataclass(frozen=True, eq=False)
class Curvature:
    """S, positive definite in tau, factorized in blocks of tau and c: [LL', LT; T'L', T'T + (HH')^-1]."""

    L: Matrix
    T: Matrix
    seen: Matrix  # H, in the directions of c that it sees
    unseen: Matrix  # the others, as columns

    @classmethod
    def of(cls, S: Matrix, rank: int) -> Curvature:
        """Factorize S, whose first variables are the c."""
        c, tau = slice(0, rank), slice(rank, None)
        L = scipy.linalg.cholesky(S[tau, tau], lower=True, check_finite=False)
        T = scipy.linalg.solve_triangular(L, S[tau, c], lower=True, check_finite=False)
        values, vectors = np.linalg.eigh(S[c, c] - T.T @ T)
        # S does not determine c where less than 1e-12 of its own curvature is left.
        known = values > 1e-12 * np.diag(S)[c].max(initial=0.0)
        return cls(L, T, vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known])

    def minimum(self, linear: Matrix, unseen: Any = 0.0) -> Matrix:
        """Return argmin 1/2 theta'S theta + linear'theta, (m, c), with a part of c that S does not see."""
        r = self.T.shape[1]
        still = self.down(linear[r:])
        c = unseen - self.seen @ (self.seen.T @ (linear[:r] - self.T.T @ still))
        tau = scipy.linalg.solve_triangular(self.L, -still - self.T @ c, lower=True, trans="T", check_finite=False)
        return np.concatenate([c, tau])

    def variance(self, E: Matrix) -> Vector:
        """Return the diagonal of E S^-1 E', in the directions that are seen, (t,)."""
        known, basis = self._roots(E)
        return np.sum(known**2, axis=0) + np.sum(basis**2, axis=1)

    def covariance(self, E: Matrix) -> Matrix:
        """Return E S^-1 E', in the directions that are seen, (t, t)."""
        known, basis = self._roots(E)
        return known.T @ known + basis @ basis.T

    def _roots(self, E: Matrix) -> tuple[Matrix, Matrix]:
        r = self.T.shape[1]
        known = self.down(E[:, r:].T)
        return known, (E[:, :r] - known.T @ self.T) @ self.seen

    def down(self, right: Matrix) -> Matrix:
        """Return L^-1 right."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False))


class Elimination:
    """The problem that is left, as a `FiniteProblem` of one output, and the way back to theta."""

    def __init__(self, problem: ReducedProblem) -> None:
        r, linear = problem.rank, problem.linear
        curvature = Curvature.of(problem.square, r)
        E = np.concatenate([double(part.E) for part in problem.parts])
        F, still = curvature.down(E[:, r:].T), curvature.down(linear[r:])
        B = E[:, :r] - F.T @ curvature.T
        W, force = B @ curvature.seen, linear[:r] - curvature.T.T @ still
        mean = -F.T @ still - W @ (curvature.seen.T @ force)
        U, sizes, Vt = np.linalg.svd(B @ curvature.unseen, full_matrices=False)
        apart = sizes > SEEN * sizes.max(initial=0.0)
        self.linear, self.E, self.curvature = linear, E, curvature
        self.unseen = curvature.unseen @ (Vt[apart].T / sizes[apart])
        offset = np.concatenate([double(part.u) for part in problem.parts])
        blocks = consecutive(blocks_in_double([part.rows for part in problem.parts]))
        Q = np.ascontiguousarray(U[:, apart])
        self.system = FiniteProblem.stored(F.T @ F + W @ W.T, Q, blocks).shifted(offset + mean)

    def solve(self, solver: Solver, monitor: Monitor) -> tuple[Matrix, Matrix]:
        """Return theta, and alpha on the rows, to the monitor's tolerance if rounding allows."""
        try:
            found = solver.run(self.system, self.system.start(), monitor)
        except OutOfIterations:
            found = monitor.best or self.system.start()
        if found.alpha is not None:
            found = replace(found, alpha=self._best_dual_point(found))
        alpha = project(found.a, *self.system.box, self.system.Q)[:, 0]
        theta = self.curvature.minimum(self.linear - self.E.T @ alpha, self.unseen @ found.basis[:, 0])
        return theta, alpha if found.alpha is None else found.alpha[:, 0]

    def _best_dual_point(self, found: Iterate) -> Matrix:
        """Return the best of the dual points that come with an iterate, (t, 1).

        Coefficients a of a solver of the primal problem are any with the right image Ga, and with fewer variables than
        rows that says little about alpha: nothing where G = 0.
        """
        system = self.system
        u = system.exact @ found.a + system.Q @ found.basis
        points = [feasible(system, alpha) for alpha in (found.alpha, -system.gradient(u), found.a)]
        values = [float(lower_bound(system, alpha, system.exact @ alpha)[0]) for alpha in points]
        return np.asarray(points[int(np.argmax(values))])
