"""The choice of solvers by their needs, and the race between them.

    solver               requires                                     expected time (`Solver.cost`)
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
    ADMM                 losses of vectors with kinks; G              G, one inverse, a product per iteration

*The race.*  The two exact solvers and the iterative one that are expected to be the fastest take turns: the next step
is that of the one whose bid is least,

    bid = max(used, min(cost, guess)),    guess = PLENTY TRIAL step  in a trial,  used log(tol) / log(gap)  then

with the seconds that it has used, its expected total, and a guess from the decrease of its gap after TRIAL steps:
hundreds of iterations by the conditioning may be ten where few losses are active, which a few steps show.  So a solver
that takes longer than expected, or gets stuck, waits until the others have used as much; together they take at most
twice the time of the fastest one if the cost of an exact one is right.  A solver starts from the best point so far.

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
from dataclasses import dataclass, field
from functools import partial
from math import inf, log
from time import thread_time
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Vector, double, to_numpy
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.monitor import MATRIX, Monitor, MonitoredGram, OutOfIterations, Step, Steps, mapped, slowness
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.gram.matrix import GramMatrix, SingleGram
from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import Estimate, RowSubset, Solver, in_memory_steps
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._direct import DENSE, Direct, SchurComplement
from rkhs.solvers._features import FeatureNewton
from rkhs.solvers._galerkin import Galerkin
from rkhs.solvers._interior_point import BoxDual, InteriorPointCG
from rkhs.solvers._newton import ProximalNewton
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


EXACT: tuple[Solver, ...] = (*DENSE[:-1], SchurComplement())
PREFERRED: tuple[Solver, ...] = (ConjugateGradients(), Galerkin())  # iterative solvers that are best where they apply
ITERATIVE: tuple[Solver, ...] = (*PREFERRED, InteriorPointCG(), NonlinearCG())
IN_SPACES: tuple[Solver, ...] = (FeatureNewton(), OperatorNewton())  # for other spaces than that of the representers
LENIENCE = 10.0  # by which the expected time of a preferred solver may exceed that of the others
SHORT = 0.1  # seconds of an exact solver after its Gram matrix, below which no iterative one is tried
TRIAL, PLENTY = 6, 6  # iterations of a trial of a solver, and how many trials its bid for the first ones counts
# By which measured seconds may exceed expected ones, so that most choices do not depend on them; for exact solvers,
# whose number of iterations is that of a typical problem, twice as many.
CREDIT, EXACT_CREDIT = 1.25, 2.0


def auto(system: FiniteProblem, tol: float) -> Solver:
    """Return the solver for a problem: a race, without functionals that provably cannot matter if they are many."""
    if system.gram is None:
        return next(solver for solver in IN_SPACES if solver.lacks(system) is None)
    dropped = screen(system, tol)
    if not WORTH * system.size <= len(dropped) < system.size:
        return race(system, tol)
    part = _without(system, dropped.tolist()).system
    return ScreenedSolver(race(part, tol), race(system, tol), tuple(dropped.tolist()))


def race(system: FiniteProblem, tol: float) -> Solver:
    """Return the race of the solvers for all functionals that are expected to be the fastest."""
    if not system.separable and not system.smooth:  # losses of vectors with kinks: their prox is all that is simple
        return Race(tuple(solver for solver in (ADMM(), NonlinearCG()) if solver.lacks(system) is None))
    estimate = Estimate(system, tol)
    among = (Direct(),) if system.quadratic else EXACT  # the others are never faster where Direct applies
    costs = {solver: solver.cost(estimate) for solver in among if solver.lacks(system) is None}
    if BoxDual() in costs:  # a proximal Newton method would solve the same dual again and again
        costs.pop(ProximalNewton(), None)
    exact = sorted((solver for solver in costs if costs[solver] < inf), key=costs.__getitem__)[:2]
    least = costs[exact[0]] if exact else inf
    if least <= SHORT + estimate.matrix:
        return Race(tuple(exact), estimate)
    others = {solver: solver.cost(estimate) for solver in ITERATIVE if solver.lacks(system) is None}
    other, first = min(others, key=others.__getitem__), next(iter(others))
    # A span contains the kinks of few losses after few steps, whatever the conditioning from which its cost follows.
    if first in PREFERRED and (not exact or others[first] <= LENIENCE * others[other]):
        other = first
    if others[other] > least:  # then a trial takes the shortest steps
        other = min(others, key=lambda solver: solver.step(estimate))
    return Race((*exact, StoredInSingle(other) if estimate.storing is SingleGram else other), estimate)


@dataclass(frozen=True)
class Race(Solver):
    """Several solvers in turns: the next step is that of the least bid.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=100.0)
    >>> both = Race((rkhs.solvers.Direct(), rkhs.solvers.ConjugateGradients()))
    >>> rkhs.Problem(rkhs.Gaussian(0.2), [term]).solve(both).status
    'converged'
    """

    entrants: tuple[Solver, ...]
    estimate: Estimate | None = field(default=None, compare=False, repr=False)  # computed anew without it

    @property
    def name(self) -> str:
        return self.entrants[0].name

    @property
    def inexact(self) -> bool:
        return any(solver.inexact for solver in self.entrants)

    def lacks(self, system: FiniteProblem) -> str | None:
        return next((message for solver in self.entrants if (message := solver.lacks(system)) is not None), None)

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        if len(self.entrants) == 1:
            return (yield from self.entrants[0].steps(system, start, tol, monitor))
        estimate = self.estimate or Estimate(system, tol)
        entrants = [_Entrant(solver, solver.cost(estimate), solver.step(estimate)) for solver in self.entrants]
        steps = partial(self._steps, entrants)
        if estimate.storing is GramMatrix:  # they share the matrix
            return (yield from in_memory_steps(steps, system, start, tol, monitor))
        return (yield from steps(system, start, tol, monitor))

    def _steps(
        self, entrants: list[_Entrant], system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor
    ) -> Steps:
        best: Any = start
        least = inf  # J of the best point so far, at which others start
        while True:
            entrant = min(entrants, key=lambda entrant: entrant.bid(tol, monitor))
            monitor.solver = entrant.solver.name
            if entrant.steps is None:
                entrant.steps = entrant.solver.steps(system, best() if callable(best) else best, tol, monitor)
            try:
                step = entrant.next()
            except StopIteration as end:
                entrants.remove(entrant)
                certificate = certify(system, end.value, tol)
                value = float(certificate.primal.sum())
                if certificate.within(tol):
                    return end.value
                if value <= least + tol * abs(least):  # it has the better dual point, if J is the same
                    best, least = end.value, min(value, least)
                if not entrants or (entrant.step == inf and all(other.step < inf for other in entrants)):
                    # what rounding prevents an exact solver from, iterative ones do not achieve either
                    return best() if callable(best) else best
            except OutOfIterations:
                entrants.remove(entrant)
                if not entrants:
                    raise
            else:
                better = step.iterate is not None and (step.primal <= least or step.gap <= tol)
                best, least = (step.iterate, step.primal) if better else (best, least)
                yield Step(step.iterate if better else None, step.primal, step.gap)


@dataclass
class _Entrant:
    """A solver in a race: its expected seconds, in total and of a step, its steps so far, and the seconds they took."""

    solver: Solver
    cost: float
    step: float
    steps: Steps | None = None
    count: int = 0
    measured: float = 0.0
    gap: float = inf

    def bid(self, tol: float, monitor: Monitor) -> float:
        """Return the seconds that it is expected to use in all; infinity if it would not end in time."""
        if self.gap <= tol:  # it ends with the next step
            return 0.0
        exact = self.step == inf
        if exact and self.steps is None and monitor.left < inf and monitor.left < slowness() * self.cost:
            return inf
        used, credit = (0.0, EXACT_CREDIT) if exact else (self.count * self.step, CREDIT)
        if self.measured > credit * used:
            used = max(used, self.measured / slowness() / credit)
        guess = PLENTY * TRIAL * self.step
        if self.count >= TRIAL:
            guess = used * log(tol) / log(self.gap) if tol > 0 and self.gap < 1 else inf
        return max(used, min(self.cost, guess))

    def next(self) -> Step:
        """Take the next step."""
        assert self.steps is not None
        start = thread_time()
        try:
            step = next(self.steps)
        finally:
            self.measured += thread_time() - start
        self.count, self.gap = self.count + 1, min(self.gap, step.gap)
        return step


@dataclass(frozen=True)
class ScreenedSolver(Solver):
    """Run `first` without the functionals `dropped`; continue with `then` on all if the certificate asks for it."""

    first: Solver
    then: Solver
    dropped: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def inexact(self) -> bool:
        return self.then.inexact

    def lacks(self, system: FiniteProblem) -> str | None:
        return self.then.lacks(system)

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        subset = _without(system, self.dropped)
        steps = self.first.steps(subset.system, subset.restrict(start), (1 - SHARE) * tol, monitor)
        iterate = subset.extend((yield from mapped(steps, subset.extend)))
        if certify(system, iterate, tol).within(tol):
            return iterate
        return (yield from self.then.steps(system, iterate, tol, monitor))


def _without(system: FiniteProblem, dropped: Sequence[int]) -> RowSubset:
    return RowSubset.of(system, np.delete(np.arange(system.size), np.array(dropped, dtype=int)))


@dataclass(frozen=True)
class StoredInSingle(Solver):
    """Run `first` with a Gram matrix that is stored in float32 (`SingleGram`).

    It starts from the exact image of an iterate, so that another run from the result corrects rounding errors of the
    first one (iterative refinement).  Certificates use the exact operator in any case.
    """

    first: Solver
    matrices: list[SingleGram] = field(default_factory=list, compare=False, repr=False)  # kept for further runs

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def inexact(self) -> bool:
        return not isinstance(self.first, InteriorPointCG)  # which cannot continue from an iterate

    def lacks(self, system: FiniteProblem) -> str | None:
        return self.first.lacks(system)

    def cost(self, estimate: Estimate) -> float:
        return self.first.cost(estimate)

    def step(self, estimate: Estimate) -> float:
        return self.first.step(estimate)

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        if not self.matrices:
            with monitor.showing(MATRIX):
                self.matrices.append(SingleGram(system.exact, spanned(system.geometry)))
        [matrix] = self.matrices
        share = matrix.seconds / max(system.gram.seconds, matrix.seconds)
        counted: Any = MonitoredGram(matrix, monitor, share)
        return self.first.steps(system.with_geometry(gram=counted, exact=system.exact), start, tol, monitor)
