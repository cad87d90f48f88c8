"""Some rows of the quadratic terms, for directions that cost as little as these rows do.

A gradient in H is a sum of representers over all rows.  As a direction of descent, the sum over a sample of the points
leads nearly as far where many rows say much the same about f, as the slopes of f at all points of a set do; only a
certificate needs all rows.
"""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.problem import FiniteProblem

SHARE = 12  # groups of rows for each that is in the sample
LEAST = 16  # groups in a sample that stands for all


def sample(system: FiniteProblem, which: int) -> Matrix | None:
    """The indices of one sample of the rows of quadratic terms, whole points; None where these are too few for one."""
    firsts = system.gram.firsts
    ends = np.append(firsts[1:], system.size)
    quadratic = np.zeros(system.size, dtype=bool)
    for t in system.terms:
        quadratic[t.rows] = t.loss.quadratic
    groups = np.flatnonzero(quadratic[firsts])
    count = len(groups) // SHARE
    if count < LEAST:
        return None
    chosen = np.sort(np.random.default_rng(which).choice(groups, count, replace=False))
    return np.concatenate([np.arange(firsts[k], ends[k]) for k in chosen])
