"""Kernels of pushed inputs: maps, symmetries, fields; fast products, settings, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import rkhs
from refusals import refused
from rkhs.kernels import generated_group, group_order
from rkhs.testing import check_kernel

rng = np.random.default_rng(0)


def test_autodiff_is_the_jacobian():
    def function(X):
        return torch.stack([X[:, 0] * X[:, 1], torch.sin(X[:, 0])], dim=1)

    def gradient(X):
        zero = np.zeros(len(X))
        return np.stack([X[:, ::-1], np.stack([np.cos(X[:, 0]), zero], axis=1)], axis=1)

    X, Y = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    by_torch = rkhs.Gaussian(0.9) @ rkhs.kernels.Features(function)
    by_hand = rkhs.Gaussian(0.9) @ rkhs.kernels.Features(lambda X: function(torch.tensor(X)).numpy(), gradient)
    for L, M in ((rkhs.Gradient(X), rkhs.Evaluation(Y)), (rkhs.Gradient(X), rkhs.Gradient(Y))):
        np.testing.assert_allclose(rkhs.gram(by_torch, L, M).dense(), rkhs.gram(by_hand, L, M).dense(), atol=1e-13)
    check_kernel(by_torch, 2)
    with pytest.raises(rkhs.exceptions.NotBoundedError, match="orders below 2"):
        rkhs.gram(by_hand, rkhs.functionals.Hessian(X))


def molecules(t):
    rest = np.array([[0.0, 0, 0], [1.5, 0, 0], [2.0, 1.3, 0], [-0.5, 1.0, 0.2]])
    return (rest + 0.1 * rng.standard_normal((t, 4, 3))).reshape(t, 12)


def test_inverse_distances_by_differences():
    X, phi = molecules(3), rkhs.kernels.InverseDistances()
    h = 1e-6
    quotients = [(phi.values(X + h * e) - phi.values(X - h * e)) / (2 * h) for e in np.eye(12)]
    np.testing.assert_allclose(phi.jacobian(X), np.stack(quotients, axis=2), atol=1e-8)


def test_standardized_features_are_those_of_a_linear_map_far_from_the_origin():
    X = rng.standard_normal((6, 2))
    L = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X), rkhs.Derivative(X, axes=[0, 1])])
    far = rkhs.stack([rkhs.Evaluation(X + 1e6), rkhs.Gradient(X + 1e6), rkhs.Derivative(X + 1e6, axes=[0, 1])])
    expected = rkhs.gram(rkhs.kernels.Polynomial(3) @ np.array([2.0, 0.5]), L).dense()
    found = rkhs.gram(rkhs.kernels.Polynomial(3) @ rkhs.kernels.Standardized((1e6, 1e6), (0.5, 2.0)), far).dense()
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


def test_energies_do_not_change_when_a_molecule_moves():
    kernel = rkhs.Matern(2.5, 0.5) @ rkhs.kernels.InverseDistances()
    X = molecules(6)
    f = rkhs.results.Function(kernel, rkhs.Gradient(X), rng.standard_normal(72))
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    new = molecules(2)
    moved = (new.reshape(2, 4, 3) @ turn.T + [3.0, -1.0, 2.0]).reshape(2, 12)
    np.testing.assert_allclose(f(moved), f(new), rtol=1e-9)
    forces = rkhs.Gradient(new)(f).reshape(2, 4, 3)
    np.testing.assert_allclose(rkhs.Gradient(moved)(f).reshape(2, 4, 3), forces @ turn.T, atol=1e-9)
    np.testing.assert_allclose(forces.sum(axis=1), 0.0, atol=1e-9 * np.abs(forces).max())


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["NumPy", "PyTorch"])
def test_products_are_by_jets_and_right(library, dtype):
    X = library(molecules(5).astype(dtype))
    group = [[0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 5, 4]]
    for kernel in (
        rkhs.Matern(2.5, 0.5) @ rkhs.kernels.InverseDistances(),
        rkhs.kernels.Symmetrized(rkhs.Matern(2.5, 0.5), group) @ rkhs.kernels.InverseDistances(),
    ):
        G = rkhs.gram(kernel, rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]))
        assert {type(step).__name__ for step in G._product} == {"JetProduct"}
        v = library(np.random.default_rng(1).standard_normal(G.shape[0]).astype(dtype))
        np.testing.assert_allclose(G @ v, G.dense() @ v, atol=1e-11 if dtype == "float64" else 1e-3)
        np.testing.assert_allclose(np.diag(np.asarray(G.dense())), G.diagonal(), rtol=1e-4)


def test_symmetries_are_exact():
    group = generated_group([[1, 2, 0, 3], [0, 1, 2, 3]])
    assert len(group) == 3
    kernel = rkhs.kernels.Symmetrized(rkhs.Gaussian(1.0), group)
    X, new = rng.standard_normal((5, 4)), rng.standard_normal((3, 4))
    for g in group:
        np.testing.assert_allclose(kernel(new[:, g], X), kernel(new, X), rtol=1e-13)
    as_matrices = rkhs.kernels.Symmetrized(rkhs.Gaussian(1.0), np.eye(4)[group])
    np.testing.assert_allclose(as_matrices(new, X), kernel(new, X), rtol=1e-13)


def cycle_and_swap(n):
    """Generators of all permutations of the first n of n + 1 points."""
    return [[*range(1, n), 0, n], [1, 0, *range(2, n + 1)]]


def test_large_groups_are_counted_before_they_are_generated_group():
    assert [group_order(cycle_and_swap(n)) for n in (2, 3, 9, 20)] == [2, 6, 362_880, math.factorial(20)]
    for _ in range(10):
        generators = [rng.permutation(6) for _ in range(2)]
        assert group_order(generators) == len(generated_group(generators))
    with pytest.raises(ValueError, match="group of 362,880 elements"):
        generated_group(cycle_and_swap(9))


def field(X, n):
    """Slopes of all components at X, (t, n, n): d v_c / d x_j."""
    places = np.hstack([np.repeat(X, n, axis=0), np.tile(np.eye(n), (len(X), 1))])
    axes = [[j] for j in range(n)]
    return rkhs.Derivative(places, axes=axes), (len(X), n, n)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("inner", [rkhs.Gaussian(0.7), rkhs.Matern(3.5, 0.7), rkhs.Gaussian((0.5, 1.0, 2.0))])
def test_divergence_and_curl_are_zero_to_rounding(n, inner):
    if isinstance(inner.scale, tuple):
        inner = rkhs.Gaussian(inner.scale[:n])
    X, new = rng.uniform(-1, 1, (8, n)), rng.uniform(-1, 1, (20, n))
    slopes, shape = field(new, n)
    for make in (rkhs.kernels.DivergenceFree, rkhs.kernels.CurlFree):
        f = rkhs.results.Function(make(inner), rkhs.functionals.Components(X), rng.standard_normal((8, n)))
        J = slopes(f).reshape(shape)
        size = np.abs(J).max()
        if make is rkhs.kernels.DivergenceFree:
            assert np.abs(np.trace(J, axis1=1, axis2=2)).max() <= 1e-13 * size
        else:
            assert np.abs(J - J.transpose(0, 2, 1)).max() <= 1e-13 * size
        assert size > 0.1


def test_a_curl_free_field_is_slopes_of_one_function():
    X, V = rng.uniform(-1, 1, (12, 2)), rng.standard_normal((12, 2))
    term = rkhs.Term(rkhs.functionals.Components(X), rkhs.Squared(), V, 10.0)
    field = rkhs.Problem(rkhs.kernels.CurlFree(rkhs.Gaussian(0.8)), [term]).solve(tol=1e-10).function
    other = rkhs.Problem(rkhs.Gaussian(0.8), [rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), V, 10.0)]).solve(tol=1e-10)
    new = rng.uniform(-1, 1, (5, 2))
    np.testing.assert_allclose(rkhs.functionals.Components(new)(field), rkhs.Gradient(new)(other.function), atol=1e-5)


def test_components_share_what_they_have_in_common():
    B = np.array([[1.0, 0.9], [0.9, 1.0]])
    K = rkhs.kernels.components(rkhs.Gaussian(1.0), 1, B)
    X, Y = rng.standard_normal((3, 1)), rng.standard_normal((2, 1))
    G = rkhs.gram(K, rkhs.functionals.Components(X, 2), rkhs.functionals.Components(Y, 2)).dense()
    np.testing.assert_allclose(G, np.kron(rkhs.Gaussian(1.0)(X, Y), B), atol=1e-14)


def test_settings_are_learned_behind_a_map():
    X = np.linspace(0, 48, 60)[:, None]
    y = np.sin(2 * np.pi * X[:, 0] / 24) + 0.05 * rng.standard_normal(60)
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, rkhs.Tunable())
    f = rkhs.Problem(rkhs.kernels.Periodic(24.0, rkhs.Tunable()), [term]).tune().solve().function
    far = X + 24000
    np.testing.assert_allclose(f(far), np.sin(2 * np.pi * X[:, 0] / 24), atol=0.1)
    np.testing.assert_allclose(f(far), f(X), atol=1e-9)


def slopes_of_features(jacobian):
    """The slopes of a kernel of copies of the points, with a Jacobian that may be wrong."""
    kernel = rkhs.Gaussian() @ rkhs.kernels.Features(np.copy, jacobian)
    kernel(np.ones((1, 1)))  # values do not need it
    return rkhs.gram(kernel, rkhs.Gradient([[1.0]])).dense()


MIXED = rkhs.Gaussian((1.0, 2.0))
test_what_is_refused = refused(
    (lambda: rkhs.kernels.Composition(rkhs.Gaussian(), np.sin), "needs a map", TypeError),
    (lambda: rkhs.kernels.ThinPlate(2) @ rkhs.kernels.InverseDistances(), "positive definite"),
    (lambda: rkhs.kernels.Periodic(-1.0), "period must be positive"),
    (lambda: rkhs.kernels.Periodic((1.0, 2.0))(np.zeros((1, 3))), "2 periods for points of 3"),
    (lambda: rkhs.kernels.InverseDistances().values(np.zeros((1, 6))), "Atoms 0 and 1 of row 0"),
    (lambda: rkhs.kernels.InverseDistances().values(np.zeros((1, 7))), "3 coordinates for each"),
    (lambda: rkhs.kernels.Standardized([0.0], [0.0]), "positive deviation for each feature"),
    (lambda: rkhs.kernels.Standardized([0.0, 1.0], [1.0]), "positive deviation for each feature"),
    (lambda: rkhs.kernels.Standardized([0.0], [1.0]).values(np.zeros((1, 2))), "points of 2 features"),
    *(
        (lambda group=group: rkhs.kernels.Symmetrized(rkhs.Gaussian(1.0), group), "not a group")
        for group in ([[1, 2, 0]], [[0, 1, 2], [1, 2, 0]], [[1, 0, 2]], [[0, 1, 2], [1, 0, 2], [0, 2, 1]])
    ),
    (lambda: rkhs.kernels.Symmetrized(rkhs.Gaussian(), [[0, 0]]), "once"),
    (lambda: rkhs.kernels.Symmetrized(rkhs.Gaussian(), np.ones((2, 2))), "integer permutations"),
    (lambda: rkhs.kernels.Symmetrized(MIXED, [[0, 1], [1, 0]]), "Element 1 .* changes"),
    (lambda: rkhs.kernels.DivergenceFree(rkhs.Gaussian())(np.ones((1, 8))), "R\\^2 and R\\^3"),
    (lambda: rkhs.kernels.CurlFree(rkhs.Gaussian())(np.ones((1, 3))), "rkhs.functionals.Components"),
    (lambda: rkhs.kernels.components(rkhs.Gaussian(), 1, [[1.0, 2.0], [2.0, 1.0]]), "eigenvalue"),
    (lambda: slopes_of_features(lambda X: np.full((1, 1, 1), np.nan)), "Jacobian .* not finite"),
    (lambda: slopes_of_features(lambda X: np.ones((1, 1))), "Jacobian .* have shape"),
    (lambda: rkhs.Matern(3.0), "nu = 0.5, 1.5"),
)


@pytest.mark.parametrize("away", [1e3, 1e9, 1e12, -1e15])
@pytest.mark.parametrize("period", [3.0, 0.1, 1e-7])
def test_periodic_kernels_many_periods_away(period, away):
    """Points near 1e12 lost nine digits of their angles."""
    X = away + np.random.default_rng(0).uniform(-2, 2, size=(8, 1))
    near = np.array([[float(Fraction(x) % Fraction(period))] for x in X[:, 0]])  # the remainder is a float64
    kernel = rkhs.kernels.Periodic(period, 0.3 * period)
    np.testing.assert_allclose(kernel(X), kernel(near), atol=1e-13)
    there, here = (rkhs.gram(kernel, rkhs.Gradient(points)).dense() for points in (X, near))
    np.testing.assert_allclose(there, here, atol=1e-13 * np.max(np.abs(here)))
