"""All-quadratic problems in closed form: against NumPy and scikit-learn; `test_limits` has splines of SciPy."""

import tracemalloc

import numpy as np
import pytest
import scipy.interpolate
import scipy.spatial
import sklearn.kernel_ridge

import rkhs

RNG = np.random.default_rng(1)
X, Z = RNG.standard_normal((30, 2)), RNG.standard_normal((7, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(30)
WAVES = rkhs.Functions(np.cos, gradient=lambda X: -np.sin(X)[:, :, None] * np.eye(2))
BASES = (None, rkhs.Constant(), rkhs.Polynomials(1), WAVES)


def values(weight=1.0, target=Y):
    return rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, weight)


def slopes(weight=0.3, target=0.0):
    return rkhs.Term(rkhs.Gradient(X[:10]), rkhs.Squared(), target, weight)


def solve(kernel, terms, basis=None, tol=1e-12):
    solution = rkhs.Problem(kernel, terms, basis).solve(rkhs.solvers.Direct(), tol=tol)
    assert solution.status == "converged" or solution.relative_gap <= max(tol, 1e-9)  # and rounding is stated
    assert solution.iterations <= 1
    assert solution.products == 0
    return solution


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize(
    "kernel", [rkhs.Gaussian(0.8), rkhs.Matern(2.5), rkhs.kernels.Polyharmonic(3), rkhs.kernels.ThinPlate(3)]
)
def test_closed_form(kernel, basis):
    terms = [values(RNG.uniform(0.1, 10, 30)), slopes()]
    f = solve(kernel, terms, basis).function
    L = rkhs.stack([term.functional for term in terms])
    space = rkhs.Problem(kernel, terms, basis).represented.basis.space
    P = np.zeros((50, 0)) if space is None else L.assemble(space.on)
    K = rkhs.gram(kernel, L).dense() + np.diag(np.concatenate([1 / (2 * term.weights()[:, 0]) for term in terms]))
    r = P.shape[1]
    equations = np.block([[K, P], [P.T, np.zeros((r, r))]])
    x = np.linalg.solve(equations, np.concatenate([Y, np.zeros(20 + r)]))
    np.testing.assert_allclose(f.coefficients, x[:50], atol=1e-9 * np.abs(x[:50]).max())
    if r:
        np.testing.assert_allclose(f.basis_coefficients, x[50:], atol=1e-9 * np.abs(x[50:]).max())


@pytest.mark.parametrize("weight", [1e-12, 0.5, 1e3, 1e12])
def test_kernel_ridge_regression(weight):
    f = solve(rkhs.Matern(0.5), [values(weight)]).function
    distances = scipy.spatial.distance.cdist
    ridge = sklearn.kernel_ridge.KernelRidge(alpha=1 / (2 * weight), kernel="precomputed")
    ridge.fit(np.exp(-distances(X, X)), Y)
    np.testing.assert_allclose(f(Z), ridge.predict(np.exp(-distances(Z, X))), rtol=1e-7)


def test_interpolation():
    """Weights of 1e12 interpolate, on a Gram matrix that is singular to rounding."""
    grid = np.linspace(-1, 1, 25)[:, None]
    term = rkhs.Term(rkhs.Evaluation(grid), rkhs.Squared(), np.cos(grid[:, 0]), 1e12)
    solution = rkhs.Problem(rkhs.Gaussian(1.0), [term]).solve(rkhs.solvers.Direct())
    np.testing.assert_allclose(solution.function(grid), np.cos(grid[:, 0]), atol=1e-6)
    assert solution.relative_gap < 1e-5


def test_contradictory_interpolation_averages():
    """The coefficients of a contradictory pair are -a and a with a = 2e12, and f is no better than a rounds."""
    twice = np.concatenate([X[:5], X[:5]])
    term = rkhs.Term(rkhs.Evaluation(twice), rkhs.Squared(), np.concatenate([Y[:5], Y[:5] + 2]), 1e12)
    for kernel in (rkhs.Gaussian(1.0), rkhs.kernels.Polyharmonic(3)):
        f = solve(kernel, [term], tol=1e-2).function  # what rounding leaves is 3e-3, as stated
        np.testing.assert_allclose(f(X[:5]), Y[:5] + 1, atol=32 * np.finfo(np.float64).eps * 2e12)


@pytest.mark.slow
def test_it_takes_the_memory_of_one_matrix():
    """And tiles: with symmetries and sums too, whose matrix is a sum of many."""
    points = RNG.uniform(-1, 1, (2500, 2))
    even = rkhs.kernels.Symmetrized(rkhs.Gaussian(0.3) + rkhs.Matern(1.5), [[0, 1], [1, 0]])
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), np.sin(points.sum(axis=1)), weight=10.0)
    tracemalloc.start()
    solution = rkhs.Problem(even, [term], rkhs.Constant()).solve(rkhs.solvers.Direct())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert solution.status == "converged"
    assert peak < 8 * 2500**2 + 96 * 2**20
