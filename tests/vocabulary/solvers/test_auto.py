"""The choice of a solver: the cheapest that applies, and a hand-over where the first one does not get there."""

from dataclasses import dataclass, replace
from time import thread_time

import numpy as np
import pytest

import rkhs
from clocks import ticking
from refusals import refused
from rkhs._core.limits import with_limits
from rkhs._core.problem.grid import conditioning
from rkhs.extend import Monitor, Solver, Step
from rkhs.solvers import Race
from rkhs.solvers._base import Estimate
from rkhs.solvers._choose import auto

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 2))
Y = np.sin(2 * X[:, 0])


def problem(loss=None, weight=10.0):
    loss = loss or rkhs.Squared()
    target = np.sign(Y) if loss.classification else Y
    return rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Evaluation(X), loss, target, weight)], rkhs.Constant())


@dataclass(frozen=True)
class Falling(Solver):
    """Yields f = 0 with gaps that fall by a factor each time, in steps of 2 ms, and then returns the solution."""

    factor: float
    ends: int = 1000  # steps

    def lacks(self, system):
        return None

    def steps(self, system, start, tol, monitor):
        gap = 1.0
        for _ in range(self.ends):
            gap *= self.factor
            work(2e-3)
            yield Step(start, 1.0, gap)
            if gap <= tol:
                return (yield from rkhs.solvers.Direct().steps(system, start, tol, monitor))
        return start


def work(seconds):
    end = thread_time() + seconds
    while thread_time() < end:
        pass


@dataclass(frozen=True)
class Exact(rkhs.solvers.Direct):
    """The direct solver, for which a time is expected."""

    seconds: float = 1.0

    def cost(self, estimate):
        return self.seconds


@pytest.mark.parametrize(
    ("factor", "seconds", "first"),
    [
        (0.09, 0.1, True),  # 8 steps
        (0.45, 0.1, True),  # 24 steps, which take half as long as the exact solver
        (0.6, 0.06, False),  # 37 steps are longer, as 6 of them show
        (1.0, 0.1, False),
        (0.09, 0.02, False),  # not even a trial is short, as its first step shows
    ],
)
def test_the_fastest_of_a_race_wins(factor, seconds, first):
    entrants = (Exact(seconds=seconds), Falling(factor))
    with ticking():
        solution = problem().solve(Race(entrants), tol=1e-8)
    assert solution.status == "converged"
    assert solution.solver == ("Falling" if first else "Exact")
    assert solution.primal == pytest.approx(problem().solve(rkhs.solvers.Direct(), tol=1e-8).primal, rel=1e-10)


def test_a_solver_that_slows_down_waits_for_the_others():
    """It falls at first and then no longer: it has used as much as the exact solver when that one starts."""

    @dataclass(frozen=True)
    class Stalling(Falling):
        def steps(self, system, start, tol, monitor):
            for k in range(1000):
                work(2e-3)
                yield Step(start, 1.0, max(0.1**k, 1e-5))

    with ticking():
        solution = problem().solve(Race((Exact(seconds=0.1), Stalling(0.1))), tol=1e-8)
    assert solution.solver == "Exact"
    assert 10 <= len(solution.history) <= 52


@pytest.mark.parametrize("limited", [True, False])
def test_a_solver_that_gives_up_leaves_the_race(limited):
    first = rkhs.solvers.ConjugateGradients(max_iterations=1) if limited else Falling(0.5, ends=2)
    solution = problem().solve(Race((first, Falling(0.1))), tol=1e-8)
    assert solution.status == "converged"
    assert solution.solver == "Falling"


def test_a_solver_that_does_not_apply_does_not_take_part():
    race = Race((rkhs.solvers.LibSVM(), rkhs.solvers.Newton()))
    assert problem(rkhs.Hinge()).solve(race).solver == "LibSVM"
    assert problem(rkhs.Logistic()).solve(race).solver == "Newton"
    with pytest.raises(rkhs.exceptions.NotApplicableError, match="LibSVM needs all losses to be Hinge"):
        problem(rkhs.losses.Absolute()).solve(race)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (rkhs.Squared(), "Direct"),
        (rkhs.Hinge(), "LibSVM"),
        (rkhs.SquaredHinge(), "BoxDual"),
        (rkhs.losses.Absolute(), "BoxDual"),
    ],
    ids=repr,
)
def test_small_problems_go_to_dense_solvers(loss, expected):
    assert auto(problem(loss).system).name == expected


def test_what_does_not_fit_in_memory_does_not_go_to_dense_solvers():
    with with_limits(stored_rows=0):
        assert auto(problem().system).name == "ConjugateGradients"
        assert auto(problem(rkhs.Logistic()).system).name == "Galerkin"


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.SquaredHinge()], ids=repr)
def test_an_exact_solver_is_not_begun_after_the_limit(loss):
    solution = problem(loss).solve(time_limit=0.0)
    assert solution.status == "time limit"
    assert not solution.history


def test_conditioning_is_about_the_largest_eigenvalue():
    system = replace(problem(), basis=None).system
    G = np.asarray(system.gram.dense())
    exact = 1 + 2 * 10.0 * np.linalg.eigvalsh(G)[-1]  # a squared loss has the curvature 2
    assert 0.5 * exact <= conditioning(system) <= 1.0001 * exact


@pytest.mark.parametrize(
    "solver", [rkhs.solvers.Direct(), rkhs.solvers.Newton(), rkhs.solvers.ConjugateGradients()], ids=repr
)
def test_costs_grow_with_size_without_leaps(solver):
    """Around every size a point more costs little more."""

    def cost(n):
        points = np.linspace(0, 1, n)[:, None]
        term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), np.sin(points[:, 0]))
        return solver.cost(Estimate(rkhs.Problem(rkhs.Gaussian(0.3), [term]).system))

    for n in (100, 1000, 1500):
        assert cost(n) <= cost(n + 1) * 1.01 <= cost(n) * 1.05


test_mistakes_are_named = refused(
    (lambda: Monitor(1e-6, time_limit=-1), "time_limit must be a finite number >= 0, got -1"),
    (lambda: rkhs.LBFGS, r"use rkhs\.solvers\.LBFGS", AttributeError),
    (lambda: problem().grid([1, 2]), r"weights must map terms.*\[1, 2\]", TypeError),
)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1e3, 1e-3)])
def test_few_kinks_at_many_slopes_are_solved_in_a_span(weights):
    """Formula (2) of the paper of 2013: with large weights interior points took 200 times as long as `Galerkin`."""
    X = np.random.default_rng(0).uniform(size=(208, 60))
    labels = rkhs.Term(rkhs.Evaluation(X[:30]), rkhs.Hinge(), np.sign(X[:30, 0] - 0.5), weights[0])
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=weights[1])
    solution = rkhs.Problem(rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant()).solve()
    assert (solution.status, solution.solver) == ("converged", "Galerkin")
