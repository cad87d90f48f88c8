"""The rational quadratic kernel: a ladder that stays in its family."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array
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
        if not (self.alpha > 0 and np.isfinite(self.alpha)):
            raise ValueError(f"RationalQuadratic needs a positive alpha, got {self.alpha!r}.")

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(1, self.ladder, smooth=True, linear=self.linear(dimension))

    def ladder(self, q: Array, top: int) -> list[Array]:
        """phi = b^-alpha with b = 1 - q/alpha;  each rung multiplies by (alpha + rung)/alpha / b."""
        base = 1 - q / self.alpha
        rungs = [base**-self.alpha]
        for rung in range(top):
            rungs.append(rungs[-1] / base * ((self.alpha + rung) / self.alpha))
        return rungs

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel:
        return blurred_mixture(self.alpha, self.linear(len(covariance)), lambda u: self.alpha / u, covariance)
