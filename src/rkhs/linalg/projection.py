"""The nearest point of a box on which finitely many linear forms vanish."""

from __future__ import annotations

from rkhs.backend.arrays import Array, like, namespace

STEPS = 60


def project(point: Array, low: Array, high: Array, Q: Array) -> Array:
    """argmin |a - point|^2 / 2  subject to  low <= a <= high  and  Q'a = 0, column by column.

    a = clip(point + Q m, low, high) for the multiplier m that makes Q'a = 0: Newton's method on a concave,
    piecewise quadratic function of m, with halved steps.  `point`, `low`, `high` are (N, c), Q is (N, r) with
    orthonormal columns.  Where no such point exists the result is the box point that violates Q'a = 0 least.
    """
    xp = namespace(point)
    clipped = xp.minimum(xp.maximum(point, low), high)
    if Q.shape[1] == 0:
        return clipped
    columns = [_project_column(point[:, c], low[:, c], high[:, c], clipped[:, c], Q) for c in range(point.shape[1])]
    return xp.stack(columns, axis=1)


def _project_column(point: Array, low: Array, high: Array, clipped: Array, Q: Array) -> Array:
    xp = namespace(point)
    eps = float(xp.finfo(point.dtype).eps)
    rows = xp.nonzero(xp.any(Q != 0, axis=1))[0]  # the others have nothing to do with it
    Q, point, low, high = Q[rows], point[rows], low[rows], high[rows]
    m = like([0.0] * Q.shape[1], point)
    identity = xp.eye(Q.shape[1], dtype=point.dtype, device=None)

    def at(m: Array) -> Array:
        return xp.minimum(xp.maximum(point + Q @ m, low), high)

    a = at(m)
    residual = Q.T @ a
    for _ in range(STEPS):
        size = float(xp.max(abs(residual)))
        if size <= 4 * eps * float(xp.max(abs(a))):
            break
        free = xp.astype((a > low) & (a < high), a.dtype)
        H = Q.T @ (Q * free[:, None])
        step = xp.linalg.solve(H + (1e-12 * float(xp.linalg.trace(H)) + eps) * identity, -residual)
        fraction = 1.0
        while fraction > 1e-10:
            tried = at(m + fraction * step)
            new = Q.T @ tried
            if float(xp.max(abs(new))) < size * (1 - 0.1 * fraction):
                break
            fraction /= 2
        else:
            break
        m, a, residual = m + fraction * step, tried, new
    result = xp.asarray(clipped, copy=True)
    result[rows] = a
    return result
