"""Total variation: triangulations, jumps that survive, noise that does not, bad input."""

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from refusals import refused
from rkhs.invariances._variation import _adjugates

RNG = np.random.default_rng(0)


def step(x):
    return np.select([x < 0.3, x < 0.7], [0.0, 1.0], 0.4)


def signal():
    x = np.sort(np.random.default_rng(1).uniform(size=120))
    return x[:, None], step(x) + 0.1 * np.random.default_rng(2).standard_normal(120)


KERNEL = rkhs.Matern(1.5, 0.05)


def solved(prior, weight, kernel=KERNEL, **options):
    X, y = signal()
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y, weight=50.0), prior.term(weight)]
    return rkhs.Problem(kernel, terms, rkhs.Constant(), **options).solve(tol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_linear_functions_have_the_length_of_their_slope(n):
    """The volumes of all simplices add up to that of the convex hull, here a cube."""
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * n), axis=-1).reshape(-1, n)
    prior = rkhs.invariances.TotalVariation(np.concatenate([corners, RNG.uniform(size=(20, n))]))
    slope = np.arange(1.0, n + 1)
    values = prior(np.zeros((1, n)))(rkhs.Functions(lambda X: (X @ slope)[:, None]))[..., 0]
    assert np.allclose(values.sum(axis=0), slope)
    assert np.sum(np.linalg.norm(values, axis=1)) == pytest.approx(np.linalg.norm(slope))


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("shape", [(5, 4), (4, 5, 3)])
def test_regular_grids(shape, shift):
    """Triangulations of cubes contain flat simplices, across which the piecewise linear function may jump."""
    X = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, len(shape)) + shift
    prior, slope = rkhs.invariances.TotalVariation(X), np.arange(1.0, len(shape) + 1)
    volume = np.prod([side - 1 for side in shape])
    values = prior(X)(rkhs.Functions(lambda X: ((X - shift) @ slope)[:, None]))[..., 0]
    assert np.sum(np.linalg.norm(values, axis=1)) == pytest.approx(volume * np.linalg.norm(slope))
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), (X[:, 0] > shift + 1) * 1.0, 5.0), prior.term(0.1)]
    assert rkhs.Problem(rkhs.Gaussian(1.0), terms, rkhs.Constant()).solve(tol=1e-2).status == "converged"


def test_flat_simplices_contribute_the_jump_across_them():
    """Between the two diagonals of a square, interpolations of xy differ by a pyramid of volume 1 / 6."""
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    slopes = _adjugates((corners[1:] - corners[0])[None])[0] / 6 @ (corners[1:, 0] * corners[1:, 1])
    assert np.allclose(np.abs(slopes), [0.0, 0.0, 1 / 6])


def test_the_sum_is_the_variation_between_points():
    f = solved(rkhs.invariances.TotalVariation(signal()[0]), 1e-6).function
    x = np.linspace(0, 1, 2001)[:, None]
    assert rkhs.invariances.TotalVariation(x).value(f) == pytest.approx(np.sum(np.abs(np.diff(f(x)))))


def test_jumps_survive_and_noise_does_not():
    X, y = signal()
    x = np.linspace(0, 1, 1001)
    data = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, 5.0)
    smooth = rkhs.Problem(KERNEL, [data], rkhs.Constant()).solve()
    flat = solved(rkhs.invariances.TotalVariation(X), 30.0)
    assert flat.status == "converged"
    level = np.minimum(np.abs(x - 0.3), np.abs(x - 0.7)) > 0.02
    errors = [np.sqrt(np.mean((s.function(x[:, None]) - step(x))[level] ** 2)) for s in (smooth, flat)]
    assert errors[1] < 0.6 * errors[0]
    middle = (x > 0.4) & (x < 0.6)
    assert np.ptp(flat.function(x[middle, None])) < 0.05
    assert flat.function([[0.28], [0.32]]) @ [-1, 1] > 0.7


def test_a_flexible_space_does_not_follow_the_noise():
    """Slopes on simplices whose corners are data see it, whatever f does in between."""
    X, y = signal()
    f = solved(rkhs.invariances.TotalVariation(X), 30.0, 100.0 * KERNEL).function
    assert rkhs.invariances.TotalVariation(X).value(f) < 0.3 * np.sum(np.abs(np.diff(y)))


def test_the_result_does_not_depend_on_the_coordinates():
    X = RNG.uniform(-1, 1, (40, 2))
    y = (np.hypot(*X.T) < 0.6) + 0.1 * RNG.standard_normal(40)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    found = []
    for points in (X, X @ turn.T):
        terms = [
            rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), y, 50.0),
            rkhs.invariances.TotalVariation(points).term(3.0),
        ]
        found.append(rkhs.Problem(rkhs.Gaussian(0.5), terms, rkhs.Constant()).solve(tol=1e-6).function(points))
    assert np.allclose(*found, atol=1e-2)


def test_points_are_added_at_jumps():
    X, _ = signal()
    prior = rkhs.invariances.TotalVariation(np.linspace(0, 1, 41)[:, None])
    f = solved(rkhs.invariances.TotalVariation(X), 30.0).function
    refined = prior.refined(f, 2)
    assert len(refined.points) == 43
    new = np.setdiff1d(refined.points, prior.points)
    assert np.all(np.minimum(np.abs(new - 0.3), np.abs(new - 0.7)) < 0.1)
    assert refined.value(f) >= prior.value(f) - 1e-9


def test_approximations_agree_with_the_exact_problem():
    prior = rkhs.invariances.TotalVariation(np.linspace(0, 1, 60)[:, None])
    exact = solved(prior, 1.0, rkhs.Matern(2.5, 0.1))
    grid = solved(prior, 1.0, rkhs.Matern(2.5, 0.1), approximation=rkhs.FourierGrid())
    assert grid.primal == pytest.approx(exact.primal, rel=2e-2)
    x = np.linspace(0, 1, 50)[:, None]
    assert np.allclose(grid.function(x), exact.function(x), atol=0.05)


def test_estimators_take_it():
    X, y = signal()
    model = rkhs.InvariantRegressor(invariance=rkhs.invariances.TotalVariation(), nu=10.0, scale=0.05, C=1.0)
    fitted = clone(model).fit(X, y)
    plain = rkhs.InvariantRegressor(scale=0.05, C=1.0).fit(X, y)
    x = np.linspace(0, 1, 400)[:, None]
    assert np.sum(np.abs(np.diff(fitted.predict(x)))) < 0.9 * np.sum(np.abs(np.diff(plain.predict(x))))


def test_the_length_of_gradients_at_the_training_points():
    """The same prior in any dimension, without cells."""
    X = RNG.uniform(size=(40, 5))
    y = (X[:, 0] > 0.5) + 0.1 * RNG.standard_normal(40)
    model = rkhs.InvariantRegressor(
        invariance=rkhs.Invariance(rkhs.Gradient, loss=rkhs.losses.GroupNorm()), nu=0.1
    ).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))


LINE = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
test_what_is_refused = refused(
    (lambda: rkhs.invariances.TotalVariation().term(1.0), "pass points="),
    *(
        (lambda p=p: rkhs.invariances.TotalVariation(p), "do not span")
        for p in ([[0.0]], LINE, [[0.0, 1.0], [2.0, 3.0]])
    ),
    (lambda: rkhs.invariances.TotalVariation(np.zeros((2, 4))), "at most 3 dimensions"),
)


def test_repeated_points_count_once():
    assert len(rkhs.invariances.TotalVariation([[0.0], [1.0], [1.0]]).points) == 2
