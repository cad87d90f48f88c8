"""The laws of solvers, checked on small problems of all kinds to which a solver is applicable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, to_numpy
from rkhs._core.calculus.function_spaces import Constant, FunctionSpace
from rkhs._core.finite.monitor import Monitor
from rkhs._core.finite.solution import CONVERGED, Record, Solution
from rkhs._core.finite.term import Term
from rkhs._core.problem import Problem
from rkhs._core.problem.problem import solve_to_tolerance
from rkhs.functionals import Evaluation, Gradient
from rkhs.kernels import Gaussian, Kernel, Polyharmonic
from rkhs.losses import Absolute, EpsilonInsensitive, Hinge, Huber, Logistic, Loss, Quantile, Squared, SquaredHinge
from rkhs.solvers._base import Solver, cheapest
from rkhs.solvers._direct import DENSE
from rkhs.testing._laws import ROUNDING, demand

SMOOTH: tuple[Loss, ...] = (Squared(), Huber(delta=0.5), Logistic(), SquaredHinge())
LOSSES = (*SMOOTH, Hinge(), Absolute(), EpsilonInsensitive(epsilon=0.2), Quantile(tau=0.3))
SPACES: tuple[tuple[Kernel, FunctionSpace | None], ...] = (
    (Gaussian(scale=1.0), None),
    (Gaussian(scale=1.0), Constant()),
    (Polyharmonic(power=1), None),
)
POINTS, LABELS, OUTPUTS = 8, 12, 2
TOL = 1e-3  # relative duality gap that solvers must reach
SHARP = 1e-8  # relative duality gap of the reference solutions
EPS = ROUNDING * float(np.finfo(np.float64).eps)


def check_solver(solver: Solver) -> None:
    """Check that a solver has the properties that the package relies on.

    It is applied to small problems with all kinds of losses, with and without squared losses on gradients, with and
    without a basis, and with a conditionally positive definite kernel.  Problems that lack something
    for it are skipped; the message must name an applicable solver.  The laws are: the solver reaches the
    tolerance by an independent certificate; its J and f agree with an exact solver within both gaps; it reports the J
    of the iterate that it keeps; several outputs are separate problems; a warm start is used; and a time limit, a
    callback and Ctrl-C stop it immediately, with the iterate of its last report.

    Parameters
    ----------
    solver : Solver
        The solver.

    Raises
    ------
    AssertionError
        If a law is violated; the message names the law and the problem.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import rkhs
    >>> from rkhs.testing import check_solver
    >>> check_solver(rkhs.solvers.Direct())
    >>> @dataclass(frozen=True)
    ... class Early(rkhs.solvers.Newton):
    ...     def steps(self, system, start, tol, monitor):
    ...         yield from ()
    ...         return start  # not a solution
    >>> check_solver(Early())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: Early(...) breaks the law that it reaches the tolerance, on Squared()...: 'no further progress' ...
    """
    trials = list(_trials(solver))
    if not trials:
        raise AssertionError(f"{solver!r} breaks the law that it applies to some problem: `lacks` rejects all of them.")
    one_for_each_loss = {trial.loss: trial for trial in reversed(trials)}.values()
    for laws, chosen in ((ALWAYS, trials), (ONCE, one_for_each_loss)):
        for trial, law in product(chosen, laws):
            law(trial)


@dataclass(frozen=True, eq=False)
class SolverTrial:
    """A solver and a small problem to which it is applicable."""

    solver: Solver
    loss: Loss
    kernel: Kernel
    basis: FunctionSpace | None
    further: bool  # whether there is a squared loss on gradients, or on values if gradients are unbounded

    def __str__(self) -> str:
        further = ", Squared() at further points" if self.further else ""
        return f"{self.loss!r}{further} with {self.kernel!r}, basis {self.basis!r}"

    @cached_property
    def target(self) -> Array:
        """The targets (labels, outputs)."""
        values = np.random.default_rng(1).standard_normal((LABELS, OUTPUTS))
        return np.where(values > 0, 1.0, -1.0) if self.loss.classification else values

    def problem(self, target: Array) -> Problem:
        """Return a new problem without cached results."""
        X = np.random.default_rng(0).standard_normal((POINTS + LABELS, 2))
        terms = [Term(Evaluation(X[:LABELS]), self.loss, target=target, weight=2.0)]
        if self.further:
            family = Evaluation if self.kernel.order else Gradient
            terms.append(Term(family(X[LABELS:]), Squared(), weight=0.1))
        return Problem(self.kernel, terms, self.basis)

    @cached_property
    def one(self) -> Problem:
        """The problem of the first output."""
        return self.problem(self.target[:, 0])

    @cached_property
    def solution(self) -> Solution:
        return self.one.solve(self.solver, tol=TOL)

    def reference(self, output: int = 0) -> Solution:
        """Return the solution of one output by an exact solver."""
        return _reference(self.loss, self.kernel, self.basis, self.further, output)

    def demand(self, law: str, measured: float, allowed: float) -> None:
        demand(self.solver, f"that {law}, on {self}", measured, allowed)

    def converged(self, law: str, solution: Solution) -> None:
        """Raise an AssertionError unless a solution has converged to finite coefficients."""
        if solution.status != CONVERGED:
            raise AssertionError(
                f"{self.solver!r} breaks the law that {law}, on {self}: {solution.status!r} at a relative gap of "
                f"{solution.relative_gap:.3g}, above the tolerance {TOL:g}."
            )
        self.demand("its coefficients are finite", float(not _finite(solution)), 0.0)


@cache
def _reference(loss: Loss, kernel: Kernel, basis: FunctionSpace | None, further: bool, output: int) -> Solution:
    """Solve a separate problem, in case a solver changes the problem that it gets."""
    trial = SolverTrial(DENSE[0], loss, kernel, basis, further)
    fresh = trial.problem(trial.target[:, output])
    return fresh.solve(cheapest(DENSE, fresh.system), tol=SHARP)


def _trials(solver: Solver) -> Iterator[SolverTrial]:
    for (i, loss), (j, (kernel, basis)) in product(enumerate(LOSSES), enumerate(SPACES)):
        trial = SolverTrial(solver, loss, kernel, basis, further=(i + j) % 2 == 0)  # all pairs of these three
        message = solver.lacks(trial.one.system)
        if message is None:
            yield trial
        elif "rkhs." not in message:
            raise AssertionError(
                f"{solver!r} breaks the law that a refusal names a solver that applies, on {trial}: {message}"
            )


def reaches_the_tolerance(trial: SolverTrial) -> None:
    """Check that the solution has converged by an independent certificate, and primal >= dual."""
    trial.converged("it reaches the tolerance", trial.solution)
    trial.demand("primal >= dual", trial.solution.dual - trial.solution.primal, EPS * abs(trial.solution.primal))


def agrees_with_the_reference(trial: SolverTrial) -> None:
    """Check that J agrees within both gaps, and without a basis f too, by 1/2 |f - f*|^2 <= J(f) - J(f*)."""
    solution, reference = trial.solution, trial.reference()
    gaps = solution.gap + reference.gap + EPS * abs(reference.primal)
    trial.demand("its J is that of an exact solver", abs(solution.primal - reference.primal), gaps)
    if trial.basis is None and not trial.kernel.order:
        Z = np.random.default_rng(2).standard_normal((5, 2))
        error = np.max(np.abs(to_numpy(solution.function(Z) - reference.function(Z))))
        allowed = (2 * solution.gap) ** 0.5 + (2 * reference.gap) ** 0.5 + EPS  # k(z, z) = 1
        trial.demand("its f is that of an exact solver", float(error), allowed)


def reports_what_it_keeps(trial: SolverTrial) -> None:
    """Check that there is at least one report, and none below the minimum."""
    primals = [record.primal for record in trial.solution.history]
    trial.demand("it reports at least once", float(not primals), 0.0)
    least = trial.reference().dual - EPS * abs(trial.reference().dual)
    trial.demand("no J that it reports is below the minimum", least - min(primals), 0.0)


def outputs_are_separate(trial: SolverTrial) -> None:
    """Check that each output has the same minimum as its separate problem."""
    together = trial.problem(trial.target).solve(trial.solver, tol=TOL)
    trial.converged("it solves several outputs", together)
    values = to_numpy(together.certificate.primal)
    for k in range(OUTPUTS):
        least = trial.reference(k).primal
        trial.demand("outputs are separate problems", abs(values[k] - least), 2 * TOL * abs(least) + EPS)


def takes_a_warm_start(trial: SolverTrial) -> None:
    """Check that a start at the solution takes no more iterations than a cold start.

    `Problem.solve` would not run the solver, since the start is within the tolerance.
    """
    problem, monitor = trial.one, Monitor(TOL)
    start = problem.represented.iterate(trial.solution.function)
    result = solve_to_tolerance(trial.solver, problem.system, start, monitor)
    again = problem._solution(problem.system, trial.solver.name, monitor, *result)
    trial.converged("it converges from a warm start", again)
    extra = again.iterations - trial.solution.iterations
    trial.demand("a start at the solution costs no more iterations", extra, 1)


def stops_at_once(trial: SolverTrial) -> None:
    """Check that limits, a callback and Ctrl-C stop the solver, with the iterate of its last report."""

    def interrupt(record: Record) -> bool:
        raise KeyboardInterrupt

    ways: dict[str, dict[str, Any]] = {
        "a time limit": {"time_limit": 0.0},
        "a callback": {"callback": lambda record: True},
        "Ctrl-C": {"callback": interrupt},
    }
    for way, options in ways.items():
        stopped = replace(trial.one).solve(trial.solver, tol=TOL, verbose=False, **options)
        trial.demand(f"{way} stops it at its first report", len(stopped.history), 1)
        trial.demand(f"{way} leaves finite coefficients", float(not _finite(stopped)), 0.0)
        trial.demand(f"{way} leaves a gap that is one", -stopped.gap, 0.0)
        if not stopped.history:  # the solver was stopped before its first iteration
            continue
        reported = stopped.history[0].primal
        at_zero = float(np.sum(trial.one.system.at_zero))  # f = 0 replaces iterates that are worse
        error = abs(stopped.primal - min(reported, at_zero)) if np.isfinite(stopped.primal) else 0.0
        trial.demand(f"{way} leaves the iterate of the J that was reported", error, 1e-6 * abs(reported) + EPS)


def _finite(solution: Solution) -> bool:
    parts = (solution.function.coefficients, solution.function.basis_coefficients)
    return all(bool(np.all(np.isfinite(to_numpy(part)))) for part in parts if part is not None)


Law = Callable[[SolverTrial], None]
ALWAYS: tuple[Law, ...] = (reaches_the_tolerance, agrees_with_the_reference, reports_what_it_keeps)
ONCE: tuple[Law, ...] = (outputs_are_separate, takes_a_warm_start, stops_at_once)
