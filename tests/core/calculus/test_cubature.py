"""Law: averages without a closed form are cubatures of a stated degree, with the error that follows from it.

The table in `rkhs._core.calculus.atoms` states to which degree p its rule for N(0, I_n) is exact; the error
of a local average of width w is then of the order w^(p + 1).
"""

from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
from mpmath import mp

import oracle
import rkhs
from rkhs._core.calculus.atoms import add_covariances, gaussian_rule


def degree(n):
    """As stated."""
    return {1: 29, 2: 17, 3: 13}.get(n, 5 if n <= 16 else 3)


def moment(powers):
    """E z^powers = prod (p - 1)!!, or 0 if any power is odd."""
    return 0.0 if any(p % 2 for p in powers) else float(prod(prod(range(1, p, 2)) for p in powers))


def average(Z, width):
    """The local averages at Z by the rule itself."""
    z, weights = gaussian_rule(Z.shape[1])
    return rkhs.functionals.Average(Z[:, None, :] + width * z, weights)


@pytest.mark.parametrize("n", range(1, 21))
def test_degree_of_exactness(n):
    z, weights = gaussian_rule(n)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    # The rule is symmetric in the features: monomials of the first few, those of a random order, are all.
    first = np.random.default_rng(n).permutation(n)[: degree(n) if n > 3 else n]
    for total in range(degree(n) + 1):
        for features in combinations_with_replacement(range(len(first)), total):
            powers = [features.count(i) for i in range(len(first))]
            values = np.prod(z[:, first] ** powers, axis=1)
            scale = np.abs(weights) @ np.abs(values)
            assert weights @ values == pytest.approx(moment(powers), abs=1e-13 * scale)


@pytest.mark.parametrize("n", range(1, 21))
def test_the_degree_is_not_higher(n):
    z, weights = gaussian_rule(n)
    top = degree(n) + 1
    assert abs(weights @ z[:, 0] ** top / moment([top]) - 1) > 1e-6


@pytest.mark.parametrize("n", [2, 3, 4, 9, 16, 17, 30])
def test_rate_of_convergence(n):
    """Half the width, 2^-(p + 1) of the error; the Gaussian kernel knows the exact average."""
    kernel, (X, Y) = rkhs.Gaussian(1.0), np.random.default_rng(n).normal(size=(2, 1, n)) / n**0.5

    def error(width):
        found, exact = (
            rkhs.gram(kernel, L, rkhs.Evaluation(Y))
            for L in (average(X, width), rkhs.functionals.LocalAverage(X, width))
        )
        return abs((found.dense() - exact.dense()).item())

    wide = 0.4 if n < 4 else 0.05
    rate = np.log2(error(wide) / error(wide / 2))
    assert abs(rate - (degree(n) + 1)) < (1.0 if n < 4 else 0.1)


@pytest.mark.parametrize("width", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_product_kernel(n, width):
    """A product takes the cubature: against a fine grid, its error is at most 5 (width / scale)^(p + 1)."""
    kernel = rkhs.Gaussian(1.0) * rkhs.kernels.Polynomial(2)
    X = np.random.default_rng(n).normal(size=(2, n)) / n**0.5
    grid, weights = oracle.hermite_grid(n, {1: 40, 2: 30, 3: 14, 4: 8}[n])
    fine = rkhs.functionals.Average(X[:, None, :] + width * grid, weights)
    L = rkhs.functionals.LocalAverage(X, width)
    pairs = [(rkhs.Evaluation(X),) * 2, (rkhs.Gradient(X),) * 2, (L, fine)]
    for M, exact in pairs if n < 3 else pairs[:2]:
        error = rkhs.gram(kernel, L, M).dense() - rkhs.gram(kernel, fine, exact).dense()
        assert np.abs(error).max() <= 5 * width ** (degree(n) + 1) + 1e-13


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_polyharmonic(power, n):
    """Ten widths from r = 0, where the kernel is smooth, nearly to rounding; at its kink to 10 %."""
    kernel, k = rkhs.kernels.Polyharmonic(power), oracle.polyharmonic(power)
    for distance, bound in ((2.0, 1e-11), (1e-3, 0.1)):
        x, y = np.zeros((1, n)), np.full((1, n), distance / n**0.5)
        found = rkhs.gram(kernel, rkhs.functionals.LocalAverage(x, 0.2), rkhs.Evaluation(y)).dense().item()
        with mp.workdps(17):
            zero = [mp.mpf(0)] * n
            exact = oracle.distance_mean(lambda r: k([r, *zero[1:]], zero), np.linalg.norm(y), 0.04, n)  # noqa: B023
        assert abs(found / float(exact) - 1) <= bound


def test_covariances_add_up():
    """Given as a diagonal, in full, or as None for zero."""
    forms = [(None, np.zeros((2, 2))), (np.array([1.0, 2.0]), np.diag([1.0, 2.0])), (np.ones((2, 2)), np.ones((2, 2)))]
    for (A, full), (B, other) in combinations_with_replacement(forms[1:] + forms[:1], 2):
        found = add_covariances(A, B)
        expected = full + other
        np.testing.assert_array_equal(0 if found is None else np.diag(found) if found.ndim == 1 else found, expected)
