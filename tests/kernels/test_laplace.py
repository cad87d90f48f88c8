"""The Laplace kernel of the L1 distance."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics.pairwise import laplacian_kernel

import rkhs
from rkhs._gram.sensitivity import sensitivity
from rkhs.testing import check_kernel

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((7, 3)), RNG.standard_normal((5, 3))


def test_against_scikit_learn():
    np.testing.assert_allclose(rkhs.Laplace(2.0)(X, Y), laplacian_kernel(X, Y, gamma=0.5), rtol=1e-14)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_one_scale_for_each_feature(unit):
    scale = np.array([0.5, 2.0, 7.0])
    expected = np.exp(-cdist(X / scale, Y / scale, "cityblock"))
    np.testing.assert_allclose(rkhs.Laplace(unit * scale)(unit * X, unit * Y), expected, rtol=1e-13)


def test_the_laws_of_kernels():
    check_kernel(rkhs.Laplace((0.5, 2.0)))


def test_the_median_is_that_of_its_own_distance():
    assert rkhs.Laplace("median").resolved(X).scale == np.median(pdist(X, "cityblock"))


def test_slopes_are_refused():
    with pytest.raises(rkhs.exceptions.NotBoundedError, match=r"Laplace.*Gaussian\(\)"):
        rkhs.gram(rkhs.Laplace(), rkhs.Gradient(X))


@pytest.mark.parametrize("kernel", [rkhs.Laplace(0.8), rkhs.Laplace((0.5, 1.0, 2.0))], ids=["one", "each"])
@pytest.mark.parametrize("family", ["values", "mixed"])
def test_sums_of_derivatives_are_those_of_the_tables(kernel, family):
    W = RNG.standard_normal((4, 7))
    L, M = rkhs.Evaluation(X), rkhs.Evaluation(Y)
    if family == "mixed":
        L = rkhs.stack([W @ L, 2.0 * rkhs.Difference(X, X[::-1].copy())])
    B = RNG.standard_normal((L.size, M.size))
    every = [("scale", None)] if np.ndim(kernel.scale) == 0 else [("scale", j) for j in range(3)]
    for setting, value in sensitivity(kernel, L, M, B, every).items():
        expected = np.vdot(B, rkhs.gram(kernel.tangent(*setting), L, M).dense())
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-13)


def test_in_a_span_and_with_tensors():
    torch = pytest.importorskip("torch")
    y = np.sign(X[:, 0])
    whole = rkhs.InvariantClassifier("laplace", invariance=None, loss="squared", tol=1e-8).fit(X, y > 0)
    near = rkhs.InvariantClassifier("laplace", invariance=None, loss="squared", approximation=rkhs.Landmarks(7)).fit(
        X, y > 0
    )
    np.testing.assert_allclose(near.decision_function(Y), whole.decision_function(Y), atol=1e-4)
    kernel = rkhs.Laplace((0.5, 1.0, 2.0))
    found = kernel(torch.as_tensor(X), torch.as_tensor(Y)).numpy()
    np.testing.assert_allclose(found, kernel(X, Y), rtol=1e-13)


def test_scales_are_learned():
    """One of three features matters: its scale is the least."""
    Z = np.random.default_rng(1).uniform(-1, 1, (60, 3))
    term = rkhs.Term(rkhs.Evaluation(Z), rkhs.Squared(), np.abs(Z[:, 1]), weight=rkhs.Tunable())
    problem = rkhs.Problem(rkhs.Laplace(rkhs.Tunable(each=True)), [term], rkhs.Constant()).tune(starts=1)
    assert np.argmin(problem.kernel.scale) == 1
    assert problem.kernel.scale[1] < 0.2 * min(problem.kernel.scale[0], problem.kernel.scale[2])
