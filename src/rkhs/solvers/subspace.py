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

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.system import Rows, System

STEPS = 100


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
        return cls(float(xp.vecdot(a, image)), linear, square, constant, rough)

    def value(self, theta: np.ndarray[Any, Any]) -> float:
        total = self.norm / 2 + self.constant + float(theta @ (self.linear + self.square @ theta / 2))
        for t, u, E in self.rough:
            v = u + E @ like(theta, E)
            total += float(namespace(v).sum(t.weight[:, 0] * t.loss.value(v, t.target[:, 0])))
        return total

    def derivatives(self, theta: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The gradient and Hessian of psi."""
        gradient, hessian = self.linear + self.square @ theta, self.square.copy()
        for t, u, E in self.rough:
            v, w, b = u + E @ like(theta, E), t.weight[:, 0], t.target[:, 0]
            gradient += to_numpy(E.T @ (w * t.loss.gradient(v, b)))
            hessian += to_numpy(E.T @ ((w * t.loss.curvature(v, b))[:, None] * E))
        return gradient, hessian

    def minimise(self) -> np.ndarray[Any, Any]:
        """argmin psi, by Newton's method with halved steps."""
        theta = np.zeros(len(self.linear))
        if theta.size == 0:
            return theta
        value = self.value(theta)
        for _ in range(STEPS):
            gradient, hessian = self.derivatives(theta)
            step = _newton_step(hessian, gradient)
            decrement = -float(gradient @ step)
            if decrement <= 1e-15 * abs(value):
                return theta + step if not self.rough else theta
            fraction = 1.0
            while fraction > 1e-9:
                tried = self.value(theta + fraction * step)
                if tried <= value - 1e-4 * fraction * decrement:
                    break
                fraction /= 2
            else:
                return theta
            theta, value = theta + fraction * step, tried
        return theta


def _newton_step(hessian: np.ndarray[Any, Any], gradient: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """-H^-1 g in the directions that H sees, after scaling its diagonal to one."""
    diagonal = np.diag(hessian)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(hessian * np.outer(scale, scale))
    floor = 1e-13 * max(float(values[-1]), 1e-300)
    return -scale * (vectors @ ((vectors.T @ (scale * gradient)) / np.maximum(values, floor)))
