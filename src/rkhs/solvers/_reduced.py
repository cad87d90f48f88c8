"""Problems on a subspace: a quadratic function of a few variables plus losses on rows.

    min over theta = (c, tau)    1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(u_i + (E theta)_i)

This is the finite problem with explicit features E: on the span of some directions around a point
(`ReducedProblem.around`), of landmarks, of random features, or of all directions so far.  tau are the coefficients of
these functions and c those of the basis.  Quadratic losses enter S, linear and constant by their moments; the others
keep their rows.  If all of these are smooth, Newton's method with a line search finds the minimum to rounding.

If there are few rows, the variables that S determines can be eliminated (`Elimination`).  With alpha = -w loss'(u),
S theta = E'alpha - linear, which leaves a finite problem with a Gram matrix,

    u = G alpha + u_0 + Q e,        G = E S^+ E',   u_0 = -E S^+ linear,

and e the coefficients of those directions of c that S does not determine, as its basis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, Vector, double, like, namespace, to_numpy
from rkhs._finite.certificate import feasible, lower_bound, project_dual
from rkhs._finite.monitor import Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate, LossBlock, consecutive
from rkhs._finite.representers import GramGeometry
from rkhs.solvers._base import Solver, blocks_in_double

ROUNDING = 45  # units of rounding of the objective below which a decrease is not significant
SHRINK = 0.25  # factor by which the smoothing width decreases
RANK_TOL = 1e-9  # basis functions count as zero on the rows below this share of the largest norm


@dataclass
class Smoothing:
    """Moreau envelopes with a decreasing width, for losses without a gradient (Nesterov's smoothing).

    Every alpha of a smoothed problem is dual feasible for the true one (the conjugate of the envelope has the same
    domain), so the gap for the true problem is known at any width; the width is 0 if all losses have gradients.  It
    decreases whenever the smoothed problem is solved more accurately than it approximates the true one.
    """

    width: float

    def __post_init__(self) -> None:
        self.least = 1e-30 * self.width  # smaller widths would underflow

    @classmethod
    def of(cls, terms: Sequence[LossBlock], u: Array) -> Smoothing:
        """Return a smoothing whose width is twice the mean loss, at u (N, 1), of the rows without a gradient."""
        rough = [t for t in terms if not t.loss.smooth]
        xp = namespace(u)
        weight = sum(float(xp.sum(t.weight)) for t in rough)
        loss = sum(float(xp.sum(t.weight * t.loss.value(u[t.rows], t.target))) for t in rough)
        return cls((2 * loss / weight or 1.0) if weight > 0 else 0.0)

    def terms(self, terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
        """Replace losses that have no gradient by their envelopes."""
        return tuple(t if t.loss.smooth else replace(t, loss=t.loss.smoothed(self.width)) for t in terms)

    def sharpen(self, smoothed_gap: float, gap: float) -> bool:
        """Decrease the width if the gap of the smoothed problem is at most half of the true one; return whether."""
        if not self.width or smoothed_gap > gap / 2:
            return False
        self.shrink()
        return True

    def shrink(self) -> None:
        """Decrease the width by one step."""
        self.width = max(SHRINK * self.width, self.least)


@dataclass(frozen=True, eq=False)
class FeatureBlock:
    """Rows of one output with a loss that is not quadratic, at u + E theta: E (t, m), u (t,)."""

    rows: LossBlock
    u: Array
    E: Any

    def at(self, theta: Matrix) -> Array:
        return self.u + self.E @ like(theta, self.u)

    def slope(self, theta: Matrix) -> Array:
        """Return w loss'(u + E theta), (t,)."""
        return self.rows.weight[:, 0] * self.rows.loss.gradient(self.at(theta), self.rows.target[:, 0])


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """The problem on a subspace; the first `rank` variables are c, which S need not determine."""

    square: Matrix
    linear: Matrix
    constant: float
    parts: Sequence[FeatureBlock]
    rank: int

    @classmethod
    def around(cls, system: FiniteProblem, a: Array, image: Array, u: Array, D: Array, U: Array) -> ReducedProblem:
        """Return J of one output at a + D tau and u + U tau + Q c, for directions D (N, k) with images U."""
        xp = namespace(a)
        k, r = int(D.shape[1]), int(system.Q.shape[1])
        linear, square = np.zeros(r + k), np.zeros((r + k, r + k))
        linear[r:] = to_numpy(D.T @ image)
        cross = double(D.T @ U)
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
        return cls(with_ridge(square, a), linear, constant, parts, r)

    @property
    def smooth(self) -> bool:
        return all(part.rows.loss.smooth for part in self.parts)

    @cached_property
    def resolution(self) -> float:
        """The relative change of the objective that is lost in the rounding of its rows."""
        units = [float(namespace(part.u).finfo(part.u.dtype).eps) for part in self.parts]
        return ROUNDING * max([float(np.finfo(np.float64).eps), *units])

    def smoothed(self, smoothing: Smoothing) -> ReducedProblem:
        """Return the problem with envelopes instead of losses that have no gradient."""
        soft = smoothing.terms([part.rows for part in self.parts])
        return replace(self, parts=[replace(part, rows=t) for part, t in zip(self.parts, soft, strict=True)])

    def slopes(self, theta: Matrix) -> list[Matrix]:
        """Return w loss'(u) on the rows of each part."""
        return [double(part.slope(theta)) for part in self.parts]

    def value(self, theta: Matrix) -> float:
        total = self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        for part in self.parts:
            v, t = part.at(theta), part.rows
            total += float(namespace(v).sum(t.weight[:, 0] * t.loss.value(v, t.target[:, 0])))
        return total

    def derivatives(self, theta: Matrix) -> tuple[Matrix, Matrix]:
        """Return the gradient and the Hessian."""
        gradient, hessian = self.linear + self.square @ theta, self.square.copy()
        for part in self.parts:
            v, w, b = part.at(theta), part.rows.weight[:, 0], part.rows.target[:, 0]
            gradient += to_numpy(part.E.T @ (w * part.rows.loss.gradient(v, b)))
            hessian += _weighted_gram(part.E, w * part.rows.loss.curvature(v, b))
        return gradient, hessian

    def minimize(
        self, theta: Matrix | None = None, enough: float = 0.0, check: Callable[[], None] = lambda: None
    ) -> Matrix:
        """Minimize by Newton's method with a line search, to rounding or until a step gains less than `enough`.

        `enough` is relative to the objective; the last step is still taken, and leaves a far smaller error.  `check` is
        called before each step and may raise to stop.
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
            lost = self.resolution * abs(value)
            if decrement <= lost:  # below the resolution of the objective: full steps as long as they shrink
                if not self.parts:
                    return self._lower(theta, step, value)
                if decrement > last / 2:
                    return theta if decrement < last else before
                if not self.value(theta + step) <= value + lost:  # the step has left the quadratic piece
                    return theta
                last, before, theta = decrement, theta, theta + step
                continue
            fraction, lower = self._search(theta, step, value, decrement)
            if not lower < value:
                return theta
            theta, value = theta + fraction * step, lower
        return theta

    def _lower(self, theta: Matrix, step: Matrix, value: float) -> Matrix:
        """Return theta + step, or theta if rounding makes the step increase the objective."""
        return theta + step if self.value(theta + step) <= value + self.resolution * abs(value) else theta

    def _search(self, theta: Matrix, step: Matrix, value: float, decrement: float) -> tuple[float, float]:
        """Return a step length that satisfies decrease and curvature conditions, and the objective there.

        Curvature ends where a loss becomes linear or flat, so a Newton step may be far too long or too short: the
        length is bracketed, and a secant of the slope and the geometric mean of the bracket are tried in turn.
        """
        initial_slope = float(theta @ self.square @ step + self.linear @ step)
        curvature = float(step @ self.square @ step)
        level = self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        rows = [(part.rows, part.at(theta), part.E @ like(step, part.u)) for part in self.parts]

        def at(length: float) -> tuple[float, float]:
            total = level + length * (initial_slope + length * curvature / 2)
            slope = initial_slope + length * curvature
            for t, v, e in rows:
                u, w, b = v + length * e, t.weight[:, 0], t.target[:, 0]
                xp = namespace(u)
                total += float(xp.sum(w * t.loss.value(u, b)))
                slope += float(xp.sum(w * t.loss.gradient(u, b) * e))
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


def _weighted_gram(E: Array, h: Array) -> Matrix:
    """Return E' diag(h) E for h >= 0.

    For many columns only the rows with h > 0 are used, as F'F with F = sqrt(h) E, in half the time or less.  A square
    root and its square round more than h does, which matters for few columns with weights from 1e-12 to 1e12; from 64
    columns on a product costs more than passes over its factors.
    """
    if not isinstance(E, np.ndarray) or E.shape[1] < 64:
        return to_numpy(E.T @ (h[:, None] * E))
    active = h > 0
    F = np.sqrt(h[active])[:, None] * E[active]
    return F.T @ F


def with_ridge(square: Matrix, array: Array) -> Matrix:
    """Return the matrix plus a diagonal of rounding errors, in the precision of `array`, to keep it definite."""
    size = len(square)
    return square + np.diag(8 * size * float(namespace(array).finfo(array.dtype).eps) * np.diag(square))


def newton_step(hessian: Matrix, gradient: Matrix) -> Matrix:
    """Return -H^-1 g on the range of H, after scaling its diagonal to one."""
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
    """Return the step for a singular or nearly singular Hessian: in its null space, a long step downhill."""
    values, vectors = np.linalg.eigh(scaled)
    slopes = vectors.T @ (scale * gradient)
    # The floor limits each component to a thousand times the step for unit slope and curvature.
    floor = np.maximum(1e-13 * abs(values[-1]), np.abs(slopes) / 1e3)
    return -scale * (vectors @ (slopes / np.maximum(np.maximum(values, floor), np.finfo(np.float64).tiny)))


@dataclass(frozen=True, eq=False)
class Curvature:
    """S, positive definite in tau, factorized in blocks of tau and c: [LL', LT; T'L', T'T + (HH')^-1]."""

    L: Matrix
    T: Matrix
    seen: Matrix  # H, on the directions of c that S determines
    unseen: Matrix  # the directions of c that S does not determine, as columns

    @classmethod
    def of(cls, S: Matrix, rank: int) -> Curvature:
        """Factorize S, whose first `rank` variables are c."""
        c, tau = slice(0, rank), slice(rank, None)
        L = scipy.linalg.cholesky(S[tau, tau], lower=True, check_finite=False)
        T = scipy.linalg.solve_triangular(L, S[tau, c], lower=True, check_finite=False)
        values, vectors = np.linalg.eigh(S[c, c] - T.T @ T)
        # A direction of c is determined if more than 1e-12 of its curvature remains after elimination of tau.
        known = values > 1e-12 * np.diag(S)[c].max(initial=0.0)
        return cls(L, T, vectors[:, known] / np.sqrt(values[known]), vectors[:, ~known])

    def minimum(self, linear: Matrix, unseen: Any = 0.0) -> Matrix:
        """Return argmin 1/2 theta'S theta + linear'theta, (m, c), for a given undetermined part of c."""
        r = self.T.shape[1]
        reduced = self.down(linear[r:])
        c = unseen - self.seen @ (self.seen.T @ (linear[:r] - self.T.T @ reduced))
        tau = scipy.linalg.solve_triangular(self.L, -reduced - self.T @ c, lower=True, trans="T", check_finite=False)
        return np.concatenate([c, tau])

    def variance(self, E: Matrix) -> Vector:
        """Return the diagonal of E S^-1 E' on the determined directions, (t,)."""
        known, basis = self._roots(E)
        return np.sum(known**2, axis=0) + np.sum(basis**2, axis=1)

    def covariance(self, E: Matrix) -> Matrix:
        """Return E S^-1 E' on the determined directions, (t, t)."""
        known, basis = self._roots(E)
        return known.T @ known + basis @ basis.T

    def _roots(self, E: Matrix) -> tuple[Matrix, Matrix]:
        r = self.T.shape[1]
        known = self.down(E[:, r:].T)
        return known, (E[:, :r] - known.T @ self.T) @ self.seen

    def down(self, right: Matrix) -> Matrix:
        """Return L^-1 right."""
        return np.asarray(scipy.linalg.solve_triangular(self.L, right, lower=True, check_finite=False))


def orthonormal_columns(B: Array) -> tuple[Array, Array]:
    """Return Q (N, k) with orthonormal columns that span those of B (N, r), and the map (r, k) with Q = B map."""
    U, sizes, Vt = np.linalg.svd(double(B), full_matrices=False)
    kept = sizes > RANK_TOL * sizes.max(initial=0.0)
    return like(np.ascontiguousarray(U[:, kept]), B), like(Vt[kept].T / sizes[kept], B)


class Elimination:
    """The problem after elimination, as a `FiniteProblem` of one output, and the map of its solutions to theta."""

    def __init__(self, problem: ReducedProblem) -> None:
        r, linear = problem.rank, problem.linear
        curvature = Curvature.of(problem.square, r)
        E = np.concatenate([double(part.E) for part in problem.parts])
        F, reduced = curvature.down(E[:, r:].T), curvature.down(linear[r:])
        B = E[:, :r] - F.T @ curvature.T
        W, linear_c = B @ curvature.seen, linear[:r] - curvature.T.T @ reduced
        mean = -F.T @ reduced - W @ (curvature.seen.T @ linear_c)
        Q, unseen = orthonormal_columns(B @ curvature.unseen)
        self.linear, self.E, self.curvature = linear, E, curvature
        self.unseen = curvature.unseen @ unseen
        offset = np.concatenate([double(part.u) for part in problem.parts])
        blocks = consecutive(blocks_in_double([part.rows for part in problem.parts]))
        self.system = FiniteProblem(GramGeometry.stored(F.T @ F + W @ W.T, Q), blocks).shifted(offset + mean)

    def solve(self, solver: Solver, monitor: Monitor) -> tuple[Matrix, Matrix]:
        """Return theta, and alpha on the rows, to the tolerance of the monitor if rounding allows."""
        try:
            iterate = solver.run(self.system, self.system.start(), monitor)
        except OutOfIterations:
            iterate = monitor.best or self.system.start()
        if iterate.alpha is not None:
            iterate = replace(iterate, alpha=self._best_dual_point(iterate))
        alpha = iterate.a[:, 0]
        if self.system.separable:  # solvers of other problems are primal, whose a is not near a dual point
            alpha = project_dual(self.system.terms, self.system.Q, iterate.a)[:, 0]
        theta = self.curvature.minimum(self.linear - self.E.T @ alpha, self.unseen @ iterate.basis[:, 0])
        return theta, alpha if iterate.alpha is None else iterate.alpha[:, 0]

    def _best_dual_point(self, iterate: Iterate) -> Matrix:
        """Return the dual point of the largest dual value among those that an iterate provides, (t, 1).

        The coefficients a of a primal solver are determined only up to their image Ga; with fewer variables than rows
        they determine alpha poorly, and not at all if G = 0.
        """
        system = self.system
        u = system.exact @ iterate.a + system.Q @ iterate.basis
        points = [feasible(system, alpha) for alpha in (iterate.alpha, -system.gradient(u), iterate.a)]
        values = [float(lower_bound(system, alpha, system.exact @ alpha)[0]) for alpha in points]
        return np.asarray(points[int(np.argmax(values))])
