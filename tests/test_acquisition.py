"""Expected improvements against quadrature and 50 digits, slopes against differences, and batches by brute force."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import norm

import rkhs
from refusals import refused
from rkhs.acquisition import _log_h, log_expected_improvement, select_batch, suggest

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


POOL = RNG.uniform(0, 1, (9, 2))
POOL = np.vstack([POOL, POOL[:3] + 1e-3])  # three candidates have a neighbor that adds nearly nothing to them
KINDS = {"values": rkhs.Evaluation(POOL), "slopes": rkhs.Gradient(POOL)}


def problem_with(observed, approximation, weight):
    """The problem of X, with the functionals `observed` as further observations."""
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, weight=1e4)]
    if observed is not None:
        terms.append(rkhs.Term(observed, rkhs.Squared(), np.zeros(observed.shape), weight=weight))
    return rkhs.Problem(rkhs.Matern(2.5, scale=0.5), terms, rkhs.Constant(), approximation=approximation)


@pytest.mark.every
@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(25)], ids=["exact", "landmarks"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_of_a_batch_reduces_the_variances_of_all_the_most(kind, approximation):
    """Brute force: each candidate of each step is a problem with the chosen functionals and its own among the terms."""
    L, weight = KINDS[kind], 50.0
    each = L.size // len(POOL)

    def left(chosen):
        rows = [row for one in chosen for row in range(one * each, (one + 1) * each)]
        solution = problem_with(L.take(rows), approximation, weight).solve(tol=1e-10)
        return float(np.sum(np.asarray(solution.posterior.spread.variance(L))))

    found = select_batch(problem_with(None, approximation, weight).solve(tol=1e-10), L, 4, weight=weight)
    for step in range(4):
        before = found[:step].tolist()
        variances = {one: left([*before, one]) for one in range(len(POOL)) if one not in before}
        assert variances[found[step]] <= (1 + 1e-6) * min(variances.values())


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_batches_do_not_depend_on_units_or_on_the_number_of_outputs(unit):
    given = {"C": 1e3, "invariance": None}
    model = rkhs.InvariantRegressor(scale=0.4, **given).fit(X, Y)
    scaled = rkhs.InvariantRegressor(scale=0.4 * unit, **given).fit(unit * X, np.stack([Y, 2 * Y], axis=1) / unit)
    for kind in (rkhs.Evaluation, rkhs.Gradient):
        expected = select_batch(model, kind(POOL), 5)
        np.testing.assert_array_equal(select_batch(scaled, kind(unit * POOL), 5), expected)
        assert len({int(i) % 9 for i in expected}) == 5  # of two neighbors only one


def test_all_candidates_in_their_order_and_no_variance_left():
    """A repeated candidate is observed exactly after the first time; all are chosen at the end."""
    model = rkhs.InvariantRegressor(C=1e3, scale=0.4, invariance=None).fit(X, Y)
    found = select_batch(model, rkhs.Evaluation(np.repeat(POOL[:4], 2, axis=0)), 8)
    assert sorted(found.tolist()) == list(range(8))
    assert len({int(i) // 2 for i in found[:4]}) == 4


def springs(R):
    """Forces of springs of length 1 between all pairs of atoms."""
    d = R[:, :, None] - R[:, None]
    r = np.linalg.norm(d, axis=-1, keepdims=True) + np.eye(R.shape[1])[:, :, None]
    return np.sum((1 / r - 1) * d, axis=2)


def test_geometries_are_chosen_by_the_forces_that_are_not_known():
    """Brute force; and a geometry that is known, or chosen, is known when it is rotated or its atoms change places."""
    rest = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.9, 0.0]])
    rng = np.random.default_rng(0)
    R, new = rng.normal(rest, 0.1, (15, 3, 3)), rng.normal(rest, 0.2, (8, 3, 3))
    model = rkhs.geometry.ForceFieldRegressor(rkhs.Matern(2.5, scale=1.0), symmetries=[[0, 2, 1]]).fit(R, springs(R))
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    pool = np.concatenate([new, new[:, [0, 2, 1]] @ rotation, R[:4] @ rotation + 1.0]).reshape(20, 9)
    found = select_batch(model, rkhs.Gradient(pool), 8)
    assert sorted(found % 8) == list(range(8))
    assert np.all(found < 16)
    kernel, noise = model.function_.kernel, model.best_params_["noise"] * np.mean(springs(R) ** 2)
    K = np.asarray(rkhs.gram(kernel, rkhs.Gradient(np.vstack([R.reshape(15, 9), pool]))).dense())
    known = list(range(15 * 9))

    def left(rows):
        G = K[np.ix_(rows, rows)] + noise * np.eye(len(rows))
        return np.trace((K - K[:, rows] @ np.linalg.solve(G, K[rows]))[15 * 9 :, 15 * 9 :])

    for one in found:
        reduced = [left([*known, *range((15 + other) * 9, (16 + other) * 9)]) for other in range(20)]
        assert reduced[one] <= 1.01 * min(reduced)  # of two equal ones it may be either
        known += range((15 + one) * 9, (16 + one) * 9)


def improvement_under(model, y):
    return log_expected_improvement(model.fit(X, y), X, 0.0)


def too_many():
    points = np.broadcast_to(X[:1], (10**6, 2))
    return select_batch(MODELS["solution"](), rkhs.Gradient(points), 10**6)


test_what_is_refused = refused(
    (too_many, "1,000,000 candidates with a batch of 1000000 take .* GB of memory, .* random part", MemoryError),
    (lambda: suggest(MODELS["values"](), [(0, 0), (0, 1)], X[0]), "low < high"),
    (lambda: suggest(MODELS["values"](), [(0, 1), (0, 1)], X[0, :1]), "bounds are for 2 features"),
    (lambda: improvement_under(rkhs.InvariantRegressor(scale=1.0), np.stack([Y, Y], axis=1)), "several outputs"),
    (lambda: improvement_under(rkhs.InvariantRegressor(scale=1.0, loss="huber"), Y), "squared losses"),
    (lambda: improvement_under(rkhs.InvariantClassifier(), Y > 0), "needs a regressor of rkhs", TypeError),
    (lambda: select_batch(MODELS["solution"](), KINDS["values"], 13), "number of candidates, 12; got 13"),
    (lambda: select_batch(MODELS["solution"](), KINDS["values"], 2.0), r"got 2\.0"),
    (lambda: select_batch(MODELS["solution"](), KINDS["values"], 2, weight=0.0), "weight must be positive"),
    (lambda: select_batch(rkhs.InvariantClassifier(), KINDS["values"], 2), "needs a regressor of rkhs", TypeError),
)
