"""Law: a'Phi a > 0 for all a != 0 with P'a = 0, P the functionals on the null space of the kernel.

That is what conditionally positive definite means, in every dimension the kernel claims to exist in,
and it holds for all bounded functionals that are linearly independent, not only for values.
"""

from math import comb

import numpy as np
import pytest
import scipy.linalg

import rkhs

DIMENSIONS = (1, 2, 3, 10, 60)
POWERS = (1, 2, 2.5, 3, 5)
SPARE = 12  # functionals beyond the dimension of the null space


def cloud(t, d, seed=0):
    return np.random.default_rng(seed).normal(size=(t, d))


def restricted(kernel, L):
    """Phi on the null space of P', and how many independent conditions that is."""
    Q, R, _ = scipy.linalg.qr(L(kernel.null_space), pivoting=True)
    values = np.abs(np.diag(R))
    rank = int(np.sum(values > 1e-10 * values[0]))
    Z = Q[:, rank:]
    return Z.T @ rkhs.gram(kernel, L).dense() @ Z, rank


def check(kernel, L, rank):
    """Positive definite on the null space of P', which is as large as it should be, and only there."""
    Phi, found = restricted(kernel, L)
    assert found == rank
    assert len(Phi) == L.size - rank > 0
    eigenvalues = np.linalg.eigvalsh(Phi)
    assert eigenvalues[0] > 1e-12 * eigenvalues[-1]


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("power", POWERS)
def test_polyharmonic(power, d):
    kernel = rkhs.kernels.Polyharmonic(power)
    rank = comb(d + kernel.order - 1, d)
    X = cloud(rank + SPARE, d)
    if rank > 1000:  # points on the axes span R^d and see no products of features
        rank, X = 1 + (kernel.order - 1) * d, np.concatenate([s * np.eye(d) for s in (-0.7, 0.5, 1.1)])
    check(kernel, rkhs.Evaluation(X), rank)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("power", [2.5, 3, 5])
def test_polyharmonic_with_gradients(power, d):
    """Values and gradients at 8 points: 8 (d + 1) functionals, all independent."""
    kernel, t = rkhs.kernels.Polyharmonic(power), 8
    rank = d + 1
    if kernel.order == 3:  # the images of t - 1 differences under a symmetric matrix, if there are so many
        s = min(t - 1, d)
        rank += s * d - comb(s, 2)
    X = cloud(t, d)
    check(kernel, rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]), rank)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_polyharmonic_with_second_derivatives(d):
    """Independent ones: a Hessian has each mixed derivative twice."""
    axes = [[a, b] for a in range(d) for b in range(a, d)]
    kernel, X = rkhs.kernels.Polyharmonic(5), cloud(8, d)
    L = rkhs.stack([rkhs.Evaluation(X), rkhs.Derivative(X, axes), rkhs.Gradient(X)])
    check(kernel, L, comb(d + 2, d))


@pytest.mark.parametrize("extra", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_thin_plate(d, extra):
    """All orders m > d/2; from the second on (r^3 or r^4 log r) with gradients."""
    kernel = rkhs.kernels.ThinPlate(d // 2 + 1 + extra)
    rank = comb(d + kernel.order - 1, d)
    X = cloud(rank + SPARE, d) / 2
    check(kernel, rkhs.Evaluation(X), rank)
    if kernel.smoothness(d) > 1:
        check(kernel, rkhs.stack([rkhs.Evaluation(X[:SPARE]), rkhs.Gradient(X[:SPARE])]), rank)


def test_thin_plate_in_ten_dimensions():
    """Order 6 has a null space of dimension 3003, of which points in a plane see 21.

    In R^60 the lowest order is 31 and the null space has dimension 7e23: it cannot be written down, and
    with it the kernel.  The thin plate of some of 60 features is below.
    """
    kernel = rkhs.kernels.ThinPlate(6)
    X = cloud(21 + SPARE, 2) @ cloud(2, 10, seed=1) / 4
    check(kernel, rkhs.Evaluation(X), 21)


@pytest.mark.parametrize("order", [2, 3])
def test_thin_plate_of_two_features_of_sixty(order):
    """The null space is that of the two features: polynomials of them alone."""
    choose = np.zeros((2, 60))
    choose[0, 7] = choose[1, 42] = 1.0
    kernel = rkhs.kernels.ThinPlate(order) @ choose
    X = cloud(30, 60)
    check(kernel, rkhs.Evaluation(X), comb(order + 1, 2))
    if order == 3:
        check(kernel, rkhs.stack([rkhs.Evaluation(X), rkhs.Derivative(X, axes=[[7], [42]])]), comb(order + 1, 2))


@pytest.mark.parametrize("d", [1, 2, 10])
def test_sum(d):
    """Conditional of the higher order; a positive definite part does no harm."""
    kernel = rkhs.kernels.Polyharmonic(1) + 0.5 * rkhs.kernels.Polyharmonic(3) + 0.1 * rkhs.Gaussian(2.0)
    assert kernel.order == 2
    check(kernel, rkhs.Evaluation(cloud(d + 1 + SPARE, d)), d + 1)


def test_sum_of_pullbacks():
    """An additive model of two groups of features: the null space is the sum of theirs, the constant twice in it."""
    groups = np.eye(5)[:2], np.eye(5)[2:]
    kernel = rkhs.kernels.ThinPlate(2) @ groups[0] + rkhs.kernels.Polyharmonic(3) @ groups[1]
    check(kernel, rkhs.Evaluation(cloud(6 + SPARE, 5)), 6)


@pytest.mark.parametrize(("power", "d"), [(b, d) for b in POWERS for d in (2, 10)])
def test_the_order_is_needed(power, d):
    """With the conditions of one order less, a'Phi a < 0 for some a: the order is needed, and the test can fail."""
    kernel = rkhs.kernels.Polyharmonic(power)
    L = rkhs.Evaluation(cloud(comb(d + kernel.order - 1, d) + SPARE, d))
    Phi, P = rkhs.gram(kernel, L).dense(), L(rkhs.Polynomials(kernel.order - 2))
    Z = np.linalg.qr(P, mode="complete")[0][:, P.shape[1] :]
    assert np.linalg.eigvalsh(Z.T @ Phi @ Z)[0] < 0
