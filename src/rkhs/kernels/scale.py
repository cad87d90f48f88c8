"""Length scales: a positive number, one per feature, "median" until somebody has the data, or left open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # which imports scipy.spatial when it is first used

from rkhs._backend.arrays import Array, as_points, as_real, to_numpy
from rkhs.kernels.base import FormKernel, Kernel, check_known
from rkhs.kernels.open import Open
from rkhs.kernels.tangents import ScaleTangent

MOST_POINTS = 5000  # above this, the median is that of a random sample
MOST_COORDINATES = 1e10  # of all pairs, which take some ten seconds
LEAST = float(np.finfo(np.float64).tiny ** 0.5)  # below it squares are lost, and so they are above its inverse
Scale = float | tuple[float, ...] | str | Open


def median_scale(X: Array, random_state: int = 0, distance: str = "euclidean") -> float:
    """The median distance between distinct points, a common choice of scale.

    Above 5,000 points (2,000 of 5,000 features) it is that of so many drawn at random.  `distance` is a name that SciPy
    knows.

    Examples
    --------
    >>> median_scale([[0.0], [1.0], [3.0]])
    2.0
    """
    points = to_numpy(as_points(X))
    most = min(MOST_POINTS, int((2 * MOST_COORDINATES / points.shape[1]) ** 0.5))
    if len(points) > most:
        points = np.random.default_rng(random_state).choice(points, most, replace=False)
    distances = scipy.spatial.distance.pdist(points, distance)
    distances = distances[distances > 0]
    if distances.size == 0:
        raise ValueError(
            f"The median distance of {len(points)} points is undefined: fewer than two of them are distinct. "
            "Give the scale as a number."
        )
    return float(np.median(distances))


def as_scale(scale: Any) -> Scale:
    """A checked scale: float, tuple of floats, "median", or open."""
    if isinstance(scale, Open):
        return scale
    if isinstance(scale, str):
        if scale != "median":
            raise ValueError(f'scale must be positive, one per feature, or "median", got {scale!r}.')
        return scale
    values = np.asarray(to_numpy(as_real(scale, "scale")), dtype=np.float64)
    if values.ndim > 1 or values.size == 0 or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"scale must be positive and finite, a number or one per feature, got {scale!r}.")
    if not np.all((values >= LEAST) & (values <= 1 / LEAST)):
        raise ValueError(
            f"scale must be between {LEAST:.1e} and {1 / LEAST:.1e}, beyond which its square is no number a computer "
            f"has, got {scale!r}: give the features another unit."
        )
    return float(values) if values.ndim == 0 else tuple(values.tolist())


class Scaled(Kernel):
    """A kernel of x / scale; a subclass has the field `scale`."""

    scale: Scale
    positive: ClassVar[tuple[str, ...]] = ("scale",)
    distance: ClassVar[str] = "euclidean"  # of which the median is a scale

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_scale(self.scale))

    def linear(self, dimension: int) -> np.ndarray[Any, Any]:
        """The map x -> x / scale, one factor per feature."""
        if isinstance(self.scale, str):
            raise ValueError(
                f"{self!r} has no scale yet: resolve it where the data are, with kernel.resolved(X), "
                "or give the scale as a number."
            )
        check_known(self)
        factors = 1.0 / np.asarray(self.scale, dtype=np.float64)
        return np.full(dimension, factors) if factors.ndim == 0 else factors

    def resolved(self, X: Array) -> Kernel:
        if self.scale != "median":
            return self
        return replace(cast(Any, self), scale=median_scale(X, distance=self.distance))


class ScaledKernel(Scaled, FormKernel):
    """A radial kernel of x / scale."""

    def own_tangent(self, name: str, feature: int | None) -> Kernel:
        return ScaleTangent(self, feature)
