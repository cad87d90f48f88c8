"""Which solver: the one whose estimated time is least, with another behind it where the estimate may be wrong.

    solver               needs                                        costs (`Solver.cost`, in seconds of `_costs`)
    Direct               Squared; G in half of the memory             G, one factorization
    LibSVM               Hinge, a constant basis or none; G           G, a pass over it for each order of the weights
    Newton               smooth losses; G                             G, a factorization of the curved rows per step
    BoxDual              losses of an interval; G                     G, 15 factorizations
    ProximalNewton       smooth losses or of an interval; G           five times that
    SchurComplement           Squared, at most 3,000 functionals without   G, one factorization, the rest as above
    ConjugateGradients   Squared                                      a product per iteration
    Galerkin             Squared, at most 1,500 functionals without   a product per iteration, and reduced problems
    NonlinearCG              nothing                                      1.5 times as many products, 6 times with kinks

The number of iterations of the last three can be wrong by much, so that one of them gives way to a dense solver at
hand when it has cost as much: together they cost twice the cheaper at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log

from rkhs._backend.arrays import namespace
from rkhs._finite.monitor import InnerMonitor, Monitor, OutOfIterations, slowness
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._gram.matrix import ENTRY as STORED_ENTRY
from rkhs.solvers._base import Solver, fits, from_memory, in_memory, to_memory
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._costs import Estimate
from rkhs.solvers._direct import Direct
from rkhs.solvers._galerkin import Galerkin
from rkhs.solvers._newton import Newton, expected
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._schur_complement import DENSE, SchurComplement

EXACT: tuple[Solver, ...] = (*DENSE[:-1], SchurComplement())
ITERATIVE: tuple[Solver, ...] = (ConjugateGradients(), Galerkin(), NonlinearCG())  # the best first, at any size
LEAST = 8  # products that an iterative solver gets in any case
TRIAL = 6  # iterations that are tried of a solver that seems dear, where six times as many cost no more


def auto(system: FiniteProblem, tol: float, time_limit: float | None = None) -> Solver:
    """Return the solver for a problem; with a time limit one that is expected to keep it, if there is one."""
    estimate = Estimate(system, tol)
    among = (Direct(),) if system.quadratic else EXACT  # the others are never cheaper where Direct applies
    costs = {solver: solver.cost(estimate) for solver in among if solver.applies(system)}
    dense = min((solver for solver in costs if costs[solver] < inf), key=costs.__getitem__, default=None)
    if dense is None or (time_limit is not None and slowness() * costs[dense] > time_limit):
        return next(solver for solver in ITERATIVE if solver.applies(system))
    cost, exact, short = costs.pop(dense), dense, max(LEAST * estimate.product, 0.02)
    if cost <= short and not isinstance(dense, Newton):
        return dense
    others = [solver for solver in ITERATIVE if solver.applies(system)]
    if isinstance(dense, Newton):  # which may lose its way, after twice the steps that it was expected to take
        second = min(costs, key=costs.__getitem__, default=others[0])
        if others[0].cost(estimate) <= 1000 * costs.get(second, inf):  # beyond, it will not be lucky either
            second = others[0]
        exact = Fallback(dense, second, int(2 * system.columns * expected(estimate)), True)
    if cost <= short:
        return exact
    other = min(others, key=lambda solver: solver.cost(estimate))
    if other.cost(estimate) < cost:
        return Fallback.of(other, exact, cost, estimate)
    if system.quadratic:
        return exact
    # How many iterations losses that are not squared take is hardly known before: hundreds by the conditioning, and
    # ten where few of the losses matter in the end.  A few of them show which, where they cost little.
    lucky = replace(estimate, hoped=TRIAL)
    trial = Fallback.of(min(others, key=lambda solver: solver.cost(lucky)), exact, cost, lucky, TRIAL)
    return trial if trial.steps >= 6 * TRIAL else exact


@dataclass(frozen=True)
class Fallback(Solver):
    """Run `first`; fall back to `then` after `steps` iterations or on stagnation.

    Of a `trial` the gap after a few iterations tells how many there will be, if it goes on falling by as much: where
    these are too many, the other solver starts at once.
    """

    first: Solver
    then: Solver
    steps: int
    storing: bool  # whether the Gram matrix is kept in memory
    trial: int | None = None  # iterations; None where it is no trial

    @classmethod
    def of(cls, first: Solver, then: Solver, cost: float, estimate: Estimate, trial: int | None = None) -> Fallback:
        """Make an iterative solver that may take as long as the other one costs."""
        size = estimate.system.size
        storing = estimate.storing and fits(size)
        each = first.step(estimate) + (STORED_ENTRY * size**2 if storing else estimate.product)
        return cls(first, then, max(LEAST, int(cost / each)), storing, trial)

    @property
    def name(self) -> str:
        return self.first.name

    def check(self, system: FiniteProblem) -> None:
        self.first.check(system)
        self.then.check(system)

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        if self.storing:
            monitor.afford(Estimate(system, monitor.tol).matrix)
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
    """Ends a solver after `steps` iterations, or after those of a trial where it is expected to need more."""

    steps: int = 0
    trial: int = 0
    taken: int = 0
    gap: float = inf  # the last that was reported

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        super().report(iterate, primal, gap)
        self.gap = gap
        self.taken += 1
        needed = self.taken * log(self.tol) / log(gap) if 0 < self.tol < gap < 1 else inf  # as the gap fell so far
        if gap > self.tol and (self.taken > self.steps or self.trial <= self.taken < self.steps < needed):
            raise _Enough
