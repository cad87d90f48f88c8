"""The finite problem in few variables: on the span of some directions, of landmarks, of random features.

    min over theta = (c, tau)    1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(u_i + (E theta)_i)

(`_core.finite.features`).  If all losses are smooth, Newton's method with a line search finds the minimum to rounding.

If there are few rows, the variables that S determines can be eliminated (`Elimination`).  With alpha = -w loss'(u),
S theta = E'alpha - linear, which leaves a finite problem with a Gram matrix,

    u = G alpha + u_0 + Q e,        G = E S^+ E',   u_0 = -E S^+ linear,

and e the coefficients of those directions of c that S does not determine, as its basis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, double, like, namespace, to_numpy
from rkhs._core.finite.certificate import feasible, lower_bound, project_dual
from rkhs._core.finite.features import FeatureGeometry
from rkhs._core.finite.monitor import Monitor
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock, consecutive
from rkhs._core.finite.representers import GramGeometry
from rkhs._core.linalg.saddle import Curvature, with_ridge
from rkhs.solvers._base import Solver, blocks_in_double, finished

ROUNDING = 45  # units of rounding of the objective below which a decrease is not significant
SHRINK = 0.25  # factor by which the smoothing width decreases
VANISHING = 1e-9  # basis functions count as zero on the rows below this share of the largest norm


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
        # Nesterov 2005: the envelope of width mu differs from the loss by at most mu slope^2 / 2
        self.width = max(SHRINK * self.width, self.least)


def around(system: FiniteProblem, a: Array, image: Array, u: Array, D: Array, U: Array) -> FiniteProblem:
    """Return J of one output at a + D tau and u + U tau + Q c, for directions D (N, k) with images U, in (c, tau)."""
    xp = namespace(a)
    k, r = int(D.shape[1]), int(system.Q.shape[1])
    linear, square = np.zeros(r + k), np.zeros((r + k, r + k))
    linear[r:] = to_numpy(D.T @ image)
    cross = double(D.T @ U)
    square[r:, r:] = (cross + cross.T) / 2
    constant = float(xp.vecdot(a, image)) / 2
    terms, rows, offsets = [], [], []
    for t in system.terms:
        E = xp.concat([system.Q[t.rows], U[t.rows]], axis=1)
        if t.loss.quadratic:
            # w |r + E theta|^2 = w r'r + 2 w r'E theta + w theta'E'E theta,    r = u - b
            residual = u[t.rows] - t.target[:, 0]
            weighted = t.weight * E
            linear += 2 * to_numpy(weighted.T @ residual)
            square += 2 * to_numpy(weighted.T @ E)
            constant += float(xp.sum(t.weight[:, 0] * residual**2))
        else:
            terms.append(t)
            rows.append(E)
            offsets.append(u[t.rows])
    offset = xp.concat(offsets)[:, None] if terms else None
    return reduced(with_ridge(square, a), linear, constant, r, terms, rows, offset)


def reduced(
    square: Matrix,
    linear: Vector,
    constant: float,
    rank: int,
    terms: Sequence[LossBlock],
    rows: Sequence[Any],
    offset: Array | None = None,
) -> FiniteProblem:
    """Return a problem of one output in few variables: a quadratic function of them plus losses on rows E."""
    geometry = FeatureGeometry(square, linear[:, None], np.array([constant]), rank, tuple(rows), offset)
    return FiniteProblem(geometry, consecutive(terms))


def value(problem: FiniteProblem, theta: Vector) -> float:
    """Return the objective at theta (m,)."""
    column = theta[:, None]
    return float(problem.geometry.energy(column)[0]) + float(problem.loss(problem.geometry.values(column))[0])


def derivatives(problem: FiniteProblem, theta: Vector) -> tuple[Vector, Matrix]:
    """Return the gradient and the Hessian at theta."""
    features = problem.geometry
    gradient, hessian = features.linear[:, 0] + features.square @ theta, features.square.copy()
    u = features.values(theta[:, None])
    for t, E in zip(problem.terms, features.E, strict=True):
        v, w, b = u[t.rows, 0], t.weight[:, 0], t.target[:, 0]
        # S theta + linear + E'w loss'(u),    S + E'diag(w loss''(u)) E
        gradient += to_numpy(E.T @ (w * t.loss.gradient(v, b)))
        hessian += _weighted_gram(E, w * t.loss.curvature(v, b))
    return gradient, hessian


def minimize(
    problem: FiniteProblem,
    theta: Vector | None = None,
    enough: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Vector:
    """Minimize by Newton's method with a line search, to rounding or until a step gains less than `enough`.

    `enough` is relative to the objective; the last step is still taken, and leaves a far smaller error.  `check` is
    called before each step and may raise to stop.
    """
    if theta is None:
        theta = np.zeros(len(problem.geometry.square))
    if theta.size == 0:
        return theta
    objective = value(problem, theta)
    resolution = ROUNDING * max([EPS, *(float(namespace(t.target).finfo(t.target.dtype).eps) for t in problem.terms)])

    def lower(theta: Vector, step: Vector) -> Vector:
        """Return theta + step, or theta if rounding makes the step increase the objective."""
        return theta + step if value(problem, theta + step) <= objective + resolution * abs(objective) else theta

    last, before = float("inf"), theta
    for _ in range(100):
        check()
        gradient, hessian = derivatives(problem, theta)
        step = newton_step(hessian, gradient)
        # -g'step = g'H^-1 g is twice the decrease that the quadratic model predicts
        decrement = -float(gradient @ step)
        if decrement <= enough * abs(objective):
            return lower(theta, step)
        lost = resolution * abs(objective)
        if decrement <= lost:  # below the resolution of the objective: full steps as long as they shrink
            if not problem.terms:
                return lower(theta, step)
            if decrement > last / 2:
                return theta if decrement < last else before
            if not value(problem, theta + step) <= objective + lost:  # the step has left the quadratic piece
                return theta
            last, before, theta = decrement, theta, theta + step
            continue
        features, column = problem.geometry, step[:, None]
        slope = float(theta @ features.square @ step + features.linear[:, 0] @ step)
        level, curvature = float(features.energy(theta[:, None])[0]), float(step @ features.square @ step)
        u, du = features.values(theta[:, None]), features.changes(column)
        fraction, lowest = line_search(problem, u, du, (level, slope, curvature), objective, decrement)
        if not lowest < objective:
            return theta
        theta, objective = theta + fraction * step, lowest
    return theta


def line_search(
    problem: FiniteProblem,
    u: Array,
    du: Array,
    quadratic: tuple[float, float, float],
    objective: float,
    decrement: float,
) -> tuple[float, float]:
    """Return a step length that satisfies decrease and curvature conditions, and the objective there.

    Along the step the values are u + length du (N, 1), and the rest of the objective is the quadratic function with the
    given value, slope and curvature.  Curvature ends where a loss becomes linear or flat, so a Newton step may be far
    too long or too short: the length is bracketed, and a secant of the slope and the geometric mean of the bracket are
    tried in turn.
    """
    level, initial_slope, curvature = quadratic

    def at(length: float) -> tuple[float, float]:
        total = level + length * (initial_slope + length * curvature / 2)
        slope = initial_slope + length * curvature
        v = u + length * du
        total += float(problem.loss(v)[0])
        slope += float(namespace(v).sum(problem.gradient(v) * du))
        return total, slope

    low, high, length = 0.0, float("inf"), 1.0
    low_slope, best = -decrement, (0.0, objective)
    for attempt in range(60):
        tried, slope = at(length)
        if tried < best[1]:
            best = (length, tried)
        # too long without enough decrease (Armijo) or where J rises; too short where it still falls steeply (Wolfe)
        if tried > objective - 1e-4 * length * decrement or slope > 0.5 * decrement:
            high, high_slope = length, slope
        elif slope < -0.5 * decrement:
            low, low_slope = length, slope
        else:
            return length, tried
        if high == float("inf"):
            length *= 8
        else:
            # the zero of the slope by linear interpolation, or the geometric mean of the bracket
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


def orthonormal_columns(B: Array) -> tuple[Array, Array]:
    """Return Q (N, k) with orthonormal columns that span those of B (N, r), and the map (r, k) with Q = B map."""
    U, sizes, Vt = np.linalg.svd(double(B), full_matrices=False)
    kept = sizes > VANISHING * sizes.max(initial=0.0)
    return like(np.ascontiguousarray(U[:, kept]), B), like(Vt[kept].T / sizes[kept], B)


class Elimination:
    """The problem after elimination, as a `FiniteProblem` of one output, and the map of its solutions to theta."""

    def __init__(self, problem: FiniteProblem) -> None:
        features, r = problem.geometry, problem.geometry.rank
        linear = features.linear[:, 0]
        curvature = Curvature.of(features.square, r)
        E = np.concatenate([double(E) for E in features.E])
        # u = E S^+ E' alpha - E S^+ linear + (..) e: F'F is the part of tau, WW' that of the determined part of c
        F, known = curvature.down(E[:, r:].T), curvature.down(linear[r:])
        B = E[:, :r] - F.T @ curvature.T
        W, linear_c = B @ curvature.seen, linear[:r] - curvature.T.T @ known
        mean = -F.T @ known - W @ (curvature.seen.T @ linear_c)
        Q, unseen = orthonormal_columns(B @ curvature.unseen)
        self.linear, self.E, self.curvature = linear, E, curvature
        self.unseen = curvature.unseen @ unseen
        offset = 0.0 if features.offset is None else double(features.offset)[:, 0]
        geometry = GramGeometry.stored(F.T @ F + W @ W.T, Q)
        self.system = FiniteProblem(geometry, blocks_in_double(problem.terms)).shifted(offset + mean)

    def solve(self, solver: Solver, tol: float, monitor: Monitor) -> tuple[Matrix, Matrix]:
        """Return theta, and alpha on the rows, to the tolerance if rounding allows."""
        start = self.system.start()
        iterate = finished(solver.steps(self.system, start, tol, monitor), start, monitor)
        if iterate.alpha is not None:
            iterate = replace(iterate, alpha=self._best_dual_point(iterate))
        alpha = iterate.a[:, 0]
        if self.system.separable:  # solvers of other problems are primal, whose a is not near a dual point
            alpha = project_dual(self.system.terms, self.system.Q, iterate.a)[:, 0]
        # S theta = E'alpha - linear, with the free part e of c
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
