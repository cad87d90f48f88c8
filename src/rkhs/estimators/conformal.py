"""Intervals and sets that hold the truth with a given probability, from labels left out (conformal prediction).

How badly is each label predicted without itself?  A new one is as badly predicted or less with probability

    coverage,   for scores up to the ceil((l + 1) coverage)-th smallest of l,

if points come independently from one source, up to what leaving labels out changes in f (Barber, Candes, Ramdas and
Tibshirani 2021 on when it holds).  Labels are left out one by one where that can be computed, else a tenth of them at a
time (`held_out`): those models know a little less, so intervals are a little long.  Settings that were chosen by the
same labels make intervals a little short.
"""

from __future__ import annotations

from math import ceil, inf
from numbers import Real

import numpy as np

from rkhs._backend.arrays import Vector


def bound(scores: Vector, coverage: float, times: Vector) -> float:
    """Return the score that a new label does not exceed with the given probability; infinite for too few labels.

    A score stands for as many labels as `times` says, all of the same features.

    Examples
    --------
    >>> bound(np.arange(1.0, 20.0), 0.9, np.ones(19))
    18.0
    >>> bound(np.arange(1.0, 5.0), 0.9, np.ones(4))
    inf
    """
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
    rank = ceil((np.sum(times) + 1) * float(coverage))
    order = np.argsort(scores)
    place = int(np.searchsorted(np.cumsum(times[order]), rank))
    return float(scores[order][place]) if place < len(scores) else inf


def class_scores(values: Vector) -> Vector:
    """(t, classes): by how much f of the best other class is above that of each class; from (t,) for two classes."""
    own = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    best = np.argsort(own, axis=1)
    first, second = (np.take_along_axis(own, best[:, -k][:, None], axis=1) for k in (1, 2))
    others = np.where(np.arange(own.shape[1]) == best[:, -1:], second, first)
    return np.asarray(others - own)
