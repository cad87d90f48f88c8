"""What solvers are estimated to cost, in seconds of one core; only ratios matter.

The constants are those of `python -m benchmarks.regret` (float64, NumPy, one core).  An estimate is within a factor of two
or so for dense solvers.  Those of iterative ones can be wrong by much, so whoever starts one with a dense solver at hand
switches to that when it has cost as much (`auto`).
"""

from __future__ import annotations

from math import log

import numpy as np

from rkhs.backend.arrays import like, namespace
from rkhs.finite.system import System

ENTRY = 40e-9  # of a dense Gram matrix
FLOP = 1 / 25e9  # of a factorisation or a matrix product
PASS = 1e-9  # over an entry in memory
PAIR = 9e-9  # of points in a product, for values
PAIR_OF_JETS = 35e-9  # for derivatives
CALL = 2e-4  # of anything
POWER = 3  # products that show how large the largest eigenvalue is


def matrix(system: System) -> float:
    """The Gram matrix in memory."""
    return 0.0 if system.gram.stored else ENTRY * system.size**2


def factorisation(size: int) -> float:
    """Equilibration, Cholesky's factorisation, refinement."""
    return CALL + FLOP * size**3 / 3 + 40 * PASS * size**2


def product(system: System) -> float:
    """One Gram product."""
    if system.gram.stored:
        return CALL + PASS * system.size**2
    points = len(system.gram.firsts)
    each = PAIR if points == system.size else PAIR_OF_JETS
    return CALL + each * points**2 + 4 * FLOP * points * system.size


def iterations(system: System, tol: float) -> float:
    """Of conjugate gradients, or what is like them: eigenvalues fall fast, so it is not the root of the conditioning."""
    return (8 + 3.5 * conditioning(system) ** 0.25) * max(log(1 / max(tol, 1e-16)), 1.0) / log(1e4)


def conditioning(system: System) -> float:
    """1 + the largest eigenvalue of H^1/2 G H^1/2, H the largest curvatures of the losses: by a few products.

    A loss with a kink counts as if smoothed over a unit.
    """
    xp = namespace(system.Q)
    bends = [t.weight * (1 / max(getattr(t.loss, "width", 0.0) or 0.25, 1e-6)) for t in system.terms]
    root = xp.sqrt(xp.concat(bends, axis=0))
    v = like(np.random.default_rng(0).standard_normal((system.size, 1)), system.Q)
    largest = 0.0
    for _ in range(POWER):
        v = v / xp.linalg.vector_norm(v)
        v = root * system.inside(system.exact @ system.inside(root * v))
        largest = float(xp.linalg.vector_norm(v))
        if not largest > 0:
            break
    return 1.0 + largest
