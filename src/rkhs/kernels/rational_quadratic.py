"""The rational quadratic kernel: a ladder that stays in its family."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from numbers import Real
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, namespace
from rkhs.calculus.forms import Form
from rkhs.kernels.base import Kernel
from rkhs.kernels.mixture import blurred_mixture
from rkhs.kernels.scale import Scale, ScaledKernel


@dataclass(frozen=True)
class RationalQuadratic(ScaledKernel):
    """k(x, y) = (1 + |x - y|^2 / (2 alpha scale^2))^(-alpha), a mixture of Gaussians of all scales.

    Derivatives of every order are bounded.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.RationalQuadratic(alpha=1.0, scale=1.0)([[0.0], [1.0]])[0, 1].round(6)
    np.float64(0.666667)
    """

    alpha: float
    scale: Scale = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.alpha, Real) and 0 < self.alpha < inf):
            raise ValueError(f"RationalQuadratic needs a positive alpha, got {self.alpha!r}.")

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(1, self.ladder, smooth=True, linear=self.linear(dimension))

    def ladder(self, q: Array, rungs: range) -> dict[int, Array]:
        """With b = 1 - q/alpha:  phi = b^-alpha, and each further rung multiplies by (alpha + k)/alpha / b."""
        xp = namespace(q)
        q *= -1 / self.alpha
        q += 1
        now = xp.log(q)
        now *= -(self.alpha + rungs[0])
        now = xp.exp(now)
        now *= prod((self.alpha + k) / self.alpha for k in range(rungs[0]))
        phi = {rungs[0]: now}
        for k in rungs[1:]:
            phi[k] = phi[k - 1] / q
            phi[k] *= (self.alpha + k - 1) / self.alpha
        return phi

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel:
        return blurred_mixture(self.alpha, self.linear(len(covariance)), lambda u: self.alpha / u, covariance)
