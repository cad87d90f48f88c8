"""Projection onto the intersection of a box and the null space of finitely many linear forms.

By duality the projection is a = clip(x, low, high), x = point + Q m, for the multiplier m that minimizes

    phi(m) = sum_i a_i x_i - a_i^2 / 2,        grad phi = Q'a

a convex, piecewise quadratic function.  Newton's method with exact line search ends after finitely many steps.  For
convex sets other than boxes, a is the projection of x onto the set, and phi has the same gradient; its
Hessian is approximated by difference quotients.

`least_support` is a linear program over the same kind of set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy  # imports scipy.optimize lazily

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, double, like, namespace, to_numpy

VERTEX = 1e-6  # entries of vertices of linear programs up to this are zero: their tolerance is 1e-7
LEAST = 1e-14  # least damping of the Newton steps of `project_convex`, relative to the largest possible Hessian


def project(point: Array, low: Array, high: Array, Q: Array) -> Array:
    """Return the minimizer of |a - point|^2 / 2 subject to low <= a <= high and Q'a = 0, for each column.

    `point`, `low`, `high` are (N, c) with low <= high, and Q (N, r) has orthonormal columns.  If there is no feasible
    point, the result is a point of the box with Q'a != 0.
    """
    xp = namespace(point)
    nearest = xp.minimum(xp.maximum(point, low), high)
    if Q.shape[1] == 0:
        return nearest
    a, p, lower, upper, basis = (double(array) for array in (nearest, point, low, high, Q))
    for _ in range(3):  # repeated because the result may be small compared with the rounding errors of the point
        # Q'a = 0 up to rounding: nothing to do
        infeasible = np.max(np.abs(basis.T @ a), axis=0) > 4 * EPS * np.linalg.norm(a, axis=0)
        for c in np.flatnonzero(infeasible):
            with np.errstate(over="ignore", invalid="ignore"):  # without a feasible point the multiplier diverges
                projection = _project_column(p[:, c], lower[:, c], upper[:, c], basis)
            a[:, c] = projection if np.all(np.isfinite(projection)) else a[:, c]
        p = a
    return like(a, point)


def least_support(basis: Matrix, low: Vector, high: Vector) -> Vector | None:
    """Return the alpha with basis'alpha = 0 and |alpha|_1 <= 1 whose sum of support functions is least and negative.

    Those of the intervals [low, high] at -alpha are -low alpha where alpha > 0, and -high alpha where alpha < 0; where
    an end is infinite, alpha has the other sign.  The solution is a vertex, so that no alpha with fewer nonzero entries
    among its own satisfies the equations.
    """
    ends = np.concatenate([-low, high])
    finite = np.isfinite(ends)
    # min over x, y >= 0 of -low'x + high'y  subject to  basis'(x - y) = 0, sum(x + y) <= 1
    equations, size = np.hstack([basis.T, -basis.T])[:, finite], np.ones((1, int(finite.sum())))
    result = scipy.optimize.linprog(ends[finite], size, [1.0], equations, np.zeros(len(equations)))
    if result.status != 0 or not result.fun < 0:
        return None
    x = np.zeros(len(ends))
    x[finite] = result.x
    alpha = x[: len(low)] - x[len(low) :]
    return np.where(np.abs(alpha) > VERTEX, alpha, 0.0)


def project_convex(point: Array, nearest: Callable[[Array], Array], Q: Array) -> Array:
    """Return the minimizer of |a - point|^2 / 2 subject to a in C and Q'a = 0, for each column.

    `nearest` projects (N, c) onto the convex set C.  The result is in C, but Q'a != 0 if there is no feasible point.
    """
    zero = float(namespace(point).finfo(point.dtype).eps) * np.linalg.norm(to_numpy(point), axis=0)
    for _ in range(2):  # repeated because the result may be small compared with the rounding errors of the point
        point = _project_convex(point, nearest, Q, zero)
    return point


def _project_convex(point: Array, nearest: Callable[[Array], Array], Q: Array, zero: Vector) -> Array:
    """Return the projection by damped Newton steps in m, for all columns at once; lengths up to `zero` count as 0."""
    eps = float(namespace(point).finfo(point.dtype).eps)
    columns = [like(to_numpy(Q)[:, j : j + 1], point) for j in range(Q.shape[1])]

    def evaluated(m: Matrix) -> tuple[Array, Array, Matrix, Vector, Vector]:
        # x = point + Q m,  a = P_C(x),  phi = sum a (x - a/2),  grad phi = Q'a
        x = point + Q @ like(m, point)
        a = nearest(x)
        phi = to_numpy(namespace(a).sum(a * (x - a / 2), axis=0))
        gradient = double(Q.T @ a)
        return x, a, gradient, np.linalg.norm(gradient, axis=0), phi

    m, damping = np.zeros((Q.shape[1], point.shape[1])), np.full(point.shape[1], 1e-3)
    x, a, gradient, size, phi = evaluated(m)
    accepted = np.ones(len(phi), dtype=bool)
    for _ in range(60):  # a limit for Newton's method, which usually takes fewer than ten steps
        lengths = np.linalg.norm(to_numpy(a), axis=0)
        if np.all((size <= 4 * eps * lengths) | (lengths <= zero)):  # the latter if only zero is feasible
            break
        if np.any(accepted):
            # H_jk = d(Q'P_C(x + Q m))_j / dm_k ~ (Q'P_C(x + h q_k) - Q'P_C(x))_j / h
            h = eps**0.5 * (np.linalg.norm(to_numpy(x), axis=0) + np.finfo(np.float32).tiny)
            quotients = [(to_numpy(Q.T @ nearest(x + like(h, point) * q)) - gradient) / h for q in columns]
            H = np.moveaxis(np.stack(quotients), 2, 0).astype(np.float64)  # (c, r, r)
            values, vectors = np.linalg.eigh((H + H.transpose(0, 2, 1)) / 2)
        inverse = vectors / (np.clip(values, 0, None) + damping[:, None])[:, None] @ vectors.transpose(0, 2, 1)
        # m <- m - (H + damping I)^-1 grad phi  (Levenberg and Marquardt)
        trial = m - np.einsum("cij,jc->ic", inverse, gradient)
        new = evaluated(trial)
        accepted = (new[4] < phi - 8 * eps * np.abs(phi)) | (new[3] < size)
        if not np.any(accepted) and np.all(damping >= 1):
            break
        damping = np.clip(np.where(accepted, damping / 10, damping * 10), LEAST, 1.0)  # the Hessian is at most 1
        m = np.where(accepted, trial, m)
        x, a, gradient, size, phi = evaluated(m)
    return a


def _project_column(point: Vector, low: Vector, high: Vector, Q: Matrix) -> Vector:
    """Return the projection of one column by Newton's method in m; rows that cannot move add `fixed` to grad phi."""
    result = np.clip(point, low, high)
    Q = np.where(np.abs(Q) > 64 * EPS, Q, 0.0)
    rows = np.any(Q != 0, axis=1) & (low < high)
    fixed = Q[~rows].T @ result[~rows]
    point, low, high, Q = point[rows], low[rows], high[rows], Q[rows]
    m, lengths = np.zeros(Q.shape[1]), np.sqrt(np.sum(Q**2, axis=1))
    for _ in range(200):  # a limit for Newton's method, which usually takes fewer than ten steps
        # a = clip(point + Q m), grad phi = Q'a; the Hessian is Q_F'Q_F on the rows F inside of the box
        x = point + Q @ m
        a = np.clip(x, low, high)
        free = (x > low) & (x < high)
        gradient = Q.T @ a + fixed
        noise = 16 * EPS * (np.abs(point) + lengths * np.linalg.norm(m))  # the rounding errors of x
        errors = 4 * EPS * np.abs(a) + np.where(free, noise, 0.0)
        rounding = float(lengths @ errors + 4 * EPS * np.max(np.abs(fixed)))  # the rounding error of the gradient
        if np.max(np.abs(gradient)) <= rounding:
            break
        values, vectors = np.linalg.eigh(Q[free].T @ Q[free])
        # the Newton step -(Q_F'Q_F)^-1 grad phi where it is curved, -grad phi where it is flat
        down, flat = vectors.T @ -gradient, values <= 1e-12
        if np.max(np.abs(down[flat]), initial=0.0) > rounding:  # no curvature there: a step of steepest descent
            step = vectors[:, flat] @ down[flat]
        else:
            step = vectors[:, ~flat] @ (down[~flat] / values[~flat])
        y = Q @ step
        y[np.abs(y) <= 16 * EPS * lengths * np.linalg.norm(step)] = 0.0
        step = _step_length(x, y, low, high, float(step @ fixed)) * step
        if not np.any(step):
            break
        m = m + step
    result[rows] = _polished(a, low, high, Q, fixed, noise)
    return result


