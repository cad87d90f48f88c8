"""Spaces of landmarks and of Fourier features: the laws of `check_space`, tiles, distant points, and spectra."""

import numpy as np
import pytest

import rkhs
from rkhs._core.limits import with_limits
from rkhs.spaces import FourierSpace, LandmarkSpace
from rkhs.testing import check_space

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
C = RNG.normal(size=(6, 3))
C[:2] = np.float32(np.random.default_rng(0).standard_normal((7, 3))[:2])  # two of the points of `check_space`
V = RNG.normal(size=(4, 3))
A = RNG.normal(size=(2, 3))
WEIGHTS = RNG.random(len(X))

KERNELS = [
    rkhs.Gaussian(1.3),
    rkhs.Gaussian((1.0, 2.0, 0.5)),
    rkhs.Matern(2.5, 1.0),
    rkhs.Matern(1.5, 1.0),
    rkhs.kernels.RationalQuadratic(1.5, 1.0),
    rkhs.kernels.Polynomial(3),
    rkhs.kernels.Polyharmonic(3),
    0.5 * rkhs.Gaussian(1.0) @ A,
    rkhs.kernels.Polynomial(2) @ A,
]
FAMILIES = {
    "values": rkhs.Evaluation(C),
    "mixed": rkhs.stack(
        [rkhs.Evaluation(C), 2.0 * rkhs.functionals.DirectionalDerivative(C[:4], V), rkhs.Gradient(C[:2])]
    ),
    "gradients": rkhs.Gradient(C),
}


def summed(span, points, weights):
    """Values at the points, and the sum of products of gradients, through tiles."""
    products, values = [], []
    for rows in span.tiles(len(points)):
        tile, root = span.tile(points[rows]), weights[rows, None] ** 0.5
        values.append(np.asarray(tile.values))
        products.append(tile.gradient_products(root, None))
    return np.concatenate(values), span.gradient_normal([sum(own) for own in zip(*products, strict=True)])


WAVES = FourierSpace.draw(rkhs.Gaussian(1.0), 3, 8, np.random.default_rng(0))
LANDMARKS = [(kernel, family) for kernel in KERNELS for family in FAMILIES.values()]
LANDMARKS += [
    (rkhs.Matern(0.5), rkhs.Evaluation(C)),
    (rkhs.Gaussian(1.0) + rkhs.kernels.Linear(), rkhs.functionals.LocalAverage(C, 0.3)),
    (rkhs.Gaussian(1.0), rkhs.Difference(C[:3], C[3:])),
    (rkhs.Gaussian(1.0), rkhs.stack([rkhs.Evaluation(C[:, :1]), rkhs.Gradient(C[:, :1])])),
]


@pytest.mark.parametrize(("kernel", "family"), LANDMARKS, ids=repr)
def test_the_laws_of_landmarks(kernel, family):
    check_space(LandmarkSpace(kernel, family))


@pytest.mark.parametrize("count", [9, 31, 40])
@pytest.mark.parametrize("kernel", [rkhs.Gaussian((0.7, 2.0, 1.0)), rkhs.Gaussian(1.0) + rkhs.Matern(1.5)], ids=repr)
def test_the_laws_of_features(kernel, count):
    check_space(FourierSpace.draw(kernel, 3, count, np.random.default_rng(0)))


@pytest.mark.parametrize(
    "space", [LandmarkSpace(rkhs.Gaussian(1.0), FAMILIES["mixed"]), WAVES], ids=["landmarks", "waves"]
)
def test_the_laws_of_other_functionals(space):
    points = C.astype(np.float32).astype(np.float64)
    families = [rkhs.functionals.Laplacian, lambda X: rkhs.functionals.LocalAverage(X, 0.5), rkhs.functionals.Hessian]
    check_space(space, [rkhs.Difference(points, -points), *(make(points) for make in families)])


def test_tiles_add_up():
    span = LandmarkSpace(rkhs.Matern(2.5, 1.0), FAMILIES["mixed"])
    with with_limits(feature_entries=1):  # tiles of 128 rows
        values, normal = summed(span, X, WEIGHTS)
    np.testing.assert_allclose(values, span.rows(rkhs.Evaluation(X)), atol=1e-13)
    slopes = span.rows(rkhs.Gradient(X))
    right = slopes.T @ (np.repeat(WEIGHTS, 3)[:, None] * slopes)
    np.testing.assert_allclose(normal, right, atol=1e-13 * np.abs(right).max())


def test_far_from_the_origin():
    """Radial kernels look at points from the middle of the landmarks."""
    far = 1e4
    near, away = (LandmarkSpace(rkhs.Matern(2.5, 1.0), rkhs.Evaluation(C + shift)) for shift in (0.0, far))
    np.testing.assert_allclose(summed(away, X + far, WEIGHTS)[1], summed(near, X, WEIGHTS)[1], rtol=1e-9)


@pytest.mark.parametrize(
    "family",
    [rkhs.Difference(C[:3], C[3:]), rkhs.functionals.Laplacian(C), rkhs.functionals.LocalAverage(C, 0.3)],
    ids=["difference", "laplacian", "average"],
)
def test_other_landmarks_have_no_closed_form(family):
    assert LandmarkSpace(rkhs.Gaussian(1.0), family).tile(X) is None
    assert LandmarkSpace(rkhs.Gaussian(1.0) + rkhs.kernels.Linear(), rkhs.Evaluation(C)).tile(X) is None


SPECTRA = [
    rkhs.Gaussian((0.7, 1.0, 2.0)),
    rkhs.Matern(1.5, 1.3),
    rkhs.kernels.RationalQuadratic(0.8, 1.1),
    2.0 * rkhs.Gaussian(1.0) @ A + rkhs.Matern(2.5),
]


@pytest.mark.parametrize("kernel", SPECTRA, ids=repr)
def test_fourier_features_have_the_kernel_as_their_mean(kernel):
    """The error of a mean of p waves of height h is about h / sqrt(p)."""
    count = 20_000
    E = FourierSpace.draw(kernel, 3, count, np.random.default_rng(1)).rows(rkhs.Evaluation(X[:30]))
    height = kernel(X[:1])[0, 0] * 2
    assert np.abs(E @ E.T - kernel(X[:30])).max() < 6 * height / count**0.5
    np.testing.assert_allclose(np.diag(E @ E.T), np.diag(kernel(X[:30])), rtol=1e-12)  # cosine and sine


def test_fourier_atoms_are_second_derivatives_and_averages():
    """By difference quotients of the values, and by a mean over many points."""
    span = WAVES
    h, u, v = 1e-4, V[0], V[1]
    value = lambda points: span.rows(rkhs.Evaluation(points))  # noqa: E731
    bend = (value(X + h * u + h * v) - value(X + h * u) - value(X + h * v) + value(X)) / h**2
    second = np.einsum("a,b,iabp->ip", u, v, span.rows(rkhs.functionals.Hessian(X)).reshape(len(X), 3, 3, -1))
    np.testing.assert_allclose(second, bend, atol=1e-2)
    noise = np.random.default_rng(0).normal(size=(200_000, 3)) * 0.5
    average = value(X[:1] + noise).mean(axis=0)
    np.testing.assert_allclose(span.rows(rkhs.functionals.LocalAverage(X[:1], 0.5))[0], average, atol=5e-3)


def test_fourier_features_need_a_spectrum():
    with pytest.raises(ValueError, match=r"spectrum of Polynomial.*Landmarks"):
        FourierSpace.draw(rkhs.kernels.Polynomial(2), 3, 10, np.random.default_rng(0))
