"""Smoother images, whose distances say more about what is in them."""

from __future__ import annotations

from sklearn.base import OneToOneFeatureMixin

from rkhs._backend.arrays import Images
from rkhs.invariances.images import smooth
from rkhs.preprocessing.images import ImageTransformer


class Blur(OneToOneFeatureMixin, ImageTransformer):  # type: ignore[misc]
    """Average each image over a Gaussian of `width` pixels.

    Two images that differ by a shift of a pixel are far apart as rows of numbers, and nearer after blurring.

    Parameters
    ----------
    shape : (rows, columns) of the images, which are rows of X, flat in C order
    width : standard deviation of the Gaussian in pixels; 0 leaves images as they are

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.preprocessing import Blur
    >>> dot = np.zeros((5, 5))
    >>> dot[2, 2] = 1.0
    >>> Blur(shape=(5, 5), width=0.7).fit_transform(dot.reshape(1, -1)).reshape(5, 5)[2].round(2)
    array([0.01, 0.12, 0.32, 0.12, 0.01])
    """

    def __init__(self, shape: tuple[int, int], width: float = 0.7) -> None:
        self.shape = shape
        self.width = width

    def _transformed(self, images: Images) -> Images:
        if not self.width >= 0:
            raise ValueError(f"width must be a number of pixels, zero or more, got {self.width!r}.")
        return smooth(images, self.width)
