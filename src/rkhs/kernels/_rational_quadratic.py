"""The rational quadratic kernel: its derivatives in q are powers of the same base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, prod
from numbers import Real
from typing import Any, ClassVar

from rkhs._backend.arrays import Array, Matrix, Vector, namespace
from rkhs._calculus.forms import Form
from rkhs.kernels._base import FormKernel, Kernel, Tunable
from rkhs.kernels._gaussian import GaussianMixture
from rkhs.kernels._scaled import Scale, Weighted


@dataclass(frozen=True)
class RationalQuadratic(GaussianMixture):
    """The rational quadratic kernel: smooth functions of several length scales at once.

        k(x, y) = (1 + |x - y|^2 / (2 alpha scale^2))^(-alpha), a mixture of Gaussians of all scales

    Derivatives of every order are bounded.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.RationalQuadratic(alpha=1.0, scale=1.0)([[0.0], [1.0]])[0, 1].round(6)
    np.float64(0.666667)
    """

    alpha: Any  # a number, or open
    scale: Scale = 1.0
    positive: ClassVar[tuple[str, ...]] = ("alpha", "scale")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.alpha, Tunable):
            return
        if not (isinstance(self.alpha, Real) and 0 < float(self.alpha) < inf):
            raise ValueError(f"RationalQuadratic needs a positive alpha, got {self.alpha!r}.")

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """With b = 1 - q/alpha:  phi = b^-alpha, and each further derivative multiplies by (alpha + k)/alpha / b."""
        xp = namespace(q)
        q *= -1 / self.alpha
        now = xp.log1p(q)  # whose rounding alpha does not multiply at near points, as it does that of log(1 + ..)
        q += 1
        now *= -(self.alpha + orders[0])
        now = xp.exp(now)
        now *= prod((self.alpha + k) / self.alpha for k in range(orders[0]))
        phi = {orders[0]: now}
        for k in orders[1:]:
            phi[k] = phi[k - 1] / q
            phi[k] *= (self.alpha + k - 1) / self.alpha
        return phi

    def shape_and_variance(self) -> tuple[float, Callable[[Vector], Vector]]:
        return self.alpha, lambda u: self.alpha / u

    def own_tangent(self, name: str, feature: int | None) -> Kernel:
        return AlphaTangent(self) if name == "alpha" else super().own_tangent(name, feature)


@dataclass(frozen=True)
class AlphaTangent(FormKernel):
    """The derivative of a rational quadratic kernel in log alpha."""

    kernel: RationalQuadratic

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return replace(self.kernel.form(dimension), radial_derivatives=self.radial_derivatives)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """With x = -q/alpha, phi^(k) times  (alpha + k) x/(1 + x) - alpha log(1 + x) - sum_(j<k) j/(alpha + j)."""
        xp, alpha = namespace(q), self.kernel.alpha
        x = q * (-1 / alpha)
        phi = self.kernel.radial_derivatives(q, orders)
        log, share = alpha * xp.log1p(x), x / (1 + x)
        return {k: phi[k] * ((alpha + k) * share - log - sum(j / (alpha + j) for j in range(k))) for k in orders}

    def blurred(self, covariance: Matrix) -> Kernel:
        """Differentiate weights and scales of the mixture: v = alpha / u, so that dlog scale = dlog alpha / 2."""
        nodes, slopes = self.kernel.mixture(len(covariance))
        parts: list[tuple[float, Kernel]] = []
        for (weight, gaussian), slope in zip(nodes, slopes, strict=True):
            parts.append((weight * self.kernel.alpha * float(slope), gaussian.blurred(covariance)))
            parts.append((weight / 2, gaussian.blurred_tangent(covariance, None)))
        return Weighted(tuple(parts))
