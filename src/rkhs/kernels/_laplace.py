"""The Laplace kernel of the L1 distance: a rough kernel, axis by axis, that suits tabular data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # imports scipy.spatial lazily

from rkhs._backend.arrays import Array, Vector, like, namespace
from rkhs._calculus.atoms import AllPairs, Pairing, check_map
from rkhs.kernels._base import Kernel
from rkhs.kernels._scaled import HasLengthScale, Scale


@dataclass(frozen=True)
class Laplace(HasLengthScale):
    """The Laplace kernel of the L1 distance, for point evaluations only.

        k(x, y) = exp(-sum_j |x_j - y_j| / scale_j)

    It is the product of exp(-|x_j - y_j| / scale_j) over the features.  Its functions may have kinks along each axis,
    as those of trees have steps; derivatives are not bounded functionals.

    Parameters
    ----------
    scale : float, tuple of float, "median" or Tunable, default=1.0
        The length scale, or one per feature.  "median" is the median L1 distance of the points.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Laplace(scale=2.0)([[0.0, 0.0], [1.0, -1.0]])
    array([[1.        , 0.36787944],
           [0.36787944, 1.        ]])
    """

    scale: Scale = 1.0
    distance: ClassVar[str] = "cityblock"
    decreasing: ClassVar[bool] = True

    def smoothness(self, dimension: int) -> float:
        return 0.5

    def smoother(self, order: int, dimension: int) -> str | None:
        return "Gaussian()"

    def pair(self, pairing: Pairing) -> Array:
        distance = distances(pairing, self.linear(pairing.left.dimension))
        return _flat(pairing, namespace(distance).exp(-distance))

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return LaplaceTangent(self, feature)


@dataclass(frozen=True)
class LaplaceTangent(Kernel):
    """The derivative of the Laplace kernel in the logarithm of its scale, or of the scale of one feature."""

    kernel: Laplace
    feature: int | None = None

    def smoothness(self, dimension: int) -> float:
        return self.kernel.smoothness(dimension)

    def pair(self, pairing: Pairing) -> Array:
        factors = self.kernel.linear(pairing.left.dimension)
        distance = distances(pairing, factors)
        along_feature = distance
        if self.feature is not None:
            along_feature = distances(pairing, np.where(np.arange(len(factors)) == self.feature, factors, 0.0))
        return _flat(pairing, along_feature * namespace(distance).exp(-distance))


def distances(pairing: Pairing, factors: Vector) -> Array:
    """Return the weighted L1 distances sum_j factor_j |x_j - y_j| of the paired points, (t, s) or (t,).

    They are computed from the differences, so that near points far from the origin lose no accuracy.
    """
    check_map(factors, pairing.left.dimension)
    x, y = pairing.left.points, pairing.right.points
    if isinstance(x, np.ndarray) and isinstance(pairing, AllPairs):
        if 0 in (len(x), len(y)):
            return np.zeros((len(x), len(y)), dtype=x.dtype)
        return like(scipy.spatial.distance.cdist(x, y, "cityblock", w=factors), x)
    xp = namespace(x)
    if not isinstance(pairing, AllPairs):
        return xp.sum(xp.abs(x - y) * like(factors, x), axis=-1)
    total = xp.zeros((x.shape[0], y.shape[0]), dtype=x.dtype, device=x.device)
    for j, factor in enumerate(factors.tolist()):
        if factor:
            total = total + factor * xp.abs(x[:, j, None] - y[None, :, j])
    return total


def _flat(pairing: Pairing, values: Array) -> Array:
    """Expand one value per pair of points to one per pair of atoms."""
    return pairing.flat(values[:, None, :, None] if isinstance(pairing, AllPairs) else values[:, None])
