"""Total variation: cells, their sums and their division, jumps that survive, bad input."""

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from rkhs.invariances._variation import Cells

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
def test_cells_cover_the_box(n):
    low, high = np.zeros(n), np.array([1.0, 2.0, 0.5])[:n]
    cells = Cells.of_box(low, high, 100)
    assert 50 <= len(cells.centers) <= 200
    assert np.sum(cells.volumes) == pytest.approx(np.prod(high - low))
    divided = cells.divided(np.array([0, 3]))
    assert len(divided.centers) == len(cells.centers) + 2 * (2**n - 1)
    assert np.sum(divided.volumes) == pytest.approx(np.prod(high - low))
    assert np.all(divided.centers - divided.sides / 2 >= low - 1e-12)
    assert np.all(divided.centers + divided.sides / 2 <= high + 1e-12)


def test_an_axis_without_extent_is_not_divided():
    cells = Cells.of_box(np.array([0.0, 5.0]), np.array([1.0, 5.0]), 20)
    assert len(cells.centers) == 20
    assert cells.slopes(cells.centers).shape == (20, 1)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_linear_functions_have_the_length_of_their_slope(n):
    prior = rkhs.TotalVariation(50, (np.zeros(n), np.ones(n)))
    slopes = np.arange(1, n + 1)
    values = prior(np.zeros((1, n)))(rkhs.Functions(lambda X: (X @ slopes)[:, None]))
    assert np.allclose(values[..., 0], slopes)


def test_the_sum_is_the_variation_of_a_monotone_function():
    """Differences of neighboring cells add up."""
    solution = solved(rkhs.TotalVariation(200, ([0.0], [1.0])), 1e-6)
    f = solution.function
    x = np.linspace(0, 1, 20_001)[:, None]
    exact = np.sum(np.abs(np.diff(f(x))))
    fine = rkhs.TotalVariation(2000, ([0.0], [1.0])).value(f)
    assert fine == pytest.approx(exact, rel=1e-2)
    assert fine <= exact + 1e-6


def test_jumps_survive_and_noise_does_not():
    X, y = signal()
    x = np.linspace(0, 1, 1001)
    data = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, 5.0)
    smooth = rkhs.Problem(KERNEL, [data], rkhs.Constant()).solve()
    flat = solved(rkhs.TotalVariation(300, ([0.0], [1.0])), 30.0)
    assert flat.status == "converged"
    level = np.minimum(np.abs(x - 0.3), np.abs(x - 0.7)) > 0.02
    errors = [np.sqrt(np.mean((s.function(x[:, None]) - step(x))[level] ** 2)) for s in (smooth, flat)]
    assert errors[1] < 0.6 * errors[0]
    middle = (x > 0.4) & (x < 0.6)
    assert np.ptp(flat.function(x[middle, None])) < 0.05
    assert flat.function([[0.28], [0.32]]) @ [-1, 1] > 0.7


def test_cells_are_divided_at_jumps():
    prior = rkhs.TotalVariation(40, ([0.0], [1.0]))
    f = solved(rkhs.TotalVariation(300, ([0.0], [1.0])), 30.0).function
    refined = prior.refined(f, 2)
    assert len(refined) == 42
    new = refined._cells.centers[-4:, 0]
    assert np.all(np.minimum(np.abs(new - 0.3), np.abs(new - 0.7)) < 0.1)
    assert refined.value(f) >= prior.value(f) - 1e-9


def test_approximations_agree_with_the_exact_problem():
    prior = rkhs.TotalVariation(60, ([0.0], [1.0]))
    exact = solved(prior, 1.0, rkhs.Matern(2.5, 0.1))
    grid = solved(prior, 1.0, rkhs.Matern(2.5, 0.1), approximation=rkhs.FourierGrid())
    assert grid.primal == pytest.approx(exact.primal, rel=2e-2)
    x = np.linspace(0, 1, 50)[:, None]
    assert np.allclose(grid.function(x), exact.function(x), atol=0.05)


def test_estimators_take_it():
    X, y = signal()
    model = rkhs.InvariantRegressor(invariance=rkhs.TotalVariation(cells=100), nu=10.0, scale=0.05)
    fitted = clone(model).fit(X, y)
    plain = rkhs.InvariantRegressor(scale=0.05).fit(X, y)
    x = np.linspace(0, 1, 400)[:, None]
    assert np.sum(np.abs(np.diff(fitted.predict(x)))) < 0.9 * np.sum(np.abs(np.diff(plain.predict(x))))


def test_the_length_of_gradients_at_the_training_points():
    """The same prior in any dimension, without cells."""
    X = RNG.uniform(size=(40, 5))
    y = (X[:, 0] > 0.5) + 0.1 * RNG.standard_normal(40)
    model = rkhs.InvariantRegressor(invariance=rkhs.Invariance(rkhs.Gradient, loss=rkhs.GroupNorm()), nu=0.1).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("cells", [0, -1, 2.5])
def test_bad_numbers_of_cells(cells):
    with pytest.raises(ValueError, match="positive integer"):
        rkhs.TotalVariation(cells)


@pytest.mark.parametrize("box", [1.0, ([0.0],), ([1.0], [0.0]), ([0.0], [1.0, 2.0]), "box"])
def test_bad_boxes(box):
    with pytest.raises(ValueError, match="lower and upper corner"):
        rkhs.TotalVariation(10, box)


def test_a_box_is_necessary_for_terms():
    with pytest.raises(ValueError, match="pass box="):
        rkhs.TotalVariation(10).term(1.0)


def test_more_than_three_dimensions():
    with pytest.raises(ValueError, match="at most 3 dimensions"):
        rkhs.TotalVariation(10)(np.zeros((2, 4)))
