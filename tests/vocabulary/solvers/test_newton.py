"""Newton's method with active sets: against cvxpy, against others, and where it has to give up."""

import itertools

import numpy as np
import pytest
import sklearn.datasets
from difficult import crossed

import rkhs
from rkhs.solvers import _newton

LOSSES = (
    rkhs.SquaredHinge(),
    rkhs.losses.SquaredEpsilonInsensitive(0.1),
    rkhs.Huber(0.3),
    rkhs.Logistic(),
    rkhs.losses.SquaredOneSided(),
    rkhs.Squared(),
    rkhs.losses.SmoothedHinge(0.3),
    rkhs.Hinge().smoothed(0.05),
    rkhs.Quantile(0.3).smoothed(0.05),
)


def two_terms(loss, weight=1.0, kernel=None, basis=None):
    X, y = crossed()
    return rkhs.Problem(
        kernel or rkhs.Gaussian(1.0),
        [
            rkhs.Term(rkhs.Evaluation(X), loss, y, weight),
            rkhs.Term(rkhs.Gradient(X[:20]), rkhs.losses.SquaredEpsilonInsensitive(0.01), weight=0.1),
        ],
        basis,
    )


@pytest.mark.parametrize(
    ("kernel", "basis"), [(rkhs.Gaussian(1.0), rkhs.Constant()), (rkhs.kernels.Polyharmonic(3), None)]
)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_few_iterations_to_a_tiny_gap(loss, kernel, basis):
    for weight in (1e-3, 1.0, 1e3):
        solution = two_terms(loss, weight, kernel, basis).solve(rkhs.solvers.Newton(), tol=1e-9)
        assert solution.status == "converged"
        assert solution.iterations <= 45


def test_a_piecewise_quadratic_problem_is_solved_exactly():
    """The last step of Newton's is to the minimum itself: nothing is left but rounding."""
    solution = two_terms(rkhs.SquaredHinge(), 10.0).solve(rkhs.solvers.Newton(), tol=1e-12)
    assert solution.relative_gap < 1e-13
    assert solution.iterations <= 12


@pytest.mark.slow
def test_only_curved_rows_are_factorized(monkeypatch):
    """2,000 points, of which few violate the margin: the equations are of these alone."""
    X, y = crossed(2000)
    far = np.abs(X[:, 0] * X[:, 1]) > 0.2
    X, y = X[far], np.sign(X[far, 0] * X[far, 1])
    problem = rkhs.Problem(rkhs.Gaussian(0.5), [rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), y, 100.0)])
    first = problem.solve(rkhs.solvers.NonlinearCG(), tol=1e-2)
    sizes = []

    class Watched(_newton.Saddle):
        def __init__(self, G, d, Q):
            sizes.append(len(d))
            super().__init__(G, d, Q)

    monkeypatch.setattr(_newton, "Saddle", Watched)
    solution = problem.solve(rkhs.solvers.Newton(), tol=1e-8, start=first)
    assert solution.status == "converged"
    assert max(sizes) < 800 < len(X)
    violators = int(np.sum(y * solution.function(X) < 1))
    assert sizes[-1] == pytest.approx(violators, abs=3)
    assert solution.function.active == violators


def test_huber_keeps_its_linear_part_out_of_the_equations():
    """Rows far from the target have a = -w loss' = 2 w delta exactly."""
    X, y = crossed()
    y = y + 10.0 * (np.arange(60) % 5 == 0)
    problem = rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Evaluation(X), rkhs.Huber(0.3), y, 2.0)])
    solution = problem.solve(rkhs.solvers.Newton(), tol=1e-10)
    a = solution.function.coefficients
    assert solution.status == "converged"
    assert np.sum(a == 2 * 2.0 * 0.3) == np.sum(y - solution.function(X) > 0.3) > 5


@pytest.mark.slow
def test_weights_far_apart_are_certified_for_every_output():
    """-w loss'(u) of a row that weighs 1e7 times more than others is too coarse a dual; the iterate itself is not."""
    X, y = sklearn.datasets.make_blobs(n_samples=50, centers=3, cluster_std=20, random_state=0)
    targets = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    weight = np.where(y == 0, 1e3, 1e-4)
    for C in (1.0, 10.0):
        labels = rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), targets, C * weight)
        solution = rkhs.Problem(rkhs.Gaussian(20.0), [labels], rkhs.Constant()).solve(rkhs.solvers.Newton(), tol=1e-4)
        assert solution.status == "converged"


# ProximalNewton: losses with a curvature beside losses without.


def beside_kinks(weight=2.0, kinks=True):
    X, y = crossed(25)
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), y, weight)
    rising = rkhs.Term(rkhs.Derivative(X, axes=[1]), rkhs.losses.OneSided(), 0.1, 1.0)
    return rkhs.Problem(rkhs.Gaussian(1.0), [labels, rising] if kinks else [labels], rkhs.Constant())


def test_the_objective_never_rises_and_the_end_is_quick():
    history = beside_kinks(weight=1e3).solve(rkhs.solvers.ProximalNewton(), tol=1e-12).history
    assert all(after.primal <= before.primal for before, after in itertools.pairwise(history))
    assert history[-1].gap <= history[-2].gap ** 1.5 or history[-1].gap <= 1e-13
