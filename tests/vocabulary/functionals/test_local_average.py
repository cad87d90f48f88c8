"""Law: a local average is the integral that defines it, E f(x + z) for z ~ N(0, diag(width^2)).

Three quadratures that share nothing with the library's formulas: adaptive on the line in 30 digits
(`oracle.gaussian_mean`), over the distribution of a distance (`oracle.distance_mean`), and a fine product grid
of Gauss-Hermite nodes, as an `rkhs.functionals.Average` over them (`by_quadrature`).
"""

import numpy as np
import pytest
import torch
from mpmath import mp

import oracle
import rkhs

X = np.array([[0.3, -0.4], [1.1, 0.8]])
Y = np.array([[-0.2, 0.5], [0.9, 0.1], [0.3, -0.4]])
MATRICES = {"square": np.array([[1.0, 0.6], [-0.4, 1.3]]), "tall": np.array([[1.0, 0.2], [0.5, -1.0], [0.7, 0.7]])}
OTHERS = {
    "Evaluation": rkhs.Evaluation,
    "Gradient": rkhs.Gradient,
    "Hessian": rkhs.functionals.Hessian,
    "LocalAverage": lambda Z: rkhs.functionals.LocalAverage(Z, width=(0.5, 0.3)[: Z.shape[1]]),
}


def by_quadrature(Z, width, nodes):
    """The local averages at Z as averages over a product grid of Gauss-Hermite nodes."""
    n = Z.shape[1]
    grid, weights = oracle.hermite_grid(n, nodes)
    return rkhs.functionals.Average(Z[:, None, :] + grid * np.broadcast_to(width, (n,)), weights)


def close(found, exact, tolerance):
    found, exact = np.asarray(found, dtype=float), np.asarray(exact, dtype=float)
    error = np.abs(found - exact).max()
    assert error <= tolerance * np.abs(exact).max(), f"relative error {error / np.abs(exact).max():.1e}"


# Gaussian kernels: exact.


def test_the_example_of_the_paper():
    """Zhang et al. 2013, 4.3, s = 0.7, th = 0.4: widths s and th average to sqrt(s^2 + th^2), not s + th."""
    s, th, x_i, x = 0.7, 0.4, 0.3, 1.1
    kernel = rkhs.Gaussian(s)
    found = rkhs.gram(kernel, rkhs.functionals.LocalDeviation([[x_i]], th), rkhs.Evaluation([[x]])).dense().item()
    k = oracle.gaussian(s)
    with mp.workdps(30):
        exact = oracle.gaussian_mean(lambda z: k([z], [mp.mpf(x)]), x_i, th) - k([mp.mpf(x_i)], [mp.mpf(x)])
    assert abs(found - exact) < 1e-15
    assert round(found, 6) == 0.010232  # and not the -0.031966 of the printed formula


def test_two_deviations_of_the_paper():
    """The corrected <z_i, z_j>: the variances of both sides add up."""
    s, th, d = 0.7, 0.4, 0.8

    def kappa(t):
        return s / (s * s + t) ** 0.5 * np.exp(-d * d / (2 * (s * s + t)))

    L, M = rkhs.functionals.LocalDeviation([[0.3]], th), rkhs.functionals.LocalDeviation([[1.1]], th)
    found = rkhs.gram(rkhs.Gaussian(s), L, M).dense().item()
    assert found == pytest.approx(kappa(2 * th**2) - 2 * kappa(th**2) + kappa(0.0), rel=1e-13)


@pytest.mark.every("matrix", "other")
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("matrix", [None, *MATRICES])
@pytest.mark.parametrize("scale", [0.9, (0.8, 1.5)])
def test_gaussian_with_any_matrix(scale, matrix, other):
    kernel = rkhs.Gaussian(scale)
    if matrix is not None:
        kernel = (kernel if matrix == "square" else rkhs.Gaussian((0.8, 1.5, 1.1))) @ MATRICES[matrix]
    M = OTHERS[other](Y)
    found = rkhs.gram(kernel, rkhs.functionals.LocalAverage(X, (0.4, 0.5)), M)
    exact = rkhs.gram(kernel, by_quadrature(X, (0.4, 0.5), 50), M).dense()
    close(found.dense(), exact, 1e-12)
    close(found @ np.eye(M.size), exact, 1e-12)


