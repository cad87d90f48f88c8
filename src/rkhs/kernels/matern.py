"""Matern kernels of half-integer order, whose derivatives in q are Matern kernels of lower order."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, namespace
from rkhs.calculus.forms import Form
from rkhs.kernels.base import Kernel
from rkhs.kernels.mixture import blurred_mixture
from rkhs.kernels.scale import Scale, ScaledKernel

ORDERS = (0.5, 1.5, 2.5, 3.5)


@dataclass(frozen=True)
class Matern(ScaledKernel):
    """k(x, y) = c z^nu K_nu(z),  z = sqrt(2 nu) |x - y| / scale,  c such that k(x, x) = 1.

    nu = 1/2 is exp(-r), 3/2 is (1 + z) exp(-z), and so on to 7/2.  Derivatives of order m are bounded
    iff m < nu.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Matern(nu=1.5).smoothness(dimension=3)
    1.5
    """

    nu: float
    scale: Scale = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in ORDERS:
            raise ValueError(
                f"Matern is implemented for nu in {ORDERS}, got {self.nu!r}; Gaussian is the limit of large nu."
            )
        object.__setattr__(self, "nu", float(self.nu))

    def smoothness(self, dimension: int) -> float:
        return self.nu

    def smoother(self, order: int, dimension: int) -> str | None:
        return f"Matern(nu={order + 0.5})" if order + 0.5 in ORDERS else "Gaussian()"

    def form(self, dimension: int) -> Form:
        return Form(1, self.ladder, smooth=False, linear=self.linear(dimension))

    def ladder(self, q: Array, top: int) -> list[Array]:
        """With m_mu(z) = sqrt(2/pi) z^mu K_mu(z):  phi = m_nu / m_nu(0)  and  d/dq m_mu = 2 nu m_(mu-1)."""
        xp = namespace(q)
        z = xp.sqrt(-4 * self.nu * q)
        decay = xp.exp(-z)
        j = ceil(self.nu) - 1
        rungs = []
        for rung in range(top + 1):
            factor = (2 * self.nu) ** rung / _reverse_bessel(j)[0]
            if rung <= j:
                values = _polynomial(_reverse_bessel(j - rung), z) * decay
            else:
                # m_(-mu) = z^(-2 mu) m_mu, singular at 0 while its slopes vanish there faster: the
                # product is 0 in the limit, and 0 is what the rung contributes below the floor.
                lower = rung - j - 1
                positive = z > xp.finfo(z.dtype).smallest_normal ** (1 / (2 * lower + 2))
                safe = xp.where(positive, z, xp.ones_like(z))
                values = _polynomial(_reverse_bessel(lower), z) * decay * safe ** -(2 * lower + 1)
                values = xp.where(positive, values, xp.zeros_like(z))
            rungs.append(factor * values)
        return rungs

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel:
        return blurred_mixture(self.nu, self.linear(len(covariance)), lambda u: u / self.nu, covariance)


def _reverse_bessel(j: int) -> list[float]:
    """Coefficients, lowest first, of theta_j with m_(j+1/2)(z) = theta_j(z) exp(-z)."""
    before, now = [1.0], [1.0, 1.0]
    if j == 0:
        return before
    for i in range(2, j + 1):
        after = [(2 * i - 1) * c for c in now] + [0.0]
        for power, c in enumerate(before):
            after[power + 2] += c
        before, now = now, after
    return now


def _polynomial(coefficients: list[float], z: Array) -> Array:
    """Horner's rule."""
    value = coefficients[-1] + 0 * z
    for c in reversed(coefficients[:-1]):
        value = value * z + c
    return value
