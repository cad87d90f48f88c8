"""Which way edges run, around each place of an image: histograms of gradients.

With the slope of an image at the pixel p, its strength s(p) and its direction a(p) in units of 2 pi / directions, the
feature of a direction k around the place z is

    sqrt( sum over p of  g(p - z) s(p) max(0, 1 - |a(p) - k|) ),

g a Gaussian window: an edge counts for the two directions next to its own, and for the places around it.  Windows make
small motions matter little, the root keeps few strong edges from deciding everything.  (Liu, Nakashima, Sako and
Fujisawa, Handwritten digit recognition: benchmarking of state-of-the-art techniques, Pattern Recognition 2003;
Dalal and Triggs, Histograms of oriented gradients for human detection, 2005.)
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from rkhs._backend.arrays import Images
from rkhs.invariances.images import slopes
from rkhs.preprocessing.images import ImageTransformer

TOGETHER = 500  # images at a time, whose slopes stay in the cache


class EdgeDirections(ClassNamePrefixFeaturesOutMixin, ImageTransformer):  # type: ignore[misc]
    """Say of each image how strong its edges are in each direction, around each place of a grid.

    Distances of these features tell shapes apart where distances of pixels tell shades apart.  On MNIST, from 4,000
    upright digits, a Gaussian kernel model has 2.0 % errors on pixels and 0.7 % on edges.

    Parameters
    ----------
    shape : (rows, columns) of the images, which are rows of X, flat in C order
    directions : how many, all around
    step : pixels between the places
    width : standard deviation of the Gaussian window around a place, in pixels
    smoothing : standard deviation of the Gaussian that the image is smoothed with before its slopes are taken

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.preprocessing import EdgeDirections
    >>> image = np.tile([0, 0, 1, 1], (4, 1))  # light on the right: it rises along its rows
    >>> edges = EdgeDirections(shape=(4, 4), directions=4).fit_transform(image.reshape(1, -1))
    >>> int(edges[0].argmax())
    0
    """

    def __init__(
        self,
        shape: tuple[int, int],
        directions: int = 8,
        step: int = 4,
        width: float = 2.0,
        smoothing: float = 0.7,
    ) -> None:
        self.shape = shape
        self.directions = directions
        self.step = step
        self.width = width
        self.smoothing = smoothing

    @property
    def _n_features_out(self) -> int:
        down, right = (len(_places(side, self.step)) for side in self.shape)
        return self.directions * down * right

    def _transformed(self, images: Images) -> Images:
        for name, least in (("directions", 3), ("step", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be a whole number, {least} or more, got {value!r}.")
        if not self.width > 0:
            raise ValueError(f"width must be a positive number of pixels, got {self.width!r}.")
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing must be a number of pixels, zero or more, got {self.smoothing!r}.")
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            starts = range(0, len(images), TOGETHER)
            return np.concatenate(list(threads.map(lambda k: self._edges(images[k : k + TOGETHER]), starts)))

    def _edges(self, images: Images) -> Images:
        """(t, directions, places down, places right)."""
        down, right = slopes(images, self.smoothing)
        strength = np.hypot(down, right)
        angle = np.arctan2(down, right) * (self.directions / (2 * np.pi))
        angle = np.where(angle < 0, angle + self.directions, angle)  # 0 <= angle <= directions
        rows, columns = (_windows(side, self.step, self.width).astype(images.dtype) for side in images.shape[1:])
        found = []
        for k in range(self.directions + 1):  # the last is the first again
            share = strength * np.maximum(0, 1 - np.abs(angle - k))
            found.append(rows @ share @ columns.T)
        found[0] += found.pop()
        return np.sqrt(np.stack(found, axis=1))


def _places(side: int, step: int) -> np.ndarray[Any, Any]:
    """A place for each `step` pixels, in the middle of them all."""
    count = -(-side // step)
    return (side - 1) / 2 + step * (np.arange(count) - (count - 1) / 2)


def _windows(side: int, step: int, width: float) -> np.ndarray[Any, Any]:
    """The Gaussian around each place, (places, side)."""
    distance = np.arange(side) - _places(side, step)[:, None]
    return np.exp(-(distance**2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * width)
