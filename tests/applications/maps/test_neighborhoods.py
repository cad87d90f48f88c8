"""Functions learned from neighborhoods, against dense saddle-point systems, the exact problem, and SciPy."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator

import rkhs

RANDOM = np.random.default_rng(0)
X, Z = RANDOM.uniform(size=(120, 2)), RANDOM.uniform(size=(15, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
VALUES = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=Y, weight=1e3)


NEAREST = rkhs.Neighbors(20)


def solved(kernel, terms=(VALUES,), neighbors=NEAREST, basis=None):
    return rkhs.Problem(kernel, terms, basis, approximation=neighbors).solve()


@pytest.mark.parametrize(("name", "kernel"), [("thin_plate_spline", 2.0), ("linear", 1.0), ("cubic", 3.0)])
@pytest.mark.parametrize("smoothing", [1e-9, 0.3])
def test_powers_of_the_distance_are_those_of_scipy(name, kernel, smoothing):
    term = VALUES.changed(weight=1 / (2 * smoothing))
    ours = solved(rkhs.kernels.Polyharmonic(kernel), [term]).function(Z)
    theirs = RBFInterpolator(X, Y, neighbors=20, kernel=name, smoothing=smoothing)(Z)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


SLOPES = rkhs.Term(rkhs.Gradient(X[:40]), rkhs.Squared(), target=RANDOM.standard_normal((40, 2)), weight=2.0)
MEANS = rkhs.Term(
    rkhs.functionals.LocalAverage(X[50:70], width=0.1), rkhs.Squared(), target=Y[50:70], weight=RANDOM.uniform(1, 9, 20)
)
CASES = {
    "values": (rkhs.Matern(1.5, 0.4), [VALUES], None),
    "trend": (rkhs.Matern(0.5, (0.4, 0.9)), [VALUES], rkhs.Polynomials(1)),
    "slopes": (rkhs.Matern(2.5, 0.4), [VALUES, SLOPES], rkhs.Constant()),
    "means": (rkhs.Gaussian(0.3), [MEANS, VALUES], rkhs.Constant()),
    "thin plate": (rkhs.kernels.ThinPlate(), [VALUES], None),
    "cubic, slopes": (rkhs.kernels.Polyharmonic(3.0), [VALUES, SLOPES], None),
}


@pytest.mark.parametrize("neighbors", [rkhs.Neighbors(500), rkhs.Neighbors(500, far=5)], ids=["near", "far"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_with_all_functionals_it_is_the_exact_problem(case, neighbors):
    """Means, variances and covariances, by the dense saddle-point system."""
    kernel, terms, basis = case
    local = solved(kernel, terms, neighbors, basis).function
    L = rkhs.Gradient(Z[:3]) if kernel.smoothness(2) > 1 else rkhs.Evaluation(Z)
    q = rkhs.stack([term.functional for term in terms])
    trend = rkhs.Polynomials(max(kernel.order - 1, 0 if basis == rkhs.Constant() else 1 if basis else -1))
    P, p = (M(trend).reshape(M.size, -1) for M in (q, L))
    noise = np.concatenate([1 / (2 * term.weights()[:, 0]) for term in terms])
    S = np.block([[rkhs.gram(kernel, q).dense() + np.diag(noise), P], [P.T, np.zeros((P.shape[1],) * 2)]])
    right = np.hstack([rkhs.gram(kernel, L, q).dense(), p])
    weights = np.linalg.solve(S, right.T).T
    mean = weights[:, : q.size] @ np.concatenate([np.ravel(term.target) for term in terms])
    covariance = rkhs.gram(kernel, L).dense() - right @ weights.T
    tolerance = {"rtol": 1e-6, "atol": 1e-7 * np.abs(covariance).max()}
    np.testing.assert_allclose(L(local).ravel(), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(local.covariance(L), covariance, **tolerance)
    np.testing.assert_allclose(local.covariance(L, L.take([2, 0])), covariance[:, [2, 0]], **tolerance)
    np.testing.assert_allclose(local.variance(L), np.diag(covariance), **tolerance)


def test_each_value_is_that_of_the_nearest_functionals():
    local = solved(rkhs.Matern(1.5, 0.4), basis=rkhs.Constant()).function
    for z, value in zip(Z[:4], local(Z[:4]), strict=True):
        near = np.argsort(np.linalg.norm(X - z, axis=1))[:20]
        exact = rkhs.Problem(rkhs.Matern(1.5, 0.4), [VALUES.take(near)], rkhs.Constant()).solve(tol=1e-10)
        np.testing.assert_allclose(value, exact.function(z[None])[0], rtol=1e-6)


def test_several_outputs_share_the_neighborhoods():
    both = solved(rkhs.Matern(1.5, 0.4), [VALUES.changed(target=np.stack([Y, -2 * Y], axis=1))])
    one = solved(rkhs.Matern(1.5, 0.4))
    np.testing.assert_allclose(both.function(Z), one.function(Z)[:, None] * [1, -2], rtol=1e-12)
    np.testing.assert_allclose(both.function.output(1)(Z), -2 * one.function(Z), rtol=1e-12)
    std = both.posterior.std(rkhs.Evaluation(Z), weight=1e3)
    np.testing.assert_allclose(std, one.posterior.std(rkhs.Evaluation(Z), weight=1e3)[:, None] * [1, 2], rtol=1e-9)


def test_a_functional_is_predicted_from_the_others():
    local = solved(rkhs.Matern(1.5, 0.4), basis=rkhs.Constant()).function
    values, variance = local.left_out(np.arange(5))
    for row in range(5):
        rest = local.without(np.array([row])).with_variance(rkhs.Evaluation(X[row : row + 1]))
        np.testing.assert_allclose([values[row], variance[row]], np.concatenate(rest), rtol=1e-6)


def test_a_continuous_function_has_no_steps():
    """Neighborhoods of ten points change every few hundredths along a line."""
    line = np.column_stack([np.linspace(0.2, 0.8, 20_001), np.full(20_001, 0.5)])
    steps = {}
    for continuous in (False, True):
        neighbors = rkhs.Neighbors(10, far=2, continuous=continuous)
        f = solved(rkhs.Matern(1.5, 0.1), [VALUES.changed(target=np.cos(40 * X[:, 0]))], neighbors).function
        steps[continuous] = np.abs(np.diff(f(line))).max()
    assert steps[False] > 0.02 > 10 * steps[True]


def test_a_straight_track_determines_nothing_across_it():
    track = np.column_stack([np.linspace(0, 1, 40), np.zeros(40)])
    term = rkhs.Term(rkhs.Evaluation(track), rkhs.Squared(), target=3 * track[:, 0], weight=1e6)
    posterior = solved(rkhs.kernels.ThinPlate(), [term]).posterior
    along, across = np.array([[0.512, 0.0]]), np.array([[0.512, 0.3]])
    np.testing.assert_allclose(posterior.mean(rkhs.Evaluation(along)), 3 * 0.512, rtol=1e-6)
    assert np.isfinite(posterior.std(rkhs.Evaluation(along))[0])
    assert posterior.std(rkhs.Evaluation(across))[0] == np.inf


def test_the_solution_states_what_is_not_known():
    solution = solved(rkhs.kernels.ThinPlate())
    assert solution.status == "exact in each neighborhood"
    assert "the gap of the whole is not bounded" in repr(solution)
    assert np.isnan(solution.primal)
    assert solution.gap == np.inf


def test_equal_points_without_noise_and_far_units():
    twice = np.concatenate([X, X[:30]]) * 1e-3 + 5e5
    term = rkhs.Term(rkhs.Evaluation(twice), rkhs.Squared(), target=np.concatenate([Y, Y[:30] + 2.0]), weight=1e15)
    values = solved(rkhs.kernels.Polyharmonic(1.0), [term]).function(twice[:30])
    np.testing.assert_allclose(values, Y[:30] + 1.0, atol=1e-2)


def test_weights_and_folds_leave_functionals_out():
    problem = rkhs.Problem(rkhs.Matern(1.5, 0.4), [VALUES], approximation=rkhs.Neighbors(20))
    grid = problem.grid({VALUES: [0.1, 1.0]}, held_out={VALUES: [np.arange(30)]})
    assert grid.shape == (2, 1)
    rest = solved(rkhs.Matern(1.5, 0.4), [VALUES.take(np.arange(30, 120))])
    np.testing.assert_allclose(grid[1, 0].function(Z), rest.function(Z), rtol=1e-12)


@pytest.mark.parametrize("case", ["values", "slopes"])
def test_copies_of_points_leave_the_neighborhood_to_others(case):
    """Values at one point, and slopes, are one of their mean and of the sum of their weights."""
    kernel, terms, basis = CASES[case]
    copies = [term.take(np.repeat(np.arange(term.size), 30)).changed(weight=term.weight / 30) for term in terms]
    once, often = (solved(kernel, found, basis=basis).function for found in (terms, copies))
    np.testing.assert_allclose(often(Z), once(Z), rtol=1e-7, atol=1e-9)
    rows = np.arange(5)
    np.testing.assert_allclose(often.left_out(30 * rows)[0], once.left_out(rows)[0], rtol=1e-6, atol=1e-9)


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match=r"Neighbors\(count=20.*no norm.*ThinPlate.*Landmarks"):
        solved(rkhs.kernels.ThinPlate()).function.norm()
    robust = VALUES.changed(loss=rkhs.Huber(0.1))
    with pytest.raises(ValueError, match=r"squared losses, got Huber.*FourierGrid"):
        solved(rkhs.kernels.ThinPlate(), [robust])
    with pytest.raises(rkhs.exceptions.NotBoundedError):
        solved(rkhs.Matern(0.5, 1.0), [VALUES, SLOPES])
    with pytest.raises(ValueError, match="All weights are zero"):
        solved(rkhs.kernels.ThinPlate(), [VALUES.changed(weight=0.0)])
    dropped = rkhs.Problem(rkhs.kernels.ThinPlate(), [VALUES], null_space="dropped", approximation=rkhs.Neighbors(20))
    with pytest.raises(ValueError, match="leave `device` and `null_space` out"):
        dropped.solve()


def test_functions_are_pickled_without_trees():
    function = solved(rkhs.kernels.ThinPlate()).function
    before = function(Z)
    again = pickle.loads(pickle.dumps(function))
    assert "_search" not in vars(again)
    assert np.array_equal(again(Z), before)
    assert np.array_equal(replace(function)(Z), before)
