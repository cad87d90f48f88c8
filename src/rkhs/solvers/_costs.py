"""What solvers are estimated to cost, in seconds of one core of a reference computer.

Choices depend on ratios of these numbers only, and so are the same on every computer; where seconds are compared with
a time limit, they are multiplied by how much slower this computer is (`Monitor.afford`, measured at first use).  The
constants are those of `python -m benchmarks.regret` (float64, NumPy, one core).  An estimate is within a factor of two
or so for dense solvers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from rkhs._backend.arrays import taken, to_numpy
from rkhs._finite.problem import FiniteProblem
from rkhs._gram.matrix import CALL, ENTRY as STORED_ENTRY

ENTRY = 18e-9  # s, to compute an entry of a dense Gram matrix
FLOP = 1 / 25e9  # s, of a factorization or a matrix product
STEP = 1.5e-3  # s, of an iteration of an iterative solver, without its product
SHARED = 0.2  # of a product, what each further column costs


def factorization(size: int) -> float:
    """Return the cost of equilibration, Cholesky's factorization and refinement."""
    return 3e-3 + FLOP * size**3 / 3 + 50e-9 * size**2


@dataclass(frozen=True, eq=False)
class Estimate:
    """The parts of what a solver costs, for a problem and a tolerance."""

    system: FiniteProblem
    tol: float
    hoped: float | None = None  # the iterations of conjugate gradients and the like; None to estimate them

    @property
    def matrix(self) -> float:
        """Return the cost of having the Gram matrix in memory."""
        return 0.0 if self.system.gram.stored else CALL + ENTRY * self.system.size**2

    @property
    def product(self) -> float:
        """Return the cost of one Gram product, with the matrix in memory or without."""
        return self.system.gram.seconds

    @cached_property
    def storing(self) -> bool:
        """Return whether an iterative solver is better off with the matrix in memory."""
        stored = CALL + STORED_ENTRY * self.system.size**2
        return self.matrix + self.iterations * stored < self.iterations * self.product

    def iterating(self, step: float) -> float:
        """Return the cost of all iterations of a solver that takes one product and `step` seconds for each."""
        if not self.storing:
            return self.iterations * (step + self.product)
        return self.matrix + self.iterations * (step + CALL + STORED_ENTRY * self.system.size**2)

    @property
    def step(self) -> float:
        """Return the cost of one iteration, without its product."""
        # Each row of a loss that is not squared takes 1.2e-6 s.
        return STEP + 1.2e-6 * len(self.system.other_rows)

    @cached_property
    def conditioning(self) -> float:
        """Return 1 + the largest eigenvalue of H^1/2 G H^1/2, about, H the largest curvatures of the losses.

        It is that of 100 rows of each block, which stand for all of them, by five products.  A loss with a kink counts
        as if smoothed over a unit.
        """
        system = self.system
        rng, rows, root = np.random.default_rng(0), [], []
        for t in system.terms:
            size = t.rows.stop - t.rows.start
            some = rng.choice(size, min(size, 100), replace=False)
            bend = to_numpy(t.weight[some]).max(axis=1, initial=0.0) / max(getattr(t.loss, "width", 0.0) or 0.25, 1e-6)
            rows.append(t.rows.start + some)
            root.append(np.sqrt(bend * size / max(len(some), 1)))
        chosen, scale = np.concatenate(rows), np.concatenate(root)[:, None]
        if not len(chosen):
            return 1.0
        G = to_numpy(system.exact.block(chosen, chosen)).astype(np.float64)
        if not system.definite:
            basis = np.linalg.qr(to_numpy(taken(system.Q, chosen)).astype(np.float64))[0]
            G = G - basis @ (basis.T @ G)
            G = G - (G @ basis) @ basis.T
        v, largest = rng.standard_normal((len(chosen), 1)), 0.0
        for _ in range(5):
            v = scale * (G @ (scale * (v / np.linalg.norm(v))))
            largest = float(np.linalg.norm(v))
            if not largest > 0:
                break
        return 1.0 + largest

    @property
    def iterations(self) -> float:
        """Return those of conjugate gradients; eigenvalues fall fast, so it is not the root of the conditioning."""
        if self.hoped is not None:
            return self.hoped
        return (8 + 3.5 * self.conditioning**0.25) * max(log(1 / max(self.tol, 1e-16)), 1.0) / log(1e4)
