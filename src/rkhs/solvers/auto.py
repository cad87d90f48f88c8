"""Which solver for a problem: the cheapest that applies, and a second one behind it where guesses may be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rkhs.finite.monitor import InnerMonitor, Monitor, OutOfIterations
from rkhs.finite.system import Iterate, System
from rkhs.gram.matrix import ENTRY as STORED
from rkhs.solvers.absorption import Absorption
from rkhs.solvers.base import Solver
from rkhs.solvers.choose import DENSE, applies
from rkhs.solvers.costs import Estimate
from rkhs.solvers.dense import fits, from_memory, in_memory, to_memory
from rkhs.solvers.descent import Descent
from rkhs.solvers.galerkin import Galerkin
from rkhs.solvers.krylov import ConjugateGradients
from rkhs.solvers.newton import Newton, expected

EXACT: tuple[Solver, ...] = (*DENSE, Absorption())
ITERATIVE: tuple[Solver, ...] = (ConjugateGradients(), Galerkin(), Descent())  # the best first, at any size
LEAST = 8  # products that an iterative solver gets in any case
SHORT = 0.02  # seconds, too few to look for anything better
FAR = 1000  # times the price of a dense solver, beyond which an iterative one will not be lucky either
MANY = 2  # times the steps that Newton's method was expected to take, after which it has lost its way


def auto(system: System, tol: float, time_limit: float | None = None) -> Solver:
    """The solver for a system; with a time limit one that is expected to keep it, if there is one."""
    estimate = Estimate(system, tol)
    prices = {solver: solver.cost(estimate) for solver in EXACT if applies(solver, system)}
    dense = min((solver for solver in prices if prices[solver] < inf), key=prices.__getitem__, default=None)
    others = [solver for solver in ITERATIVE if applies(solver, system)]
    if dense is None or (time_limit is not None and prices[dense] > time_limit):
        return others[0]
    if prices[dense] > max(LEAST * estimate.product, SHORT):
        other = min(others, key=lambda solver: solver.cost(estimate))
        if other.cost(estimate) < prices[dense]:
            storing = estimate.storing and fits(system.size)
            each = STORED * system.size**2 if storing else estimate.product
            return Switching(other, dense, max(LEAST, int(prices[dense] / (other.step(estimate) + each))), storing)
    if isinstance(dense, Newton):
        second, least = others[0], min((price for solver, price in prices.items() if solver is not dense), default=inf)
        if second.cost(estimate) > FAR * least:
            second = min((solver for solver in prices if solver is not dense), key=prices.__getitem__)
        return Switching(dense, second, int(MANY * system.columns * expected(estimate)), True)
    return dense


@dataclass(frozen=True)
class Switching(Solver):
    """A solver, and another one if it has taken so many steps, or got stuck: together twice the cheaper at most."""

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
        if self.storing:
            monitor.check(Estimate(system, monitor.tol).matrix)
        inside = in_memory(system) if self.storing else system

        def whole(iterate: Iterate) -> Iterate:
            return from_memory(inside, system, iterate)

        limited = _Limited(monitor.tol, outer=monitor, whole=whole, left_over=self.steps)
        found = to_memory(inside, system, start)
        try:
            found = self.first.run(inside, found, limited)
            if limited.gap <= monitor.tol:
                return whole(found)
        except (_Enough, OutOfIterations):
            found = limited.best or found
        return whole(self.then.run(inside, found, InnerMonitor(monitor.tol, outer=monitor, whole=whole)))


class _Enough(Exception):
    """It is time for the other solver."""


@dataclass
class _Limited(InnerMonitor):
    """Hears of no more than so many steps."""

    left_over: int = 0
    gap: float = inf  # the last that was reported

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        super().report(iterate, primal, gap)
        self.gap = gap
        self.left_over -= 1
        if self.left_over < 0 and gap > self.tol:
            raise _Enough
