"""A metric learnt from the slopes of f itself: directions in which f changes much count more.

With G = mean over points of (grad f)(grad f)', the average gradient outer product (AGOP), the next kernel is k(Tx, Ty),
T = G^(1/2), and f is learnt again: the recursive feature machine of Radhakrishnan, Beaglehole, Pandit and Belkin
(Science, 2024).  Features are first divided by their standard deviations, and T has a fixed size, so that units do not
matter.

A round may also do harm: slopes of a poor f point anywhere.  So a fifth of the labels is held out, and a round is kept
only where their loss falls, compared label by label, by more than chance (`falls`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, taken, to_numpy
from rkhs.estimators.choosing.judging import mean_fall
from rkhs.functionals import Gradient

FULL, DIAGONAL = "agop", "agop-diagonal"
ROUNDS = 6
POINTS = 4000  # at which slopes are averaged, if there are more
SURE = 2.0  # standard errors by which more losses fall than rise
EVEN = 0.1  # of each feature's weight that a diagonal metric keeps, whatever its slopes are


def check_metric(metric: Any) -> None:
    """Refuse what is no metric."""
    if metric is not None and not (isinstance(metric, str) and metric in (FULL, DIAGONAL)):
        raise ValueError(f'metric must be None, "{FULL}" or "{DIAGONAL}", got {metric!r}.')


def learnt_map(
    X: Any,
    learn: Callable[[Matrix], Any],
    losses: Callable[[Any], Matrix],
    diagonal: bool,
) -> Matrix:
    """T (n, n), as far as it helps.

    `learn(T)` is the f that is learnt from some labels in the metric |Tx - Ty|; `losses(f)` are its losses (l,) at
    the labels that are held out.
    """
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:POINTS])
    points = taken(X, rows)
    spread = to_numpy(X).astype(np.float64).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    best = np.diag(1 / spread)
    f = learn(best)
    before = losses(f)
    for _ in range(ROUNDS):
        slopes = to_numpy(Gradient(points)(f)).astype(np.float64)
        T = _root(_outer(slopes, spread), diagonal) / spread
        if not np.all(np.isfinite(T)):
            break
        f = learn(T)
        after = losses(f)
        if not falls(before, after):
            break
        best, before = T, after
    return best


def falls(before: Matrix, after: Matrix) -> bool:
    """Whether losses fall by more than chance: their mean by a standard error, or most of them.

    Most of them: so many more fall than rise that it is two standard errors of a fair coin, and the mean falls.  Where
    few labels have most of the loss, the mean says nothing about all others.

    Examples
    --------
    >>> falls(np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.6, 0.4]))
    True
    >>> falls(np.array([1.0, 1.0, 1.0]), np.array([0.0, 2.0, 0.5]))
    False
    """
    mean, error = mean_fall(before, after, np.ones(len(before)))
    most = float(np.mean(np.sign(before - after))) * len(before) ** 0.5 > SURE
    return mean > error or (most and mean > 0)


def _outer(slopes: Matrix, spread: Matrix) -> Matrix:
    """G for features divided by their spread, from slopes (t, n) or (t, n, outputs)."""
    along = np.moveaxis(slopes.reshape(*slopes.shape[:2], -1), 2, 0).reshape(-1, len(spread)) * spread
    return np.asarray(along.T @ along / len(slopes))


def _root(G: Matrix, diagonal: bool) -> Matrix:
    """G^(1/2), or that of its diagonal, with a mean square of one on the diagonal of its square."""
    if diagonal:
        own = np.diag(G) / np.mean(np.diag(G))
        return np.diag(np.sqrt((1 - EVEN) * own + EVEN))
    values, axes = np.linalg.eigh(G)
    return np.asarray((axes * np.sqrt(np.clip(values, 0, None))) @ axes.T / np.sqrt(np.mean(np.diag(G))))
