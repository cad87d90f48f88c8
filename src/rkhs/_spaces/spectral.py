"""Spectral densities of stationary kernels on R^d, and how far a kernel and its density reach.

    k(r) = integral of S(w) exp(2 pi i <w, r>) dw

with frequencies w in cycles.  For k(r) = phi(|A r|) the density is S(w) = S_phi(|A^-T w|) / |det A|, where S_phi is
that of phi on R^d, which kernels declare (`ScaledKernel.spectral_density`).  An integral of |2 pi w|^2m S over all
frequencies above a limit is the share of the variance of derivatives of order m that these frequencies contribute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # imports scipy.optimize lazily
import scipy.special

from rkhs._backend.arrays import Matrix, Vector
from rkhs.kernels import Kernel, LinearTransform
from rkhs.kernels._scaled import ScaledKernel, SpectralDensity

SHELLS = 100  # shells of periodic images that are summed up


@dataclass(frozen=True, eq=False)
class RadialSpectrum:
    """The spectral density of one summand weight * phi(|A r|) of a kernel on R^d."""

    unit: SpectralDensity  # that of phi
    weight: float
    matrix: Matrix  # A (d, d)

    def unit_values(self, distances: Vector) -> Vector:
        """Return phi at distances (s,)."""
        phi: Vector = self.unit.kernel.radial_derivatives(-(np.asarray(distances) ** 2) / 2, range(1))[0]
        return phi

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
        return self.weight / abs(float(np.linalg.det(self.matrix))) * self.unit.density(np.asarray(squares))

    def frequencies(self, share: float, order: int) -> Vector:
        """Return the half sides (d,) of a box of frequencies that contains all but a share of the variance."""
        return self.unit.frequency(share, order) * np.linalg.norm(self.matrix, axis=0)

    def images(self, gaps: Vector, periods: Vector) -> float:
        """Return a bound on the sum of weight * phi over the periodic images of a point.

        Along axis a the nearest images are at least gaps_a away, and further ones a multiple of periods_a more.
        """
        reach, shell = np.linalg.norm(np.linalg.inv(self.matrix), axis=1), np.arange(1, SHELLS + 1)
        distances = np.min((gaps + np.outer(shell - 1, periods)) / reach, axis=1)
        counts = (2.0 * shell + 1) ** self.unit.dimension - (2.0 * shell - 1) ** self.unit.dimension
        values = counts * self.unit_values(distances)
        return self.weight * float(values.sum() + self.further_shells * values[-1])

    @property
    def all_shells(self) -> float:
        """The sum of phi over all shells of periodic images relative to the nearest; 1 if phi falls exponentially.

        Shell s has about s^(d-1) images, at which phi falls as s^-decay.
        """
        return float(scipy.special.zeta(self.unit.decay - self.unit.dimension + 1))

    @property
    def further_shells(self) -> float:
        """The sum of phi over shells beyond `SHELLS` relative to the last one; 0 if phi falls exponentially."""
        return 1.01 * SHELLS / (self.unit.decay - self.unit.dimension)

    def ranges(self, value: float, order: int) -> Vector:
        """Return the half sides (d,) of a box outside of which phi, summed over all shells of images, is below a value.

        The derivatives of order 2m, relative to those at zero, fall later: by a factor of at most r^2m for a Gaussian.
        """
        value = value / self.all_shells
        radius = self.unit_radius(value / max(1.0, self.unit_radius(value)) ** (2 * order))
        return radius * np.linalg.norm(np.linalg.inv(self.matrix), axis=1)


def spectra(kernel: Kernel, dimension: int) -> list[RadialSpectrum]:
    """Return the spectral densities of the summands of a kernel on R^d, or raise ValueError if one has none."""
    return [_spectrum(summand, weight, np.eye(dimension), kernel) for weight, summand in kernel.summands()]


def _spectrum(kernel: Kernel, weight: float, matrix: Matrix, whole: Kernel) -> RadialSpectrum:
    d = len(matrix)
    if isinstance(kernel, LinearTransform):
        linear = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
        if linear.shape == matrix.shape and np.linalg.matrix_rank(linear) == d:
            return _spectrum(kernel.kernel, weight, linear @ matrix, whole)
    unit = kernel.spectral_density(d) if isinstance(kernel, ScaledKernel) else None
    if unit is None:
        raise ValueError(
            f"The spectrum of {whole!r} is not known: FourierGrid supports Gaussian, Matern and RationalQuadratic "
            "kernels, others with a spectral_density, their sums, multiples and invertible linear changes of input. "
            "Use rkhs.Landmarks, which supports any kernel."
        )
    if unit.decay <= d:
        raise ValueError(
            f"{kernel!r} falls too slowly for a Fourier grid in {d} dimensions, which needs {unit.faster}, or "
            "rkhs.Landmarks."
        )
    return RadialSpectrum(unit, weight, unit.kernel.linear(d)[:, None] * matrix)