def _step_length(x: Vector, y: Vector, low: Vector, high: Vector, fixed: float) -> float:
    """Return the root t of the increasing slope y'clip(x + t y, low, high) + fixed of phi, negative at t = 0."""

    def slope(t: float) -> float:
        return float(y @ np.clip(x + t * y, low, high)) + fixed

    # phi'(m + t step) = y'clip(x + t y) + fixed is piecewise linear with breaks where a row meets a bound
    moving = y != 0
    with np.errstate(over="ignore"):
        ends = np.concatenate([(end - x)[moving] / y[moving] for end in (low, high)])
    breaks = np.unique(ends[(ends > 0) & (ends < np.inf)])
    first, last = -1, len(breaks)  # bisection: the slope is negative at breaks[first] but not at breaks[last]
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (middle, last) if slope(breaks[middle]) < 0 else (first, middle)
    begin = breaks[first] if first >= 0 else 0.0
    end = breaks[last] if last < len(breaks) else np.inf
    inside = x + (min(end, 2 * begin + 1) / 2 + begin / 2) * y
    # between two breaks its slope is sum of y_i^2 over the rows inside of the box
    growth = float(np.sum(y[(inside > low) & (inside < high)] ** 2))
    if growth > 0:
        return float(min(begin - slope(begin) / growth, end))
    return float(end if end < np.inf else begin)  # beyond the last break the slope is constant


def _polished(original: Vector, low: Vector, high: Vector, Q: Matrix, fixed: Vector, noise: Vector) -> Vector:
    """Improve a such that Q'a = 0 up to rounding; entries within `noise` of a bound, or of 0, are set to it."""

    def snapped(a: Vector) -> Vector:
        for end in (low, high, np.clip(0.0, low, high)):
            a = np.where(np.abs(a - end) <= noise, end, a)
        return a

    a = snapped(original)
    inside = (a > low) & (a < high) & (a != 0)
    # a_F <- a_F - Q_F (Q_F'Q_F)^-1 Q'a, the smallest change that makes Q'a zero
    inverse = np.linalg.pinv(Q[inside].T @ Q[inside], rcond=1e-12, hermitian=True)
    for _ in range(2):
        a[inside] -= Q[inside] @ (inverse @ (Q.T @ a + fixed))
    a = snapped(np.clip(a, low, high))
    before, after = (np.max(np.abs(Q.T @ vector + fixed)) for vector in (original, a))
    return a if after <= before else original
