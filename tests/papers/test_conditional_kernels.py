"""Covariances for many weights at once: against the covariance of each."""

import numpy as np
import pytest

import rkhs
from papers.conditional_kernels import KrylovSpace, conditional_kernels

X = np.random.default_rng(0).standard_normal((40, 2))
Z = np.random.default_rng(1).standard_normal((25, 2))
KERNEL = rkhs.Gaussian(1.0)
FAMILIES = {
    "gradients": rkhs.Gradient(X),
    "edges": rkhs.functionals.GraphDifference(X, [[i, i + 1] for i in range(39)]),
    "averages": rkhs.functionals.LocalDeviation(X[:20], width=0.5),
    "directions": 3.0 * rkhs.Gradient(X[:10]) - rkhs.Gradient(X[10:20]),
}


def term(family, weight=1.0):
    return rkhs.Term(family, rkhs.Squared(), weight=weight)


@pytest.mark.parametrize("columns", [[3], [0, 5, 7, 20], slice(None)])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_covariance_given_each_weight(name, columns):
    family = FAMILIES[name]
    weight = np.linspace(0.5, 2.0, family.size)
    M = rkhs.stack([rkhs.Evaluation(Z), 2.0 * rkhs.Gradient(Z[:2])])
    factors = [0.01, 1.0, 30.0]
    found = conditional_kernels(KERNEL, term(family, weight), factors, M, columns, tol=1e-6)
    for factor, own in zip(factors, found, strict=True):
        conditioned = rkhs.solvers._conditioned.ConditionedGram.of(
            rkhs.Problem(KERNEL, [term(family, factor * weight)])
        )
        expected = conditioned.covariance(M)[:, columns]
        np.testing.assert_allclose(own, expected, atol=1e-6 * 4)  # the largest variance is 4


def test_float32():
    expected, found = (
        conditional_kernels(KERNEL, term(rkhs.Gradient(own)), [1.0], rkhs.Evaluation(Z), slice(None), tol=1e-3)[0]
        for own in (X, X.astype(np.float32))
    )
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_rounding_is_not_hidden():
    rough = term(rkhs.Gradient(X.astype(np.float32)), weight=1e6)
    with pytest.raises(RuntimeError, match="Rounding leaves an error"):
        conditional_kernels(KERNEL, rough, [1e6], rkhs.Evaluation(Z), slice(None), tol=1e-9)


def test_the_bound_is_never_below_the_error():
    G = rkhs.gram(KERNEL, rkhs.Gradient(X)).dense()
    B = rkhs.gram(KERNEL, rkhs.Gradient(X), rkhs.Evaluation(X)).dense()
    space, factor = KrylovSpace(lambda V: np.concatenate([B.T @ V, G @ V]), B[:, :4]), 6.0
    exact = B.T @ np.linalg.solve(G + np.eye(len(G)) / factor, B[:, :4])
    errors = []
    for _ in range(6):
        space.grow()
        y = space.solution(factor)
        errors.append(np.abs(space.values @ y - exact).max())
        assert errors[-1] <= np.sqrt(factor) * space.residual(y)
    assert errors[-1] < errors[0] / 100
