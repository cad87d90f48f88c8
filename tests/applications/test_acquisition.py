"""Expected improvements against quadrature and 50 digits, slopes against differences."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import norm

import rkhs
from refusals import refused
from rkhs.acquisition import _log_h, log_expected_improvement, suggest

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, (12, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
SLOPES = np.stack([5 * np.cos(5 * X[:, 0]), 2 * X[:, 1]], axis=1)
VALUES = rkhs.Measurement(rkhs.Evaluation(X), Y, noise=1e-3)
MODELS = {
    "values": lambda: rkhs.FunctionalRegressor(scale=0.4).fit(VALUES),
    "slopes": lambda: rkhs.FunctionalRegressor("matern", scale=0.4).fit(
        [VALUES, rkhs.Measurement(rkhs.Gradient(X), SLOPES, noise=1e-2)]
    ),
    "regressor": lambda: rkhs.InvariantRegressor(C=1e3, scale=0.4).fit(X, Y),
    "solution": lambda: rkhs.InvariantRegressor("polynomial", C=1e3, invariance=None).fit(X, Y).solution_,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


def moments(model, x):
    posterior = model.posterior if isinstance(model, rkhs.results.Solution) else model._posterior()
    L = rkhs.Evaluation(x)
    return float(posterior.mean(L)[0]), float(posterior.std(L)[0])


def test_the_expected_improvement_is_an_integral(model):
    Z = RNG.uniform(0, 1, (5, 2))
    found = np.exp(log_expected_improvement(model, Z, best=-0.5))
    for x, value in zip(Z, found, strict=True):
        m, s = moments(model, x[None])
        expected = quad(lambda y, m=m, s=s: (-0.5 - y) * norm.pdf(y, m, s), -0.5 - 12 * s, -0.5, epsabs=0)[0]
        expected += quad(lambda y, m=m, s=s: (-0.5 - y) * norm.pdf(y, m, s), min(m, -0.5) - 12 * s, -0.5 - 12 * s)[0]
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("best", [-2.0, 0.0, 1.0])
def test_slopes_are_differences(model, best):
    Z = RNG.uniform(-0.2, 1.2, (20, 2))  # more than are computed together
    values, slopes = log_expected_improvement(model, Z, best, return_gradient=True)
    np.testing.assert_allclose(values, log_expected_improvement(model, Z, best), rtol=1e-6)
    for x, slope in zip(Z[::5], slopes[::5], strict=True):
        rough = approx_fprime(x, lambda p: log_expected_improvement(model, p[None], best)[0], 1e-6)
        np.testing.assert_allclose(slope, rough, rtol=1e-3, atol=1e-3 * (1 + np.abs(slopes).max()))


@pytest.mark.parametrize("z", [-1e8, -1e3, -101, -99.9, -30, -5, -1.001, -1, -0.999, 0, 0.5, 6, 40, 1e6])
def test_of_normal_numbers_in_fifty_digits(z):
    with mpmath.workdps(50):
        t = mpmath.mpf(z)
        phi = mpmath.npdf(t)
        if z > -1e3:
            upper = mpmath.erfc(-t / mpmath.sqrt(2)) / 2
            h = phi + t * upper
            expected = [mpmath.log(h), upper / h, phi / h]
        else:  # the asymptotic series
            bracket = 1 / t**2 - 3 / t**4 + 15 / t**6
            log_phi = -(t**2) / 2 - mpmath.log(2 * mpmath.pi) / 2
            expected = [log_phi + mpmath.log(bracket), (1 - bracket) / -t / bracket, 1 / bracket]
        found = _log_h(np.array([float(z)]))
        for value, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(value[0], float(exact), rtol=2e-11, atol=1e-300)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_suggestions_are_near_the_best_of_a_grid_in_any_units(unit):
    values = rkhs.Measurement(rkhs.Evaluation(unit * X), unit**2 * Y, noise=unit**2 * 1e-3)
    fitted = rkhs.FunctionalRegressor(scale=0.4 * unit).fit(values)
    incumbent = unit * X[np.argmin(Y)]
    found = suggest(fitted, [(0, unit), (0, 2 * unit)], incumbent)
    best = float(fitted.predict(incumbent[None])[0])
    grid = unit * np.stack(np.meshgrid(np.linspace(0, 1, 30), np.linspace(0, 2, 60)), axis=-1).reshape(-1, 2)
    assert np.all((found >= 0) & (found <= [unit, 2 * unit]))
    largest = log_expected_improvement(fitted, grid, best).max()
    assert log_expected_improvement(fitted, found[None], best)[0] >= largest - 1e-6


def test_the_minimum_is_found():
    points = np.linspace(0, 1, 3)[:, None]
    for _ in range(6):
        y = np.cos(6 * points[:, 0] + 1)
        model = rkhs.FunctionalRegressor(scale=0.3).fit(rkhs.Measurement(rkhs.Evaluation(points), y, noise=1e-4))
        points = np.vstack([points, suggest(model, [(0, 1)], points[np.argmin(y)])])
    assert np.cos(6 * points[:, 0] + 1).min() < -0.9999


def improvement_under(model, y):
    return log_expected_improvement(model.fit(X, y), X, 0.0)


test_what_is_refused = refused(
    (lambda: suggest(MODELS["values"](), [(0, 0), (0, 1)], X[0]), "low < high"),
    (lambda: suggest(MODELS["values"](), [(0, 1), (0, 1)], X[0, :1]), "bounds are for 2 features"),
    (lambda: improvement_under(rkhs.InvariantRegressor(scale=1.0), np.stack([Y, Y], axis=1)), "several outputs"),
    (lambda: improvement_under(rkhs.InvariantRegressor(scale=1.0, loss="huber"), Y), "squared losses"),
    (lambda: improvement_under(rkhs.InvariantClassifier(), Y > 0), "needs a regressor of rkhs", TypeError),
)
