"""Which solver for which problem: one readable match."""

from __future__ import annotations

from rkhs.finite.system import System
from rkhs.solvers.base import Solver
from rkhs.solvers.descent import Descent


def auto(system: System) -> Solver:
    """The solver for a system, by its size and losses."""
    return Descent()
