"""Spectral densities of stationary kernels, and how far a kernel and its density reach.

    k(r) = integral of S(w) exp(2 pi i <w, r>) dw

with frequencies w in cycles.  For k(r) = phi(|A r|) the density is S(w) = S_phi(|A^-T w|) / |det A|, where S_phi is
that of phi on R^d:

    Gaussian             (2 pi)^(d/2) exp(-2 pi^2 w^2)
    Matern               2^d pi^(d/2) G(nu + d/2) (2 nu)^nu / G(nu) (2 nu + 4 pi^2 w^2)^-(nu + d/2)
    rational quadratic   the mean of the density of a Gaussian over its precisions, a Bessel function

(Rasmussen and Williams, Gaussian processes for machine learning, section 4.2).  An integral of |2 pi w|^2m S over all
frequencies above a limit is the share of the variance of derivatives of order m that these frequencies contribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log, pi
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily
import scipy.special

from rkhs._backend.arrays import Matrix, Vector
from rkhs.kernels import Gaussian, Kernel, LinearTransform, Matern, RationalQuadratic

SHELLS = 100  # shells of periodic images that are summed up
SERIES_ORDERS = 20, 100  # orders of Bessel functions whose power series is used for z < 1; above, Debye's expansion
NODES = 200  # nodes for the mixing distribution of a rational quadratic kernel, equispaced in its logarithm


@dataclass(frozen=True, eq=False)
class RadialSpectrum(ABC):
    """The spectral density of one summand weight * phi(|A r|) of a kernel on R^d."""

    kernel: Kernel
    weight: float
    matrix: Matrix  # A (d, d)

    @property
    def dimension(self) -> int:
        return len(self.matrix)

    @abstractmethod
    def unit_density(self, squares: Vector) -> Vector:
        """Return S_phi at frequencies with the given squares."""

    @abstractmethod
    def unit_frequency(self, share: float, order: int) -> float:
        """Return the frequency of phi above which a share of the variance of derivatives of an order lies."""

    def unit_values(self, distances: Vector) -> Vector:
        """Return phi at distances (s,)."""
        return np.asarray(self.unit_kernel(np.zeros((1, 1)), np.asarray(distances)[:, None])[0])

    @cached_property
    def unit_kernel(self) -> Kernel:
        """The kernel phi of one dimension with the length scale 1."""
        kernel: Any = self.kernel
        unit: Kernel = replace(kernel, scale=1.0)
        return unit

    def unit_radius(self, value: float) -> float:
        """Return the distance at which phi has fallen to a value below 1."""
        largest = 1.0
        while self.unit_values(np.array([largest]))[0] > value:
            largest *= 2
        return float(
            scipy.optimize.brentq(lambda r: self.unit_values(np.array([r]))[0] / value - 1, 0.0, largest, xtol=1e-6)
        )

    def density(self, frequencies: list[Vector]) -> Vector:
        """Return the density on a grid, given by the frequencies along each axis."""
        inverse, squares = np.linalg.inv(self.matrix).T, np.zeros(())
        axes = np.meshgrid(*frequencies, indexing="ij", sparse=True)
        for row in inverse:
            squares = squares + sum((c * w for c, w in zip(row, axes, strict=True) if c), np.zeros(())) ** 2
        return self.weight / abs(float(np.linalg.det(self.matrix))) * self.unit_density(np.asarray(squares))

    def frequencies(self, share: float, order: int) -> Vector:
        """Return the half sides (d,) of a box of frequencies that contains all but a share of the variance."""
        return self.unit_frequency(share, order) * np.linalg.norm(self.matrix, axis=0)

    def images(self, gaps: Vector, periods: Vector) -> float:
        """Return a bound on the sum of weight * phi over the periodic images of a point.

        Along axis a the nearest images are at least gaps_a away, and further ones a multiple of periods_a more.
        """
        reach, shell = np.linalg.norm(np.linalg.inv(self.matrix), axis=1), np.arange(1, SHELLS + 1)
        distances = np.min((gaps + np.outer(shell - 1, periods)) / reach, axis=1)
        counts = (2.0 * shell + 1) ** self.dimension - (2.0 * shell - 1) ** self.dimension
        values = counts * self.unit_values(distances)
        return self.weight * float(values.sum() + self.further_shells * values[-1])

    @property
    def all_shells(self) -> float:
        """The sum of phi over all shells of periodic images relative to the nearest; 1 if phi falls exponentially."""
        return 1.0

    @property
    def further_shells(self) -> float:
        """The sum of phi over shells beyond `SHELLS` relative to the last one; 0 if phi falls exponentially."""
        return 0.0

    def ranges(self, value: float, order: int) -> Vector:
        """Return the half sides (d,) of a box outside of which phi, summed over all shells of images, is below a value.

        The derivatives of order 2m, relative to those at zero, fall later: by a factor of at most r^2m for a Gaussian.
        """
        value = value / self.all_shells
        radius = self.unit_radius(value / max(1.0, self.unit_radius(value)) ** (2 * order))
        return radius * np.linalg.norm(np.linalg.inv(self.matrix), axis=1)


class GaussianSpectrum(RadialSpectrum):
    """The spectral density of a Gaussian kernel."""

    def unit_density(self, squares: Vector) -> Vector:
        return (2 * pi) ** (self.dimension / 2) * np.exp(-2 * pi**2 * squares)

    def unit_frequency(self, share: float, order: int) -> float:
        return float((scipy.special.gammainccinv(self.dimension / 2 + order, share) / 2) ** 0.5 / pi)


class MaternSpectrum(RadialSpectrum):
    """The spectral density of a Matern kernel, which falls as a power of the frequency."""

    kernel: Matern

    def unit_density(self, squares: Vector) -> Vector:
        nu, d = self.kernel.nu, self.dimension
        log_size = d * log(2) + d / 2 * log(pi) + scipy.special.gammaln(nu + d / 2) - scipy.special.gammaln(nu)
        return np.exp(log_size + nu * log(2 * nu) - (nu + d / 2) * np.log(2 * nu + 4 * pi**2 * squares))

    def unit_frequency(self, share: float, order: int) -> float:
        if order >= self.kernel.nu:
            return inf
        x = float(scipy.special.betaincinv(self.kernel.nu - order, self.dimension / 2 + order, share))
        return (2 * self.kernel.nu * (1 / x - 1)) ** 0.5 / (2 * pi)


class RationalQuadraticSpectrum(RadialSpectrum):
    """The spectral density of a rational quadratic kernel, a mixture of Gaussians with gamma-distributed precisions."""

    kernel: RationalQuadratic

    @property
    def all_shells(self) -> float:
        # Shell s has about s^(d-1) images, at which phi falls as s^(-2 alpha).
        return float(scipy.special.zeta(2 * self.kernel.alpha - self.dimension + 1))

    @property
    def further_shells(self) -> float:
        return 1.01 * SHELLS / (2 * self.kernel.alpha - self.dimension)

    def unit_density(self, squares: Vector) -> Vector:
        alpha, order = self.kernel.alpha, self.kernel.alpha - self.dimension / 2
        z = 2 * (2 * pi**2 * alpha * np.maximum(squares, 1e-30)) ** 0.5
        log_size = log(2) + self.dimension / 2 * log(2 * pi) + alpha * log(alpha) - scipy.special.gammaln(alpha)
        return np.exp(log_size - order * log(2 * alpha) + _log_bessel(order, z))

    def unit_frequency(self, share: float, order: int) -> float:
        # Derivatives weight the precisions u by u^order: alpha u is gamma-distributed with the shape alpha + order.
        shape, a = self.kernel.alpha + order, self.dimension / 2 + order
        low, high = scipy.special.gammaincinv(shape, 1e-6), scipy.special.gammainccinv(shape, 1e-25)
        logarithms = np.linspace(np.log(low), np.log(high), NODES)
        u, weights = np.exp(logarithms) / self.kernel.alpha, shape * logarithms - np.exp(logarithms)
        weights = scipy.special.softmax(weights)

        def excess(logarithm: float) -> float:
            return float(weights @ scipy.special.gammaincc(a, 2 * pi**2 * np.exp(2 * logarithm) / u) / share - 1)

        return float(np.exp(scipy.optimize.brentq(excess, -20.0, 20.0)))


def _log_bessel(order: float, z: Vector) -> Vector:
    """Return log(z^order K_order(z)) for z > 0, also where the Bessel function K overflows or underflows.

    For large orders it is Debye's uniform expansion, and for small z the first terms of the power series (DLMF 10.41.4
    and 10.31.1).
    """
    if order > SERIES_ORDERS[1]:
        p = (1 + (z / order) ** 2) ** -0.5
        terms = (
            np.ones_like(p),
            (3 * p - 5 * p**3) / 24,
            (81 * p**2 - 462 * p**4 + 385 * p**6) / 1152,
            (30375 * p**3 - 369603 * p**5 + 765765 * p**7 - 425425 * p**9) / 414720,
        )
        series = np.asarray(sum((-1 / order) ** k * term for k, term in enumerate(terms)))
        exponent = order * (1 / p - np.log(order * (1 + 1 / p)))  # with z^order
        return np.log(series) + 0.5 * np.log(pi * p / (2 * order)) - exponent
    bounded = np.clip(z, 1e-14 if order <= SERIES_ORDERS[0] else 1.0, 1e4)
    result = np.log(scipy.special.kve(order, bounded)) + order * np.log(bounded) - z
    if order > SERIES_ORDERS[0]:
        total, term = np.zeros_like(z), np.ones_like(z)
        for k in range(8):
            total = total + term
            term = term * np.minimum(z, 1.0) ** 2 / (4 * (k + 1) * (k + 1 - order))
        result = np.where(z < 1, scipy.special.gammaln(order) + (order - 1) * log(2) + np.log(total), result)
    return np.asarray(result)


def spectra(kernel: Kernel, dimension: int) -> list[RadialSpectrum]:
    """Return the spectral densities of the summands of a kernel on R^d, or raise ValueError if one has none."""
    return [_spectrum(summand, weight, np.eye(dimension), kernel) for weight, summand in kernel.summands()]


def _spectrum(kernel: Kernel, weight: float, matrix: Matrix, whole: Kernel) -> RadialSpectrum:
    if isinstance(kernel, LinearTransform):
        linear = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
        if linear.shape == matrix.shape and np.linalg.matrix_rank(linear) == len(linear):
            return _spectrum(kernel.kernel, weight, linear @ matrix, whole)
    types = {Gaussian: GaussianSpectrum, Matern: MaternSpectrum, RationalQuadratic: RationalQuadraticSpectrum}
    for kind, spectrum in types.items():
        if isinstance(kernel, kind):
            if isinstance(kernel, RationalQuadratic) and kernel.alpha <= len(matrix) / 2:
                raise ValueError(
                    f"{kernel!r} falls too slowly for a Fourier grid in {len(matrix)} dimensions, which needs alpha > "
                    f"{len(matrix) / 2:g}: use a larger alpha, or rkhs.Landmarks."
                )
            return spectrum(kernel, weight, kernel.linear(len(matrix))[:, None] * matrix)
    raise ValueError(
        f"The spectrum of {whole!r} is not known: FourierGrid supports Gaussian, Matern and RationalQuadratic kernels, "
        "their sums, multiples and invertible linear changes of input. Use rkhs.Landmarks, which supports any kernel."
    )
