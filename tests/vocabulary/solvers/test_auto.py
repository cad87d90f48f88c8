"""The choice of a solver: the cheapest that applies, and a hand-over where the first one does not get there."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import rkhs
from refusals import refused
from rkhs._core.finite.monitor import Monitor
from rkhs.solvers._base import Estimate, Solver
from rkhs.solvers._choose import Fallback, auto

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 2))
Y = np.sin(2 * X[:, 0])


def problem(loss=None, weight=10.0):
    loss = loss or rkhs.Squared()
    target = np.sign(Y) if loss.classification else Y
    return rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Evaluation(X), loss, target, weight)], rkhs.Constant())


@dataclass(frozen=True)
class Idle(Solver):
    """Reports f = 0 for ever, or gives it back at once."""

    ends: bool

    def check(self, system):
        """Every problem will do."""

    def run(self, system, start, monitor):
        while True:
            monitor.report(start, 1.0, 1.0)
            if self.ends:
                return start


@pytest.mark.parametrize("storing", [True, False])
@pytest.mark.parametrize("ends", [True, False], ids=["stuck", "slow"])
def test_a_solver_that_does_not_get_there_hands_over(ends, storing):
    whole = problem()
    solution = whole.solve(Fallback(Idle(ends), rkhs.solvers.Direct(), 5, storing), tol=1e-8)
    assert solution.status == "converged"
    assert len(solution.history) == (1 if ends else 6) + 1
    assert solution.primal == pytest.approx(whole.solve(rkhs.solvers.Direct(), tol=1e-8).primal, rel=1e-10)


@dataclass(frozen=True)
class Falling(Solver):
    """Reports f = 0 with gaps that fall by a factor each time, and then gives the solution."""

    factor: float

    def check(self, system):
        """Every problem will do."""

    def run(self, system, start, monitor):
        gap = 1.0
        while gap > monitor.tol:
            gap *= self.factor
            monitor.report(start, 1.0, gap)
        return rkhs.solvers.Direct().run(system, start, Monitor(monitor.tol))


@pytest.mark.parametrize(
    ("factor", "first", "steps"),
    [(0.09, True, 8), (0.45, True, 24), (0.3, True, 16), (0.6, False, 6 + 1), (1.0, False, 6 + 1)],
)
def test_a_trial_goes_on_where_its_gap_promises_few_steps(factor, first, steps):
    direct = rkhs.solvers.Direct()
    solution = problem().solve(Fallback(Falling(factor), direct, 24, False, trial=6), tol=1e-8)
    assert solution.status == "converged"
    assert solution.solver == ("Falling" if first else "Direct")
    assert len(solution.history) == steps


def test_dear_solvers_are_tried_where_dense_ones_are_dearer_by_far():
    many = RNG.standard_normal((800, 2))
    term = rkhs.Term(rkhs.Evaluation(many), rkhs.losses.Absolute(), np.sin(many[:, 0]), 1e4)
    chosen = auto(rkhs.Problem(rkhs.Gaussian(0.3), [term]).system, 1e-4)
    assert isinstance(chosen, Fallback)
    assert (chosen.name, chosen.then.name) == ("NonlinearCG", "BoxDual")
    assert chosen.trial is not None
    assert chosen.steps >= 6 * chosen.trial


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
    assert auto(problem(loss).system, 1e-6).name == expected


def test_what_does_not_fit_in_memory_does_not_go_to_dense_solvers(monkeypatch):
    for place in ("_base", "_conditioned"):
        monkeypatch.setattr(f"rkhs.solvers.{place}.fits", lambda rows: False)
    monkeypatch.setattr("rkhs.solvers._direct.fits_once", lambda rows: False)
    assert auto(problem().system, 1e-6).name == "ConjugateGradients"
    assert auto(problem(rkhs.Logistic()).system, 1e-6).name == "Galerkin"


def test_a_time_limit_rules_out_what_takes_longer():
    system = problem().system
    assert auto(system, 1e-6, time_limit=1e-9).name == "ConjugateGradients"


def test_conditioning_is_about_the_largest_eigenvalue():
    system = replace(problem(), basis=None).system
    G = np.asarray(system.gram.dense())
    exact = 1 + 2 * 10.0 * np.linalg.eigvalsh(G)[-1]  # a squared loss has the curvature 2
    assert 0.5 * exact <= Estimate(system, 1e-4).conditioning <= 1.0001 * exact


@pytest.mark.parametrize(
    "solver", [rkhs.solvers.Direct(), rkhs.solvers.Newton(), rkhs.solvers.ConjugateGradients()], ids=repr
)
def test_costs_grow_with_size_without_leaps(solver):
    """Around every size a point more costs little more."""

    def cost(n):
        points = np.linspace(0, 1, n)[:, None]
        term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), np.sin(points[:, 0]))
        return solver.cost(Estimate(rkhs.Problem(rkhs.Gaussian(0.3), [term]).system, 1e-6))

    for n in (100, 1000, 1500):
        assert cost(n) <= cost(n + 1) * 1.01 <= cost(n) * 1.05


def test_a_matrix_in_memory_is_not_begun_after_the_limit():
    whole = problem(rkhs.SquaredHinge())
    chosen = Fallback(rkhs.solvers.Newton(), rkhs.solvers.NonlinearCG(), 10, storing=True)
    solution = whole.solve(chosen, time_limit=0.0)
    assert solution.status == "time limit"
    assert not solution.history


test_mistakes_are_named = refused(
    (lambda: Monitor(1e-6, time_limit=-1), "time_limit must be finite and not negative, got -1"),
    (lambda: rkhs.LBFGS, r"use rkhs\.solvers\.LBFGS", AttributeError),
    (lambda: problem().grid([1, 2]), r"weights must map terms.*\[1, 2\]", TypeError),
)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1e3, 1e-3)])
def test_few_kinks_at_many_slopes_are_solved_in_a_span(weights):
    """Formula (2) of the paper of 2013: with large weights interior points took 200 times as long as `Galerkin`."""
    X = np.random.default_rng(0).uniform(size=(208, 60))
    labels = rkhs.Term(rkhs.Evaluation(X[:30]), rkhs.Hinge(), np.sign(X[:30, 0] - 0.5), weights[0])
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=weights[1])
    chosen = auto(rkhs.Problem(rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant()).system, 1e-6)
    assert chosen.name == "Galerkin"
