"""`Problem.solve` around the solvers: limits, interruptions, warm starts, outputs, arrays and errors."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import rkhs
from clocks import stopping
from refusals import refused
from rkhs.solvers import Newton, NonlinearCG

RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 3))
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=60) > 0, 1.0, -1.0)
Z = RNG.normal(size=(20, 3))


def problem(loss=None, weight=10.0, points=X, target=LABELS, basis=True):
    terms = [
        rkhs.Term(rkhs.Evaluation(points), loss or rkhs.Logistic(), target, weight),
        rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), weight=1.0),
    ]
    return rkhs.Problem(rkhs.Gaussian(1.0), terms, rkhs.Constant() if basis else None)


@pytest.fixture(scope="module")
def minimum():
    return problem().solve(Newton(), tol=1e-11).primal


def is_honest(solution, minimum):
    """The bounds hold, and the gap is the true one: J of the very function that is returned."""
    f = solution.function
    values, slopes = f(X), rkhs.Gradient(X)(f)
    J = f.norm() ** 2 / 2 + 10 * np.sum(np.logaddexp(0, -LABELS * values)) + np.sum(slopes**2)
    assert solution.primal == pytest.approx(J, rel=1e-9)
    assert solution.dual <= minimum * (1 + 1e-10)
    assert solution.primal >= minimum * (1 - 1e-10)
    assert solution.gap == pytest.approx(solution.primal - solution.dual, rel=1e-12)


# Stopping before the end.


STOPPED = [
    ("time limit", NonlinearCG(), {"time_limit": 0.0}, (0, 1)),
    ("iteration limit", NonlinearCG(max_iterations=3), {}, (3,)),
    ("stopped by the callback", NonlinearCG(), {"callback": stopping(4, "stopped by the callback")}, (4,)),
    ("interrupted", NonlinearCG(), {"callback": stopping(5, "interrupted")}, (5,)),
]


@pytest.mark.every
@pytest.mark.parametrize(("status", "solver", "options", "iterations"), STOPPED, ids=[case[0] for case in STOPPED])
def test_a_stopped_solve_is_honest(status, solver, options, iterations, minimum):
    solution = problem().solve(solver, tol=1e-12, **options)
    assert solution.status == status
    assert solution.iterations in iterations
    assert [record.iteration for record in solution.history] == list(range(1, solution.iterations + 1))
    assert solution.relative_gap > 1e-12
    assert solution.iterations < 2 or solution.primal < solution.history[0].primal
    is_honest(solution, minimum)


def test_callback_that_returns_nothing_does_not_stop():
    assert problem().solve(NonlinearCG(), callback=lambda record: None).status == "converged"


def test_stopped_when_it_is_already_there():
    """What is within the tolerance has converged, whatever stopped the solver."""
    solution = problem().solve(NonlinearCG(), tol=1e-3, callback=lambda record: record.gap < 1e-6)
    assert solution.status == "converged"


# What a solution says.


def test_history():
    solution = problem().solve(NonlinearCG(), tol=1e-8)
    history = solution.history
    assert [r.iteration for r in history] == list(range(1, solution.iterations + 1))
    assert all(a.products <= b.products and a.seconds <= b.seconds for a, b in itertools.pairwise(history))
    assert all(b.primal <= a.primal * (1 + 1e-12) for a, b in itertools.pairwise(history))
    assert history[-1].gap <= 1e-8 < history[0].gap
    assert history[-1].products == solution.products
    assert history[-1].primal == pytest.approx(solution.primal, rel=1e-9)


def test_repr():
    solution = problem().solve(NonlinearCG(), tol=1e-5)
    text = repr(solution)
    assert text.startswith("Solution(converged: J = ")
    assert f"{solution.relative_gap:.1e}" in text
    assert f"NonlinearCG, {solution.iterations} iterations, {solution.products} products" in text


# Warm starts.


def test_warm_start_from_another_weight():
    near = problem(weight=9.0).solve(NonlinearCG(), tol=1e-8)
    cold, warm = problem().solve(NonlinearCG(), tol=1e-4), problem().solve(NonlinearCG(), tol=1e-4, start=near)
    assert warm.iterations < cold.iterations
    assert warm.primal == pytest.approx(cold.primal, rel=2e-4)


def test_outputs_share_products():
    """That their minima are those of separate problems is a law of `check_solver`."""
    copies = problem(target=np.stack([LABELS, -LABELS, LABELS], axis=1)).solve(NonlinearCG(), tol=1e-4)
    assert copies.products == problem().solve(NonlinearCG(), tol=1e-4).products


# Mistakes.


TERM, GAUSSIAN = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared()), rkhs.Gaussian(1.0)
TWO, THREE = (rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), np.zeros((60, c))) for c in (2, 3))
test_problem_checks_its_parts = refused(
    (lambda: problem().solve(NonlinearCG(), callback=lambda record: 1 / 0), "division by zero", ZeroDivisionError),
    (lambda: problem().solve(start=problem(points=X[:10], target=LABELS[:10]).solve()), "same functionals"),
    (rkhs.Problem(rkhs.Gaussian(1.0), [TWO, THREE]).solve, r"outputs: \[2, 3\]"),
    *((lambda s=s: problem().solve(s), "solver must be", TypeError) for s in ("newton", None, NonlinearCG)),
    (lambda: rkhs.Problem("gaussian", [TERM]), "kernel must be", TypeError),
    (lambda: rkhs.Problem(GAUSSIAN, []), "at least one term"),
    (lambda: rkhs.Problem(GAUSSIAN, [rkhs.Evaluation(X)]), r"rkhs\.Term", TypeError),
    (lambda: rkhs.Problem(GAUSSIAN, [TERM], basis=1), "basis must be", TypeError),
)


@pytest.mark.parametrize("loss", [rkhs.losses.OneSided(), rkhs.losses.SquaredOneSided()], ids=repr)
@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(15)], ids=repr)
def test_violated_inequalities_are_reported_with_a_weight_that_suffices(loss, approximation):
    """A second derivative with the weight 1000 was violated by half of the peak, without a word."""
    x = np.linspace(0, 3, 40)[:, None]
    values = rkhs.Term(rkhs.Evaluation(x), rkhs.Squared(), np.exp(-4 * (x[:, 0] - 1) ** 2), 1e4)
    concave = rkhs.Term(-1.0 * rkhs.functionals.Hessian(x[::2]), loss, weight=10.0)
    problem = rkhs.Problem(rkhs.Gaussian(0.5), [values, concave], approximation=approximation)
    solution = problem.solve()
    largest, factor = solution.violations[1]
    assert largest == pytest.approx(-concave.functional(solution.function).min())
    assert f"term 1 violated by up to {largest:.2g}" in repr(solution)
    enough = replace(problem, terms=[values, concave.changed(weight=10.0 * factor)]).solve()
    assert enough.violations.get(1, (0.0, 1.0))[0] <= 0.0101 * largest
    assert not replace(problem, terms=[values]).solve().violations
    twice = values.changed(target=np.stack([values.target, values.target], axis=1))
    assert replace(problem, terms=[twice, concave]).solve().violations[1] == pytest.approx(
        (largest, 2 * factor), rel=0.1
    )
