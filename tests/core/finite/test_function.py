"""Functions: values, functionals, norms, arithmetic, compression, several outputs, and bases."""

import numpy as np
import pytest
import torch

import rkhs
from refusals import refused
from rkhs.extend import to_numpy

rng = np.random.default_rng(0)
X, Y, T = rng.standard_normal((5, 2)), rng.standard_normal((4, 2)), rng.standard_normal((6, 2))
kernel = rkhs.Gaussian(scale=0.9)
family = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(Y)])
a = rng.standard_normal(family.size)
waves = rkhs.Functions(
    lambda X: np.stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]], axis=1),
    gradient=lambda X: np.stack(
        [np.stack([np.cos(X[:, 0]), 0 * X[:, 0]], axis=1), np.stack([X[:, 1], X[:, 0]], axis=1)], axis=1
    ),
)


def k(x, y):
    return np.exp(-np.sum((x - y) ** 2, axis=-1) / (2 * 0.9**2))


def f_by_hand(x):
    """sum_i a_i k(x_i, x) + sum_i <b_i, grad k(y_i, x)>."""
    values = sum(a[i] * k(X[i], x) for i in range(5))
    slopes = a[5:].reshape(4, 2)
    return values + sum(slopes[i] @ ((x - Y[i]) / 0.9**2) * k(Y[i], x) for i in range(4))


f = rkhs.results.Function(kernel, family, a)


def test_values():
    np.testing.assert_allclose(f(T), [f_by_hand(x) for x in T], rtol=1e-13)