def test_gaussian_of_few_of_many_features():
    """A wide matrix: averages over features that the kernel does not see change nothing."""
    kernel = rkhs.Gaussian(0.8) @ np.eye(5)[:2]
    Z = np.hstack([X, np.ones((2, 3))])
    found = rkhs.gram(kernel, rkhs.functionals.LocalAverage(Z, (0.4, 0.5, 9.0, 9.0, 9.0)), rkhs.Gradient(Z)).dense()
    few = rkhs.gram(rkhs.Gaussian(0.8), rkhs.functionals.LocalAverage(X, (0.4, 0.5)), rkhs.Gradient(X)).dense()
    close(found.reshape(2, 2, 5)[:, :, :2], few.reshape(2, 2, 2), 1e-13)
    assert not found.reshape(2, 2, 5)[:, :, 2:].any()


# Polynomials: exact.


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
def test_polynomial(degree, offset, d, other):
    """Gauss-Hermite nodes are exact, too, for these degrees."""
    kernel, Z, width = rkhs.kernels.Polynomial(degree, offset), X[:, :d], (0.7, 1.2)[:d]
    M, quadrature = OTHERS[other](Y[:, :d]), OTHERS[other](Y[:, :d])
    if other == "LocalAverage":
        quadrature = by_quadrature(Y[:, :d], (0.5, 0.3)[:d], 6)
    exact = rkhs.gram(kernel, by_quadrature(Z, width, 6), quadrature).dense()
    found = rkhs.gram(kernel, rkhs.functionals.LocalAverage(Z, width), M).dense()
    if not exact.any() or (other == "Hessian" and degree == 1):
        assert np.abs(found).max() <= 1e-14
    else:
        close(found, exact, 1e-12)


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=list(MATRICES))
def test_polynomial_of_any_matrix(matrix):
    kernel = rkhs.kernels.Polynomial(4) @ matrix
    for M, quadrature in (
        (rkhs.functionals.Hessian(Y),) * 2,
        (rkhs.functionals.LocalAverage(Y, 0.6), by_quadrature(Y, 0.6, 5)),
    ):
        exact = rkhs.gram(kernel, by_quadrature(X, (0.7, 1.2), 5), quadrature).dense()
        close(rkhs.gram(kernel, rkhs.functionals.LocalAverage(X, (0.7, 1.2)), M).dense(), exact, 1e-12)


def test_average_of_a_space_of_polynomials():
    space = rkhs.Polynomials(5)
    close(rkhs.functionals.LocalAverage(X, (0.7, 1.2))(space), by_quadrature(X, (0.7, 1.2), 4)(space), 1e-13)


# Matern and the rational quadratic: mixtures of Gaussians, to 1e-12.

MIXTURES = {
    "Matern 1/2": (rkhs.Matern(0.5, 1.3), oracle.matern(0.5, 1.3)),
    "Matern 3/2": (rkhs.Matern(1.5, 1.3), oracle.matern(1.5, 1.3)),
    "Matern 7/2": (rkhs.Matern(3.5, 0.6), oracle.matern(3.5, 0.6)),
    "RationalQuadratic 0.3": (rkhs.kernels.RationalQuadratic(0.3, 0.8), oracle.rational_quadratic(0.3, 0.8)),
    "RationalQuadratic 20": (rkhs.kernels.RationalQuadratic(20.0, 0.8), oracle.rational_quadratic(20.0, 0.8)),
}


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("name", MIXTURES)
def test_mixture(name, n):
    """One- and two-sided, near (within the width, where Matern has its kink) and far."""
    kernel, k = MIXTURES[name]
    zero = [mp.mpf(0)] * n
    for distance, width, other in ((0.1, 0.4, None), (2.0, 0.4, 0.7)):
        x, y = np.zeros((1, n)), np.full((1, n), distance / n**0.5)
        M = rkhs.Evaluation(y) if other is None else rkhs.functionals.LocalAverage(y, other)
        found = rkhs.gram(kernel, rkhs.functionals.LocalAverage(x, width), M).dense()
        with mp.workdps(17):
            phi = lambda r: k([r, *zero[1:]], zero)  # noqa: E731
            variance = width**2 + (0.0 if other is None else other**2)
            exact = oracle.distance_mean(phi, np.linalg.norm(y - x), variance, n)
        assert abs(found.item() - exact) <= 1e-12  # of k(x, x) = 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Matern 7/2", "RationalQuadratic 0.3"])
