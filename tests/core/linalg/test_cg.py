"""Conjugate gradients on blocks against dense linear algebra."""

import numpy as np
import pytest

from rkhs._core.linalg.cg import IterativeSaddle, Preconditioner

RNG = np.random.default_rng(0)
N, R = 30, 2


def equations(spread=1.0):
    X = RNG.normal(size=(N, 3))
    G = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 8)
    d = 10.0 ** RNG.uniform(-spread, spread, size=(N, 1))
    Q = np.linalg.qr(RNG.normal(size=(N, R)))[0]
    return G, d, Q, RNG.normal(size=(N, 3))


def dense(K, Q, b, e=None):
    """a and c of K a + Qc = b, Q'a = e."""
    whole = np.block([[K, Q], [Q.T, np.zeros((Q.shape[1], Q.shape[1]))]])
    x = np.linalg.solve(whole, np.concatenate([b, np.zeros((Q.shape[1], b.shape[1])) if e is None else e]))
    return x[: len(K)], x[len(K) :]


def test_preconditioner_with_rows_of_infinite_weight():
    """m -> infinity and a right-hand side m v: a = v there, but for what Q'a = 0 asks of the others."""
    _, m, Q, v = equations()
    F = RNG.normal(size=(N, 4))
    inverse, large = 1 / m, m.copy()
    inverse[: N - 6], large[: N - 6] = 0.0, 1e12
    expected, _ = dense(np.diag(large[:, 0]) + F @ F.T, Q, large * v)
    np.testing.assert_allclose(Preconditioner.of(inverse, F, Q).solve(v), expected, atol=1e-4)


@pytest.mark.parametrize("together", [1, 2, 32])
def test_iterative_saddle(together):
    G, d, Q, b = equations()
    e = RNG.normal(size=(R, 3))
    K = G + np.diag(d[:, 0])
    saddle = IterativeSaddle(lambda v: K @ v, Preconditioner.of(1 / d, d[:, :0], Q), d, 1e-20, together)
    a, c, residual = saddle.solve(b, e)
    expected, multiplier = dense(K, Q, b, e)
    np.testing.assert_allclose(a, expected, atol=1e-8)
    np.testing.assert_allclose(c, multiplier, atol=1e-8)
    np.testing.assert_allclose(residual, b - K @ a - Q @ c, atol=1e-11)


def test_iterative_saddle_keeps_its_promise():
    """1/2 |a - a*|^2 in the norm of K is at most tol times the energy."""
    G, d, Q, b = equations(2.0)
    b[:, 1] = Q @ [1.0, 2.0]  # solved by a = 0
    K = G + np.diag(d[:, 0])
    expected, _ = dense(K, Q, b)
    energy = np.diag(expected.T @ K @ expected) / 2
    for tol in (1e-2, 1e-6):
        products = []

        def product(v, products=products):
            products.append(v.shape[1])
            return K @ v

        a, _, _ = IterativeSaddle(product, Preconditioner.of(1 / d, d[:, :0], Q), d, tol).solve(b, np.zeros((R, 3)))
        error = np.diag((a - expected).T @ K @ (a - expected)) / 2
        assert np.all(error <= tol * energy + 1e-28)
        assert max(products) <= 2  # a column that is done takes no part
