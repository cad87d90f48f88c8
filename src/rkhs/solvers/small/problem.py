"""The small problem: a quadratic function of a few variables plus losses on rows.

    min over theta = (c, tau)    1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(u_i + (E theta)_i)

It is what a problem becomes on the span of a few functions (`SmallProblem.around` a point: those of some directions
whose images are known; elsewhere: landmarks, features, all directions so far), tau their coefficients and c those of
the basis.  Quadratic losses are in S, linear and constant by their moments; the others keep their rows.  Where all of
these are smooth, Newton's method with a line search finds the minimum to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy
from rkhs._finite.problem import FiniteProblem, LossBlock
from rkhs.solvers.smoothing import Smoothing

STEPS = 100
SEEN = 45  # units of rounding of psi, in which its fall is lost
LENGTHS = 60  # tried along one step
WIDE = 64  # columns from which a product costs more than passes over its factors
LONG = 1e3  # of a step where there is no curvature, in units in which it would be one


@dataclass(frozen=True, eq=False)
class Part:
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
class SmallProblem:
    """The small problem; `rank` is the number of the c, which S need not determine."""

    square: Matrix
    linear: Matrix
    constant: float
    parts: Sequence[Part]
    rank: int

    @classmethod
    def around(cls, system: FiniteProblem, a: Array, image: Array, u: Array, D: Array, U: Array) -> SmallProblem:
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
                parts.append(Part(t, u[t.rows], E))
        return cls(upright(square, a), linear, constant, parts, r)

    @property
    def smooth(self) -> bool:
        return all(part.rows.loss.smooth for part in self.parts)

    @cached_property
    def seen(self) -> float:
        """The share of psi under which its fall is lost in the rounding of its rows."""
        units = [float(namespace(part.u).finfo(part.u.dtype).eps) for part in self.parts]
        return SEEN * max([float(np.finfo(np.float64).eps), *units])

    def smoothed(self, smoothing: Smoothing) -> SmallProblem:
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

    def minimise(
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
        for _ in range(STEPS):
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
        for attempt in range(LENGTHS):
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

    A root and its square round more than h does, which few columns with weights from 1e-12 to 1e12 can tell.
    """
    if not isinstance(E, np.ndarray) or E.shape[1] < WIDE:
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
    floor = np.maximum(1e-13 * abs(values[-1]), np.abs(slopes) / LONG)
    return -scale * (vectors @ (slopes / np.maximum(np.maximum(values, floor), np.finfo(np.float64).tiny)))
