"""Transform images before learning: upright (`Deskew`), smooth (`Blur`), their edges (`EdgeDirections`).

Images are rows of X; nothing is learned but how many pixels there are.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs._backend.arrays import Images, Vector
from rkhs.invariances._images import as_images, as_shape, carried, resampled, slopes, smooth

__all__ = ["Blur", "Deskew", "EdgeDirections"]


class _ImageTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn rows of X (t, rows * columns) into images, transform these, and return rows of the same type."""

    shape: Any

    @abstractmethod
    def _transformed(self, images: Images) -> Images:
        """Return for each image an array of numbers: another image, or features."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that rows are images of the shape; nothing else is learned."""
        as_images(validate_data(self, X, dtype=[np.float64, np.float32]), as_shape(self.shape))
        return self

    def transform(self, X: Any) -> Images:
        """Return the transformed images, as rows."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        images = self._transformed(as_images(X, as_shape(self.shape)))
        return images.reshape(len(X), -1).astype(X.dtype, copy=False)


@dataclass(eq=False, repr=False)
class Blur(OneToOneFeatureMixin, _ImageTransformer):  # type: ignore[misc]
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

    shape: tuple[int, int]
    width: float = 0.7

    def _transformed(self, images: Images) -> Images:
        if not self.width >= 0:
            raise ValueError(f"width must be a number of pixels, zero or more, got {self.width!r}.")
        return smooth(images, self.width)


@dataclass(eq=False, repr=False)
class Deskew(OneToOneFeatureMixin, _ImageTransformer):  # type: ignore[misc]
    """Make images upright and move them to the middle, as handwriting is before it is read.

    With the mass m(p) of the pixels p = (row, column), how far an image is above its darkest pixel, its middle is the
    mean of p, and its slant a = cov(row, column) / var(row) is how many columns its strokes go aside for each row.  The
    upright image is g(middle + (r, c + a r)) at (r, c) from the middle of the frame.  It is the same for images that
    were shifted, or sheared along rows.

    On MNIST, from 10,000 digits, this alone takes a Gaussian kernel model from 2.0 % to 1.4 % errors.

    Parameters
    ----------
    shape : (rows, columns) of the images, which are rows of X, flat in C order

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.preprocessing import Deskew
    >>> slanted = np.eye(9)[:, ::-1].reshape(1, -1)  # a stroke from the lower left to the upper right
    >>> Deskew(shape=(9, 9)).fit_transform(slanted).reshape(9, 9).argmax(axis=1)  # one that stands
    array([4, 4, 4, 4, 4, 4, 4, 4, 4])
    """

    shape: tuple[int, int]

    def _transformed(self, images: Images) -> Images:
        darkest = images.min(axis=(1, 2), keepdims=True)
        above = images - darkest
        mass = above.sum(axis=(1, 2))
        share = above / np.where(mass > 0, mass, 1.0)[:, None, None]
        rows, columns = (np.arange(side) - (side - 1) / 2 for side in images.shape[1:])
        middle = np.stack([share.sum(axis=2) @ rows, share.sum(axis=1) @ columns], axis=1)
        tall = share.sum(axis=2) @ rows**2 - middle[:, 0] ** 2
        aslant = np.einsum("tij,i,j->t", share, rows, columns) - middle[:, 0] * middle[:, 1]
        thin = tall <= np.finfo(float).eps * len(rows) ** 2  # one row of pixels has no slant
        shear = np.tile(np.eye(2), (len(images), 1, 1))
        shear[:, 1, 0] = np.where(thin, 0.0, aslant / np.where(thin, 1.0, tall))
        framed = np.pad(above, ((0, 0), (1, 1), (1, 1)))  # so that all is dark beyond the border
        return resampled(framed, carried(images.shape[1:], shear, middle) + 1) + darkest


@dataclass(eq=False, repr=False)
class EdgeDirections(ClassNamePrefixFeaturesOutMixin, _ImageTransformer):  # type: ignore[misc]
    """Return how strong the edges of each image are in each direction, around each place of a grid.

    With the slope of an image at the pixel p, its strength s(p) and its direction a(p) in units of 2 pi / directions,
    the feature of a direction k around the place z is

        sqrt( sum over p of  g(p - z) s(p) max(0, 1 - |a(p) - k|) ),

    g a Gaussian window: an edge counts for the two directions next to its own, and for the places around it.  Windows
    make small motions matter little, the root keeps few strong edges from deciding everything.  (Liu, Nakashima, Sako
    and Fujisawa, Handwritten digit recognition: benchmarking of state-of-the-art techniques, Pattern Recognition 2003;
    Dalal and Triggs, Histograms of oriented gradients for human detection, 2005.)

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

    shape: tuple[int, int]
    directions: int = 8
    step: int = 4
    width: float = 2.0
    smoothing: float = 0.7

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
            parts = [images[k : k + 500] for k in range(0, len(images), 500)]  # so many images fit into the cache
            return np.concatenate(list(threads.map(self._edges, parts)))

    def _edges(self, images: Images) -> Images:
        """Return the features (t, directions, places down, places right)."""
        down, right = slopes(images, self.smoothing)
        strength = np.hypot(down, right)
        angle = np.arctan2(down, right) * (self.directions / (2 * np.pi))
        angle = np.where(angle < 0, angle + self.directions, angle)  # 0 <= angle <= directions
        windows = []  # Gaussians around each place, (places, side)
        for side in images.shape[1:]:
            distance = np.arange(side) - _places(side, self.step)[:, None]
            density = np.exp(-(distance**2) / (2 * self.width**2)) / (np.sqrt(2 * np.pi) * self.width)
            windows.append(density.astype(images.dtype))
        rows, columns = windows
        found = []
        for k in range(self.directions + 1):  # the last is the first again
            share = strength * np.maximum(0, 1 - np.abs(angle - k))
            found.append(rows @ share @ columns.T)
        found[0] += found.pop()
        return np.sqrt(np.stack(found, axis=1))


def _places(side: int, step: int) -> Vector:
    """Return a place for each `step` pixels, centered on the side."""
    count = -(-side // step)
    return (side - 1) / 2 + step * (np.arange(count) - (count - 1) / 2)
