"""The weighted sum of kernels between which few labels cannot decide.

The leave-one-out errors of fifty labels have standard errors that are larger than the differences between most
candidates, and the smallest of many such errors is chosen by chance.  Instead of picking one kernel, the best of each
family (a kernel of raw or of standardized features, of principal components, of a graph, ..) gets a weight,

    w_j ~ p_j s_j^(-m / 4),        k = sum_j w_j k_j / v_j,

with its prior share p_j, its mean squared leave-one-out error s_j and the number m of labels that are evidence.
s^(-m/2) is the likelihood of m residuals of unknown variance; its root allows for residuals that depend on each other,
since all are differences to the same labels.  Learned length scales are candidates only if they are significantly
better, which they may be by chance: half of their gain, in logarithms, counts.  v_j is the variance of the values
k_j(x_i, x_i) that a constant does not explain: an intercept is free, and the kernel of wide length scales is nearly
constant.

The sum is one kernel, so that f solves one problem with one certificate; the values of f are close to the weighted mean
of the functions that the kernels would give alone.  Kernels with less than 3 % of the largest weight are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rkhs._core.backend.arrays import Matrix, Vector
from rkhs.estimators.search._search import Candidate

BEYOND = 2  # labels of each class that are no evidence: their class would be unknown, or known by one label
CLUSTERS_SHARE = 0.5  # the prior share of the assumption that clusters are classes
POWER = 0.25  # of the mean squared errors, for each label
LEAST = 0.03  # of the largest weight
USUAL_C, DECADES = 10.0, 1.0  # the prior of C for classes and a kernel of variance one: its median, and its deviation
TINY = 1e-12  # squared errors that count as none


@dataclass(frozen=True, eq=False)
class Combination:
    """A weighted sum of kernels as a candidate, and its parts with their weights."""

    candidate: Candidate
    parts: Sequence[tuple[float, Candidate]]


def evidence(classes: Vector) -> int:
    """Return the number of labels, given as class indices, whose leave-one-out errors are evidence."""
    return int(np.clip(np.bincount(classes) - BEYOND, 0, None).sum())


def families(found: Sequence[Candidate]) -> list[Candidate]:
    """Return the best candidate of each family."""
    best: dict[object, Candidate] = {}
    for one in found:
        if np.isfinite(one.loss) and (one.family not in best or one.loss < best[one.family].loss):
            best[one.family] = one
    return list(best.values())


def weighted(members: Sequence[Candidate], clusters: str, learned: str, count: int) -> list[tuple[float, Candidate]]:
    """Return candidates with their weights, the largest first, by their errors at `count` labels.

    One of them may be of the kind `clusters`.  It is the only one if no label is evidence for or against it.  Another
    one may be of the kind `learned`, with length scales that are significantly better than others.
    """
    assumed = np.array([one.kind == clusters for one in members])
    share = 0.0 if not assumed.any() else 1.0 if assumed.all() or not count else CLUSTERS_SHARE
    prior = np.where(assumed, share, (1 - share) / max(np.sum(~assumed), 1))
    losses = np.array([one.loss for one in members])
    chosen = np.array([one.kind == learned for one in members])
    if chosen.any() and not chosen.all():
        losses[chosen] = np.sqrt(losses[chosen] * np.maximum(losses[chosen], losses[~chosen].min()))
    found = weights(losses, prior, count)
    parts = [(weight, one) for weight, one in zip(found.tolist(), members, strict=True) if weight]
    return sorted(parts, key=lambda pair: -pair[0])


def weights(losses: Vector, prior: Vector, count: int) -> Vector:
    """Return the weights of candidates by their prior shares and mean squared errors at `count` labels."""
    # w_j ~ p_j s_j^(-m/4)
    with np.errstate(divide="ignore"):
        exponents = np.log(prior) - POWER * count * np.log(np.maximum(losses, TINY))
    found = np.exp(exponents - exponents.max())
    found[found < LEAST] = 0.0
    return np.asarray(found / found.sum())


def free_variance(K: Matrix) -> float:
    """Return the mean variance of a kernel matrix (l, l) that constants do not explain, at least 1e-3 of all of it."""
    variance = float(np.mean(np.diag(K)))
    return max(variance - float(K.mean()), 1e-3 * variance)


def index_of_C(Cs: Vector, losses: Vector, count: int, variance: float) -> int:
    """Return the index of the value nearest to the mean of log C under its prior and the errors at `count` labels.

    The kernel has the given variance without constants.
    """
    # log posterior of C: -(log10(C v / 10))^2 / 2 - m/2 log s(C)
    away = np.log10(Cs * variance / USUAL_C) / DECADES
    exponents = -(away**2) / 2 - count / 2 * np.log(np.maximum(losses, TINY))
    share = np.exp(exponents - exponents.max())
    return int(np.argmin(np.abs(np.log(Cs) - np.log(Cs) @ share / share.sum())))
