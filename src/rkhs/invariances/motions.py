"""Images moved at random: copies that are of the same class, for models that learn from virtual samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage

from rkhs._backend.arrays import Array, as_points, like
from rkhs.invariances.flows import carried, resampled
from rkhs.invariances.images import as_images, as_shape

SIZES = ("rotation", "scaling", "shear", "translation", "bending")


@dataclass(frozen=True)
class RandomMotion:
    """X -> the images of X, each turned, stretched, sheared, shifted and bent a little, at random.

    Each amount is normal with the given standard deviation.  Bending moves each pixel by a smooth random field: noise,
    averaged over a Gaussian of `width` pixels (the elastic distortion of Simard, Steinkraus and Platt, 2003).

    Parameters
    ----------
    shape : (rows, columns)
    rotation : in radians
    scaling, shear : by which share rows and columns are stretched, and pushed along each other
    translation : in pixels
    bending : in pixels; 0 for none
    width : of the Gaussian that smooths the bending, in pixels
    random_state : a seed; the same seed moves the same rows in the same way

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import RandomMotion
    >>> image = np.zeros((8, 8))
    >>> image[2:6, 3:5] = 1.0
    >>> RandomMotion(shape=(8, 8), random_state=1)(image.reshape(1, -1)).shape
    (1, 64)
    >>> model = rkhs.VirtualSampleSVC([RandomMotion((8, 8), random_state=k) for k in range(7)])
    """

    shape: tuple[int, int]
    rotation: float = 0.1
    scaling: float = 0.1
    shear: float = 0.1
    translation: float = 1.0
    bending: float = 0.0
    width: float = 4.0
    random_state: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", as_shape(self.shape))
        for name in SIZES:
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a finite number, zero or more, got {getattr(self, name)!r}.")
        if not 0 < self.width < np.inf:
            raise ValueError(f"width must be a positive number of pixels, got {self.width!r}.")

    def __call__(self, X: Array) -> Array:
        """The moved rows, of the shape of X."""
        points = as_points(X)
        images = as_images(points, self.shape)
        return like(resampled(images, self._places(len(images))).reshape(len(images), -1), points)

    def _places(self, count: int) -> np.ndarray[Any, Any]:
        """Where each pixel of each image comes from, (t, 2, rows, columns)."""
        rng = np.random.default_rng(self.random_state)
        amounts = rng.standard_normal((count, 7))
        turn = self.rotation * amounts[:, 0]
        cos, sin = np.cos(turn), np.sin(turn)
        stretch = np.exp(self.scaling * amounts[:, 1:3])
        along = self.shear * amounts[:, 3:5]
        A = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
        bent = np.zeros_like(A)
        bent[:, [0, 1], [0, 1]], bent[:, [0, 1], [1, 0]] = stretch, along
        places = carried(self.shape, A @ bent, self.translation * amounts[:, 5:])
        if self.bending:
            noise = rng.standard_normal((count, 2, *self.shape))
            field = ndimage.gaussian_filter(noise, self.width, axes=(2, 3), mode="wrap")
            places += self.bending * field / field.std()
        return places
