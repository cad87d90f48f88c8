"""Spectral densities: against the kernels whose Fourier transforms they are, with their tails and ranges."""

from dataclasses import dataclass
from math import gamma, inf, pi

import numpy as np
import pytest
import scipy.integrate

import rkhs
from rkhs.maps import spectra

RADIAL = [
    rkhs.Gaussian(),
    *(rkhs.Matern(nu) for nu in (0.5, 1.5, 2.5, 3.5, 4.5)),
    rkhs.kernels.RationalQuadratic(1.6),
    rkhs.kernels.RationalQuadratic(4.0),
    rkhs.kernels.RationalQuadratic(40.0),
    rkhs.kernels.RationalQuadratic(1000.0),
]


class TwoScaleDensity(rkhs.extend.SpectralDensity):
    parts = property(lambda self: [rkhs.Gaussian().spectral_density(self.dimension)] * 2)

    def density(self, squares):
        near, far = (part.density(factor**2 * squares) for part, factor in zip(self.parts, (1, 2), strict=True))
        return (near + 2**self.dimension * far) / 2

    def frequency(self, share, order):
        return self.parts[0].frequency(share, order)  # at least that of the wider Gaussian

    def sample(self, count, random):
        return self.parts[0].sample(count, random) / random.choice([1.0, 2.0], size=(count, 1))


@dataclass(frozen=True)
class TwoScales(rkhs.extend.ScaledKernel):
    """A kernel of a user: the mean of two Gaussians, which no table of the package knows."""

    scale: float = 1.0

    def radial_derivatives(self, q, orders):
        return {k: (np.exp(q) + 0.25**k * np.exp(q / 4)) / 2 for k in orders}

    def spectral_density(self, dimension):
        return TwoScaleDensity(self, dimension)


LENGTHS = (0.5, 1.5, 0.8)
MATRIX = np.array([[1.0, 0.4, 0.1], [-0.3, 0.8, 0.2], [0.2, 0.1, 1.4]])


def sphere(d):
    """The area of the unit sphere in R^d."""
    return 2 * pi ** (d / 2) / gamma(d / 2)


def power(part, order, low=0.0):
    """The integral of |w|^2m S_phi over all frequencies above a limit, in the logarithm of w."""
    d, (x, weights) = part.unit.dimension, np.polynomial.legendre.leggauss(20)
    start = -30.0 if low == 0 else np.log(low)
    t = start + np.arange(140)[:, None] / 2 + (x + 1) / 4
    w = np.exp(t)
    return float(np.sum(weights * sphere(d) * w ** (d + 2 * order) * part.unit.density(w**2)) / 4)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kernel", [*RADIAL, TwoScales()], ids=repr)
def test_the_density_integrates_to_the_variance(kernel, d):
    (part,) = spectra(kernel, d)
    assert power(part, 0) == pytest.approx(1.0, rel=1e-7)


