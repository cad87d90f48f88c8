"""Saddle point systems against exact arithmetic, and their updates against a dense solution."""

import mpmath
import numpy as np
import pytest
import torch

from rkhs._core.limits import with_limits
from rkhs._core.linalg.saddle import PackedCholesky, PackedOnDevice, UpdatableSaddle
from rkhs.extend import Saddle, to_numpy

RNG = np.random.default_rng(0)


def exact(G, d, Q, b, e):
    """a and Qc from 60-digit arithmetic, for Q of full rank."""
    n, r = Q.shape
    with mpmath.workdps(60):
        M = mpmath.zeros(n + r)
        M[:n, :n] = mpmath.matrix(G.tolist())
        for i in range(n):
            M[i, i] += mpmath.mpf(float(d[i]))
        if r:
            M[:n, n:] = mpmath.matrix(Q.tolist())
            M[n:, :n] = mpmath.matrix(Q.T.tolist())
        x = mpmath.lu_solve(M, mpmath.matrix([*b.tolist(), *e.tolist()]))
        a, c = x[:n], x[n:]
        Qc = [mpmath.fsum(mpmath.mpf(float(Q[i, j])) * c[j] for j in range(r)) for i in range(n)]
        return np.array([float(v) for v in a]), np.array([float(v) for v in Qc])


def definite(n):
    X = RNG.normal(size=(n, 2))
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 2)


def conditional(n):
    """Positive definite on vectors that sum to zero only."""
    X = RNG.normal(size=(n, 2))
    return -np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))


def basis(n, r):
    X = RNG.normal(size=(n, r))
    X[:, 0] = 1.0
    return X


@pytest.mark.parametrize("matrix", [definite, conditional])
@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("spread", [0, 6, 12])
def test_exact_to_rounding_with_weights_of_any_size(matrix, r, spread):
    n = 10
    G, Q = matrix(n), basis(n, r)
    d = 10.0 ** np.linspace(-spread, spread, n)
    b, e = RNG.normal(size=n), RNG.normal(size=r)
    for constraint in (e, np.zeros(r)):
        a, c = Saddle(G, d, Q).solve(b[:, None], constraint[:, None])
        expected, Qc = exact(G, d, Q, b, constraint)
        scale = np.sqrt(np.maximum(np.abs(G).max(1), d))  # the size in which each a_i matters
        assert np.abs(scale * (a[:, 0] - expected)).max() < 1e-9 * np.abs(scale * expected).max()
        assert np.abs((Q @ c)[:, 0] - Qc).max() < 1e-8 * np.abs(Qc).max()


def test_dependent_columns_change_nothing():
    G, d, Q, b = definite(9), np.ones(9), basis(9, 2), RNG.normal(size=(9, 1))
    a, c = Saddle(G, d, Q).solve(b)
    wide = np.concatenate([Q, Q @ [[1.0], [2.0]], np.zeros((9, 1))], axis=1)
    again, more = Saddle(G, d, wide).solve(b)
    np.testing.assert_allclose(again, a, atol=1e-13)
    np.testing.assert_allclose(wide @ more, Q @ c, atol=1e-12)


@pytest.mark.parametrize("size", [1.0, 500.0])
def test_a_diagonal_that_rounding_swallows_counts(size):
    """Contradictory observations of one functional: a = (b1 - b2) / (2d), though size + d is size nearly.

    a has some 1 / d units in which the product with G rounds, so it is right to a share size eps / d of it.
    """
    d = 5e-13
    a, _ = Saddle(np.full((2, 2), size), np.full(2, d), np.zeros((2, 0))).solve(np.array([[1.0], [-1.0]]))
    np.testing.assert_allclose(a[:, 0], [1 / d, -1 / d], rtol=max(2, size / 4) * np.finfo(np.float64).eps / d)


def test_a_singular_matrix_gives_a_finite_solution_of_consistent_equations():
    G = np.ones((5, 5))
    a, _ = Saddle(G, np.full(5, 1e-300), np.zeros((5, 0))).solve(np.full((5, 1), 3.0))
    np.testing.assert_allclose(G @ a, 3.0, rtol=1e-9)


@pytest.fixture
def small_blocks():
    with with_limits(factor_columns=8, factor_rows=12):
        yield


@pytest.mark.parametrize("size", [1, 5, 16, 17, 40])
@pytest.mark.parametrize("r", [0, 2])
@pytest.mark.parametrize("library", [np.asarray, torch.tensor])
def test_halves_of_any_size_are_those_of_numpy(size, r, library, small_blocks):
    """One array holds G and the factor; sizes around that of the blocks."""
    X = RNG.normal(size=(size, size + 3))
    G, d, b = X @ X.T / size, RNG.uniform(0.1, 1, size), RNG.normal(size=(size, 3))
    U = np.linalg.qr(RNG.normal(size=(size, r)))[0][:, :r]
    T = 0.01 * RNG.normal(size=U.shape)
    halves = (PackedCholesky if library is np.asarray else PackedOnDevice)(library(G), size, library(np.zeros(0)))
    assert halves.factorize(*map(library, (d, U, T)))
    K = G + np.diag(d) - U @ T.T - T @ U.T
    L = np.linalg.cholesky(K)
    np.testing.assert_allclose(np.tril(halves.factor), L, atol=1e-10)
    np.testing.assert_array_equal(np.triu(halves.matrix), np.triu(G))
    for columns in (b, b[:, :1]):
        np.testing.assert_allclose(halves.product(library(columns)), G @ columns, atol=1e-10)
        np.testing.assert_allclose(K @ to_numpy(halves.solve(library(columns))), columns, atol=1e-9)
    np.testing.assert_allclose(K @ to_numpy(halves.inverse()), np.eye(size), atol=1e-9)
    assert halves.factorize(*map(library, (2 * d, U, T))), "again, from the half that is left of G"
    np.testing.assert_allclose(np.tril(halves.factor), np.linalg.cholesky(K + np.diag(d)), atol=1e-10)
    assert not halves.factorize(*map(library, (d - 100, U, T)))