def test_active_and_compress():
    coefficients = np.array([3.0, 0.0, -1e-3, 0.0, 2.0])
    line = rkhs.results.Function(kernel, rkhs.Evaluation(X), coefficients, rkhs.Polynomials(1), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(line.compress()(T), line(T), rtol=1e-13)
    g = rkhs.results.Function(kernel, rkhs.Evaluation(X), coefficients)
    assert g.active == 3
    same = g.compress()
    assert same.functionals.size == same.active == 3
    np.testing.assert_allclose(same(T), g(T), rtol=1e-13)
    less = g.compress(tol=1e-2)
    assert less.active == 2
    np.testing.assert_allclose(less(T), 3 * k(X[0], T) + 2 * k(X[4], T), rtol=1e-12)
    assert g.functionals.size == 5  # g itself has not changed


def test_compress_goes_by_the_largest_output():
    coefficients = np.array([[3.0, 0.0], [0.0, 1e-9], [0.0, 0.0], [1e-9, 5.0], [0.0, 0.0]])
    g = rkhs.results.Function(kernel, rkhs.Evaluation(X), coefficients)
    assert g.active == 3
    assert g.compress(tol=1e-6).active == 2
    np.testing.assert_allclose(g.compress()(T), g(T), rtol=1e-12)


def test_nothing_but_the_basis_is_left_of_zero():
    g = rkhs.results.Function(kernel, family, np.zeros(family.size), rkhs.Polynomials(1), [1.0, 2.0, 3.0])
    small = g.compress()
    assert small.active == small.functionals.size == 0
    np.testing.assert_allclose(small(T), 1 + T @ [2.0, 3.0], rtol=1e-13)
    np.testing.assert_allclose(rkhs.Gradient(T)(small), np.tile([2.0, 3.0], (6, 1)), rtol=1e-13)
    assert small.norm() == 0.0


def test_several_outputs():
    coefficients = rng.standard_normal((family.size, 3))
    g = rkhs.results.Function(kernel, family, coefficients, rkhs.Constant(), np.array([[1.0, 2.0, 3.0]]))
    assert g.outputs == 3
    assert f.outputs is None
    assert g(T).shape == (6, 3)
    assert rkhs.Gradient(T)(g).shape == (6, 2, 3)
    G = rkhs.gram(kernel, family).dense()
    np.testing.assert_allclose(g.norm(), np.sqrt(np.diag(coefficients.T @ G @ coefficients)), rtol=1e-12)
    for c in range(3):
        one = g.output(c)
        assert one.outputs is None
        np.testing.assert_allclose(one(T), g(T)[:, c], rtol=1e-12)
        np.testing.assert_allclose(rkhs.Gradient(T)(one), rkhs.Gradient(T)(g)[..., c], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.norm(), g.norm()[c], rtol=1e-12)
    np.testing.assert_allclose((g - 2 * g)(T), -g(T), rtol=1e-12)


# Bases.


def test_polynomials_and_their_derivatives():
    g = rkhs.results.Function(kernel, family, a, rkhs.Polynomials(2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    x, y = T.T
    np.testing.assert_allclose(g(T) - f(T), 1 + 2 * x + 3 * y + 4 * x**2 + 5 * x * y + 6 * y**2, rtol=1e-11)
    slopes = rkhs.Gradient(T)(g) - rkhs.Gradient(T)(f)
    np.testing.assert_allclose(slopes, np.stack([2 + 8 * x + 5 * y, 3 + 5 * x + 12 * y], axis=1), rtol=1e-11)
    np.testing.assert_allclose(rkhs.functionals.Laplacian(T)(g) - rkhs.functionals.Laplacian(T)(f), 20.0, rtol=1e-11)
    assert g.norm() == f.norm()  # the basis is not in the norm


def test_functions_of_ones_own():
    g = rkhs.results.Function(kernel, family, 0 * a, waves, [2.0, -1.0])
    x, y = T.T
    np.testing.assert_allclose(g(T), 2 * np.sin(x) - x * y, rtol=1e-13)
    np.testing.assert_allclose(rkhs.Gradient(T)(g), np.stack([2 * np.cos(x) - y, -x], axis=1), rtol=1e-13)
    U = rng.standard_normal((6, 2))
    along = rkhs.functionals.DirectionalDerivative(T, U)(g)
    np.testing.assert_allclose(along, np.sum(U * rkhs.Gradient(T)(g), axis=1), rtol=1e-12)
    np.testing.assert_allclose(rkhs.Difference(T, -T)(g), g(T) - g(-T), rtol=1e-12)
    assert waves.size(2) == 2


def test_local_averages_of_ones_own():
    """By cubature: exact for polynomials of low degree, and close for sines."""
    g = rkhs.results.Function(kernel, family, 0 * a, waves, [2.0, -1.0])
    x, y = T.T
    average = rkhs.functionals.LocalAverage(T, 0.1)(g)
    np.testing.assert_allclose(average, 2 * np.exp(-0.005) * np.sin(x) - x * y, atol=1e-6)


def test_bases_of_sums():
    one = rkhs.Polynomials(1)
    g = rkhs.results.Function(kernel, rkhs.Evaluation(X), np.ones(5), one, [1.0, 2.0, 3.0])
    h = rkhs.results.Function(kernel, rkhs.Evaluation(Y), np.ones(4), one, [1.0, 0.0, -3.0])
    np.testing.assert_allclose((g - h)(T), g(T) - h(T), rtol=1e-12)
    np.testing.assert_allclose((f + g)(T), f(T) + g(T), rtol=1e-12)
    np.testing.assert_allclose((g + f)(T), f(T) + g(T), rtol=1e-12)
    other = rkhs.results.Function(kernel, rkhs.Evaluation(Y), np.ones(4), waves, [1.0, 0.0])
    np.testing.assert_allclose((g + other)(T), g(T) + other(T), rtol=1e-12)
    np.testing.assert_allclose((g - (f + other))(T), g(T) - f(T) - other(T), rtol=1e-12, atol=1e-13)
    same = rkhs.results.Function(kernel, rkhs.Evaluation(Y), np.ones(4), rkhs.Polynomials(1), [1.0, 0.0, -3.0])
    assert (g + same).basis is one


def test_solutions_of_two_problems_can_be_added():
    """Each has its polynomials around its own points."""
    found = [
        rkhs.Problem(kernel, [rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), 1.0)], rkhs.Polynomials(1)).solve()
        for points in (X, Y + 5.0)
    ]
    one, other = (solution.function for solution in found)
    np.testing.assert_allclose((one + other)(T), one(T) + other(T), rtol=1e-12)


# What is refused, and other arrays.


def test_coefficients_have_the_shape_of_the_family():
    grid = rng.standard_normal((4, 2))
    g = rkhs.results.Function(kernel, rkhs.Gradient(Y), grid)
    h = rkhs.results.Function(kernel, rkhs.Gradient(Y), grid.ravel())
    np.testing.assert_array_equal(g(T), h(T))


def test_tensors():
    points, basis = torch.asarray(X), rkhs.Polynomials(1)
    g = rkhs.results.Function(
        kernel, rkhs.Evaluation(points), torch.asarray(a[:5]), basis, torch.asarray([1.0, 2.0, 3.0])
    )
    same = rkhs.results.Function(kernel, rkhs.Evaluation(X), a[:5], basis, [1.0, 2.0, 3.0])
    assert isinstance(g(torch.asarray(T)), torch.Tensor)
    np.testing.assert_allclose(to_numpy(g(torch.asarray(T))), same(T), rtol=1e-13)
    assert g.norm() == pytest.approx(same.norm(), rel=1e-13)
    np.testing.assert_allclose(to_numpy((g - 2 * g).compress()(torch.asarray(T))), -same(T), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, torch.asarray], ids=["NumPy", "PyTorch"])
