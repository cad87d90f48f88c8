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
from scipy.special import gammaln

from rkhs.kernels.algebra import Multiple, Sum
from rkhs.kernels.base import Kernel
from rkhs.kernels.gaussian import Gaussian

LOWEST = -40.0  # of log u
NEGLIGIBLE = 1e-24  # a Gaussian of less than this share of k is left out; narrow ones have large derivatives


def blurred_mixture(
    shape: float, factors: np.ndarray[Any, Any], variance: Callable[[Any], Any], covariance: np.ndarray[Any, Any]
) -> Kernel:
    """The average over N(0, covariance) of the mixture of x * factors with a = shape and v = variance."""
    step = 0.2 / max(1.0, shape / 4) ** 0.5  # the peak narrows as shape grows
    log_u = np.arange(LOWEST, np.log(shape + 12 * shape**0.5 + 40), step)
    weights = step * np.exp(shape * log_u - np.exp(log_u) - gammaln(shape))
    # Below the lowest node the Gaussians no longer change: the geometric tail goes to that node.
    weights[0] += weights[0] * np.exp(-shape * step) / -np.expm1(-shape * step)
    parts = []
    for weight, v in zip(weights, variance(np.exp(log_u)), strict=True):
        average = Gaussian(scale=np.sqrt(v) / factors).blurred(covariance)
        if isinstance(average, Multiple):
            parts.append((weight * average.factor, average.kernel))
    total = sum(weight for weight, _ in parts)
    return Sum(tuple(Multiple(weight, kernel) for weight, kernel in parts if weight > NEGLIGIBLE * total))
