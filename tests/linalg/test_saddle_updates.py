"""Updates of a factorized saddle point system against a dense solution."""

import numpy as np
import pytest

from rkhs._linalg.updates import UpdatableSaddle


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


def test_rows_can_be_removed_alone_or_added_alone():
    rng = np.random.default_rng(1)
    G, d, b = gram(30, rng), np.ones(30), rng.standard_normal((30, 1))
    Q = np.zeros((30, 0))
    fewer = UpdatableSaddle.of(G, d).updated(np.arange(20, 30), np.zeros((0, 20)), np.zeros(0))
    np.testing.assert_allclose(fewer.solve(b[:20], Q[:20])[0], dense(G[:20, :20], d[:20], Q[:20], b[:20])[0], rtol=1e-9)
    more = fewer.updated(np.arange(0), G[20:], d[20:])
    np.testing.assert_allclose(more.solve(b, Q)[0], dense(G, d, Q, b)[0], rtol=1e-9, atol=1e-12)


def test_refinement_corrects_a_diagonal_that_is_not_factorized():
    rng = np.random.default_rng(2)
    G, d, b, Q = gram(50, rng), 10.0 ** rng.uniform(-6, 1, 50), rng.standard_normal((50, 1)), np.ones((50, 1)) / 50**0.5
    saddle = UpdatableSaddle.of(G, d).with_diagonal(d * rng.uniform(0.91, 1.09, 50))
    np.testing.assert_allclose(saddle.solve(b, Q)[0], dense(G, saddle.d, Q, b)[0], rtol=1e-7)


def test_a_matrix_that_is_not_positive_definite():
    assert UpdatableSaddle.of(np.array([[1.0, 2.0], [2.0, 1.0]]), np.full(2, 1e-3)) is None
    one = UpdatableSaddle.of(np.eye(1), np.full(1, 1e-3))
    assert one.updated(np.arange(0), np.array([[2.0, 1.0]]), np.full(1, 1e-3)) is None