@pytest.mark.parametrize("matrix", [definite, conditional], ids=["definite", "conditional"])
def test_quadratic_forms_are_those_of_solutions(matrix):
    n, r, rng = 30, 3, np.random.default_rng(0)
    saddle = Saddle(matrix(n), 10.0 ** rng.uniform(-6, 2, n), basis(n, r))
    b, e = rng.standard_normal((n, 5)), rng.standard_normal((r, 5))
    a, c = saddle.solve(b, e)
    np.testing.assert_allclose(saddle.quadratic_forms(b, e), np.sum(b * a, axis=0) + np.sum(e * c, axis=0), rtol=1e-8)


@pytest.mark.parametrize("matrix", [definite, conditional], ids=["definite", "conditional"])
def test_a_matrix_of_pytorch_has_the_solutions_of_numpy(matrix, small_blocks):
    """Right-hand sides in NumPy or PyTorch; solutions are of the same kind."""
    n, r, rng = 30, 3, np.random.default_rng(0)
    G, d, Q = matrix(n), 10.0 ** rng.uniform(-2, 2, n), basis(n, r)
    b, e = rng.standard_normal((n, 5)), rng.standard_normal((r, 5))
    expected, found = Saddle(G, d, Q), Saddle(torch.tensor(G), d, Q)
    for ours, theirs in zip(found.solve(b, e), expected.solve(b, e), strict=True):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9 * np.abs(theirs).max())
    solved = found.solve(torch.tensor(b), torch.tensor(e))
    np.testing.assert_allclose(found.residual(*solved, torch.tensor(b)), 0 * b, atol=1e-9)
    np.testing.assert_allclose(found.inverse(), expected.inverse(), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.quadratic_forms(b, e), expected.quadratic_forms(b, e), rtol=1e-8)
    np.testing.assert_allclose(found.log_det(), expected.log_det(), rtol=1e-9)


# Updates.


def gram(count, rng):
    X = rng.standard_normal((count, 3))
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / 8)


def dense(G, d, Q, b):
    r = Q.shape[1]
    whole = np.block([[G + np.diag(d), Q], [Q.T, np.zeros((r, r))]])
    solved = np.linalg.solve(whole, np.vstack([b, np.zeros((r, b.shape[1]))]))
    return solved[: len(d)], solved[len(d) :]


@pytest.mark.parametrize("smallest", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("r", [0, 1, 3])
def test_many_updates(smallest, unit, r):
    rng = np.random.default_rng(0)
    G = unit * gram(400, rng)
    d = unit * 10.0 ** rng.uniform(np.log10(smallest), 1, 400)
    present = np.arange(40)
    saddle = UpdatableSaddle.of(G[:40, :40], d[:40])
    for start in range(40, 400, 3):
        removed = rng.choice(len(present), 3, replace=False)
        added = np.arange(start, start + 3)
        present = np.concatenate([np.delete(present, removed), added])
        saddle = saddle.updated(removed, G[np.ix_(added, present)], d[added])
    Q, b = np.linalg.qr(rng.standard_normal((40, r)))[0], rng.standard_normal((40, 2))
    a, c = saddle.solve(b, Q)
    part = G[np.ix_(present, present)]
    for found, expected in zip((a, c), dense(part, d[present], Q, b), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-16 / smallest * 100 * abs(expected).max(initial=0))
    np.testing.assert_allclose(Q.T @ a, 0, atol=1e-14 * abs(a).max())
    scaled = saddle.scale[:, None] * (part + np.diag(d[present])) * saddle.scale
    np.testing.assert_allclose(saddle.L @ saddle.L.T, scaled, atol=1e-14)


def test_refinement_corrects_a_diagonal_that_is_not_factorized():
    rng = np.random.default_rng(2)
    G, d, b, Q = gram(50, rng), 10.0 ** rng.uniform(-6, 1, 50), rng.standard_normal((50, 1)), np.ones((50, 1)) / 50**0.5
    saddle = UpdatableSaddle.of(G, d).with_diagonal(d * rng.uniform(0.91, 1.09, 50))
    np.testing.assert_allclose(saddle.solve(b, Q)[0], dense(G, saddle.d, Q, b)[0], rtol=1e-7)


def test_a_matrix_that_is_not_positive_definite():
    assert UpdatableSaddle.of(np.array([[1.0, 2.0], [2.0, 1.0]]), np.full(2, 1e-3)) is None
    one = UpdatableSaddle.of(np.eye(1), np.full(1, 1e-3))
    assert one.updated(np.arange(0), np.array([[2.0, 1.0]]), np.full(1, 1e-3)) is None
