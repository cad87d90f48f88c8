"""The rational quadratic kernel, whose derivatives in q are powers of the same base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log, pi, prod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy  # imports scipy.optimize lazily
from scipy.special import gammaincc, gammainccinv, gammaincinv, gammaln, kve, softmax

from rkhs._backend.arrays import Array, Matrix, Vector, namespace
from rkhs._calculus.forms import Form
from rkhs.kernels._base import FormKernel, Kernel
from rkhs.kernels._gaussian import GaussianMixture, MixtureDensity
from rkhs.kernels._scaled import LinearCombination, Scale, SpectralDensity
from rkhs.kernels._tunable import Tunable

SERIES_ORDERS = 20, 100  # orders of Bessel functions whose power series is used for z < 1; above, Debye's expansion
NODES = 200  # nodes for the distribution of the precisions of the Gaussians, equispaced in its logarithm


@dataclass(frozen=True)
class RationalQuadratic(GaussianMixture):
    """The rational quadratic kernel: a mixture of Gaussians of all length scales.

        k(x, y) = (1 + |x - y|^2 / (2 alpha scale^2))^(-alpha)

    Derivatives of every order are bounded.

    Parameters
    ----------
    alpha : float or Tunable
        The positive exponent; the Gaussian kernel is the limit of large alpha.
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.RationalQuadratic(alpha=1.0, scale=1.0)([[0.0], [1.0]])[0, 1].round(6)
    np.float64(0.666667)
    """

    alpha: Any  # float or Tunable
    scale: Scale = 1.0
    positive: ClassVar[tuple[str, ...]] = ("alpha", "scale")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.alpha, Tunable):
            return
        if not (isinstance(self.alpha, Real) and 0 < float(self.alpha) < inf):
            raise ValueError(f"RationalQuadratic needs a positive alpha, got {self.alpha!r}.")

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return phi^(k)(q) for the orders k.

        With b = 1 - q/alpha:  phi = b^-alpha, and each further derivative multiplies by (alpha + k)/alpha / b.
        """
        xp = namespace(q)
        q *= -1 / self.alpha
        lowest = xp.log1p(q)  # alpha multiplies its rounding error, which for log(1 + q) would be large at near points
        q += 1
        lowest *= -(self.alpha + orders[0])
        lowest = xp.exp(lowest)
        lowest *= prod((self.alpha + k) / self.alpha for k in range(orders[0]))
        phi = {orders[0]: lowest}
        for k in orders[1:]:
            phi[k] = phi[k - 1] / q
            phi[k] *= (self.alpha + k - 1) / self.alpha
        return phi

    def shape_and_variance(self) -> tuple[float, Callable[[Vector], Vector]]:
        return self.alpha, lambda u: self.alpha / u

    def spectral_density(self, dimension: int) -> SpectralDensity:
        return RationalQuadraticDensity(self, dimension)

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return AlphaTangent(self) if name == "alpha" else super().parameter_tangent(name, feature)


class RationalQuadraticDensity(MixtureDensity):
    """The spectral density of a rational quadratic kernel: a Bessel function, the mean over Gaussian densities."""

    @property
    def decay(self) -> float:
        return float(2 * self.kernel.alpha)

    @property
    def faster(self) -> str:
        return f"alpha > {self.dimension / 2:g}: use a larger alpha"

    def density(self, squares: Vector) -> Vector:
        alpha, order = self.kernel.alpha, self.kernel.alpha - self.dimension / 2
        z = 2 * (2 * pi**2 * alpha * np.maximum(squares, 1e-30)) ** 0.5
        log_size = log(2) + self.dimension / 2 * log(2 * pi) + alpha * log(alpha) - gammaln(alpha)
        return np.exp(log_size - order * log(2 * alpha) + _log_bessel(order, z))

    def frequency(self, share: float, order: int) -> float:
        # Derivatives weight the precisions u by u^order: alpha u is gamma-distributed with the shape alpha + order.
        shape, a = self.kernel.alpha + order, self.dimension / 2 + order
        low, high = gammaincinv(shape, 1e-6), gammainccinv(shape, 1e-25)
        logarithms = np.linspace(np.log(low), np.log(high), NODES)
        u, weights = np.exp(logarithms) / self.kernel.alpha, softmax(shape * logarithms - np.exp(logarithms))

        def excess(logarithm: float) -> float:
            return float(weights @ gammaincc(a, 2 * pi**2 * np.exp(2 * logarithm) / u) / share - 1)

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
    result = np.log(kve(order, bounded)) + order * np.log(bounded) - z
    if order > SERIES_ORDERS[0]:
        total, term = np.zeros_like(z), np.ones_like(z)
        for k in range(8):
            total = total + term
            term = term * np.minimum(z, 1.0) ** 2 / (4 * (k + 1) * (k + 1 - order))
        result = np.where(z < 1, gammaln(order) + (order - 1) * log(2) + np.log(total), result)
    return np.asarray(result)


@dataclass(frozen=True)
class AlphaTangent(FormKernel):
    """The derivative of a rational quadratic kernel in log alpha."""

    kernel: RationalQuadratic

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return replace(self.kernel.form(dimension), radial_derivatives=self.radial_derivatives)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return the derivatives of d phi / d log alpha for the orders k.

        With x = -q/alpha they are phi^(k) times  (alpha + k) x/(1 + x) - alpha log(1 + x) - sum_(j<k) j/(alpha + j).
        """
        xp, alpha = namespace(q), self.kernel.alpha
        x = q * (-1 / alpha)
        phi = self.kernel.radial_derivatives(q, orders)
        log, share = alpha * xp.log1p(x), x / (1 + x)
        return {k: phi[k] * ((alpha + k) * share - log - sum(j / (alpha + j) for j in range(k))) for k in orders}

    def blurred(self, covariance: Matrix) -> Kernel:
        """Return the derivative of the blurred mixture in its weights and scales.

        The variances are v = alpha / u, so that d log scale = d log alpha / 2.
        """
        nodes, slopes = self.kernel.mixture(len(covariance))
        parts: list[tuple[float, Kernel]] = []
        for (weight, gaussian), slope in zip(nodes, slopes, strict=True):
            parts.append((weight * self.kernel.alpha * float(slope), gaussian.blurred(covariance)))
            parts.append((weight / 2, gaussian.blurred_tangent(covariance, None)))
        return LinearCombination(tuple(parts))