@pytest.mark.parametrize(
    ("own", "theirs"), [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float32)]
)
def test_points_of_another_precision(kind, own, theirs):
    """With a basis too; values have the wider type of both."""
    points, there = (np.linspace(0, 1, 5)[:, None] + shift for shift in (0.0, 0.1))
    f = rkhs.results.Function(
        rkhs.Gaussian(1.0), rkhs.Evaluation(kind(points.astype(own))), np.ones(5), rkhs.Constant(), [2.0]
    )
    exact = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(points), np.ones(5), rkhs.Constant(), [2.0])(
        there
    )
    found = f(kind(there.astype(theirs)))
    assert ("float32" if own == theirs else "float64") in str(found.dtype)
    np.testing.assert_allclose(np.asarray(found), exact, rtol=1e-6)


plain, other = (
    rkhs.Functions(np.sin),
    rkhs.results.Function(rkhs.Gaussian(scale=2.0), rkhs.Evaluation(T), np.arange(6.0)),
)
MIXED = r"different spaces, of Gaussian\(scale=0.9\) and of Gaussian\(scale=2.0\)"
test_what_is_refused = refused(
    (lambda: f + other, MIXED),
    (lambda: f - other, MIXED),
    (lambda: rkhs.inner(f, other), MIXED),
    (lambda: rkhs.Gradient(T)(plain), r"order 1 of the basis functions, whose gradient was not given: pass"),
    (lambda: rkhs.functionals.Laplacian(T)(waves), r"order 2 .* second derivatives are not known.*rkhs\.Polynomials"),
    (lambda: rkhs.Evaluation(T)(rkhs.Functions(lambda X: X[:, 0])), r"returned shape \(6,\), expected \(6, r\)"),
    (lambda: rkhs.Gradient(T)(rkhs.Functions(np.sin, np.cos)), r"returned shape \(6, 2\), expected \(6, r, 2\)"),
    *(
        (
            lambda shape=shape: rkhs.results.Function(kernel, rkhs.Gradient(Y), np.zeros(shape)),
            r"needs \(4, 2\) or \(8, outputs\)",
        )
        for shape in [(3,), (9,), (2, 4), (8, 2, 2), ()]
    ),
    (lambda: rkhs.results.Function(kernel, family, a, rkhs.Constant()), "must be given together"),
    (lambda: rkhs.results.Function(kernel, family, a, basis_coefficients=[1.0]), "must be given together"),
    (
        lambda: rkhs.results.Function(kernel, family, np.ones((13, 2)), rkhs.Constant(), np.ones((1, 3))),
        "disagree on the number of outputs",
    ),
)
