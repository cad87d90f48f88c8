"""A kernel without its polynomials: the low-rank correction of G beside the formula with a basis Z."""

import numpy as np
import pytest
import scipy.linalg

import rkhs
from rkhs._core.finite.basis import Basis
from rkhs._core.finite.representers import without_null_space

EPS = np.finfo(np.float64).eps
RNG = np.random.default_rng(3)
PLANE, SPACE = RNG.standard_normal((40, 2)), RNG.standard_normal((60, 30))
CASES = {
    "thin plate": (rkhs.kernels.ThinPlate(order=2), rkhs.Evaluation(PLANE)),
    "many features": (rkhs.kernels.Polyharmonic(2), rkhs.Evaluation(SPACE)),
    "values and slopes": (rkhs.kernels.Polyharmonic(3), rkhs.stack([rkhs.Evaluation(PLANE), rkhs.Gradient(PLANE[:5])])),
    "points given twice": (rkhs.kernels.Polyharmonic(2), rkhs.Evaluation(np.concatenate([PLANE, PLANE[:7]]))),
    "fewer points than polynomials": (rkhs.kernels.Polyharmonic(2), rkhs.Evaluation(SPACE[:20])),
    "no polynomials": (rkhs.Gaussian(1.0), rkhs.Evaluation(PLANE[:12])),
}


def reference(G, Q):
    """K = GZ (Z'GZ)^+ Z'G, and the matrix Z (Z'GZ)^+ Z'G of coefficients."""
    Z = scipy.linalg.qr(Q)[0][:, Q.shape[1] :] if Q.shape[1] else np.eye(len(G))
    inverse = np.linalg.pinv(Z.T @ G @ Z, rcond=1e-13, hermitian=True) if Z.shape[1] else np.zeros((0, 0))
    back = Z @ inverse @ Z.T @ G
    return G @ back, back


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_gram_matrix_of_the_smaller_space(name):
    kernel, functionals = CASES[name]
    system = rkhs.Problem(kernel, [rkhs.Term(functionals, rkhs.Squared())]).system
    G, Q = np.asarray(system.gram.dense()), np.asarray(system.Q)
    plain, back = without_null_space(system, Basis.of(functionals, None))
    K, coefficients = reference(G, Q)
    tol = 1e5 * EPS * np.abs(G).max()  # Z'GZ has condition numbers up to 1e4
    assert plain.Q.shape[1] == 0
    np.testing.assert_allclose(plain.gram.dense(), K, rtol=0, atol=tol)
    alpha = RNG.standard_normal((len(G), 3))
    a = back @ alpha
    np.testing.assert_allclose(Q.T @ a, 0, atol=tol)
    np.testing.assert_allclose(G @ a, K @ alpha, rtol=0, atol=len(G) * tol)  # the values of f
    np.testing.assert_allclose(G @ a, G @ (coefficients @ alpha), rtol=0, atol=len(G) * tol)


def test_solutions_have_no_polynomial_part():
    labels = rkhs.Term(rkhs.Evaluation(PLANE), rkhs.SquaredHinge(), target=np.sign(PLANE[:, 0]), weight=3.0)
    f = rkhs.Problem(rkhs.kernels.ThinPlate(order=2), [labels], null_space="dropped").solve(tol=1e-10).function
    moments = np.column_stack([np.ones(40), PLANE]).T @ f.coefficients
    np.testing.assert_allclose(moments, 0, atol=1e-10)
    assert f.basis is None


def dropped(kernel, X, y, weight, basis=None, approximation=None):
    """Return the minimizer without the null space, in coordinates of the points X."""
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), target=y, weight=weight)
    problem = rkhs.Problem(kernel, [labels], basis, null_space="dropped", approximation=approximation)
    solution = problem.solve(tol=1e-10)
    assert solution.status == "converged"
    return solution.function


@pytest.mark.parametrize(
    ("power", "basis", "alike"), [(2, None, False), (2, "c", True), (3, None, True), (3, "c", True)]
)
def test_other_units_change_only_the_weight_if_the_constant_is_kept(power, basis, alike):
    """Walder and Chapelle 2007, 6.2, drop the constant too, and r^2 log r then depends on the units."""
    X, there = RNG.standard_normal((60, 6)), RNG.standard_normal((500, 6))
    y = np.sign(X[:, 0] + 0.2 * X[:, 1] ** 2 - 0.3)
    kernel, kept = rkhs.kernels.Polyharmonic(power), rkhs.Constant() if basis else None
    one, other = (dropped(kernel, s * X, y, s**-power, kept)(s * there) for s in (1.0, 0.1))
    assert np.allclose(one, other, atol=1e-6 * np.abs(one).max()) == alike
    assert (np.mean(np.sign(one) != np.sign(other)) > 0.01) != alike


@pytest.mark.parametrize("basis", [None, rkhs.Constant()])
@pytest.mark.parametrize("power", [2, 3])
def test_with_all_points_as_landmarks_it_is_the_exact_problem(power, basis):
    y = np.sign(SPACE[:, 0])
    kernel, shuffled = rkhs.kernels.Polyharmonic(power), RNG.permutation(60)
    exact = dropped(kernel, SPACE, y, 3.0, basis)
    landmarks = rkhs.Landmarks(rkhs.Evaluation(SPACE[shuffled]))
    near = dropped(kernel, SPACE, y, 3.0, basis, landmarks)  # another order: computed in the span
    there = RNG.standard_normal((50, 30))
    np.testing.assert_allclose(near(there), exact(there), atol=1e-6)
    np.testing.assert_allclose(near.coefficients, exact.coefficients[shuffled], atol=1e-6)
    whole = dropped(kernel, SPACE, y, 3.0, basis, rkhs.Landmarks(60))
    np.testing.assert_allclose(whole(there), exact(there), atol=1e-9)


def test_few_landmarks_have_no_polynomial_part():
    """Beside the quadratic program in the coefficients, in a basis Z of those that vanish on linear functions."""
    X = RNG.standard_normal((80, 3))
    y, centers = np.sin(2 * X[:, 0]) + X[:, 1], X[:20]
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y, weight=5.0)
    kernel = rkhs.kernels.Polyharmonic(3)
    landmarks = rkhs.Landmarks(rkhs.Evaluation(centers))
    f = rkhs.Problem(kernel, [labels], null_space="dropped", approximation=landmarks).solve(tol=1e-10).function
    Z = scipy.linalg.null_space(np.column_stack([np.ones(20), centers]).T)
    E, K = kernel(X, centers) @ Z, Z.T @ kernel(centers) @ Z
    expected = Z @ np.linalg.solve(K + 10.0 * E.T @ E, 10.0 * E.T @ y)
    np.testing.assert_allclose(f.coefficients, expected, atol=1e-8)
    assert f.basis is None


def test_a_dropped_null_space_has_no_posterior_in_a_span_either():
    labels = rkhs.Term(rkhs.Evaluation(PLANE), rkhs.Squared(), target=PLANE[:, 0])
    for approximation in (None, rkhs.Landmarks(10)):
        problem = rkhs.Problem(rkhs.kernels.ThinPlate(2), [labels], null_space="dropped", approximation=approximation)
        assert problem.solve().source is None
