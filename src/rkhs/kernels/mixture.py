"""Averages of scale mixtures of Gaussians.

    k = integral of Gaussian(scale sqrt(v(u))) u^(a-1) e^(-u) du / Gamma(a)

The rational quadratic kernel has v = alpha / u and a = alpha, Matern has v = u / nu and a = nu (in units
of the scale).  The Gaussians' averages are known, so the average of k is one integral over u.  In
log u the integrand is analytic in a strip of half-width pi/2, so the trapezoidal rule converges
geometrically: the error is below 1e-13 with the step chosen here, in every dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from rkhs.kernels.algebra import Multiple, Sum
from rkhs.kernels.base import Kernel
from rkhs.kernels.gaussian import Gaussian

LOWEST = -40.0  # of log u
NEGLIGIBLE = 1e-24  # a Gaussian of less than this share of k is left out; narrow ones have large derivatives


def mixture(
    shape: float, factors: np.ndarray[Any, Any], variance: Callable[[Any], Any]
) -> tuple[list[tuple[float, Gaussian]], np.ndarray[Any, Any]]:
    """Weights and Gaussians of x * factors with a = shape and v = variance; and the derivatives of log weights in a."""
    step = 0.2 / max(1.0, shape / 4) ** 0.5  # the peak narrows as shape grows
    log_u = np.arange(LOWEST, np.log(shape + 12 * shape**0.5 + 40), step)
    weights = step * np.exp(shape * log_u - np.exp(log_u) - gammaln(shape))
    slopes = log_u - digamma(shape)
    # Below the lowest node the Gaussians no longer change: the geometric tail goes to that node.
    tail = np.exp(-shape * step) / -np.expm1(-shape * step)
    weights[0] += weights[0] * tail
    slopes[0] -= step * tail
    variances = variance(np.exp(log_u))
    return [(float(w), Gaussian(scale=np.sqrt(v) / factors)) for w, v in zip(weights, variances, strict=True)], slopes


def blurred_mixture(gaussians: list[tuple[float, Gaussian]], covariance: np.ndarray[Any, Any]) -> Kernel:
    """The average of a mixture over N(0, covariance)."""
    parts = [
        (weight * w, kernel) for weight, gaussian in gaussians for w, kernel in gaussian.blurred(covariance).summands()
    ]
    total = sum(weight for weight, _ in parts)
    return Sum(tuple(Multiple(weight, kernel) for weight, kernel in parts if weight > NEGLIGIBLE * total))
