"""The choice of solvers by their needs, and the race between them.

    solver               requires                                     expected time
    Direct               Squared; G in half of the memory             G, one factorization
    LibSVM               Hinge, a constant basis or none; G           G, a pass over it for each order of the weights
    Newton               smooth losses; G                             G, 12 factorizations of the curved rows
    BoxDual              interval losses; G                           G, 15 factorizations
    SchurComplement      Squared but for at most 3,000 functionals    G, one factorization, the rest as above
    ProximalNewton       smooth or interval losses; G                 five times that of BoxDual
    ConjugateGradients   Squared                                      a product per iteration
    Galerkin             Squared but for at most 1,500 functionals    a product per iteration, and reduced problems
    InteriorPointCG      interval losses                              10 products per iteration, whatever the kinks
    NonlinearCG          no requirement                               a product per iteration
    ADMM                 losses of vectors with kinks; G              G, one inverse, a product per iteration

*The race.*  Two exact solvers, those of the least expected times, and the first iterative one that lacks nothing (the
first two if a single exact one applies) take turns: the next step is that of the entrant whose bid is least.  A bid is
what it will have used in the end, as far as that is known, in seconds of the reference computer:

    exact        max(used / CREDIT, its expected time)
    iterative    used + (TRIALS - steps so far) * (seconds of the last step)     in the first TRIAL steps
                 used * log(tol) / log(gap)                                      from then on

A bid is at least about what was used.  So if the best one never bids more than the T seconds that it needs alone, no
other has used more than CREDIT T when it ends.  The expected total of an exact solver and the rate at which a gap
decreases make most races shorter: an entrant that will not win does not begin, or ends after a trial that takes a sixth
of the time of the others.  A solver that slows down waits until the others have used as much; one that gives up leaves;
all start from the best point so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import inf, log
from time import thread_time
from typing import Any

from rkhs._core.finite.certificate import certify
from rkhs._core.finite.monitor import MATRIX, Monitor, MonitoredGram, OutOfIterations, Step, Steps, slowness
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.gram.matrix import GramMatrix, SingleGram
from rkhs.exceptions import NotApplicableError
from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import Estimate, Solver, in_memory_steps
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._direct import DENSE, Direct, SchurComplement
from rkhs.solvers._features import FeatureNewton
from rkhs.solvers._galerkin import Galerkin
from rkhs.solvers._interior_point import BoxDual, InteriorPointCG
from rkhs.solvers._newton import ProximalNewton
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._operators import OperatorNewton
from rkhs.solvers._preconditioning import spanned

EXACT: tuple[Solver, ...] = (*DENSE[:-1], SchurComplement())
ITERATIVE: tuple[Solver, ...] = (ConjugateGradients(), Galerkin(), InteriorPointCG(), NonlinearCG())
OF_VECTORS: tuple[Solver, ...] = (ADMM(), NonlinearCG())  # for losses of vectors with kinks
IN_SPACES: tuple[Solver, ...] = (FeatureNewton(), OperatorNewton())  # for other spaces than that of the representers
TRIAL, TRIALS = 6, 36  # steps of a trial, and how many of them it has to be worth
CREDIT = 1.5  # by which an exact solver may exceed its expected time, which is that of a typical problem
SLOWEST = 0.5  # gap that is assumed after a trial for solvers that have not reached it


def auto(system: FiniteProblem) -> Solver:
    """Return the race of the solvers for a problem that are expected to be the fastest."""
    if system.gram is None:
        return next(solver for solver in IN_SPACES if solver.lacks(system) is None)
    if not system.separable and not system.smooth:  # the prox of such losses is all that is simple
        return Race(OF_VECTORS)
    estimate = Estimate(system)
    among = (Direct(),) if system.quadratic else EXACT  # the others are never faster where Direct applies
    costs = {solver: solver.cost(estimate) for solver in among if solver.lacks(system) is None}
    if BoxDual() in costs:  # a proximal Newton method would solve the same dual again and again
        costs.pop(ProximalNewton(), None)
    exact = sorted((solver for solver in costs if costs[solver] < inf), key=costs.__getitem__)[:2]
    most = 1 if exact[1:] or system.quadratic else 2
    others = [solver for solver in ITERATIVE if solver.lacks(system) is None][:most]
    if not exact and not others:
        raise NotApplicableError(str(BoxDual().lacks(system)))
    return Race((*exact, *(StoredInSingle(other) if estimate.storing is SingleGram else other for other in others)))


@dataclass(frozen=True)
class Race(Solver):
    """Several solvers in turns, until one of them has solved the problem.

    The next step is that of the solver which has used the least time, together with the time it is expected to need.
    So they take at most as many times as long as the fastest one alone as there are solvers, mostly far less.  Solvers
    that do not apply to a problem do not take part.

    Parameters
    ----------
    entrants : tuple of Solver
        The solvers, which may include your own.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=100.0)
    >>> both = rkhs.solvers.Race((rkhs.solvers.Direct(), rkhs.solvers.ConjugateGradients()))
    >>> rkhs.Problem(rkhs.Gaussian(0.2), [term]).solve(both).status
    'converged'
    """

    entrants: tuple[Solver, ...]

    @property
    def name(self) -> str:
        return self.entrants[0].name

    @property
    def inexact(self) -> bool:
        return any(solver.inexact for solver in self.entrants)

    def lacks(self, system: FiniteProblem) -> str | None:
        messages = [solver.lacks(system) for solver in self.entrants]
        return None if None in messages else messages[0]

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        entering = [solver for solver in self.entrants if solver.lacks(system) is None]
        if len(entering) == 1:
            monitor.solver = entering[0].name
            return (yield from entering[0].steps(system, start, tol, monitor))
        estimate = Estimate(system)
        steps = partial(self._steps, [_Entrant.of(solver, estimate) for solver in entering])
        if estimate.storing is GramMatrix:  # they share the matrix
            return (yield from in_memory_steps(steps, system, start, tol, monitor))
        return (yield from steps(system, start, tol, monitor))

    def _steps(
        self, entrants: list[_Entrant], system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor
    ) -> Steps:
        best: Any = start
        least = inf  # J of the best point so far, at which others start; its gap if there are constraints
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
                value = certificate.relative if system.hard else float(certificate.primal.sum())
                if certificate.within(tol):
                    return end.value
                if value <= least + tol * abs(least):  # it has the better dual point, if J is the same
                    best, least = end.value, min(value, least)
                if not entrants or (entrant.cost < inf and all(other.cost == inf for other in entrants)):
                    # what rounding prevents an exact solver from, iterative ones do not achieve either
                    return best() if callable(best) else best
            except OutOfIterations:
                entrants.remove(entrant)
                if not entrants:
                    raise
            else:
                # where constraints do not hold J is smaller
                value = step.gap if system.hard else step.primal
                better = step.iterate is not None and (value <= least or step.gap <= tol)
                best, least = (step.iterate, value) if better else (best, least)
                yield Step(step.iterate if better else None, step.primal, step.gap)


@dataclass
class _Entrant:
    """A solver in a race: what is expected of it, its steps so far, and the seconds they took."""

    solver: Solver
    cost: float  # the expected seconds of an exact solver; infinite for others
    last: float  # the seconds of the last step, at first the expected ones
    steps: Steps | None = None
    count: int = 0
    used: float = 0.0
    gap: float = inf

    @classmethod
    def of(cls, solver: Solver, estimate: Estimate) -> _Entrant:
        step = solver.step(estimate)
        return cls(solver, *((solver.cost(estimate), 0.0) if step == inf else (inf, step)))

    def bid(self, tol: float, monitor: Monitor) -> float:
        """Return the seconds that it is expected to use in all; infinity if it would not end in time."""
        if self.gap <= tol:  # it ends with the next step
            return 0.0
        if self.cost < inf:
            late = self.steps is None and monitor.left < inf and monitor.left < slowness() * self.cost
            return inf if late else max(self.cost, self.used / CREDIT)
        if self.count < TRIAL:
            return self.used + (TRIALS - self.count) * self.last
        return self.used * log(tol) / log(min(self.gap, SLOWEST)) if tol > 0 else inf

    def next(self) -> Step:
        """Take the next step."""
        assert self.steps is not None
        start = thread_time()
        try:
            step = next(self.steps)
        finally:
            self.last = (thread_time() - start) / slowness()
            self.used += self.last
        self.count, self.gap = self.count + 1, min(self.gap, step.gap)
        return step


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

    def step(self, estimate: Estimate) -> float:
        return self.first.step(estimate)

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        if not self.matrices:
            with monitor.showing(MATRIX):
                self.matrices.append(SingleGram(system.exact, spanned(system.geometry)))
        [matrix] = self.matrices
        share = matrix.core_seconds / max(system.gram.core_seconds, matrix.core_seconds)
        counted: Any = MonitoredGram(matrix, monitor, share)
        return self.first.steps(system.with_geometry(gram=counted, exact=system.exact), start, tol, monitor)
