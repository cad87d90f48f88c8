"""The Gaussian kernel: its own derivative at every rung, and its own average."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, namespace
from rkhs._calculus.atoms import check_map
from rkhs._calculus.forms import Form
from rkhs.kernels.algebra import Multiple, Product, Pullback
from rkhs.kernels.base import Kernel
from rkhs.kernels.scale import Scale, ScaledKernel
from rkhs.kernels.tangents import Weighted, square


@dataclass(frozen=True)
class Gaussian(ScaledKernel):
    """The Gaussian kernel: smooth functions, all derivatives allowed.

        k(x, y) = exp(-|x - y|^2 / (2 scale^2)), with one scale or one per feature

    Derivatives of every order are bounded; the norm of a first partial derivative is 1 / scale.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Gaussian(scale=2.0)([[0.0], [2.0]])
    array([[1.        , 0.60653066],
           [0.60653066, 1.        ]])
    """

    scale: Scale = 1.0

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(1, exponential, smooth=True, linear=self.linear(dimension))

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel:
        """sqrt(det S / det(S + C)) exp(-d'(S + C)^-1 d / 2), with S = diag(scale^2), C the covariance."""
        factors = self.linear(len(covariance))
        check_map(factors, len(covariance))
        if covariance.ndim == 1:
            ratio = covariance * factors**2  # C / S
            wider = np.sqrt(1 + ratio) / factors
            same = np.all(wider == wider[0])
            kernel: Kernel = Gaussian(scale=float(wider[0]) if same else wider)
            return Multiple(float(np.exp(-0.5 * np.sum(np.log1p(ratio)))), kernel)
        ratios, axes = np.linalg.eigh(np.outer(factors, factors) * covariance)
        ratios[ratios < ratios[-1] * np.finfo(float).eps * len(ratios)] = 0.0  # rounding, where C is singular
        narrower = (axes / np.sqrt(1 + ratios)).T * factors
        return Multiple(float(np.exp(-0.5 * np.sum(np.log1p(ratios)))), Pullback(Gaussian(scale=1.0), narrower))

    def gaussians(self, dimension: int) -> list[tuple[float, Gaussian]]:
        """The mixture of Gaussians that it is."""
        return [(1.0, self)]

    def blurred_tangent(self, covariance: np.ndarray[Any, Any], feature: int | None) -> Kernel:
        """d / dlog s_j of the average:  (1 - s_j^2 (M^-1)_jj + s_j^2 (M^-1 d)_j^2) times it, with M = S + C."""
        average, factors = self.blurred(covariance), self.linear(len(covariance))
        scales = 1 / factors
        inverse = np.linalg.inv(np.diag(scales**2) + (np.diag(covariance) if covariance.ndim == 1 else covariance))
        rows = slice(None) if feature is None else slice(feature, feature + 1)
        constant = float(np.sum((1 - scales**2 * np.diag(inverse))[rows]))
        return Weighted(((constant, average), (1.0, Product((average, square((scales[:, None] * inverse)[rows]))))))


def exponential(q: Array, rungs: range) -> dict[int, Array]:
    """The ladder of exp(q): one array at every rung."""
    return dict.fromkeys(rungs, namespace(q).exp(q))
