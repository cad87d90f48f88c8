"""Directions that all problems of a grid share stay orthonormal, with their images, when some of them are dropped."""

import numpy as np

import rkhs
from rkhs.solvers._recycling import SearchSubspace

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((25, 2)), RNG.standard_normal((6, 2))
LABELS = np.where(X[:9, 0] + 0.4 * RNG.standard_normal(9) > 0, 1.0, -1.0)


def system(loss, basis):
    terms = [
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), RNG.standard_normal((25, 2)), weight=10 ** RNG.uniform(-1, 0, 50)),
        rkhs.Term(rkhs.Evaluation(X[:9]), loss, LABELS, 5.0),
        rkhs.Term(rkhs.Evaluation(Y), rkhs.Squared(), weight=0.3),
    ]
    return rkhs.Problem(rkhs.Gaussian(1.2), terms, basis).system


def test_a_restart_keeps_the_representers():
    """Directions are still orthonormal, with their images, and the point to be kept is in their span."""
    whole = system(rkhs.Hinge(), rkhs.Constant())
    directions = SearchSubspace(whole, 24)
    directions.add_representers(whole.other_rows, 9)
    V = RNG.standard_normal((whole.size, 13))
    directions.add(V, whole.gram @ V)
    theta = RNG.standard_normal((22, 1))
    a, image = directions.at(theta)
    R = directions.restart(theta)
    assert R.shape == (22, directions.count) == (22, 9 + 7)
    for found, expected in zip(directions.at(R.T @ theta), (a, image), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    D, U = directions.D[: directions.count], directions.U[: directions.count]
    np.testing.assert_allclose(D @ U.T, np.eye(directions.count), atol=1e-9)
    np.testing.assert_allclose(U, D @ whole.gram.dense(), atol=1e-9)
    E = directions.images(whole.terms[0].rows)
    size = E.shape[1]
    np.testing.assert_allclose(directions.moments[0][:size, :size], E.T @ (whole.terms[0].weight * E), atol=1e-9)
