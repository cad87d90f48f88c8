"""Estimated costs of solvers, in seconds of one core of a reference computer.

Choices depend only on ratios of these numbers, and so are the same on every computer; comparisons with a time limit
multiply them by the slowness of the actual computer (`Monitor.afford`, measured at first use).  The constants were
measured by `python -m benchmarks.regret` (float64, NumPy, one core).  For dense solvers the estimates are correct
within a factor of about two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from rkhs._backend.arrays import double, take_rows, to_numpy
from rkhs._finite.problem import FiniteProblem
from rkhs._gram.matrix import CALL, ENTRY as STORED_ENTRY

ENTRY = 18e-9  # seconds per entry to compute a dense Gram matrix
FLOP = 1 / 25e9  # seconds per floating-point operation of a factorization or a matrix product
STEP = 1.5e-3  # seconds per iteration of an iterative solver, without its Gram product
SHARED = 0.2  # cost of each further column of a Gram product, relative to the first


def factorization(size: int) -> float:
    """Return the seconds of equilibration, Cholesky factorization and iterative refinement."""
    return 3e-3 + FLOP * size**3 / 3 + 50e-9 * size**2


@dataclass(frozen=True, eq=False)
class Estimate:
    """The costs of the parts of a solver, for a problem and a tolerance."""

    system: FiniteProblem
    tol: float
    assumed_iterations: float | None = None  # assumed number of iterations of iterative solvers; None to estimate it

    @property
    def matrix(self) -> float:
        """The seconds to compute the Gram matrix; zero if it is stored."""
        return 0.0 if self.system.gram.stored else CALL + ENTRY * self.system.size**2

    @property
    def product(self) -> float:
        """The seconds of one Gram product, with a stored matrix or without."""
        return self.system.gram.seconds

    @cached_property
    def storing(self) -> bool:
        """Whether an iterative solver is faster if it stores the Gram matrix."""
        stored = CALL + STORED_ENTRY * self.system.size**2
        return self.matrix + self.iterations * stored < self.iterations * self.product

    def iterating(self, step: float) -> float:
        """Return the seconds of all iterations of a solver with one Gram product and `step` further seconds each."""
        if not self.storing:
            return self.iterations * (step + self.product)
        return self.matrix + self.iterations * (step + CALL + STORED_ENTRY * self.system.size**2)

    @property
    def step(self) -> float:
        """The seconds of one iteration, without its Gram product."""
        # A row with a loss that is not squared takes 1.2e-6 s.
        return STEP + 1.2e-6 * len(self.system.other_rows)

    @cached_property
    def conditioning(self) -> float:
        """An estimate of 1 + the largest eigenvalue of H^1/2 G H^1/2, H the largest curvatures of the losses.

        It comes from five power iterations on a sample of 100 rows of each block.  The curvature of a loss with a kink
        is taken as if it were smoothed over a unit.
        """
        system = self.system
        rng, rows, root = np.random.default_rng(0), [], []
        for t in system.terms:
            size = t.rows.stop - t.rows.start
            sample = rng.choice(size, min(size, 100), replace=False)
            width = max(getattr(t.loss, "width", 0.0) or 0.25, 1e-6)
            curvature = to_numpy(t.weight[sample]).max(axis=1, initial=0.0) / width
            rows.append(t.rows.start + sample)
            root.append(np.sqrt(curvature * size / max(len(sample), 1)))
        chosen, scale = np.concatenate(rows), np.concatenate(root)[:, None]
        if not len(chosen):
            return 1.0
        G = double(system.exact.block(chosen, chosen))
        if not system.definite:
            basis = np.linalg.qr(double(take_rows(system.Q, chosen)))[0]
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
        """The number of iterations of conjugate gradients.

        Eigenvalues decay fast, so that it grows with the fourth root of the conditioning, not with its square root.
        """
        if self.assumed_iterations is not None:
            return self.assumed_iterations
        return (8 + 3.5 * self.conditioning**0.25) * max(log(1 / max(self.tol, 1e-16)), 1.0) / log(1e4)
