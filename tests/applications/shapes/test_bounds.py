"""Derivatives along axes against functionals, norms against Gram entries, bounds against values at many points."""

from dataclasses import replace

import numpy as np
import pytest

import rkhs
from rkhs._core.calculus.function_spaces import multi_indices
from rkhs.shapes._bounds import Derivatives, along, lower_bounds
from rkhs.shapes._claims import Claim
from rkhs.shapes._proofs import prove

KERNELS = {
    "gaussian": rkhs.Gaussian((0.7, 1.1)),
    "matern": rkhs.Matern(4.5, 0.8),
    "rational": rkhs.kernels.RationalQuadratic(1.0, 0.8),
    "sum": 2.0 * rkhs.Gaussian(1.0) + rkhs.kernels.additive(rkhs.Gaussian(0.5), 2),
}
rng = np.random.default_rng(1)
Z = rng.uniform(-1, 1, (20, 2))
DATA = rkhs.stack([rkhs.Evaluation(Z), rkhs.functionals.DirectionalDerivative(Z, rng.standard_normal((20, 2)))])


def function(kernel, functionals=DATA, degree=None, seed=1):
    own = np.random.default_rng(seed)
    basis = None if degree is None else rkhs.Polynomials(degree)
    coefficients = None if basis is None else own.standard_normal(basis.size(2))
    return rkhs.results.Function(kernel, functionals, own.standard_normal(functionals.size), basis, coefficients)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("degree", [None, 2])
def test_derivatives_are_those_of_functionals(name, degree):
    """Up to order six, and of Matern to order three, at points of the data too, where its derivatives need care."""
    f = function(KERNELS[name], degree=degree)
    at = np.concatenate([rng.uniform(-1, 1, (6, 2)), Z[:2]])
    wanted = multi_indices(3 if name == "matern" else 6, [0, 1], 2)
    found = Derivatives(f)(at, wanted)
    for column, index in zip(found.T, wanted, strict=True):
        axes = [k for k, times in enumerate(index) for _ in range(times)]
        expected = rkhs.Derivative(at, axes=axes)(f) if axes else f(at)
        np.testing.assert_allclose(column, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_averages_and_matrices_too():
    """Representers of local averages (blurred atoms), and of sums over points."""
    families = [rkhs.functionals.LocalAverage(Z, width=0.3), np.ones((2, 20)) @ rkhs.Evaluation(Z)]
    f = function(rkhs.Gaussian(0.8), rkhs.stack(families))
    at = rng.uniform(-1, 1, (5, 2))
    found = Derivatives(f)(at, [(0, 0), (1, 1)])
    np.testing.assert_allclose(found[:, 0], f(at), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], rkhs.Derivative(at, axes=[0, 1])(f), rtol=1e-12)


def test_rows_that_differ_in_ignored_features_have_one_representer():
    """With the derivatives and the norm of all representers; derivatives along the ignored features are zero."""
    codes = np.column_stack([np.arange(40) % 3, np.arange(40) % 4, rng.uniform(-1, 1, 40)]).astype(float)
    slopes = rkhs.functionals.DirectionalDerivative(codes, rng.standard_normal((40, 3)))
    families = [rkhs.Evaluation(codes), slopes, rkhs.Derivative(codes, axes=[2])]
    kernel = rkhs.kernels.additive(rkhs.Gaussian(0.8), 3) + rkhs.Gaussian(1.2) @ np.eye(3)[:2]
    f = rkhs.results.Function(kernel, rkhs.stack(families), rng.standard_normal(120))
    (lower,) = lower_bounds([Claim("f increases", axes=(0,))], f)
    part, at = lower.part, rng.uniform(-1, 3, (6, 3))
    full = replace(f, kernel=part.f.kernel)
    assert part.f.functionals.size == 3 * 12 < 120
    np.testing.assert_allclose(part.derivatives(at, [(1, 0, 0)])[:, 0], rkhs.Derivative(at, axes=[0])(f), rtol=1e-12)
    np.testing.assert_allclose(part.f(at), full(at), rtol=1e-12)
    np.testing.assert_allclose(part.norm**2, full.inner(full), rtol=1e-10)
    assert part.norm**2 >= full.inner(full)
    sizes = np.sqrt(rkhs.gram(full.kernel, f.functionals).diagonal())
    assert part.rounding >= 120 * np.finfo(float).eps * np.abs(f.coefficients) @ sizes  # of the sum before it is merged


@pytest.mark.parametrize("name", KERNELS)
def test_norms_are_gram_entries(name):
    (lower,) = lower_bounds([Claim("anything")], function(KERNELS[name]))
    for axes in ([0], [1], [0, 1], [0, 0], [0, 0, 1]):
        expected = rkhs.gram(KERNELS[name], rkhs.Derivative(Z[:1], axes=axes)).diagonal()[0]
        assert lower.part.squared_norms(np.array([along(axes, 2)])) == pytest.approx(expected, rel=1e-12)


