"""A kernel without its polynomials: the low-rank correction of G beside the formula with a basis Z."""

import numpy as np
import pytest
import scipy.linalg

import rkhs
from rkhs._finite.representers import without_null_space

EPS = np.finfo(np.float64).eps
RNG = np.random.default_rng(3)
PLANE, SPACE = RNG.standard_normal((40, 2)), RNG.standard_normal((60, 30))
CASES = {
    "thin plate": (rkhs.ThinPlate(order=2), rkhs.Evaluation(PLANE)),
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
    plain, back = without_null_space(system)
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
    f = rkhs.Problem(rkhs.ThinPlate(order=2), [labels], null_space="dropped").solve(tol=1e-10).function
    moments = np.column_stack([np.ones(40), PLANE]).T @ f.coefficients
    np.testing.assert_allclose(moments, 0, atol=1e-10)
    assert f.basis is None
