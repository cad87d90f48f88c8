"""All-quadratic problems by conjugate gradients: by counts of products; `test_random_problems` has the solutions."""

from itertools import pairwise

import numpy as np
import pytest

import rkhs
from rkhs.solvers import _preconditioning as preconditioning

RNG = np.random.default_rng(2)
X, Z = RNG.standard_normal((60, 3)), RNG.standard_normal((7, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(60)


def problem(basis=None, lam=10.0, nu=0.3, target=Y):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, lam),
        rkhs.Term(rkhs.Gradient(X[:20]), rkhs.Squared(), np.zeros((20, 3, *np.shape(target)[1:])), nu),
    ]
    return rkhs.Problem(rkhs.Gaussian(1.0), terms, basis)


@pytest.mark.parametrize("landmarks", [0, 100])
def test_the_gap_is_the_certificate_and_bounds_the_minimum(landmarks):
    """Every gap of the history is what `certify` finds, and no objective is below the minimum."""
    best = problem(basis=rkhs.Constant()).solve(rkhs.solvers.Direct()).primal
    for count in range(1, 12):

        def stop(record, count=count):
            return record.iteration == count

        solution = problem(basis=rkhs.Constant()).solve(
            rkhs.solvers.ConjugateGradients(landmarks), tol=1e-9, callback=stop
        )
        last = solution.history[-1]
        assert solution.primal == pytest.approx(last.primal, rel=1e-10)
        assert solution.dual <= best * (1 + 1e-12) <= solution.primal * (1 + 2e-12)
        assert solution.relative_gap <= last.gap * (1 + 1e-6) + 1e-14
        if solution.status == "converged":
            break
        assert solution.status == "stopped by the callback"
    assert len(solution.history) > 2


def test_the_objective_never_rises():
    record = problem(lam=1e3, nu=10.0).solve(rkhs.solvers.ConjugateGradients(0), tol=1e-8).history
    primals = [r.primal for r in record]
    assert len(primals) > 20
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(primals))


def test_fewer_products_than_descent_and_fewest_with_landmarks():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 20))
    terms = [
        rkhs.Term(rkhs.Evaluation(X[:30]), rkhs.Squared(), np.sign(X[:30, 0]), 100.0),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=10.0),
    ]
    race = rkhs.Problem(rkhs.Gaussian(5.0), terms, rkhs.Constant())
    solvers = (
        rkhs.solvers.NonlinearCG(landmarks=0),
        rkhs.solvers.ConjugateGradients(0),
        rkhs.solvers.ConjugateGradients(100),
    )
    counts = [race.solve(solver, tol=1e-4).products for solver in solvers]
    assert counts[1] <= counts[0]
    assert counts[2] <= counts[1] / 2


def test_landmarks_are_drawn_in_proportion_to_their_strength():
    strength = np.ones(1000)
    strength[:500] = 3.0
    chosen = preconditioning.drawn(strength, 100)
    assert len(set(chosen)) == 100
    assert abs(np.sum(chosen < 500) - 75) <= 4 * (100 * 0.75 * 0.25) ** 0.5
    strength[7] = 1e9
    assert 7 in preconditioning.drawn(strength, 1)
    assert set(preconditioning.drawn(np.zeros(8), 8)) == set(range(8))


@pytest.mark.parametrize(("points", "count"), [(40, 40), (300, 300), (6400, 1961)])
def test_the_number_of_landmarks_grows_with_the_points(points, count):
    """They take the time of fifteen products, and are a quarter of all functionals at most."""
    many = np.random.default_rng(0).standard_normal((points, 3))
    terms = [rkhs.Term(family(many), rkhs.Squared()) for family in (rkhs.Evaluation, rkhs.Gradient)]
    system = rkhs.Problem(rkhs.Gaussian(1.0), terms).system
    assert preconditioning.landmark_count(system, None) == count
    assert preconditioning.landmark_count(system, 7) == 7


def test_landmarks_of_uneven_strength_pay():
    """Gradients of many lengths, as of images: the strongest alone span little (29 products where these take 13)."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((150, 20)) * np.geomspace(1, 0.1, 20)
    directions = rng.standard_normal((150, 4, 20)) * np.geomspace(0.1, 3, 150)[:, None, None]
    terms = [
        rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), np.sign(points[:, 0]), 100.0),
        rkhs.Term(rkhs.functionals.DirectionalDerivative(points, directions), rkhs.Squared(), weight=100.0),
    ]
    uneven = rkhs.Problem(rkhs.Gaussian(3.0), terms)
    few, many = (uneven.solve(rkhs.solvers.ConjugateGradients(count), tol=1e-2).products for count in (0, 100))
    assert many <= few / 2


def test_outputs_share_products_and_stop_one_by_one():
    targets = np.stack([np.zeros(60), Y, 1e3 * Y + np.cos(9 * X[:, 1])], axis=1)
    whole = problem(lam=100.0, target=targets)
    alone = [
        problem(lam=100.0, target=targets[:, k]).solve(rkhs.solvers.ConjugateGradients(0), tol=1e-14) for k in range(3)
    ]
    solution = whole.solve(rkhs.solvers.ConjugateGradients(0), tol=1e-14)
    assert solution.status == "converged"
    assert abs(solution.products - max(one.products for one in alone)) <= 2  # rounding differs in wide products
    assert alone[0].products == 0
    for k, one in enumerate(alone):
        np.testing.assert_allclose(solution.function(Z)[:, k], one.function(Z), atol=1e-6 * np.abs(targets[:, k]).max())


@pytest.mark.slow
def test_rounding_has_the_last_word():
    """Weights that float64 cannot resolve: it ends, says so, and gives the true gap."""
    grid = np.linspace(-1, 1, 60)[:, None]
    term = rkhs.Term(rkhs.Evaluation(grid), rkhs.Squared(), np.sign(grid[:, 0]), 1e12)
    solution = rkhs.Problem(rkhs.Gaussian(1.0), [term]).solve(
        rkhs.solvers.ConjugateGradients(max_iterations=3000), tol=1e-9
    )
    assert solution.status in ("no further progress", "iteration limit")
    assert solution.relative_gap > 1e-9
    assert np.all(np.isfinite(solution.function(grid)))


def test_a_warm_start_takes_its_residual_and_a_dual_point():
    first = problem(basis=rkhs.Constant()).solve(rkhs.solvers.ConjugateGradients(0), tol=1e-6)
    again = problem(basis=rkhs.Constant()).solve(rkhs.solvers.ConjugateGradients(0), tol=1e-6, start=first)
    assert again.products <= 5 < first.products / 5
