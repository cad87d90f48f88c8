"""Predictive variances: against scikit-learn's Gaussian processes and in closed form."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

import rkhs
from rkhs._finite.representers import RepresenterTerms
from rkhs.solvers import _conditioned as module

RNG = np.random.default_rng(5)
X, Z = RNG.standard_normal((20, 2)), RNG.standard_normal((6, 2))
M = rkhs.stack([rkhs.Evaluation(Z), rkhs.Gradient(Z)])


@pytest.fixture(params=["factorized", "by conjugate gradients"])
def both_ways(request, monkeypatch):
    if request.param != "factorized":
        monkeypatch.setattr(module, "factorable", lambda system: False)


def represented(kernel, basis=None, slopes=0.5, values=4.0, convert=lambda a: a):
    terms = [rkhs.Term(rkhs.Evaluation(convert(X)), rkhs.Logistic(), convert(np.ones(20)))]  # says nothing here
    if values:
        terms.append(rkhs.Term(rkhs.Evaluation(convert(X)), rkhs.Squared(), weight=values))
    if slopes:
        terms.append(rkhs.Term(rkhs.Gradient(convert(X[:5])), rkhs.Squared(), weight=slopes))
    return RepresenterTerms.of(kernel, terms, basis)


def test_gaussian_process_regression(both_ways):
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), X[:, 0], 4.0)
    conditioned = module.ConditionedGram.of(rkhs.Problem(rkhs.Gaussian(0.8), [term]).represented)
    process = GaussianProcessRegressor(RBF(0.8), alpha=1 / 8, optimizer=None).fit(X, X[:, 0])
    _, deviation = process.predict(Z, return_std=True)
    np.testing.assert_allclose(conditioned.variance(rkhs.Evaluation(Z)), deviation**2, atol=1e-7)
    _, covariance = process.predict(Z, return_cov=True)
    np.testing.assert_allclose(conditioned.covariance(rkhs.Evaluation(Z)), covariance, atol=1e-7)


def test_any_functionals(both_ways):
    """Gradients observed, gradients asked for."""
    kernel = rkhs.Matern(2.5)
    q = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X[:5])])
    noisy = rkhs.gram(kernel, q).dense() + np.diag([1 / 8] * 20 + [1.0] * 10)
    cross = rkhs.gram(kernel, q, M).dense()
    expected = rkhs.gram(kernel, M).dense() - cross.T @ np.linalg.solve(noisy, cross)
    conditioned = module.ConditionedGram.of(represented(kernel))
    np.testing.assert_allclose(conditioned.covariance(M), expected, atol=1e-7)
    np.testing.assert_allclose(conditioned.variance(M), np.diag(expected), atol=1e-7)


@pytest.mark.parametrize("basis", [rkhs.Constant(), rkhs.Polynomials(1)])
def test_a_basis_is_a_flat_prior(basis, both_ways):
    """The limit of a prior on the basis that becomes wide: universal kriging."""
    kernel = rkhs.Gaussian(0.8)
    wide = 1e6 * rkhs.Polynomial(max(basis.degree, 1), offset=1.0)
    if basis.degree == 0:
        wide = 1e6 * (rkhs.kernels.Linear() @ np.zeros((1, 2)) + rkhs.Polynomial(1, offset=1.0) @ np.zeros((1, 2)))
    q = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X[:5])])
    noisy = rkhs.gram(kernel + wide, q).dense() + np.diag([1 / 8] * 20 + [1.0] * 10)
    cross = rkhs.gram(kernel + wide, q, M).dense()
    expected = rkhs.gram(kernel + wide, M).dense() - cross.T @ np.linalg.solve(noisy, cross)
    found = module.ConditionedGram.of(represented(kernel, basis)).covariance(M)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.all(np.diag(found) >= module.ConditionedGram.of(represented(kernel)).variance(M) - 1e-9)


def test_conditionally_positive_definite_kernels(both_ways):
    """Kriging: the variance of L is the squared norm of the best combination of q that agrees on polynomials."""
    kernel = rkhs.kernels.Polyharmonic(3)
    q = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X[:5])])
    space = rkhs.Polynomials(1)
    P, PM = q.assemble(space.on), M.assemble(space.on)
    noisy = rkhs.gram(kernel, q).dense() + np.diag([1 / 8] * 20 + [1.0] * 10)
    r = P.shape[1]
    S = np.block([[noisy, P], [P.T, np.zeros((r, r))]])
    cross = np.concatenate([rkhs.gram(kernel, q, M).dense(), PM.T])
    expected = rkhs.gram(kernel, M).dense() - cross.T @ np.linalg.solve(S, cross)
    conditioned = module.ConditionedGram.of(represented(kernel))
    np.testing.assert_allclose(conditioned.covariance(M), expected, atol=1e-6)
    assert np.linalg.eigvalsh(expected).min() > 0


def test_what_no_square_determines_is_infinite():
    """Gradients do not see the constant: values have no finite variance, gradients do."""
    conditioned = module.ConditionedGram.of(represented(rkhs.Gaussian(0.8), rkhs.Constant(), values=None))
    variance = conditioned.variance(M)
    assert np.all(variance[:6] == np.inf)
    assert np.all(np.isfinite(variance[6:]))
    with pytest.raises(ValueError, match="infinite"):
        conditioned.covariance(M)
    few = [rkhs.Term(rkhs.Evaluation(X[:2]), rkhs.Squared())]  # two points do not determine a plane
    conditioned = module.ConditionedGram.of(rkhs.Problem(rkhs.Gaussian(0.8), few, rkhs.Polynomials(1)).represented)
    assert np.all(conditioned.variance(rkhs.Evaluation(Z)) == np.inf)
    between = rkhs.Evaluation((X[:1] + X[1:2]) / 2)
    assert np.all(np.isfinite(conditioned.variance(between)))


def test_float32_and_torch():
    expected = module.ConditionedGram.of(represented(rkhs.Gaussian(0.8), rkhs.Constant())).variance(rkhs.Evaluation(Z))
    for convert in (lambda a: a.astype(np.float32), torch.from_numpy, lambda a: torch.from_numpy(a).float()):
        conditioned = module.ConditionedGram.of(represented(rkhs.Gaussian(0.8), rkhs.Constant(), convert=convert))
        found = conditioned.variance(rkhs.Evaluation(convert(Z)))
        assert found.dtype == convert(Z).dtype
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-6)


def test_no_squares_no_variance():
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), np.ones(20))
    with pytest.raises(ValueError, match="Squared"):
        module.ConditionedGram.of(rkhs.Problem(rkhs.Gaussian(1.0), [term]).represented)
    dropped = rkhs.Problem(
        rkhs.kernels.Polyharmonic(3), [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared())], null_space="dropped"
    )
    with pytest.raises(ValueError, match="dropped"):
        module.ConditionedGram.of(dropped.represented)
