"""Predictive variances: against scikit-learn's Gaussian processes and in closed form."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import rkhs
from refusals import refused
from rkhs._core.finite.basis import joined
from rkhs._core.finite.representers import RepresenterTerms
from rkhs._core.limits import with_limits
from rkhs.solvers._conditioned import ConditionedGram

RNG = np.random.default_rng(5)
X, Z = RNG.standard_normal((20, 2)), RNG.standard_normal((6, 2))
M = rkhs.stack([rkhs.Evaluation(Z), rkhs.Gradient(Z)])


@pytest.fixture(params=["factorized", "by conjugate gradients"])
def both_ways(request):
    with nullcontext() if request.param == "factorized" else with_limits(stored_rows=0):
        yield


def represented(kernel, basis=None, slopes=0.5, values=4.0, convert=lambda a: a):
    terms = [rkhs.Term(rkhs.Evaluation(convert(X)), rkhs.Logistic(), convert(np.ones(20)))]  # says nothing here
    if values:
        terms.append(rkhs.Term(rkhs.Evaluation(convert(X)), rkhs.Squared(), weight=values))
    if slopes:
        terms.append(rkhs.Term(rkhs.Gradient(convert(X[:5])), rkhs.Squared(), weight=slopes))
    return RepresenterTerms.of(kernel, terms, basis)


@pytest.mark.every("kernel", "basis")
@pytest.mark.parametrize(
    ("kernel", "basis"),
    [
        (rkhs.Matern(2.5), None),
        (rkhs.Gaussian(0.8), rkhs.Constant()),
        (rkhs.Gaussian(0.8), rkhs.Polynomials(1)),
        (rkhs.kernels.Polyharmonic(3), None),
    ],
    ids=repr,
)
def test_universal_kriging(kernel, basis, both_ways):
    """Gradients observed and asked for; the variance of the best combination of q that agrees on basis functions."""
    q, space = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X[:5])]), joined(basis, kernel.null_space)
    P, PM = (np.zeros((L.size, 0)) if space is None else L.assemble(space.on) for L in (q, M))
    noisy = rkhs.gram(kernel, q).dense() + np.diag([1 / 8] * 20 + [1.0] * 10)
    S = np.block([[noisy, P], [P.T, np.zeros((P.shape[1],) * 2)]])
    cross = np.concatenate([rkhs.gram(kernel, q, M).dense(), PM.T])
    expected = rkhs.gram(kernel, M).dense() - cross.T @ np.linalg.solve(S, cross)
    conditioned = ConditionedGram.of(represented(kernel, basis))
    tolerance = 1e-6 if kernel.order else 1e-7
    np.testing.assert_allclose(conditioned.covariance(M), expected, atol=tolerance)
    few = [0, 7, 9]
    np.testing.assert_allclose(conditioned.covariance(M, M.take(few)), expected[:, few], atol=tolerance)
    np.testing.assert_allclose(conditioned.variance(M), np.diag(expected), atol=tolerance)
    if basis is not None:  # which is a flat prior: wider than none
        assert np.all(np.diag(expected) >= ConditionedGram.of(represented(kernel)).variance(M) - 1e-9)


def test_what_no_square_determines_is_infinite():
    """Gradients do not see the constant: values have no finite variance, gradients do."""
    conditioned = ConditionedGram.of(represented(rkhs.Gaussian(0.8), rkhs.Constant(), values=None))
    variance = conditioned.variance(M)
    assert np.all(variance[:6] == np.inf)
    assert np.all(np.isfinite(variance[6:]))
    with pytest.raises(ValueError, match="infinite"):
        conditioned.covariance(M)
    few = [rkhs.Term(rkhs.Evaluation(X[:2]), rkhs.Squared())]  # two points do not determine a plane
    conditioned = ConditionedGram.of(rkhs.Problem(rkhs.Gaussian(0.8), few, rkhs.Polynomials(1)).represented)
    assert np.all(conditioned.variance(rkhs.Evaluation(Z)) == np.inf)
    between = rkhs.Evaluation((X[:1] + X[1:2]) / 2)
    assert np.all(np.isfinite(conditioned.variance(between)))


def test_float32_and_torch():
    expected = ConditionedGram.of(represented(rkhs.Gaussian(0.8), rkhs.Constant())).variance(rkhs.Evaluation(Z))
    for convert in (lambda a: a.astype(np.float32), torch.from_numpy, lambda a: torch.from_numpy(a).float()):
        conditioned = ConditionedGram.of(represented(rkhs.Gaussian(0.8), rkhs.Constant(), convert=convert))
        found = conditioned.variance(rkhs.Evaluation(convert(Z)))
        assert found.dtype == convert(Z).dtype
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-6)


def conditioned(*terms, kernel=None, **options):
    return ConditionedGram.of(rkhs.Problem(kernel or rkhs.Gaussian(1.0), terms, **options))


SQUARES = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared())
test_what_is_refused = refused(
    (lambda: conditioned(rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), np.ones(20))), "Squared"),
    (lambda: conditioned(SQUARES, kernel=rkhs.kernels.Polyharmonic(3), null_space="dropped"), "dropped"),
    (lambda: conditioned(SQUARES, approximation=rkhs.Landmarks(5)), "ConditionedGram.*whole space.*Landmarks"),
    (lambda: ConditionedGram.of(3), r"ConditionedGram needs an rkhs\.Problem, got 3", TypeError),
)


def test_a_variance_is_not_below_its_rounding_error():
    """Rounding may make the difference that a variance is negative, and then nothing would be unsure."""
    X, new = np.linspace(0, 1, 60)[:, None], np.linspace(0, 1, 61)[:, None]
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e17)]
    conditioned = ConditionedGram.of(rkhs.Problem(1e3 * rkhs.Gaussian(1.0), terms))
    least = 60 * np.finfo(float).eps * 1e3
    assert conditioned.rounding * 1e3 == least
    found = conditioned.variance(rkhs.Evaluation(new))
    assert found.min() == least
