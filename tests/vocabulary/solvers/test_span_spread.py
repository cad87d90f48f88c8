"""Variances in a span: of the whole space where the landmarks are the functionals, of the finite model elsewhere."""

import numpy as np
import pytest

import rkhs
from rkhs._core.finite.basis import joined
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.sums import FeatureSums
from rkhs.spaces import FourierSpace, LandmarkSpace

RNG = np.random.default_rng(4)
X, Z = RNG.normal(size=(25, 3)), RNG.normal(size=(12, 3))
Z[0] = X[0]
Y = np.sin(X[:, 0])
TERMS = [
    rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, np.linspace(1, 5, 25)),
    rkhs.Term(rkhs.Gradient(X[:6]), rkhs.Squared(), weight=0.5),
    rkhs.Term(rkhs.Difference(X[:5], -X[:5]), rkhs.Squared(), weight=2.0),
]
NEW = {"values": rkhs.Evaluation(Z), "gradients": rkhs.Gradient(Z), "differences": rkhs.Difference(Z[:6], Z[6:])}
CASES = [
    (rkhs.Gaussian(1.2), None),
    (rkhs.Gaussian(1.2), rkhs.Constant()),
    (rkhs.Matern(2.5, 1.0), rkhs.Polynomials(1)),
    (rkhs.kernels.Polyharmonic(3), None),
    (rkhs.kernels.Polyharmonic(3), rkhs.Constant()),  # which its null space has already
    (0.5 * rkhs.Gaussian(1.0) + rkhs.kernels.Linear(), rkhs.Constant()),
]


def spread(span, basis, terms=TERMS):
    found = FeatureTerms(FeatureSums.of(span, joined(basis, span.kernel.null_space), terms, None))
    return found.covariance(found.weighted())


@pytest.mark.parametrize("new", NEW.values(), ids=NEW)
@pytest.mark.parametrize(("kernel", "basis"), CASES, ids=repr)
def test_own_functionals_give_the_variance_of_the_whole_space(kernel, basis, new):
    exact = rkhs.solvers._conditioned.ConditionedGram.of(rkhs.Problem(kernel, TERMS, basis).represented).variance(new)
    own = LandmarkSpace(kernel, rkhs.stack([term.functional for term in TERMS]))
    np.testing.assert_allclose(spread(own, basis).variance(new), exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("flat", [0.0, 1e7], ids=["no basis", "constant"])
def test_landmarks_against_dense_algebra(flat):
    """Titsias' posterior, with a wide prior on a constant instead of none."""
    kernel, C = rkhs.Gaussian(1.2), rkhs.Evaluation(X[:8])
    q = rkhs.stack([term.functional for term in TERMS])
    w = np.concatenate([np.broadcast_to(term.weight, term.size) for term in TERMS])
    K, rows, new = (rkhs.gram(kernel, L, C).dense() for L in (C, q, NEW["values"]))
    prior = np.zeros((9, 9))
    prior[:8, :8] = np.linalg.inv(K)  # of the coefficients
    prior[8, 8] = flat
    constants = [L.assemble(rkhs.Constant().on) for L in (q, NEW["values"])]
    E, e = np.concatenate([rows, constants[0]], axis=1), np.concatenate([new, constants[1]], axis=1)
    precision = np.zeros((9, 9))
    precision[:8, :8] = K
    precision[8, 8] = 1 / flat if flat else 1e12
    covariance = np.linalg.inv(precision + 2 * E.T @ (w[:, None] * E))
    outside = np.diag(kernel(Z)) - np.sum(new @ prior[:8, :8] * new, axis=1)
    expected = outside + np.sum(e @ covariance * e, axis=1)
    found = spread(LandmarkSpace(kernel, C), rkhs.Constant() if flat else None).variance(NEW["values"])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_features_are_a_linear_model():
    span = FourierSpace.draw(rkhs.Gaussian(1.2), 3, 20, np.random.default_rng(0))
    E = np.concatenate([span.rows(term.functional) for term in TERMS])
    w = np.concatenate([np.broadcast_to(term.weight, term.size) for term in TERMS])
    e = span.rows(NEW["values"])
    expected = np.sum(e @ np.linalg.inv(np.eye(20) + 2 * E.T @ (w[:, None] * E)) * e, axis=1)
    np.testing.assert_allclose(spread(span, None).variance(NEW["values"]), expected, rtol=1e-9)


def test_what_no_term_sees_is_infinite():
    span = LandmarkSpace(rkhs.Gaussian(1.2), rkhs.Evaluation(X[:8]))
    blind = spread(span, rkhs.Constant(), TERMS[1:])  # gradients and differences do not see constants
    assert np.all(np.isinf(blind.variance(NEW["values"])))
    assert np.all(np.isfinite(blind.variance(NEW["gradients"])))
    on_a_line = np.zeros((5, 3))
    on_a_line[:, 0] = np.arange(5.0)
    thin = spread(LandmarkSpace(rkhs.kernels.Polyharmonic(3), rkhs.Evaluation(on_a_line)), None)
    assert np.all(np.isinf(thin.variance(NEW["values"])))


@pytest.mark.parametrize("rows", [1, 5])
def test_some_rows_at_a_time(rows, monkeypatch):
    span = LandmarkSpace(rkhs.Gaussian(1.2), rkhs.Evaluation(X[:8]))
    whole = spread(span, rkhs.Constant()).variance(NEW["gradients"])
    monkeypatch.setattr(LandmarkSpace, "tile_rows", rows)
    np.testing.assert_allclose(spread(span, rkhs.Constant()).variance(NEW["gradients"]), whole, rtol=1e-9)


SETTINGS = {"scale": 1.2, "C": 3.0, "nu": 0.05, "invariance": "gradient"}


@pytest.mark.parametrize("device", [None, "cpu"])
def test_machines(device):
    own = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]))
    exact = rkhs.InvariantRegressor(**SETTINGS).fit(X, Y).predict(Z, return_std=True)[1]
    model = rkhs.InvariantRegressor(**SETTINGS, approximation=own, solver=rkhs.SolverOptions(device=device)).fit(X, Y)
    mean, found = model.predict(Z, return_std=True)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    np.testing.assert_array_equal(mean, model.predict(Z))
    stream = rkhs.InvariantRegressor(**SETTINGS, approximation=own, solver=rkhs.SolverOptions(device=device))
    for rows in (slice(0, 10), slice(10, 25)):
        stream.partial_fit(X[rows], Y[rows])
    np.testing.assert_allclose(stream.predict(Z, return_std=True)[1], exact, rtol=1e-6)


def test_a_search_has_the_spread_of_its_best_machine():
    own = {"approximation": rkhs.Landmarks(rkhs.Evaluation(X[:10]))}
    search = rkhs.InvariantRegressorCV(invariance="gradient", Cs=[1.0, 10.0], nus=[0.1], scales=1.2, cv=3, **own).fit(
        X, Y
    )
    best = rkhs.InvariantRegressor(**search.best_params_, invariance="gradient", scale=1.2, **own).fit(X, Y)
    for found, right in zip(search.predict(Z, return_std=True), best.predict(Z, return_std=True), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(
    "options", [{"loss": "huber"}, {"invariance": rkhs.Invariance("gradient", loss="absolute")}], ids=str
)
@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(10)], ids=repr)
def test_other_losses_are_refused(approximation, options):
    model = rkhs.InvariantRegressor(**SETTINGS | options, approximation=approximation).fit(X, Y)
    with pytest.raises(ValueError, match="needs squared losses"):
        model.predict(Z, return_std=True)
