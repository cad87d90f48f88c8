"""Which solver for a whole problem: the cheapest that applies; where a guess can be wrong by much, a second one behind it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rkhs.finite.monitor import InnerMonitor, Monitor
from rkhs.finite.system import Iterate, System
from rkhs.solvers import costs
from rkhs.solvers.absorption import Absorption
from rkhs.solvers.base import Solver
from rkhs.solvers.choose import DENSE, applies, cheapest
from rkhs.solvers.descent import Descent
from rkhs.solvers.galerkin import Galerkin
from rkhs.solvers.krylov import ConjugateGradients

ITERATIVE: tuple[Solver, ...] = (ConjugateGradients(), Galerkin(), Descent())
LEAST = 8  # products that an iterative solver gets in any case


def auto(system: System, tol: float, time_limit: float | None = None) -> Solver:
    """The solver for a system; with a time limit one that is expected to keep it, if there is one."""
    exact = [solver for solver in (*DENSE, Absorption()) if applies(solver, system)]
    prices = {solver: solver.cost(system, tol) for solver in exact}
    best = min(exact, key=prices.__getitem__) if exact else None
    price = inf if best is None or (time_limit is not None and prices[best] > time_limit) else prices[best]
    if best is not None and price <= LEAST * costs.product(system):
        return best
    other = cheapest(system, tol, ITERATIVE)
    if best is None or price == inf:
        return other
    if other.cost(system, tol) >= price:
        return best
    return Switching(other, best, max(LEAST, int(price / costs.product(system))))


@dataclass(frozen=True)
class Switching(Solver):
    """An iterative solver, and another one after it has taken so many products: together twice the cheaper at most."""

    first: Solver
    then: Solver
    products: int

    @property
    def name(self) -> str:
        return self.first.name

    def check(self, system: System) -> None:
        self.first.check(system)
        self.then.check(system)

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        inner = _Limited(monitor.tol, outer=monitor, most=monitor.products + self.products)
        try:
            return self.first.run(system, start, inner)
        except _Enough:
            return self.then.run(system, monitor.best or start, monitor)


class _Enough(Exception):
    """It is time for the other solver."""


@dataclass
class _Limited(InnerMonitor):
    """Lets no more than so many products begin."""

    most: int = 0

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        super().report(iterate, primal, gap)
        if self.outer.products >= self.most and gap > self.tol:
            raise _Enough
