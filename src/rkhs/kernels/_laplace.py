"""The Laplace kernel of the L1 distance, which looks at one feature at a time: rough, and at home in tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # which imports scipy.spatial when it is first used

from rkhs._backend.arrays import Array, Vector, like, namespace
from rkhs._calculus.atoms import AllPairs, Pairing, check_map
from rkhs.kernels._base import Kernel
from rkhs.kernels._scaled import Scale, Scaled


@dataclass(frozen=True)
class Laplace(Scaled):
    """Functions with kinks along each feature, from the sum of absolute differences; for values only.

        k(x, y) = exp(-sum_j |x_j - y_j| / scale),  with one scale or one per feature

    A product of exp(-|x_j - y_j| / scale_j) over features.  Its functions may have kinks, along each axis by itself, as
    those of trees have steps; derivatives are not bounded.  "median" is the median of the L1 distances.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Laplace(scale=2.0)([[0.0, 0.0], [1.0, -1.0]])
    array([[1.        , 0.36787944],
           [0.36787944, 1.        ]])
    """

    scale: Scale = 1.0
    distance: ClassVar[str] = "cityblock"

    def smoothness(self, dimension: int) -> float:
        return 0.5

    def smoother(self, order: int, dimension: int) -> str | None:
        return "Gaussian()"

    def pair(self, pairing: Pairing) -> Array:
        distance = distances(pairing, self.linear(pairing.left.dimension))
        return _flat(pairing, namespace(distance).exp(-distance))

    def own_tangent(self, name: str, feature: int | None) -> Kernel:
        return LaplaceTangent(self, feature)


@dataclass(frozen=True)
class LaplaceTangent(Kernel):
    """The derivative of the Laplace kernel k in the logarithm of its scale, d k, or of that of feature j, d_j k."""

    kernel: Laplace
    feature: int | None = None

    def smoothness(self, dimension: int) -> float:
        return self.kernel.smoothness(dimension)

    def pair(self, pairing: Pairing) -> Array:
        factors = self.kernel.linear(pairing.left.dimension)
        distance = distances(pairing, factors)
        own = distance
        if self.feature is not None:
            own = distances(pairing, np.where(np.arange(len(factors)) == self.feature, factors, 0.0))
        return _flat(pairing, own * namespace(distance).exp(-distance))


def distances(pairing: Pairing, factors: Vector) -> Array:
    """sum_j factor_j |x_j - y_j| for points x of the left and y of the right, (t, s) or (t,).

    Of differences as they are given, so that near points far from the origin lose nothing.
    """
    check_map(factors, pairing.left.dimension)
    x, y = pairing.left.points, pairing.right.points
    if isinstance(x, np.ndarray) and isinstance(pairing, AllPairs):
        if 0 in (len(x), len(y)):
            return np.zeros((len(x), len(y)), dtype=x.dtype)
        return like(scipy.spatial.distance.cdist(x, y, "cityblock", w=factors), x)
    xp = namespace(x, y)
    if not isinstance(pairing, AllPairs):
        return xp.sum(xp.abs(x - y) * like(factors, x), axis=-1)
    total = xp.zeros((x.shape[0], y.shape[0]), dtype=x.dtype, device=x.device)
    for j, factor in enumerate(factors.tolist()):
        if factor:
            total = total + factor * xp.abs(x[:, j, None] - y[None, :, j])
    return total


def _flat(pairing: Pairing, values: Array) -> Array:
    """From one value for each pair of points to one for each pair of atoms."""
    return pairing.flat(values[:, None, :, None] if isinstance(pairing, AllPairs) else values[:, None])
