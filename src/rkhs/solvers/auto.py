"""Which solver for a whole problem: the cheapest that applies; where a guess can be wrong by much, a second one behind it."""

from __future__ import annotations

from dataclasses import dataclass

from rkhs.finite.monitor import InnerMonitor, Monitor
from rkhs.finite.system import Iterate, System
from rkhs.gram.matrix import ENTRY as STORED
from rkhs.solvers.absorption import Absorption
from rkhs.solvers.base import Solver
from rkhs.solvers.choose import DENSE, applies
from rkhs.solvers.costs import STEP, Estimate
from rkhs.solvers.dense import fits, from_memory, in_memory, to_memory
from rkhs.solvers.descent import Descent
from rkhs.solvers.galerkin import Galerkin
from rkhs.solvers.krylov import ConjugateGradients

ITERATIVE: tuple[Solver, ...] = (ConjugateGradients(), Galerkin(), Descent())  # the first that applies
LEAST = 8  # products that an iterative solver gets in any case


def auto(system: System, tol: float, time_limit: float | None = None) -> Solver:
    """The solver for a system; with a time limit one that is expected to keep it, if there is one."""
    estimate = Estimate(system, tol)
    prices = {solver: solver.cost(estimate) for solver in (*DENSE, Absorption()) if applies(solver, system)}
    dense = min(prices, key=prices.__getitem__, default=None)
    other = next(solver for solver in ITERATIVE if applies(solver, system))
    if dense is None or (time_limit is not None and prices[dense] > time_limit):
        return other
    if prices[dense] <= LEAST * estimate.product or other.cost(estimate) >= prices[dense]:
        return dense
    storing = estimate.storing and fits(system, system.size)
    each = STORED * system.size**2 if storing else estimate.product
    return Switching(other, dense, max(LEAST, int(prices[dense] / (STEP + each))), storing)


@dataclass(frozen=True)
class Switching(Solver):
    """An iterative solver, and another one after it has taken so many steps: together twice the cheaper at most."""

    first: Solver
    then: Solver
    steps: int
    storing: bool  # whether the Gram matrix is kept in memory

    @property
    def name(self) -> str:
        return self.first.name

    def check(self, system: System) -> None:
        self.first.check(system)
        self.then.check(system)

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        inside = in_memory(system) if self.storing else system

        def whole(iterate: Iterate) -> Iterate:
            return from_memory(inside, system, iterate)

        limited = _Limited(monitor.tol, outer=monitor, whole=whole, left_over=self.steps)
        try:
            return whole(self.first.run(inside, to_memory(inside, system, start), limited))
        except _Enough:
            assert limited.best is not None
            return whole(self.then.run(inside, limited.best, InnerMonitor(monitor.tol, outer=monitor, whole=whole)))


class _Enough(Exception):
    """It is time for the other solver."""


@dataclass
class _Limited(InnerMonitor):
    """Hears of no more than so many steps."""

    left_over: int = 0

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        super().report(iterate, primal, gap)
        self.left_over -= 1
        if self.left_over < 0 and gap > self.tol:
            raise _Enough
