"""The nearest point of a box on which finitely many linear forms vanish.

By duality it is a = clip(x, low, high), x = point + Q m, for the multiplier m that minimises

    phi(m) = sum_i a_i x_i - a_i^2 / 2,        grad phi = Q'a

a convex function that is quadratic in pieces.  Newton's method, with steps as long as phi falls, ends in the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rkhs._backend.arrays import Array, Vector, like, namespace, to_numpy

EPS = float(np.finfo(np.float64).eps)


def project(point: Array, low: Array, high: Array, Q: Array) -> Array:
    """argmin |a - point|^2 / 2  subject to  low <= a <= high  and  Q'a = 0, column by column.

    `point`, `low`, `high` are (N, c) with low <= high, Q is (N, r) with orthonormal columns.  Where no such point
    exists the result is some point of the box, on which Q'a is not 0.
    """
    xp = namespace(point)
    nearest = xp.minimum(xp.maximum(point, low), high)
    if Q.shape[1] == 0:
        return nearest
    a, p, lower, upper, basis = (to_numpy(array).astype(np.float64) for array in (nearest, point, low, high, Q))
    for _ in range(3):  # twice more for results that are small beside the rounding errors of the point
        for c in np.flatnonzero(_size(basis.T @ a) > 4 * EPS * np.linalg.norm(a, axis=0)):
            with np.errstate(over="ignore", invalid="ignore"):  # there may be no such point, and no multiplier
                found = _project_column(p[:, c], lower[:, c], upper[:, c], basis)
            a[:, c] = found if np.all(np.isfinite(found)) else a[:, c]
        p = a
    return like(a, point)


def _project_column(point: Vector, low: Vector, high: Vector, Q: Vector) -> Vector:
    a = np.clip(point, low, high)
    Q = np.where(np.abs(Q) > 64 * EPS, Q, 0.0)
    rows = np.any(Q != 0, axis=1) & (low < high)
    still = Q[~rows].T @ a[~rows]  # the share of what does not move
    at = _Multiplier(np.zeros(Q.shape[1]), point[rows], low[rows], high[rows], Q[rows], still)
    for _ in range(200):  # steps of Newton's method, which takes a handful
        if _size(at.gradient(at.a)) <= at.rounding:
            break
        step = at.step()
        if not np.any(step):
            break
        at = replace(at, m=at.m + step)
    a[rows] = at.polished()
    return a


def _size(vectors: Vector) -> Vector:
    return np.max(np.abs(vectors), axis=0)


@dataclass(frozen=True, eq=False)
class _Multiplier:
    """phi at m; what does not move adds `still` to its gradient."""

    m: Vector
    point: Vector
    low: Vector
    high: Vector
    Q: Vector
    still: Vector

    @cached_property
    def x(self) -> Vector:
        return self.point + self.Q @ self.m

    @cached_property
    def a(self) -> Vector:
        return np.clip(self.x, self.low, self.high)

    def gradient(self, a: Vector) -> Vector:
        """Q'a, of all rows."""
        return self.Q.T @ a + self.still

    @cached_property
    def free(self) -> Vector:
        return (self.x > self.low) & (self.x < self.high)

    @cached_property
    def lengths(self) -> Vector:
        """Of the rows of Q."""
        return np.sqrt(np.sum(self.Q**2, axis=1))

    @cached_property
    def noise(self) -> Vector:
        """The rounding errors of x."""
        return 16 * EPS * (np.abs(self.point) + self.lengths * np.linalg.norm(self.m))

    @property
    def rounding(self) -> float:
        """The rounding error of the gradient."""
        errors = 4 * EPS * np.abs(self.a) + np.where(self.free, self.noise, 0.0)
        return float(self.lengths @ errors + 4 * EPS * np.max(np.abs(self.still)))

    def step(self) -> Vector:
        """Newton's step, or where phi is flat a step of steepest descent; as long as phi falls."""
        values, vectors = np.linalg.eigh(self.Q[self.free].T @ self.Q[self.free])
        down = vectors.T @ -self.gradient(self.a)
        flat = values <= 1e-12
        if np.max(np.abs(down[flat]), initial=0.0) > self.rounding:
            step = vectors[:, flat] @ down[flat]
        else:
            step = vectors[:, ~flat] @ (down[~flat] / values[~flat])
        y = self.Q @ step
        y[np.abs(y) <= 16 * EPS * self.lengths * np.linalg.norm(step)] = 0.0
        return self._fraction(y, float(step @ self.still)) * step

    def _fraction(self, y: Vector, still: float) -> float:
        """Return the root t of the slope y'clip(x + t y, low, high) + still of phi, which grows with t from below 0."""

        def slope(t: float) -> float:
            return float(y @ np.clip(self.x + t * y, self.low, self.high)) + still

        moving = y != 0
        with np.errstate(over="ignore"):
            ends = np.concatenate([(end - self.x)[moving] / y[moving] for end in (self.low, self.high)])
        breaks = np.unique(ends[(ends > 0) & (ends < np.inf)])
        first, last = -1, len(breaks)  # the slope is negative at the first of these breaks and not at the last
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (middle, last) if slope(breaks[middle]) < 0 else (first, middle)
        begin = breaks[first] if first >= 0 else 0.0
        end = breaks[last] if last < len(breaks) else np.inf
        inside = self.x + (min(end, 2 * begin + 1) / 2 + begin / 2) * y
        growth = float(np.sum(y[(inside > self.low) & (inside < self.high)] ** 2))
        if growth > 0:
            return float(min(begin - slope(begin) / growth, end))
        return float(end if end < np.inf else begin)  # to the last break, beyond which nothing moves

    def polished(self) -> Vector:
        """a with Q'a = 0 up to the rounding of a itself: what is at an end, or 0, but for rounding is put there."""
        a = self._snapped(self.a)
        inside = (a > self.low) & (a < self.high) & (a != 0)
        Q = self.Q[inside]
        solve = np.linalg.pinv(Q.T @ Q, rcond=1e-12, hermitian=True)
        for _ in range(2):
            a[inside] -= Q @ (solve @ self.gradient(a))
        a = self._snapped(np.clip(a, self.low, self.high))
        return a if _size(self.gradient(a)) <= _size(self.gradient(self.a)) else self.a

    def _snapped(self, a: Vector) -> Vector:
        for end in (self.low, self.high, np.clip(0.0, self.low, self.high)):
            a = np.where(np.abs(a - end) <= self.noise, end, a)
        return a
