"""Tangents of images: f does not change when the image moves a little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, as_points, like, to_numpy
from rkhs.functionals import DirectionalDerivative
from rkhs.invariances.flows import FLOWS, moved, slopes, smooth, tangent


@dataclass(frozen=True)
class ImageTangents:
    """An image stays the same when it moves, turns, grows or shears a little.

        L_ik(f) = <v_ik, grad f(x_i)> with v_ik = d/da T_k(x_i, a): how f changes when the image x_i moves in the way k

    The rows of X are images of the given shape, flat in C order.  One unit of each motion moves the border of the image
    by about one pixel, so that all kinds have comparable tangents (`rkhs.invariances.flows`).

    Parameters
    ----------
    shape : (rows, columns)
    kinds : of "translation" (two tangents), "rotation", "scaling", "shear" (two), "thickness"
    method : "analytic" differentiates the smoothed image; "difference" takes (T(x, step) - T(x, -step)) / (2 step) of
        the smoothed image really moved (Zhang et al. 2013, 6.3), which also sees what is `step` pixels away
    smoothing : width in pixels of the Gaussian that smooths the image first
    step : the motion of the difference, in pixels at the border

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import ImageTangents
    >>> ramp = np.outer(np.ones(5), np.arange(5.0)).reshape(1, -1)  # an image that rises by 1 per column
    >>> tangents = ImageTangents(shape=(5, 5), kinds=["translation"], smoothing=0)
    >>> tangents.vectors(ramp).reshape(2, 5, 5)[1, 2]  # moved right by one pixel, it falls by 1
    array([-1., -1., -1., -1., -1.])
    >>> tangents(ramp)
    DirectionalDerivative(1 point in R^25)
    """

    shape: tuple[int, int]
    kinds: Sequence[str] = ("translation", "rotation", "scaling", "shear", "thickness")
    method: str = "analytic"
    smoothing: float = 0.7
    step: float = 1.0

    def __post_init__(self) -> None:
        kinds = (self.kinds,) if isinstance(self.kinds, str) else tuple(self.kinds)
        if not kinds or not set(kinds) <= set(FLOWS):
            raise ValueError(f"kinds must be among {', '.join(FLOWS)}, got {list(kinds)}.")
        if self.method not in ("analytic", "difference"):
            raise ValueError(f'method must be "analytic" or "difference", got {self.method!r}.')
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing must be a width in pixels, zero or more, got {self.smoothing!r}.")
        if not self.step > 0:
            raise ValueError(f"step must be a positive number of pixels, got {self.step!r}.")
        object.__setattr__(self, "shape", as_shape(self.shape))
        object.__setattr__(self, "kinds", kinds)

    @property
    def names(self) -> list[str]:
        """The name of each tangent: translation is two of them, shear too."""
        return [name for _, name in self._flows]

    def __call__(self, X: Array) -> DirectionalDerivative:
        """The derivatives along the tangents at each row: shape (t, k)."""
        points = as_points(X)
        return DirectionalDerivative(points, self.vectors(points))

    def vectors(self, X: Array) -> Array:
        """The tangents (t, k, n) of the rows of X."""
        points = as_points(X)
        images = as_images(points, self.shape)
        if self.method == "analytic":
            steep = slopes(images, self.smoothing)
            tangents = [tangent(steep, kind, name) for kind, name in self._flows]
        else:
            start = smooth(images, self.smoothing)
            tangents = [
                (moved(start, kind, name, self.step) - moved(start, kind, name, -self.step)) / (2 * self.step)
                for kind, name in self._flows
            ]
        return like(self._rows(tangents), points)

    def moved(self, X: Array, amount: float) -> Array:
        """The rows of X really moved, in each of the ways: (t, k, n).  They are not smoothed."""
        points = as_points(X)
        images = as_images(points, self.shape)
        return like(self._rows([moved(images, kind, name, amount) for kind, name in self._flows]), points)

    @property
    def _flows(self) -> list[tuple[str, str]]:
        return [(kind, name) for kind in self.kinds for name in FLOWS[kind]]

    def _rows(self, images: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        t, rows, columns = images[0].shape
        return np.stack(images, axis=1).reshape(t, len(images), rows * columns)


def as_shape(shape: Any) -> tuple[int, int]:
    """(rows, columns), at least two of each."""
    sides = tuple(int(side) for side in shape)
    if len(sides) != 2 or min(sides) < 2:
        raise ValueError(f"shape must be (rows, columns), at least two of each, got {shape!r}.")
    return sides[0], sides[1]


def as_images(points: Array, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """The rows as images (t, rows, columns), in float64."""
    rows, columns = shape
    if points.shape[1] != rows * columns:
        raise ValueError(
            f"X has {points.shape[1]} features, and images of shape {shape} have {rows * columns}: "
            "give the shape of the images that are the rows of X."
        )
    return to_numpy(points).astype(np.float64).reshape(-1, rows, columns)
