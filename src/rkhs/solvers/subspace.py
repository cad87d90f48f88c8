"""Exact minimisation over a few directions, in which no Gram product is needed.

With the images U = G D of the directions D at hand, the objective on a + D tau, c + delta is

    psi(theta) = 1/2 (a + D tau)'G(a + D tau) + sum_i w_i loss_i((u + E theta)_i),   theta = (tau, delta),  E = [U, Q]

a convex function of a few variables.  The quadratic losses enter by their moments, computed once; the others by
their rows.  Newton's method with a line search finds its minimum to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.system import Rows, System

STEPS = 100
SEEN = 1e-14  # share of psi under which its fall is lost in rounding
LENGTHS = 60  # tried along one step
WIDE = 64  # columns from which a product costs more than passes over its factors
LONG = 1e3  # of a step where there is no curvature, in units in which it would be one


@dataclass(frozen=True, eq=False)
class Restricted:
    """psi, for one output: `terms` are the system's rows of that output."""

    norm: float  # a'Ga
    linear: np.ndarray[Any, Any]  # D'Ga, padded with zeros for the basis
    square: np.ndarray[Any, Any]  # D'GD, likewise
    constant: float
    rough: list[tuple[Rows, Array, Array]]  # (rows, u, E) of the losses that are not quadratic

    @classmethod
    def of(
        cls, system: System, terms: tuple[Rows, ...], a: Array, image: Array, u: Array, D: Array, U: Array
    ) -> Restricted:
        """psi around the point (a, its image Ga, u), for directions D (N, k) with images U."""
        xp = namespace(a)
        k, r = int(D.shape[1]), int(system.Q.shape[1])
        linear, square = np.zeros(k + r), np.zeros((k + r, k + r))
        linear[:k] = to_numpy(D.T @ image)
        cross = to_numpy(D.T @ U).astype(np.float64)
        square[:k, :k] = (cross + cross.T) / 2
        constant = 0.0
        rough = []
        for t in terms:
            E = xp.concat([U[t.rows], system.Q[t.rows]], axis=1)
            if t.loss.quadratic:
                residual = u[t.rows] - t.target[:, 0]
                weighted = t.weight * E
                linear += 2 * to_numpy(weighted.T @ residual)
                square += 2 * to_numpy(weighted.T @ E)
                constant += float(xp.sum(t.weight[:, 0] * residual**2))
            else:
                rough.append((t, u[t.rows], E))
        return cls(float(xp.vecdot(a, image)), linear, upright(square, a), constant, rough)

    def value(self, theta: np.ndarray[Any, Any]) -> float:
        total = self.norm / 2 + self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        for t, u, E in self.rough:
            v = u + E @ like(theta, u)
            total += float(namespace(v).sum(t.weight[:, 0] * t.loss.value(v, t.target[:, 0])))
        return total

    def derivatives(self, theta: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The gradient and Hessian of psi."""
        gradient, hessian = self.linear + self.square @ theta, self.square.copy()
        for t, u, E in self.rough:
            v, w, b = u + E @ like(theta, u), t.weight[:, 0], t.target[:, 0]
            gradient += to_numpy(E.T @ (w * t.loss.gradient(v, b)))
            hessian += _bend(E, w * t.loss.curvature(v, b))
        return gradient, hessian

    def minimise(self, theta: np.ndarray[Any, Any] | None = None, enough: float = 0.0) -> np.ndarray[Any, Any]:
        """argmin psi, by Newton's method with a line search: to rounding, or to a step that gains less than `enough`.

        That is a share of psi, and the step is taken, which leaves far less.
        """
        theta = np.zeros(len(self.linear)) if theta is None else theta
        if theta.size == 0:
            return theta
        value = self.value(theta)
        last, before = float("inf"), theta
        for _ in range(STEPS):
            gradient, hessian = self.derivatives(theta)
            step = newton_step(hessian, gradient)
            decrement = -float(gradient @ step)
            if decrement <= enough * abs(value):
                return theta + step
            if decrement <= SEEN * abs(value):  # psi no longer tells: Newton's steps, as long as they shrink
                if not self.rough:
                    return theta + step
                if decrement > last / 2:
                    return theta if decrement < last else before
                if not self.value(theta + step) <= value + SEEN * abs(value):  # out of a flat piece
                    return theta
                last, before, theta = decrement, theta, theta + step
                continue
            fraction, lower = self._search(theta, step, value, decrement)
            if not lower < value:
                return theta
            theta, value = theta + fraction * step, lower
        return theta

    def _search(
        self, theta: np.ndarray[Any, Any], step: np.ndarray[Any, Any], value: float, decrement: float
    ) -> tuple[float, float]:
        """A length of the step at which psi has fallen enough and is no longer steep, and psi there.

        Curvature ends where a loss becomes linear or flat, so a step of Newton's may be far too long or too short:
        the length is bracketed, and a secant of the slope and the middle (in logarithms) are tried in turn.
        """
        flat = float(theta @ self.square @ step + self.linear @ step)
        bend = float(step @ self.square @ step)
        level = self.norm / 2 + self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        rows = [(t, u + E @ like(theta, u), E @ like(step, u)) for t, u, E in self.rough]

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


def _bend(E: Array, h: Array) -> np.ndarray[Any, Any]:
    """E' diag(h) E for h >= 0; for many columns without the rows where h = 0, as a square, in half the time or less.

    A root and its square round more than h does, which few columns with weights from 1e-12 to 1e12 can tell.
    """
    if not isinstance(E, np.ndarray) or E.shape[1] < WIDE:
        return to_numpy(E.T @ (h[:, None] * E))
    active = h > 0
    F = np.sqrt(h[active])[:, None] * E[active]
    return F.T @ F


def upright(square: np.ndarray[Any, Any], array: Array) -> np.ndarray[Any, Any]:
    """The matrix with a little more on its diagonal, so that rounding as of an array does not make it bend down."""
    size = len(square)
    return square + np.diag(8 * size * float(namespace(array).finfo(array.dtype).eps) * np.diag(square))


def newton_step(hessian: np.ndarray[Any, Any], gradient: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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


def _pseudo_step(
    scaled: np.ndarray[Any, Any], scale: np.ndarray[Any, Any], gradient: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The step for a Hessian that is singular, or nearly so: where it sees nothing, a long step downhill."""
    values, vectors = np.linalg.eigh(scaled)
    slopes = vectors.T @ (scale * gradient)
    floor = np.maximum(1e-13 * abs(values[-1]), np.abs(slopes) / LONG)
    return -scale * (vectors @ (slopes / np.maximum(np.maximum(values, floor), np.finfo(np.float64).tiny)))
