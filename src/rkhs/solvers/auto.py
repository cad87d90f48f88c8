"""Which solver for a problem: the cheapest that applies, and a second one behind it where guesses may be wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log

from rkhs._backend.arrays import namespace
from rkhs._finite.monitor import InnerMonitor, Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._gram.matrix import ENTRY as STORED
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
TRIAL, WORTH = 6, 6  # steps that are tried of a solver that seems dear, where so many times more would cost as much
FAR = 1000  # times the price of a dense solver, beyond which an iterative one will not be lucky either
MANY = 2  # times the steps that Newton's method was expected to take, after which it has lost its way


def auto(system: FiniteProblem, tol: float, time_limit: float | None = None) -> Solver:
    """The solver for a system; with a time limit one that is expected to keep it, if there is one."""
    estimate = Estimate(system, tol)
    prices = {solver: solver.cost(estimate) for solver in EXACT if applies(solver, system)}
    dense = min((solver for solver in prices if prices[solver] < inf), key=prices.__getitem__, default=None)
    others = [solver for solver in ITERATIVE if applies(solver, system)]
    if dense is None or (time_limit is not None and prices[dense] > time_limit):
        return others[0]
    price, exact = prices[dense], _with_second(dense, prices, others[0], estimate)
    if price > max(LEAST * estimate.product, SHORT):
        other = min(others, key=lambda solver: solver.cost(estimate))
        if other.cost(estimate) < price:
            return Switching.of(other, exact, price, estimate)
        return exact if system.quadratic else _after_trial(others, exact, price, replace(estimate, hoped=TRIAL))
    return exact


def _after_trial(others: list[Solver], exact: Solver, price: float, lucky: Estimate) -> Solver:
    """A dense solver, with a few steps of an iterative one before it where these cost little.

    How many of them losses that are not squared take is hardly known before: by the conditioning hundreds, and then
    ten, where few of the losses matter in the end.
    """
    trial = Switching.of(min(others, key=lambda solver: solver.cost(lucky)), exact, price, lucky, TRIAL)
    return trial if trial.steps >= WORTH * TRIAL else exact


def _with_second(dense: Solver, prices: dict[Solver, float], other: Solver, estimate: Estimate) -> Solver:
    """Newton's method with another solver behind it; the others need none."""
    if not isinstance(dense, Newton):
        return dense
    rest = {solver: price for solver, price in prices.items() if solver is not dense}
    least = min(rest.values(), default=inf)
    second = min(rest, key=rest.__getitem__) if other.cost(estimate) > FAR * least else other
    return Switching(dense, second, int(MANY * estimate.system.columns * expected(estimate)), True)


@dataclass(frozen=True)
class Switching(Solver):
    """A solver, and another one if it has taken so many steps, or got stuck: together twice the cheaper at most.

    Of a `trial` the gap after a few steps tells how many there will be, if it goes on falling by as much: where these
    are too many, the other solver starts at once.
    """

    first: Solver
    then: Solver
    steps: int
    storing: bool  # whether the Gram matrix is kept in memory
    trial: int | None = None  # steps; None where it is no trial

    @classmethod
    def of(cls, first: Solver, then: Solver, price: float, estimate: Estimate, trial: int | None = None) -> Switching:
        """An iterative solver that may take as long as the other one costs."""
        size = estimate.system.size
        storing = estimate.storing and fits(size)
        each = first.step(estimate) + (STORED * size**2 if storing else estimate.product)
        return cls(first, then, max(LEAST, int(price / each)), storing, trial)

    @property
    def name(self) -> str:
        return self.first.name

    def check(self, system: FiniteProblem) -> None:
        self.first.check(system)
        self.then.check(system)

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        if self.storing:
            monitor.check(Estimate(system, monitor.tol).matrix)
        inside = in_memory(system) if self.storing else system

        def whole(iterate: Iterate) -> Iterate:
            return from_memory(inside, system, iterate)

        limited = _Limited(monitor.tol, outer=monitor, whole=whole, steps=self.steps, trial=self.trial or self.steps)
        found = first = to_memory(inside, system, start)
        warm = bool(namespace(first.a).any(first.a != 0))
        if self.trial is None or not warm:  # from elsewhere steps can be slow, and tell less
            try:
                found = self.first.run(inside, first, limited)
                if limited.gap <= monitor.tol:
                    return whole(found)
            except (_Enough, OutOfIterations):
                found = first if limited.taken <= limited.trial else limited.best or first
        monitor.taken_over(self.then.name)
        return whole(self.then.run(inside, found, InnerMonitor(monitor.tol, outer=monitor, whole=whole)))


class _Enough(Exception):
    """It is time for the other solver."""


@dataclass
class _Limited(InnerMonitor):
    """Hears of no more than so many steps, and after those of a trial only while the rest promises to be as few."""

    steps: int = 0
    trial: int = 0
    taken: int = 0
    gap: float = inf  # the last that was reported

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        super().report(iterate, primal, gap)
        self.gap = gap
        self.taken += 1
        if gap > self.tol and (self.taken > self.steps or self.trial <= self.taken < self.steps < self._expected):
            raise _Enough

    @property
    def _expected(self) -> float:
        """All steps, where the gap goes on falling from 1 to the tolerance as it did so far."""
        return self.taken * log(self.tol) / log(self.gap) if 0 < self.tol < self.gap < 1 else inf
