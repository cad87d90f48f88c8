"""Representations of neighborhoods of atoms: invariances, Jacobians, projections, cutoff."""

import numpy as np
import pytest

import rkhs
from rkhs.molecules._environments import CUTOFF, AtomicEnvironments, AtomicSum

KINDS = np.array([0, 0, 1, 1, 1])
REST = np.array([[0.0, 0.0, 0.0], [1.4, 0.1, 0.0], [-0.5, 0.9, 0.1], [-0.5, -0.5, 0.9], [2.0, 0.8, -0.5]])
X = np.random.default_rng(0).normal(REST, 0.1, (7, 5, 3)).reshape(7, 15)
ENVIRONMENTS = AtomicEnvironments(KINDS)


@pytest.mark.parametrize("environments", [ENVIRONMENTS, ENVIRONMENTS.projected(X)], ids=["all", "projected"])
def test_jacobians_are_difference_quotients(environments):
    for kind in range(2):
        for center, (x, J) in enumerate(environments.jets(X, kind)):
            assert x.shape == (7, environments.size(kind))
            for axis in range(15):
                step = 1e-5 * np.eye(15)[axis]
                above, below = (environments.jets(X + sign * step, kind, slopes=False) for sign in (1, -1))
                slope = (above[center][0] - below[center][0]) / 2e-5
                np.testing.assert_allclose(J[:, axis], slope, atol=1e-7 * np.abs(J).max())


def test_invariance_under_motions_and_exchanges_of_neighbors():
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    moved = (X.reshape(7, 5, 3) @ rotation + [1.0, -2.0, 3.0]).reshape(7, 15)
    exchanged = X.reshape(7, 5, 3)[:, [0, 1, 4, 2, 3]].reshape(7, 15)
    for other in (moved, exchanged):
        np.testing.assert_allclose(ENVIRONMENTS.jets(other, 0)[1][0], ENVIRONMENTS.jets(X, 0)[1][0], rtol=1e-9)


def test_units_do_not_matter():
    scaled = AtomicEnvironments(KINDS, unit=1e6).jets(1e6 * X, 1)[0]
    for one, other, factor in zip(scaled, ENVIRONMENTS.jets(X, 1)[0], (1.0, 1e-6), strict=True):
        np.testing.assert_allclose(one, factor * other, rtol=1e-9, atol=1e-12 * factor)


def test_atoms_beyond_the_cutoff_do_not_matter():
    far = X.copy()
    far[:, 12:] += 3 * CUTOFF
    x, J = ENVIRONMENTS.jets(far, 0)[0]
    farther = far.copy()
    farther[:, 12:] += CUTOFF
    np.testing.assert_allclose(ENVIRONMENTS.jets(farther, 0)[0][0], x, atol=1e-12)
    assert not np.any(J[:, 12:])


def test_features_are_smooth_where_atoms_are_in_a_line():
    """The energy of a bent molecule is even in the angle, whose sine is not."""
    environments, values = AtomicEnvironments(np.array([0, 1, 1])), []
    for height in (-1e-4, 0.0, 1e-4):
        line = np.array([[0.0, height, 0.0, 1.2, 0.0, 0.0, -1.2, 0.0, 0.0]])
        values.append(environments.jets(line, 0)[0])
    np.testing.assert_allclose(values[0][0], values[2][0], rtol=1e-12)
    np.testing.assert_allclose(values[1][1][:, [1, 4, 7]], 0.0, atol=1e-12)
    assert np.abs(values[2][1][:, 1]).max() < 1e-2 * np.abs(values[2][1]).max()


def test_coinciding_atoms_are_named():
    same = X.copy()
    same[2, 3:6] = same[2, :3]
    with pytest.raises(ValueError, match="Atoms 0 and 1 of row 2 coincide"):
        ENVIRONMENTS.jets(same, 0)
    with pytest.raises(ValueError, match="needs 15 coordinates, got points of 12 features"):
        ENVIRONMENTS.jets(X[:, :12], 0)


KERNEL = AtomicSum(rkhs.Gaussian(40.0), ENVIRONMENTS.projected(X))


def test_the_kernel_is_a_sum_over_atoms_of_one_kind():
    expected = 0.0
    for kind in range(2):
        for x, _ in KERNEL.environments.jets(X, kind):
            for y, _ in KERNEL.environments.jets(X, kind):
                expected = expected + rkhs.Gaussian(40.0)(x, y)
    np.testing.assert_allclose(KERNEL(X), expected, rtol=1e-12)


def test_slopes_of_the_kernel_are_difference_quotients():
    slopes = rkhs.gram(KERNEL, rkhs.Gradient(X[:2]), rkhs.Evaluation(X)).dense().reshape(2, 15, 7)
    both = rkhs.gram(KERNEL, rkhs.Gradient(X[:2])).dense().reshape(2, 15, 2, 15)
    for axis in range(15):
        step = 1e-5 * np.eye(15)[axis]
        quotient = (KERNEL(X[:2] + step, X) - KERNEL(X[:2] - step, X)) / 2e-5
        np.testing.assert_allclose(slopes[:, axis], quotient, atol=1e-7 * np.abs(slopes).max())
        above, below = (
            rkhs.gram(KERNEL, rkhs.Evaluation(X[:2] + sign * step), rkhs.Gradient(X[:2])).dense() for sign in (1, -1)
        )
        quotient = (above - below).reshape(2, 2, 15) / 2e-5
        np.testing.assert_allclose(both[:, axis], quotient, atol=1e-7 * np.abs(both).max())
