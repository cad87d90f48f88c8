"""The warped kernel for many weights at once: against the covariance of each."""

import numpy as np
import pytest
import torch

import rkhs
from rkhs.solvers import warped_path as module
from rkhs.solvers.warped_path import Krylov, warped_path

X = np.random.default_rng(0).standard_normal((40, 2))
Z = np.random.default_rng(1).standard_normal((25, 2))
KERNEL = rkhs.Gaussian(1.0)
FAMILIES = {
    "gradients": rkhs.Gradient(X),
    "edges": rkhs.GraphDifference(X, [[i, i + 1] for i in range(39)]),
    "averages": rkhs.LocalDeviation(X[:20], width=0.5),
    "directions": 3.0 * rkhs.Gradient(X[:10]) - rkhs.Gradient(X[10:20]),
}


def problem(family, weight=1.0, basis=None):
    return rkhs.Problem(KERNEL, [rkhs.Term(family, rkhs.Squared(), weight=weight)], basis)


@pytest.mark.parametrize("columns", [[3], [0, 5, 7, 20], slice(None)])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_covariance_given_each_weight(name, columns):
    family = FAMILIES[name]
    weight = np.linspace(0.5, 2.0, family.size)
    M = rkhs.stack([rkhs.Evaluation(Z), 2.0 * rkhs.Gradient(Z[:2])])
    factors = [0.01, 1.0, 30.0]
    found = warped_path(problem(family, weight).represented, factors, M, columns, tol=1e-6)
    for factor, own in zip(factors, found, strict=True):
        expected = rkhs.solvers.warped.WarpedGram.of(problem(family, factor * weight).represented).covariance(M)[
            :, columns
        ]
        np.testing.assert_allclose(own, expected, atol=1e-6 * 4)  # the largest variance is 4


def test_a_basis_that_is_not_seen_changes_nothing():
    with_constant = problem(FAMILIES["gradients"], basis=rkhs.Constant()).represented
    found, plain = (
        warped_path(own, [1.0], rkhs.Evaluation(Z))[0]
        for own in (with_constant, problem(FAMILIES["gradients"]).represented)
    )
    np.testing.assert_array_equal(found, plain)
    for seen in (
        problem(rkhs.Evaluation(X), basis=rkhs.Constant()),
        problem(rkhs.Gradient(X), basis=rkhs.Polynomials(1)),
    ):
        with pytest.raises(ValueError, match="WarpedGram"):
            warped_path(seen.represented, [1.0], rkhs.Evaluation(Z))


@pytest.mark.parametrize("convert", [lambda a: a.astype(np.float32), torch.from_numpy])
def test_float32_and_torch(convert):
    (expected,) = warped_path(problem(rkhs.Gradient(X)).represented, [1.0], rkhs.Evaluation(Z), tol=1e-3)
    (found,) = warped_path(problem(rkhs.Gradient(convert(X))).represented, [1.0], rkhs.Evaluation(Z), tol=1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_products_without_the_matrix(monkeypatch):
    own, M = problem(FAMILIES["edges"]).represented, rkhs.Evaluation(X)
    (stored,) = warped_path(own, [1.0], M, tol=1e-8)
    monkeypatch.setattr(module, "fits", lambda *_: False)
    np.testing.assert_allclose(warped_path(own, [1.0], M, tol=1e-8)[0], stored, atol=1e-8)


def test_rounding_is_not_hidden():
    rough = problem(rkhs.Gradient(X.astype(np.float32)), weight=1e6).represented
    with pytest.raises(RuntimeError, match="Rounding leaves an error"):
        warped_path(rough, [1e6], rkhs.Evaluation(Z), tol=1e-9)


def test_the_bound_is_never_below_the_error():
    G = rkhs.gram(KERNEL, rkhs.Gradient(X)).dense()
    B = rkhs.gram(KERNEL, rkhs.Gradient(X), rkhs.Evaluation(X)).dense()
    space, factor = Krylov(lambda V: np.concatenate([B.T @ V, G @ V]), B[:, :4]), 6.0
    exact = B.T @ np.linalg.solve(G + np.eye(len(G)) / factor, B[:, :4])
    errors = []
    for _ in range(6):
        space.grow()
        y = space.solution(factor)
        errors.append(np.abs(space.values @ y - exact).max())
        assert errors[-1] <= np.sqrt(factor) * space.residual(y)
    assert errors[-1] < errors[0] / 100
