"""From a point near the solution of the box-constrained dual to one with every coefficient exactly where it belongs.

At the solution each alpha_i sits at an end of its box, at 0 where its cost has a kink there, or is free.  With the
resting ones put exactly there, the free ones solve linear equations; what then leaves its range comes to rest at the
end of it, what is pushed off its place becomes free, and the equations are solved again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import Certificate
from rkhs._linalg.projection import project
from rkhs._linalg.saddle import Saddle
from rkhs.solvers.interior import Interior, Programme

ROUNDS = 30
PUSHED = 1e-10  # of the size of values: a force that moves a coefficient from its place
FINE = 1e-9  # relative gap with which the right places are taken in any case
WORSE = 10  # times the gap that they may cost otherwise, near the limit of rounding
SOFT = 1e-15  # of the largest entry of G, added to the diagonal where it may be singular


def settle(interior: Interior, certify: Callable[[Matrix, Matrix], Certificate]) -> tuple[Matrix, Matrix]:
    """alpha and c of the smallest gap among those tried, from a point of the interior-point method."""
    it = interior.programme
    resting, alpha = _resting(interior)
    rising = np.where(it.low == 0, True, alpha > 0)  # whether a row that moves is where its cost is -p alpha
    c = interior.c
    first = _feasible(it, interior.alpha, it.low, it.high)
    unsettled = smallest = certify(first, c)
    best = None
    for _ in range(ROUNDS):
        low, high = _range(it, resting, rising, alpha)
        alpha, c = _solved(it, ~resting, np.where(rising, it.p, it.q), alpha, c)
        outside = ~resting & ((alpha < low) | (alpha > high))
        feasible = _feasible(it, alpha, low, high)
        found = certify(feasible, c)
        if best is None or found.gap < smallest.gap:
            best, smallest = (feasible, c), found
        alpha = np.clip(alpha, low, high)
        up, down = _pushed(it, alpha, c)
        up, down = up & resting, down & resting
        if not np.any(outside | up | down):
            break
        rising = np.where(up, alpha >= 0, np.where(down, alpha > 0, rising))
        resting = (resting | outside) & ~up & ~down
    good = smallest.gap <= WORSE * unsettled.gap or smallest.relative <= FINE
    return best if best is not None and good else (first, interior.c)


def _resting(interior: Interior) -> tuple[Matrix, Matrix]:
    """Which rows rest, and alpha with those put exactly at their place."""
    n, split = interior.n, interior.split
    at_low, at_high = interior.vanishing()
    x = np.where(at_low, interior.lower, np.where(at_high, interior.upper, interior.x))
    resting, alpha = (at_low | at_high)[:n], x[:n].copy()
    first, second = interior.x[split], interior.x[n:]
    negative = second > first
    alpha[split] = np.where(negative, -x[n:], x[split])
    resting[split] = np.where(negative, (at_low | at_high)[n:], resting[split])
    return resting, alpha


def _range(it: Programme, resting: Matrix, rising: Matrix, alpha: Matrix) -> tuple[Matrix, Matrix]:
    """Between which values a row may move with its cost linear; those that rest may not."""
    kink = it.p < it.q
    low = np.where(kink & rising, np.maximum(it.low, 0.0), it.low)
    high = np.where(kink & ~rising, np.minimum(it.high, 0.0), it.high)
    return np.where(resting, alpha, low), np.where(resting, alpha, high)


def _solved(it: Programme, free: Matrix, aim: Matrix, alpha: Matrix, c: Matrix) -> tuple[Matrix, Matrix]:
    """The free rows and c with (G + D) alpha + Qc = aim on them and Q'alpha = 0."""
    rows = np.flatnonzero(free)
    if rows.size == 0:
        return alpha, c
    soft = SOFT * float(np.abs(it.G).max())
    saddle = Saddle(it.G[np.ix_(rows, rows)], it.diagonal[rows] + soft, it.Q[rows])
    for _ in range(2):
        short = (aim - it.force(alpha, c))[rows]
        change, shift = saddle.solve(short[:, None], -(it.Q.T @ alpha)[:, None])
        alpha, c = alpha.copy(), c + shift[:, 0]
        alpha[rows] += change[:, 0]
    return alpha, c


def _feasible(it: Programme, alpha: Matrix, low: Matrix, high: Matrix) -> Matrix:
    """The nearest point in the ranges with Q'alpha = 0, or in the box if they have none."""
    for ends in ((low, high), (it.low, it.high)):
        point = project(alpha[:, None], ends[0][:, None], ends[1][:, None], it.Q)[:, 0]
        if np.all(np.abs(it.Q.T @ point) <= 1e-13 * np.linalg.norm(point)):
            break
    return point


def _pushed(it: Programme, alpha: Matrix, c: Matrix) -> tuple[Matrix, Matrix]:
    """Which rows would lower the objective by moving up, and which by moving down."""
    force = it.force(alpha, c)
    margin = PUSHED * it.level
    up = (alpha < it.high) & (force < np.where(alpha >= 0, it.p, it.q) - margin)
    down = (alpha > it.low) & (force > np.where(alpha <= 0, it.q, it.p) + margin)
    return up, down
