"""The nearest point of a box on which finitely many linear forms vanish.

By duality it is a = clip(x, low, high), x = point + Q m, for the multiplier m that minimizes

    phi(m) = sum_i a_i x_i - a_i^2 / 2,        grad phi = Q'a

a convex function that is quadratic in pieces.  Newton's method, with steps as long as phi falls, ends in the right one.
"""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import EPS, Array, Matrix, Vector, like, namespace, to_numpy


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
        off = np.max(np.abs(basis.T @ a), axis=0) > 4 * EPS * np.linalg.norm(a, axis=0)
        for c in np.flatnonzero(off):
            with np.errstate(over="ignore", invalid="ignore"):  # there may be no such point, and no multiplier
                found = _project_column(p[:, c], lower[:, c], upper[:, c], basis)
            a[:, c] = found if np.all(np.isfinite(found)) else a[:, c]
        p = a
    return like(a, point)


def _project_column(point: Vector, low: Vector, high: Vector, Q: Matrix) -> Vector:
    """Return the projection of one column, by Newton's method in m; rows that do not move add `still` to grad phi."""
    found = np.clip(point, low, high)
    Q = np.where(np.abs(Q) > 64 * EPS, Q, 0.0)
    rows = np.any(Q != 0, axis=1) & (low < high)
    still = Q[~rows].T @ found[~rows]
    point, low, high, Q = point[rows], low[rows], high[rows], Q[rows]
    m, lengths = np.zeros(Q.shape[1]), np.sqrt(np.sum(Q**2, axis=1))
    for _ in range(200):  # steps of Newton's method, which takes a handful
        x = point + Q @ m
        a = np.clip(x, low, high)
        free = (x > low) & (x < high)
        gradient = Q.T @ a + still
        noise = 16 * EPS * (np.abs(point) + lengths * np.linalg.norm(m))  # the rounding errors of x
        errors = 4 * EPS * np.abs(a) + np.where(free, noise, 0.0)
        rounding = float(lengths @ errors + 4 * EPS * np.max(np.abs(still)))  # of the gradient
        if np.max(np.abs(gradient)) <= rounding:
            break
        values, vectors = np.linalg.eigh(Q[free].T @ Q[free])
        down, flat = vectors.T @ -gradient, values <= 1e-12
        if np.max(np.abs(down[flat]), initial=0.0) > rounding:  # where phi is flat, a step of steepest descent
            step = vectors[:, flat] @ down[flat]
        else:
            step = vectors[:, ~flat] @ (down[~flat] / values[~flat])
        y = Q @ step
        y[np.abs(y) <= 16 * EPS * lengths * np.linalg.norm(step)] = 0.0
        step = _step_length(x, y, low, high, float(step @ still)) * step
        if not np.any(step):
            break
        m = m + step
    found[rows] = _polished(a, low, high, Q, still, noise)
    return found


def _step_length(x: Vector, y: Vector, low: Vector, high: Vector, still: float) -> float:
    """Return the root t of the slope y'clip(x + t y, low, high) + still of phi, which grows with t from below 0."""

    def slope(t: float) -> float:
        return float(y @ np.clip(x + t * y, low, high)) + still

    moving = y != 0
    with np.errstate(over="ignore"):
        ends = np.concatenate([(end - x)[moving] / y[moving] for end in (low, high)])
    breaks = np.unique(ends[(ends > 0) & (ends < np.inf)])
    first, last = -1, len(breaks)  # the slope is negative at the first of these breaks and not at the last
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if slope(breaks[middle]) < 0 else (first, middle)
    begin = breaks[first] if first >= 0 else 0.0
    end = breaks[last] if last < len(breaks) else np.inf
    inside = x + (min(end, 2 * begin + 1) / 2 + begin / 2) * y
    growth = float(np.sum(y[(inside > low) & (inside < high)] ** 2))
    if growth > 0:
        return float(min(begin - slope(begin) / growth, end))
    return float(end if end < np.inf else begin)  # to the last break, beyond which nothing moves


def _polished(given: Vector, low: Vector, high: Vector, Q: Matrix, still: Vector, noise: Vector) -> Vector:
    """Return a with Q'a = 0 up to the rounding of a itself: what is at an end, or 0, but for noise is put there."""

    def snapped(a: Vector) -> Vector:
        for end in (low, high, np.clip(0.0, low, high)):
            a = np.where(np.abs(a - end) <= noise, end, a)
        return a

    a = snapped(given)
    inside = (a > low) & (a < high) & (a != 0)
    solve = np.linalg.pinv(Q[inside].T @ Q[inside], rcond=1e-12, hermitian=True)
    for _ in range(2):
        a[inside] -= Q[inside] @ (solve @ (Q.T @ a + still))
    a = snapped(np.clip(a, low, high))
    before, after = (np.max(np.abs(Q.T @ one + still)) for one in (given, a))
    return a if after <= before else given
