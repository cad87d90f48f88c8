"""The rational quadratic kernel, whose derivatives in q are powers of the same base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, prod
from numbers import Real
from typing import Any, ClassVar

from rkhs._backend.arrays import Array, Matrix, Vector, namespace
from rkhs._calculus.forms import Form
from rkhs.kernels._base import FormKernel, Kernel
from rkhs.kernels._gaussian import GaussianMixture
from rkhs.kernels._scaled import LinearCombination, Scale
from rkhs.kernels._tunable import Tunable


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

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return AlphaTangent(self) if name == "alpha" else super().parameter_tangent(name, feature)


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
