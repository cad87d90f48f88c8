"""The moments of gradients, from a formula, are those of the dense matrix."""

import numpy as np
import pytest
from test_products import KERNELS, TWICE

import rkhs
from rkhs._gram.sensitivity import gradient_moments

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))


@pytest.mark.parametrize("name", TWICE)
def test_moments_of_gradients_are_those_of_the_dense_matrix(name):
    """M'WM with a weight for each point, where there is a formula; near points have none."""
    G = rkhs.gram(KERNELS[name], 3.0 * rkhs.Gradient(X), 0.5 * rkhs.Evaluation(X[:7]), memory=2e4)
    weight = np.repeat(RNG.uniform(1, 2, 30), 4)
    found, M = gradient_moments(G, weight), G.dense()
    if found is None:
        assert not name.startswith(("Gaussian", "Polynomial", "Linear"))
        return
    right = M.T @ (weight[:, None] * M)
    np.testing.assert_allclose(found, right, atol=1e-12 * np.abs(right).max())


def test_other_families_have_no_such_formula():
    weight = np.ones(30 * 4)
    for L, M in (
        (rkhs.Hessian(X[:2]), rkhs.Evaluation(X[:7])),
        (rkhs.Gradient(X), rkhs.Gradient(X[:3])),
        (rkhs.DirectionalDerivative(X, X), rkhs.Evaluation(X[:7])),
        (rkhs.stack([rkhs.Gradient(X), rkhs.Evaluation(X)]), rkhs.Evaluation(X[:7])),
    ):
        assert gradient_moments(rkhs.gram(rkhs.Gaussian(2.0), L, M), np.ones(L.size)) is None
    uneven = rkhs.gram(rkhs.Gaussian(2.0), rkhs.Gradient(X), rkhs.Evaluation(X[:7]))
    assert gradient_moments(uneven, weight) is not None
    assert gradient_moments(uneven, np.arange(120.0)) is None