@pytest.mark.parametrize("scale", [0.7, 1.0])
@pytest.mark.parametrize("kernel", [*RADIAL, TwoScales()], ids=repr)
def test_the_inverse_transform_is_the_kernel(kernel, scale):
    """k(r) = 2 times the integral of S(w) cos(2 pi w r) over w > 0."""
    scaled = type(kernel)(**{**vars(kernel), "scale": scale})
    (part,) = spectra(scaled, 1)
    for r in (0.3, 1.0, 2.5):
        density = lambda w: part.density([np.array([w])])[0]  # noqa: E731
        value = 2 * scipy.integrate.quad(density, 0, inf, weight="cos", wvar=2 * pi * r, limlst=200)[0]
        assert value == pytest.approx(scaled(np.zeros((1, 1)), np.array([[r]]))[0, 0], abs=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_shares_of_the_tails(kernel, d, order):
    """For derivatives that have no variance there is no frequency above which a share of it lies."""
    (part,) = spectra(kernel, d)
    if isinstance(kernel, rkhs.Matern) and order >= kernel.nu:
        assert part.unit.frequency(1e-3, order) == inf
        return
    total = power(part, order)
    for share in (0.3, 1e-2, 1e-4, 1e-8):
        low = part.unit.frequency(share, order)
        if low < 1e12:  # quadrature in logarithms ends there
            assert power(part, order, low) == pytest.approx(share * total, rel=1e-3 if share > 1e-5 else 0.1)


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_ranges(kernel):
    (part,) = spectra(kernel, 1)
    for value in (0.5, 1e-2, 1e-5):
        radius = part.unit_radius(value)
        assert part.unit_values(np.array([radius]))[0] == pytest.approx(value, rel=1e-3)
        assert part.ranges(value * part.all_shells, 0)[0] == pytest.approx(radius, abs=1e-5)
        assert part.ranges(value, 1)[0] >= radius


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_sums_over_periodic_images(kernel):
    """A bound, also for kernels that fall so slowly that a hundred shells are not enough."""
    for d in (1, 2):
        (part,) = spectra(kernel, d)
        gaps, periods = np.full(d, 2.0), np.full(d, 3.0)
        shells = np.arange(-200, 201) if d == 2 else np.arange(-100_000, 100_001)
        nearest = np.where(shells == 0, 0.0, 2.0 + 3.0 * (np.abs(shells) - 1))  # along each axis
        squares = nearest**2 if d == 1 else (nearest[:, None] ** 2 + nearest**2).reshape(-1)
        total = float(np.sum(part.unit_values(np.sqrt(squares[squares > 0]))))
        assert total <= part.images(gaps, periods) * (1 + 1e-9)


COMPOSED = {
    "scales": lambda d: rkhs.Matern(2.5, LENGTHS[:d]),
    "matrix": lambda d: rkhs.Gaussian(0.8) @ MATRIX[:d, :d],
    "scales and matrix": lambda d: rkhs.Gaussian(LENGTHS[:d]) @ MATRIX[:d, :d],
    "factors": lambda d: rkhs.Gaussian(0.8) @ np.array(LENGTHS[:d]),
    "matrices": lambda d: (rkhs.Gaussian(0.8) @ MATRIX[:d, :d]) @ MATRIX[:d, :d].T,
    "multiple": lambda d: 3.0 * rkhs.kernels.RationalQuadratic(2.5, 0.7),
    "sum": lambda d: rkhs.Gaussian(0.5) + 2.0 * rkhs.Matern(3.5, 1.5) + 0.1 * (rkhs.Gaussian(1.0) @ MATRIX[:d, :d]),
}


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("make", COMPOSED.values(), ids=COMPOSED)
def test_composed_kernels(make, d):
    """By a sum over a fine grid of frequencies."""
    kernel, parts = make(d), spectra(make(d), d)
    h, m = 1 / 30, 240
    axes = [h * np.arange(-m, m + 1)] * d
    density = sum(part.density(axes) for part in parts)
    for r in np.array([[0.0, 0.0], [0.4, -0.3], [1.0, 0.7]])[:, :d]:
        wave = np.ones(())
        for x in r:
            wave = np.multiply.outer(wave, np.exp(2j * pi * axes[0] * x))
        value = np.sum(density * wave).real * h**d
        assert value == pytest.approx(kernel(np.zeros((1, d)), r[None])[0, 0], abs=2e-4)
    assert sum(part.weight for part in parts) == pytest.approx(kernel(np.zeros((1, d)))[0, 0])


@pytest.mark.parametrize("make", COMPOSED.values(), ids=COMPOSED)
def test_boxes_of_composed_kernels(make):
    """Along each axis: the kernel is small outside of `ranges`, the density outside of `frequencies`."""
    rng = np.random.default_rng(0)
    for part in spectra(make(3), 3):
        half = part.ranges(1e-3, 0)
        away = rng.normal(size=(500, 3))
        away /= np.max(np.abs(away) / half, axis=1, keepdims=True)  # on the surface of the box
        distances = np.linalg.norm(away @ part.matrix.T, axis=1)
        assert np.all(part.unit_values(distances) <= 1e-3 * (1 + 1e-3))
        highest, limit = part.frequencies(1e-3, 0), part.unit.frequency(1e-3, 0)
        w = rng.normal(size=(500, 3))
        w /= np.max(np.abs(w) / highest, axis=1, keepdims=True)
        assert np.linalg.norm(np.linalg.solve(part.matrix.T, w.T), axis=0).min() >= limit * (1 - 1e-9)


REFUSED = {
    "alpha, 2-D": (rkhs.kernels.RationalQuadratic(1.0), 2, r"alpha > 1: use a larger alpha, or rkhs\.Landmarks"),
    "alpha, 3-D": (2.0 * rkhs.kernels.RationalQuadratic(1.5), 3, r"alpha > 1\.5: .*Landmarks"),
    "Polynomial": (rkhs.kernels.Polynomial(2), 2, r"Polynomial.*not known.*Use rkhs\.Landmarks"),
    "ThinPlate": (rkhs.kernels.ThinPlate(2), 2, r"ThinPlate.*not known.*Landmarks"),
    "Laplace": (rkhs.kernels.Laplace(1.0), 2, r"Laplace.*not known.*Landmarks"),
    "a sum": (rkhs.Gaussian() + rkhs.kernels.Linear(), 2, r"Linear.*not known.*Landmarks"),
    "a product": (rkhs.Gaussian() * rkhs.Gaussian(2.0), 2, r"not known.*Landmarks"),
    "singular": (rkhs.Gaussian() @ np.array([[1.0, 1.0], [2.0, 2.0]]), 2, r"invertible.*Landmarks"),
    "not square": (rkhs.Gaussian() @ np.array([[1.0, 1.0]]), 2, r"invertible.*Landmarks"),
}


@pytest.mark.every
@pytest.mark.parametrize(("kernel", "d", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_kernels_name_the_remedy(kernel, d, message):
    with pytest.raises(ValueError, match=message):
        spectra(kernel, d)
    term = rkhs.Term(rkhs.Evaluation(np.eye(d)), rkhs.Squared(), 1.0)
    with pytest.raises(ValueError, match=message):
        rkhs.Problem(kernel, [term], approximation=rkhs.FourierGrid()).solve()


@pytest.mark.parametrize(
    ("approximation", "error"),
    [(rkhs.FourierGrid(), 1e-4), (rkhs.FourierFeatures(1000), 0.1)],
    ids=["grid", "features"],
)
def test_a_kernel_of_a_user_has_its_spaces_by_its_own_declaration(approximation, error):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(30, 2))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), np.sin(3 * X[:, 0]) + X[:, 1], weight=10.0)
    exact = rkhs.Problem(TwoScales(0.8), [term]).solve().function(X)
    assert rkhs.Problem(TwoScales(0.8), [term], approximation=approximation).solve().function(X) == pytest.approx(
        exact, abs=error
    )
