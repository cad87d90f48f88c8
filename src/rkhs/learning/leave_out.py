"""What f would be without some of its functionals, without solving again (theory, section 9).

For squared losses, with a = P b (`evidence`), the targets of a group g minus what all others predict there are

    e_g  =  (P_gg)^-1 a_g

exactly, basis included.  For other smooth losses the quadratic model of J at its minimum stands in: with slopes
l = w loss', bends h = w loss'' and V the Gram matrix that the bends leave (the warped one), leaving g out moves u_g by

    V_gg (1 - diag(h_g) V_gg)^-1 l_g

one step of Newton's method from the solution: an approximation.

*Equal observations* may stand as one functional i of their weights' sum w.  Leaving one of c of them out takes w / c
away, so that l and h are divided by c in the formula above, and

    e_i  =  c a_i / (P_ii + 2 w (c - 1))

with the variance tau^2 c^2 / (P_ii + 2 w (c - 1)).

*A criterion.*  sum over terms of n/2 log(mean of e^2) is, up to a constant, minus the log likelihood of residuals that
are normal with one variance for each term: so terms need no common unit.  Terms whose targets are all the same (an
invariance) are not asked.  With f_i = e_i n / sum e^2, R_g = (P_gg)^-1 and h_g = R_g f_g, its derivative is the sum of
entries of dS times

    P (blockdiag of e_g h_g') P - (P h) a'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._linalg.saddle import Saddle
from rkhs.kernels.base import Kernel
from rkhs.learning.observations import Equations, Observations
from rkhs.learning.settings import Setting, gradient

DETERMINED = 1e-10  # share of a group's own size, under which the others do not determine it


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions for what was left out, and their errors.

    Predictions for all functionals of each term by an f that has not seen them, and targets minus these.

    Arrays have the shapes of the terms' targets, one for each term.  `exact` says that they are what solving again
    would give; else each is one step of Newton's method away from the solution.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]), weight=100.0)
    >>> left = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).leave_out()
    >>> left.exact, left.residuals[0].shape, bool(np.abs(left.residuals[0][1:-1]).max() < 0.1)
    (True, (20,), True)
    """

    predictions: tuple[Any, ...]
    residuals: tuple[Any, ...]
    exact: bool


class Groups:
    """The functionals that are left out together."""

    def __init__(self, labels: Matrix) -> None:
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=np.nan) != 0)
        members = np.split(order, starts[1:])
        self.single = np.array([g[0] for g in members if len(g) == 1], dtype=int)
        self.several = [g for g in members if len(g) > 1]

    def solved(self, equations: Equations, P: Matrix, right: Matrix) -> Matrix:
        """(P_gg)^-1 right_g, for all groups, (N, c)."""
        found, one = np.empty_like(right), self.single
        scale = equations.saddle.scale
        _check(P[one, one] / scale[one] ** 2 if len(one) else np.ones(1))
        found[one] = right[one] / P[one, one][:, None]
        for g in self.several:
            block = P[np.ix_(g, g)] / np.outer(scale[g], scale[g])
            values, vectors = np.linalg.eigh(block)
            _check(values)
            inner = vectors @ ((vectors.T @ (right[g] / scale[g][:, None])) / values[:, None])
            found[g] = inner / scale[g][:, None]
        return found

    def outer(self, P: Matrix, e: Matrix, h: Matrix) -> Matrix:
        """P (blockdiag of e_g h_g', summed over outputs) P, made symmetric."""
        inner, one = np.zeros_like(P), self.single
        inner[one] = np.sum(e[one] * h[one], axis=1)[:, None] * P[one]
        for g in self.several:
            own = e[g] @ h[g].T
            inner[g] = ((own + own.T) / 2) @ P[g]
        return P @ inner


def _check(values: Matrix) -> None:
    if not np.all(values > DETERMINED):
        raise ValueError(
            "Without one of the groups the others do not determine the basis: take smaller groups, more functionals, "
            "or leave the basis out."
        )


def residuals(equations: Equations, groups: Groups, count: Matrix) -> Matrix:
    """Return b - u of an f that has not seen the group, (N, c); of each functional alone, one of its `count` (N,)."""
    P = equations.inverse()
    if np.all(count == 1):
        return groups.solved(equations, P, equations.a)
    diagonal = (np.diag(P) + (count - 1) / equations.noise) / count
    _check(diagonal / equations.saddle.scale**2)
    return equations.a / diagonal[:, None]


def left_out_amplitudes(observations: Observations, kernel: Kernel, count: Matrix) -> Matrix:
    """Return tau (c,) by which residuals of left-out targets of the first term have the variance that is promised.

    Without itself target i has the variance tau^2 / P_ii, so tau^2 is the mean of e_i^2 P_ii = e_i a_i; where each
    stands for `count` (N,) equal ones, the sum of e_i a_i over the number of all.  Where f bends
    more in some places than a kernel says, this is nearer to the truth than the most likely amplitude (Bachoc 2013,
    Cross validation and maximum likelihood estimations of hyper-parameters of Gaussian processes with model
    misspecification).
    """
    equations = observations.equations(kernel, observations.weight)
    e = residuals(equations, Groups(np.arange(observations.size)), count)
    first = observations.term == 0
    squares = np.sum(e[first] * equations.a[first], axis=0) / np.sum(count[first])
    return np.sqrt(np.clip(squares, 0, None))


def newton_step(G: Matrix, Q: Matrix, slope: Matrix, bend: Matrix, groups: Groups, count: Matrix) -> Matrix:
    """Return by how much u moves where a group is left out, (N,), for one output; `count` as in `residuals`."""
    seen = np.flatnonzero(bend > 0)
    saddle = Saddle(G[np.ix_(seen, seen)], 1 / bend[seen], Q[seen])
    if saddle.rank < Q.shape[1]:
        _check(np.zeros(1))
    a, c = saddle.solve(G[seen], Q.T)
    V = G - G[:, seen] @ a - Q @ c
    one = groups.single
    moved = np.zeros(len(G))
    own = np.diag(V)[one]
    slope, bend = slope / count, bend / count
    _check(1 - bend[one] * own)
    moved[one] = own * slope[one] / (1 - bend[one] * own)
    for g in groups.several:
        block = V[np.ix_(g, g)]
        moved[g] = block @ np.linalg.solve(np.eye(len(g)) - bend[g][:, None] * block, slope[g])
    return moved


def asked(observations: Observations) -> list[Matrix]:
    """The rows of each term whose targets are not all the same."""
    rows = [np.flatnonzero(observations.term == k) for k in np.unique(observations.term)]
    return [own for own in rows if np.any(np.ptp(observations.target[own], axis=0) > 0)]


def log_left_out(
    observations: Observations,
    kernel: Kernel,
    weight: Matrix,
    settings: Sequence[Setting] | None,
) -> tuple[float, Matrix]:
    """Minus the criterion above, leaving out one point at a time, and its derivatives in logarithms of settings."""
    equations, groups = observations.equations(kernel, weight), Groups(observations.places)
    P = equations.inverse()
    e = groups.solved(equations, P, equations.a)
    value, f = 0.0, np.zeros_like(e)
    for rows in asked(observations):
        square, count = max(float(np.sum(e[rows] ** 2)), np.finfo(np.float64).tiny), e[rows].size
        value -= count / 2 * float(np.log(square / count))
        f[rows] = count / square * e[rows]
    if settings is None:
        return value, np.zeros(0)
    h = groups.solved(equations, P, f)
    B = groups.outer(P, e, h)
    B -= (P @ h) @ equations.a.T
    return value, gradient(observations, kernel, weight, -(B + B.T) / 2, settings)
