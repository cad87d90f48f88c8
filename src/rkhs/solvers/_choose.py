"""Choose the solver with the least estimated time, with a fallback where the estimate is uncertain.

    solver               requires                                     cost (`Solver.cost`)
    Direct               Squared; G in half of the memory             G, one factorization
    LibSVM               Hinge, a constant basis or none; G           G, a pass over it for each order of the weights
    Newton               smooth losses; G                             G, a factorization of the curved rows per step
    BoxDual              interval losses; G                           G, 15 factorizations
    ProximalNewton       smooth or interval losses; G                 five times that of BoxDual
    SchurComplement      Squared but for at most 3,000 functionals    G, one factorization, the rest as above
    ConjugateGradients   Squared                                      a product per iteration
    Galerkin             Squared but for at most 1,500 functionals    a product per iteration, and reduced problems
    InteriorPointCG      interval losses                              150 products, whatever the kinks
    NonlinearCG          no requirement                               1.5 times as many products, 6 times with kinks
    ADMM                 losses of vectors with kinks; G              G, one inverse; the only one that is tried then

The number of iterations of the last four, without ADMM, is uncertain, so that an applicable dense solver takes over
once they have taken as long as it would: together they take at most twice the time of the faster one.

*Screening.*  Leave out functionals that cannot matter, and prove that they do not.

Every f with J(f) <= J(0) has |f|^2 <= 2 J(0), so that |L_i(f)| <= r_i = |z_i| sqrt(2 J(0)) for functionals that vanish
on the basis.  Without functional i the minimum of J changes by at most the range of its loss over this interval,

    e_i = w_i (max over u = r_i, -r_i of loss(u) - loss(0) + r_i |loss'(0)|)

Functionals with the smallest e_i are left out as long as the sum of their e_i is at most a small part of the tolerance,
relative to J(0).  The certificate is that of all functionals, with zero coefficients for those that were left out; if J
is so much smaller than J(0) that it fails, the solver continues with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, log

import numpy as np

from rkhs._core.backend.arrays import Vector, double, namespace, to_numpy
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.monitor import MATRIX, InnerMonitor, Monitor, MonitoredGram, OutOfIterations, slowness
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.gram.matrix import GramMatrix, SingleGram
from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import Estimate, RowSubset, Solver, from_memory, in_memory, to_memory
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._direct import DENSE, Direct, SchurComplement
from rkhs.solvers._features import FeatureNewton
from rkhs.solvers._galerkin import Galerkin
from rkhs.solvers._interior_point import InteriorPointCG
from rkhs.solvers._newton import Newton, expected
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._operators import OperatorNewton
from rkhs.solvers._preconditioning import spanned

SHARE = 1e-2  # part of the tolerance that functionals which are left out may use
WORTH = 0.2  # smallest share of functionals that is left out


def screen(system: FiniteProblem, tol: float) -> Vector:
    """Return the indices of functionals whose losses together change J by at most SHARE tol J(0)."""
    if system.columns > 1 or not (system.separable and system.definite and tol > 0):
        return np.zeros(0, dtype=int)
    energy = float(system.at_zero[0])
    norms = np.sqrt(np.abs(double(system.exact.diagonal())))
    r = norms * (2 * energy) ** 0.5
    effects = np.zeros(system.size)
    for t in system.terms:  # an overflow makes an effect infinite
        u, target, weight = r[t.rows, None], to_numpy(t.target), to_numpy(t.weight)
        zero = 0 * u
        with np.errstate(over="ignore", invalid="ignore"):
            ends = np.maximum(t.loss.value(u, target), t.loss.value(-u, target)) - t.loss.value(zero, target)
            effect = weight * (np.maximum(ends, 0) + u * np.abs(t.loss.gradient(zero, target)))
        effects[t.rows] = np.nan_to_num(effect[:, 0], nan=np.inf)
    effects[np.any(to_numpy(system.Q) != 0, axis=1)] = np.inf
    order = np.argsort(effects)
    return np.sort(order[np.cumsum(effects[order]) <= SHARE * tol * energy])


@dataclass(frozen=True)
class Beginning(Solver):
    """The base of solvers that run `first`, under whose name they are shown."""

    first: Solver

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def inexact(self) -> bool:
        return self.first.inexact

    def check(self, system: FiniteProblem) -> None:
        self.first.check(system)


@dataclass(frozen=True)
class ScreenedSolver(Beginning):
    """Run `first` without the functionals `dropped`; continue with `then` on all if the certificate asks for it."""

    then: Solver
    dropped: tuple[int, ...]

    @property
    def inexact(self) -> bool:
        return self.then.inexact

    def check(self, system: FiniteProblem) -> None:
        self.then.check(system)

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        subset = _without(system, self.dropped)
        inner = InnerMonitor((1 - SHARE) * monitor.tol, outer=monitor, whole=subset.extend)
        iterate = subset.extend(self.first.run(subset.system, subset.restrict(start), inner))
        if certify(system, iterate, monitor.tol).within(monitor.tol):
            return iterate
        return self.then.run(system, iterate, monitor)


def _without(system: FiniteProblem, dropped: Sequence[int]) -> RowSubset:
    return RowSubset.of(system, np.delete(np.arange(system.size), np.array(dropped, dtype=int)))


EXACT: tuple[Solver, ...] = (*DENSE[:-1], SchurComplement())
PREFERRED: tuple[Solver, ...] = (ConjugateGradients(), Galerkin())  # iterative solvers that are best where they apply
ITERATIVE: tuple[Solver, ...] = (*PREFERRED, InteriorPointCG(), NonlinearCG())
IN_SPACES: tuple[Solver, ...] = (FeatureNewton(), OperatorNewton())  # for other spaces than that of the representers
LENIENCE = 10.0  # by which the estimated cost of a preferred solver may exceed that of the others
MIN_PRODUCTS = 8  # Gram products that an iterative solver may always use before its fallback takes over
TRIAL = 6  # iterations of a trial of a solver whose estimate is high, if six times as many are affordable


def auto(system: FiniteProblem, tol: float, time_limit: float | None = None) -> Solver:
    """Return the solver for a problem; under a time limit one that is expected to meet it, if there is one.

    It leaves out functionals that provably cannot matter, if they are many.
    """
    if system.gram is None:
        return next(solver for solver in IN_SPACES if solver.applies(system))
    dropped = screen(system, tol)
    if not WORTH * system.size <= len(dropped) < system.size:
        return cheapest_solver(system, tol, time_limit)
    part = _without(system, dropped.tolist()).system
    first, then = (cheapest_solver(one, tol, time_limit) for one in (part, system))
    return ScreenedSolver(first, then, tuple(dropped.tolist()))


def cheapest_solver(system: FiniteProblem, tol: float, time_limit: float | None = None) -> Solver:
    """Return the solver with the smallest estimated time for all functionals."""
    if not system.separable and not system.smooth:  # losses of vectors with kinks: their prox is all that is simple
        then = NonlinearCG()
        return Fallback(ADMM(), then, ADMM().max_iterations, False) if ADMM().applies(system) else then
    estimate = Estimate(system, tol)
    among = (Direct(),) if system.quadratic else EXACT  # the others are never cheaper where Direct applies
    costs = {solver: solver.cost(estimate) for solver in among if solver.applies(system)}
    dense = min((solver for solver in costs if costs[solver] < inf), key=costs.__getitem__, default=None)
    if dense is None or (time_limit is not None and slowness() * costs[dense] > time_limit):
        fit = [solver for solver in ITERATIVE if solver.applies(system)]
        return stored(fit[0] if fit[0] in PREFERRED else min(fit, key=lambda solver: solver.cost(estimate)), estimate)
    cost, exact, short = costs.pop(dense), dense, max(MIN_PRODUCTS * estimate.product, 0.02)
    if cost <= short and not isinstance(dense, Newton):
        return dense
    others = [solver for solver in ITERATIVE if solver.applies(system)]
    if isinstance(dense, Newton):  # it may fail to converge: fall back after twice the expected number of steps
        second = min(costs, key=costs.__getitem__, default=others[0])
        if others[0].cost(estimate) <= 1000 * costs.get(second, inf):  # iterative unless hopelessly slow
            second = others[0]
        exact = Fallback(dense, second, int(2 * system.columns * expected(estimate)), True)
    if cost <= short:
        return exact
    other = min(others, key=lambda solver: solver.cost(estimate))
    # A span contains the kinks of few losses after few steps, whatever the conditioning from which its cost follows.
    if others[0] in PREFERRED and others[0].cost(estimate) <= LENIENCE * other.cost(estimate):
        other = others[0]
    if other.cost(estimate) < cost:
        return Fallback.of(other, exact, cost, estimate)
    if system.quadratic:
        return exact
    # The number of iterations for losses that are not squared is hard to predict: hundreds by the conditioning, but
    # ten where few of the losses are active at the solution.  A short trial distinguishes the two, where it is cheap.
    optimistic = replace(estimate, assumed_iterations=TRIAL)
    trial = Fallback.of(min(others, key=lambda solver: solver.cost(optimistic)), exact, cost, optimistic, TRIAL)
    return trial if trial.steps >= 6 * TRIAL else exact


def stored(solver: Solver, estimate: Estimate) -> Solver:
    """Return an iterative solver, with the Gram matrix in float32 if that is faster and fits in memory."""
    return StoredInSingle(solver) if estimate.storing is SingleGram else solver


@dataclass(frozen=True)
class StoredInSingle(Beginning):
    """Run `first` with a Gram matrix that is stored in float32 (`SingleGram`).

    It starts from the exact image of an iterate, so that another run from the result corrects rounding errors of the
    first one (iterative refinement).  Certificates use the exact operator in any case.
    """

    matrices: list[SingleGram] = field(default_factory=list, compare=False, repr=False)  # kept for further runs

    @property
    def inexact(self) -> bool:
        return not isinstance(self.first, InteriorPointCG)  # which cannot continue from an iterate

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        if not self.matrices:
            with monitor.showing(MATRIX):
                self.matrices.append(SingleGram(system.exact, spanned(system.geometry)))
        [matrix] = self.matrices
        share = matrix.seconds / max(system.gram.seconds, matrix.seconds)
        counted = MonitoredGram(matrix, monitor, share)
        return self.first.run(system.with_geometry(gram=counted, exact=system.exact), start, monitor)


@dataclass(frozen=True)
class Fallback(Beginning):
    """Run `first`; fall back to `then` after `steps` iterations or on stagnation.

    In a trial of `trial` iterations the decrease of the gap is extrapolated: if `first` would need more than `steps`
    iterations, `then` starts at once.
    """

    then: Solver
    steps: int
    storing: bool  # whether the Gram matrix is kept in memory
    trial: int | None = None  # iterations of the trial; None for no trial

    @classmethod
    def of(cls, first: Solver, then: Solver, cost: float, estimate: Estimate, trial: int | None = None) -> Fallback:
        """Return a fallback that lets the iterative solver `first` run for as long as `then` is estimated to take."""
        steps = max(MIN_PRODUCTS, int(cost / (first.step(estimate) + estimate.stored_product)))
        return cls(stored(first, estimate), then, steps, estimate.storing is GramMatrix, trial)

    def check(self, system: FiniteProblem) -> None:
        super().check(system)
        self.then.check(system)

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        if self.storing:
            monitor.afford(Estimate(system, monitor.tol).matrix)
        inside = in_memory(system) if self.storing else system

        def whole(iterate: Iterate) -> Iterate:
            return from_memory(inside, system, iterate)

        trial = self.trial or self.steps
        limited = _LimitedMonitor(monitor.tol, outer=monitor, whole=whole, steps=self.steps, trial=trial)
        iterate = first = to_memory(inside, system, start)
        reached = inf  # J of the iterate at which `then` starts
        warm = bool(namespace(first.a).any(first.a != 0))
        if self.trial is None or not warm:  # after a warm start the first steps can be slow, and predict less
            try:
                iterate = self.first.run(inside, first, limited)
                if limited.gap <= monitor.tol:
                    return whole(iterate)
            except (_IterationsUsed, OutOfIterations):
                in_trial = self.trial is not None and limited.iterations_done <= limited.trial
                if limited.best is not None and not in_trial:
                    iterate, reached = limited.best, limited.reached
        monitor.taken_over(self.then.name)
        continued = _ContinuedMonitor(monitor.tol, outer=monitor, whole=whole, reached=reached)
        found = self.then.run(inside, iterate, continued)
        return whole(found if continued.improved else iterate)


class _IterationsUsed(Exception):
    """Raised to switch to the fallback solver."""


@dataclass
class _LimitedMonitor(InnerMonitor):
    """A monitor that stops a solver after `steps` iterations, or after a trial that predicts more."""

    steps: int = 0
    trial: int = 0
    iterations_done: int = 0
    gap: float = inf  # the last reported gap
    reached: float = inf  # J of the best iterate

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        self.reached = self.reached if iterate is None else primal
        super().report(iterate, primal, gap)
        self.gap = gap
        self.iterations_done += 1
        done = self.iterations_done
        needed = done * log(self.tol) / log(gap) if 0 < self.tol < gap < 1 else inf  # at the rate so far
        if gap > self.tol and (done > self.steps or self.trial <= done < self.steps < needed):
            raise _IterationsUsed


@dataclass
class _ContinuedMonitor(InnerMonitor):
    """A monitor that keeps the iterate at which a solver starts as the best one until J is as small again."""

    reached: float = inf
    improved: bool = True  # whether the last iterate has converged, or has no larger J

    def report(self, iterate: Iterate | None, primal: float, gap: float) -> None:
        self.improved = gap <= self.tol or primal <= self.reached
        super().report(iterate if self.improved else None, primal, gap)
