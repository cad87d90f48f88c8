"""Matern kernels of half-integer order, whose derivatives in q are Matern kernels of lower order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf, log, pi, prod
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.special import betaincinv, gammaln

from rkhs._backend.arrays import Array, Vector, namespace
from rkhs.kernels._gaussian import GaussianMixture, MixtureDensity
from rkhs.kernels._scaled import Scale, SpectralDensity

MAX_NU = 20.5  # beyond this order the kernel is indistinguishable from the Gaussian in double precision


@dataclass(frozen=True)
class Matern(GaussianMixture):
    """The Matern kernel of half-integer order nu.

        k(x, y) = c z^nu K_nu(z),  z = sqrt(2 nu) |x - y| / scale,  c such that k(x, x) = 1

    For nu = 1/2, 3/2, 5/2 it is exp(-z), (1 + z) exp(-z), (1 + z + z^2/3) exp(-z).  Derivatives of order m are bounded
    functionals iff m < nu.

    Parameters
    ----------
    nu : float
        The order: 0.5, 1.5, ..., 20.5.
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Matern(nu=1.5).smoothness(dimension=3)
    1.5
    """

    nu: float
    scale: Scale = 1.0
    smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.nu, Real) and 0 < self.nu <= MAX_NU and (self.nu - 0.5) % 1 == 0):
            raise ValueError(
                f"Matern is implemented for nu = 0.5, 1.5, ..., {MAX_NU}, got {self.nu!r}; use Gaussian, the limit of "
                "large nu."
            )
        object.__setattr__(self, "nu", float(self.nu))

    def smoothness(self, dimension: int) -> float:
        return self.nu

    def smoother(self, order: int, dimension: int) -> str | None:
        return f"Matern(nu={order + 0.5})" if order + 0.5 <= MAX_NU else "Gaussian()"

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return phi^(k)(q) for the orders k.

        With m_mu(z) = sqrt(2/pi) z^mu K_mu(z):  phi = m_nu / m_nu(0)  and  d/dq m_mu = 2 nu m_(mu-1).  All derivatives
        follow from exp(-z) by the recursion of Bessel functions,
        phi^(k) = (1 - (k+1)/nu) phi^(k+1) - q/nu phi^(k+2).  Orders k > nu are singular at z = 0, where the derivatives
        of q that multiply them vanish faster: a floor on z keeps the product at its limit, 0.
        """
        xp = namespace(q)
        nu, last, regular = self.nu, orders[-1], ceil(self.nu) - 1
        q *= -1 / nu
        root = xp.sqrt(q)  # z / 2 nu
        top = xp.exp(root * (-2 * nu))  # the last regular derivative, phi^(regular), up to the factor below
        top *= (2 * nu) ** regular / prod(range(1, 2 * regular, 2))  # m_(j+1/2)(0) = 1 * 3 * .. * (2j - 1)
        phi = {regular: top}
        if orders[0] < regular:
            phi[regular - 1] = root + 1 / (2 * nu)
            phi[regular - 1] *= top
            for k in range(regular - 2, orders[0] - 1, -1):
                phi[k] = phi[k + 1] * (1 - (k + 1) / nu)
                phi[k] += q * phi[k + 2]
        if last > regular:
            floor = (2.0**16 * float(xp.finfo(q.dtype).smallest_normal)) ** (1 / (2 * (last - regular) - 1))
            root = xp.clip(root, floor, None)
            phi[regular + 1] = top / root
            root *= root
            for k in range(regular + 2, last + 1):
                phi[k] = phi[k - 1] * ((k - 1) / nu - 1)
                phi[k] += phi[k - 2]
                phi[k] /= root
        return phi

    def shape_and_variance(self) -> tuple[float, Callable[[Vector], Vector]]:
        return self.nu, lambda u: u / self.nu

    def spectral_density(self, dimension: int) -> SpectralDensity:
        return MaternDensity(self, dimension)


class MaternDensity(MixtureDensity):
    """The spectral density of a Matern kernel, which falls as a power of the frequency.

        2^d pi^(d/2) G(nu + d/2) (2 nu)^nu / G(nu) (2 nu + 4 pi^2 w^2)^-(nu + d/2)

    (Rasmussen and Williams, Gaussian processes for machine learning, section 4.2).
    """

    def density(self, squares: Vector) -> Vector:
        nu, d = self.kernel.nu, self.dimension
        log_size = d * log(2) + d / 2 * log(pi) + gammaln(nu + d / 2) - gammaln(nu)
        return np.exp(log_size + nu * log(2 * nu) - (nu + d / 2) * np.log(2 * nu + 4 * pi**2 * squares))

    def frequency(self, share: float, order: int) -> float:
        nu = self.kernel.nu
        if order >= nu:
            return inf
        x = float(betaincinv(nu - order, self.dimension / 2 + order, share))
        return float((2 * nu * (1 / x - 1)) ** 0.5 / (2 * pi))