def test_mixture_with_derivatives(name):
    """The gradient of E phi(|x + z - y|) in y is its derivative in the distance, along the difference."""
    kernel, k = MIXTURES[name]
    d = np.array([0.6, -0.8])
    with mp.workdps(20):

        def mean(r):
            return oracle.distance_mean(lambda s: k([s, mp.mpf(0)], [mp.mpf(0)] * 2), r, 0.16, 2)

        h = mp.mpf(10) ** -4  # central differences of order four, good to h^4
        before, after = mean(1 - h) - mean(1 + h), mean(1 - 2 * h) - mean(1 + 2 * h)
        slope = -(8 * before - after) / (12 * h)
        curve = (16 * (mean(1 - h) + mean(1 + h)) - mean(1 - 2 * h) - mean(1 + 2 * h) - 30 * mean(1)) / (12 * h**2)
    L = rkhs.functionals.LocalAverage(np.zeros((1, 2)), 0.4)
    close(rkhs.gram(kernel, L, rkhs.Gradient(d[None])).dense(), [float(slope) * d], 1e-11)
    laplacian = rkhs.gram(kernel, L, rkhs.functionals.Laplacian(d[None])).dense()
    close(laplacian, [[curve + slope]], 1e-11)  # in the plane, at distance 1


@pytest.mark.parametrize("scale", [0.9, (0.8, 1.5)])
@pytest.mark.parametrize("matrix", [None, *MATRICES])
def test_mixture_with_any_matrix(matrix, scale):
    kernel = rkhs.kernels.RationalQuadratic(2.5, scale if matrix != "tall" else 0.9)
    kernel = kernel if matrix is None else kernel @ MATRICES[matrix]
    M = rkhs.stack([rkhs.Evaluation(Y), rkhs.functionals.Hessian(Y)])
    exact = rkhs.gram(kernel, by_quadrature(X, (0.3, 0.2), 60), M).dense()
    close(rkhs.gram(kernel, rkhs.functionals.LocalAverage(X, (0.3, 0.2)), M).dense(), exact, 1e-11)


# Other libraries; limits of small widths are laws of `check_kernel`.

ALL = {
    **{name: kernel for name, (kernel, _) in MIXTURES.items()},
    "Gaussian": rkhs.Gaussian((0.8, 1.5)),
    "Polynomial": rkhs.kernels.Polynomial(3),
    "Polyharmonic": rkhs.kernels.Polyharmonic(3),
    "Sum": rkhs.Gaussian(0.8) + 2.0 * rkhs.kernels.Linear(),
    "Product": rkhs.Gaussian(0.8) * rkhs.kernels.Polynomial(2),
    "LinearTransform": rkhs.Matern(2.5) @ MATRICES["tall"],
    "Autodiff": rkhs.kernels.AutodiffKernel(lambda x, y: (x @ y).exp()),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ALL)
def test_in_torch_and_single_precision(name, dtype):
    exact = rkhs.gram(ALL[name], rkhs.functionals.LocalDeviation(X, (0.4, 0.6)), rkhs.Evaluation(Y)).dense()
    Z, W = (torch.tensor(A.astype(dtype)) for A in (X, Y))
    found = rkhs.gram(ALL[name], rkhs.functionals.LocalDeviation(Z, (0.4, 0.6)), rkhs.Evaluation(W)).dense()
    assert str(found.dtype) == f"torch.{dtype}"
    close(found, exact, 1e-11 if dtype == "float64" else 1e-4)
