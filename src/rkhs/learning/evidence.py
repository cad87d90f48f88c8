"""Evidence: how likely the targets of squared losses are under a kernel and weights (theory, section 9).

J is the posterior of a Gaussian process with covariance tau^2 k whose functionals were observed with noise of variance
tau^2 / (2 w).  With S = G + diag(1/(2w)) and Z an orthonormal basis of the complement of the basis functions' values Q,

    -2 log p(Z'b)  =  b'Pb / tau^2  +  log det Z'SZ  +  (N - r) log(2 pi tau^2),        P = Z (Z'SZ)^-1 Z'

the restricted likelihood: that of the targets' part which the basis cannot explain.  Q is made orthonormal before, so
the number does not depend on how basis functions were scaled; without a basis it is the likelihood itself.  The best
amplitude is tau^2 = b'Pb / (N - r), which is put in, unless it is known: where noise is given in the units of the
targets, tau is 1 and k has their units too.  Outputs are independent, each with its own amplitude; one that
the basis explains altogether has none and is left out.

Terms whose targets are all zero are knowledge, not data: what they say holds before anything is observed, and the
evidence is that of the other terms given them, log p(b) - log p(0 on them).  Else a thousand slopes that are known to
be small would count as a thousand observations, which any kernel of small amplitude explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs.kernels.base import Kernel
from rkhs.learning.observations import Equations, Observations
from rkhs.learning.settings import Setting, gradient


@dataclass(frozen=True, eq=False)
class Evidence:
    """How likely the targets are under a kernel and weights.

    The log marginal likelihood, and the amplitude tau that makes it largest: the covariance is tau^2 k.

    `gradient`, where it was asked for, has the derivative in the logarithm of each setting by name.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]), weight=100.0)
    >>> smooth, rough = (rkhs.Problem(rkhs.Gaussian(scale=s), [term]).evidence().value for s in (0.3, 0.01))
    >>> bool(smooth > rough)
    True
    """

    value: float
    amplitude: Any  # a number, or one for each output
    gradient: dict[str, float] | None = None


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The logarithm of the likelihood of some outputs, and tau^2 of all of them (c,), zero where there is nothing."""

    value: float
    squares: Matrix

    @classmethod
    def of(
        cls, energies: Matrix, free: int, log_det: float, informative: Matrix, amplitude: float | None
    ) -> Likelihood:
        """From b'Pb of each output, N - r, and log det Z'SZ, less what is given; for an amplitude, or the best one."""
        if free < 1:
            raise ValueError(
                "There are no more functionals than basis functions: add functionals, or take a smaller basis."
            )
        squares = np.zeros(len(energies))
        squares[informative] = np.maximum(energies[informative], np.finfo(np.float64).tiny) / free
        if amplitude is not None:
            squares[informative] = amplitude**2
        value = (
            -sum(energies[k] / squares[k] + free * log(2 * pi * squares[k]) + log_det for k in informative.tolist()) / 2
        )
        return cls(value, squares)


def likelihood(observations: Observations, equations: Equations) -> Likelihood:
    """Of the observations."""
    energies = np.sum(equations.b * equations.a, axis=0)
    given = observations.free, equations.log_det, observations.informative, observations.amplitude
    return Likelihood.of(energies, *given)


def log_evidence(
    observations: Observations,
    kernel: Kernel,
    weight: Matrix,
    settings: Sequence[Setting] | None,
) -> tuple[Likelihood, Matrix]:
    """The likelihood, and its derivatives in the logarithms of some settings; none at all where that is None."""
    equations = observations.equations(kernel, weight)
    found, some = likelihood(observations, equations), observations.informative
    if settings is None:
        return found, np.zeros(0)
    scaled = equations.a[:, some] / np.sqrt(found.squares[some])
    B = equations.inverse()
    B *= -len(some) / 2
    B += scaled @ scaled.T / 2
    if equations.prior is not None:
        B[np.ix_(equations.given, equations.given)] += equations.prior.inverse() * (len(some) / 2)
    return found, gradient(observations, kernel, weight, B, settings)