CLAIMS = [Claim("something", axes, -1.0, 0.3) for axes in ((), (0,), (1, 1))]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("claim", [*CLAIMS, Claim("convex", jointly=(0, 1))])
def test_lower_bounds_are_below_all_values(name, claim):
    f = function(KERNELS[name], degree=2)
    own = np.random.default_rng(2)
    (lower,) = lower_bounds([claim], f)
    centers, halves = own.uniform(-1, 1, (30, 2)), 10 ** own.uniform(-4, 0, (30, 2))
    seen = lower(centers, halves)
    np.testing.assert_allclose(seen.values, lower.at(centers)[0], rtol=1e-9, atol=1e-9)
    for c, h, bound in zip(centers, halves, seen.lower, strict=True):
        assert lower.at(own.uniform(c - h, c + h, (200, 2)))[0].min() >= bound


@pytest.mark.parametrize("name", KERNELS)
def test_bounds_are_sharp_in_small_cells(name):
    """Of the second order at least: a tenth of the sides, a hundredth of what is lost."""
    (lower,) = lower_bounds([Claim("rising", (0,))], function(KERNELS[name]))
    centers = np.random.default_rng(3).uniform(-1, 1, (20, 2))

    def lost(h):
        halves = np.full((20, 2), h)
        corners = np.stack([centers + h * np.array([a, b]) for a in (-1, 0, 1) for b in (-1, 0, 1)])
        least_seen = np.min([lower.at(corner)[0] for corner in corners], axis=0)
        return np.mean(least_seen - lower(centers, halves).lower)

    assert 0 <= lost(1e-3) < 2e-2 * lost(1e-2)


def test_the_direction_of_a_hessian_is_that_of_its_least_eigenvalue():
    f, claim = function(rkhs.Gaussian(1.0)), Claim("convex", jointly=(0, 1))
    values, directions = lower_bounds([claim], f)[0].at(Z)
    np.testing.assert_allclose(claim.at(Z, directions)(f), values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2])
def test_a_basis_of_features_that_the_kernel_does_not_see(degree):
    """f = x_1, or x_0 x_1, beside a kernel of x_0 alone: values and slopes change with x_1 too."""
    kernel = rkhs.Gaussian(1.0) @ np.array([[1.0, 0.0]])
    coefficients = [0.0, 0.0, 1.0] if degree == 1 else [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    f = rkhs.results.Function(kernel, rkhs.Evaluation(Z[:1]), [1e-3], rkhs.Polynomials(degree), coefficients)
    box = np.array([[-1.0, -1.0], [1.0, 1.0]])
    claim = Claim("at least", (), 1.0, -0.5) if degree == 1 else Claim("slope at least", (0,), 1.0, -0.5)
    (proof,) = prove([claim], f, box)
    assert proof.status == "fails"
    looser = replace(claim, bound=-1.1)
    assert prove([looser], f, box)[0].status == "proved"


def test_a_basis_of_degree_two_needs_a_polynomial_of_that_degree():
    """A kernel whose norm bounds two derivatives cannot say that x^2 is bounded by its first."""
    f = rkhs.results.Function(
        rkhs.Matern(2.5), rkhs.Evaluation(Z[:1, :1]), [1.0], rkhs.Polynomials(2), [0.0, 0.0, -1.0]
    )
    with pytest.raises(ValueError, match="order 3"):
        prove([Claim("f is at least 0")], f, np.array([[0.0], [1.0]]))


def test_rounding_counts():
    """Large coefficients that cancel: what is proved is less than what was computed, by what rounding may hide."""
    points = np.array([[0.0], [1e-9]])
    f = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(points), [1e9, -1e9])
    (lower,) = lower_bounds([Claim("at least")], f)
    seen = lower(np.array([[0.3]]), np.array([[1e-6]]))
    assert seen.values[0] - seen.lower[0] > 1e-8


def test_functions_in_float32_are_bounded_in_float64():
    """f is about a slope of norm 10, whose squared norm is nothing but rounding in float32."""
    points = np.array([[0.0], [1e-4]], dtype=np.float32)
    f = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(points), np.array([1e5, -1e5], dtype=np.float32))
    assert f.coefficients.dtype == np.float32
    (lower,) = lower_bounds([Claim("at least")], f)
    assert lower.part.norm == pytest.approx(10, rel=1e-3)
    assert (
        lower(np.zeros((1, 1)), np.full((1, 1), 0.5)).lower[0]
        <= lower.at(np.linspace(-0.5, 0.5, 201)[:, None])[0].min()
    )
