"""Problems that break solvers: degenerate in their points, labels, weights, functionals or basis."""

import numpy as np

import rkhs

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def crossed(size=60, seed=0):
    """Points and their labels, the signs of the product of both features, with some noise."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((size, 2))
    return points, np.where(points[:, 0] * points[:, 1] + 0.3 * rng.standard_normal(size) > 0, 1.0, -1.0)


def terms(loss):
    """name -> terms."""
    E, T = rkhs.Evaluation, rkhs.Term
    quiet = loss if not loss.classification else rkhs.Squared()
    repeated, contrary = np.concatenate([X, X[:6], X[:3]]), np.concatenate([Y, -Y[:6], Y[:3]])
    one_point, votes = np.repeat(X[:1], 10, axis=0), np.array([1.0] * 6 + [-1.0] * 4)
    with_zeros = rkhs.stack([rkhs.Difference(X[:3], X[:3]), E(X[3:])])
    return {
        "duplicates with contradictory labels": [T(E(repeated), loss, contrary, 3.0)],
        "one point": [T(E(one_point), loss, votes, 2.0)],
        "one label": [T(E(X[:1]), loss, [1.0], 2.0), T(rkhs.Gradient(X), quiet, weight=0.3)],
        "no label": [T(E(X[:0]), loss, np.zeros(0), 2.0), T(rkhs.Gradient(X), rkhs.Squared(), weight=0.3)],
        "nothing at all": [T(E(X[:0]), loss, np.zeros(0))],
        "one class": [T(E(X), loss, np.ones(12))],
        "weights from 1e-12 to 1e12": [T(E(X), loss, Y, 10.0 ** np.linspace(-12, 12, 12))],
        "weights of 1e12": [T(E(X), loss, Y, 1e12)],
        "weights of 1e-12": [T(E(X), loss, Y, 1e-12)],
        "zero functionals": [T(with_zeros, loss, Y)],
        "only zero functionals": [T(rkhs.Difference(X[:3], X[:3]), loss, Y[:3])],
        "fewer points than basis functions": [T(E(X[:3]), loss, Y[:3])],
    }


NAMES = tuple(terms(rkhs.Squared()))
SPACES = (
    (rkhs.Gaussian(1.0), None),
    (rkhs.Gaussian(1.0), rkhs.Constant()),
    (rkhs.Gaussian(1.0), rkhs.Polynomials(2)),
    (rkhs.kernels.Polyharmonic(3), None),
    (rkhs.kernels.Polyharmonic(3), rkhs.Polynomials(2)),
)


def problems(loss, name):
    """The named problem in each of the spaces."""
    return [rkhs.Problem(kernel, terms(loss)[name], basis) for kernel, basis in SPACES]
