"""Transformers of images: deskewing (`Deskew`), smoothing (`Blur`), and edge features (`EdgeDirections`).

Images are the rows of X.  The transformers learn nothing but the number of pixels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import ndimage
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from rkhs.extend import Vector, check_count, check_number, map_in_threads
from rkhs.invariances import ImageTangents

Images = np.ndarray[Any, Any]  # (images, rows, columns)
MARGIN = 13  # pixels; the influence of a boundary on a cubic spline decays by 0.27 per pixel, to 1e-7
BATCH = 500  # images that are transformed at once, by one thread: they fit into the cache


class _ImageTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The base of transformers of images, which are the rows of X, of shape (t, rows * columns)."""

    shape: Any

    @abstractmethod
    def _transformed(self, images: Images) -> Images:
        """Return an array for each of the images (t, rows, columns): another image, or features."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the rows of X are images of the shape; nothing else is learned.

        Parameters
        ----------
        X : array-like of shape (t, rows * columns)
            The images, as rows in C order.
        y : None
            Ignored, for scikit-learn's conventions.

        Returns
        -------
        self
            The fitted transformer.
        """
        self._images(validate_data(self, X, dtype=[np.float64, np.float32]))
        return self

    def _images(self, X: Images) -> Images:
        """Return the rows of X as images (t, rows, columns) in float64."""
        rows, columns = shape = ImageTangents(self.shape).shape  # validated
        if X.shape[1] != rows * columns:
            raise ValueError(
                f"X has {X.shape[1]} features, but images of shape {shape} have {rows * columns} pixels: "
                "give the shape of the images in the rows of X."
            )
        return X.astype(np.float64, copy=False).reshape(-1, rows, columns)

    def transform(self, X: Any) -> Images:
        """Transform images.

        Parameters
        ----------
        X : array-like of shape (t, rows * columns)
            The images, as rows in C order.

        Returns
        -------
        ndarray of shape (t, features)
            The transformed images or their features, as rows of the same type.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        images = self._images(X)

        def transformed(start: int) -> Images:
            batch = images[start : start + BATCH]
            return self._transformed(batch).reshape(len(batch), -1).astype(X.dtype, copy=False)

        return np.concatenate(list(map_in_threads(transformed, range(0, len(X), BATCH))))


@dataclass(eq=False, repr=False)
class Blur(OneToOneFeatureMixin, _ImageTransformer):  # type: ignore[misc]
    """Smooth images by a Gaussian filter.

    Two images that differ by a shift of one pixel are far apart as vectors, and nearer after smoothing.

    Parameters
    ----------
    shape : tuple of (int, int)
        The numbers of rows and columns of the images, which are rows of X in C order.
    width : float, default=0.7
        The standard deviation of the Gaussian in pixels; 0 leaves the images unchanged.

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
        check_number(self.width, "width", or_zero=True)
        return ndimage.gaussian_filter(images, self.width, axes=(1, 2), mode="nearest") if self.width else images


@dataclass(eq=False, repr=False)
class Deskew(OneToOneFeatureMixin, _ImageTransformer):  # type: ignore[misc]
    """Deskew images by a shear and center them, as is usual for handwriting.

    The mass of a pixel p = (row, column) is its value minus the smallest value of the image g.  The center is the mean
    of p by mass, and the slant a = cov(row, column) / var(row) is the number of columns by which strokes shift per row.
    The deskewed image at the offset (r, c) from the center of the frame is g(center + (r, c + a r)).  Shifts, and
    shears along the rows, of an image do not change the result.

    On MNIST, with 10,000 training digits, deskewing lowers the error of a Gaussian kernel model from 2.0 % to 1.4 %.

    Parameters
    ----------
    shape : tuple of (int, int)
        The numbers of rows and columns of the images, which are rows of X in C order.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.preprocessing import Deskew
    >>> slanted = np.eye(9)[:, ::-1].reshape(1, -1)  # a stroke from the lower left to the upper right
    >>> Deskew(shape=(9, 9)).fit_transform(slanted).reshape(9, 9).argmax(axis=1)  # a vertical stroke
    array([4, 4, 4, 4, 4, 4, 4, 4, 4])
    """

    shape: tuple[int, int]

    def _transformed(self, images: Images) -> Images:
        darkest = images.min(axis=(1, 2), keepdims=True)
        above = images - darkest
        mass = above.sum(axis=(1, 2))
        share = above / np.where(mass > 0, mass, 1.0)[:, None, None]
        rows, columns = (np.arange(side) - (side - 1) / 2 for side in images.shape[1:])
        # the means of row and column, var(row) and cov(row, column), with the mass as probability
        center = np.stack([share.sum(axis=2) @ rows, share.sum(axis=1) @ columns], axis=1)
        variance = share.sum(axis=2) @ rows**2 - center[:, 0] ** 2
        covariance = np.einsum("tij,i,j->t", share, rows, columns) - center[:, 0] * center[:, 1]
        flat = variance <= np.finfo(float).eps * len(rows) ** 2  # a single row of pixels has no slant
        slant = np.where(flat, 0.0, covariance / np.where(flat, 1.0, variance))
        padded = np.pad(above, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))  # zero mass outside the image
        splines = ndimage.spline_filter1d(ndimage.spline_filter1d(padded, axis=1), axis=2)
        middle = (np.array(images.shape[1:]) - 1) / 2
        result = np.empty_like(images)
        for spline, a, mean, deskewed in zip(splines, slant, center, result, strict=True):
            # g(center + (r, c + a r)) at the offset (r, c) from the middle of the frame
            shear = np.array([[1.0, 0.0], [a, 1.0]])
            start = MARGIN + middle + mean - shear @ middle
            ndimage.affine_transform(spline, shear, start, output=deskewed, order=3, mode="nearest", prefilter=False)
        return result + darkest


@dataclass(eq=False, repr=False)
class EdgeDirections(ClassNamePrefixFeaturesOutMixin, _ImageTransformer):  # type: ignore[misc]
    """Compute histograms of gradient directions around the points of a grid, as features of images.

    If the gradient of an image at the pixel p has the length s(p) and the direction a(p), in units of
    2 pi / directions, the feature of direction k at the grid point z is

        sqrt( sum over p of  g(p - z) s(p) max(0, 1 - |a(p) - k|) )

    with a Gaussian window g.  An edge contributes to the two nearest directions, and to the grid points around it.  The
    windows make the features robust to small shifts, and the square root reduces the influence of single strong edges
    (Liu, Nakashima, Sako and Fujisawa, Handwritten digit recognition: benchmarking of state-of-the-art techniques,
    Pattern Recognition 2003; Dalal and Triggs, Histograms of oriented gradients for human detection, 2005).

    Distances of these features compare shapes, and distances of pixels compare brightness.  On MNIST, with 4,000
    deskewed training digits, the error of a Gaussian kernel model is 2.0 % on pixels and 0.7 % on these features.

    Parameters
    ----------
    shape : tuple of (int, int)
        The numbers of rows and columns of the images, which are rows of X in C order.
    directions : int, default=8
        The number of directions, at least 3, evenly spaced over the circle.
    step : int, default=4
        The distance between grid points in pixels.
    width : float, default=2.0
        The standard deviation of the Gaussian window in pixels.
    smoothing : float, default=0.7
        The standard deviation of the Gaussian filter before gradients are computed, in pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.preprocessing import EdgeDirections
    >>> image = np.tile([0, 0, 1, 1], (4, 1))  # the gradient points to the right
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
        rows, columns = (len(_grid_points(side, self.step)) for side in self.shape)
        return self.directions * rows * columns

    def _transformed(self, images: Images) -> Images:
        for name, least in (("directions", 3), ("step", 1)):
            check_count(getattr(self, name), name, least)
        check_number(self.width, "width")
        check_number(self.smoothing, "smoothing", or_zero=True)
        # the tangents of translations down and to the right are minus the slopes of the smoothed images
        moved = ImageTangents(images.shape[1:], kinds=["translation"], smoothing=self.smoothing)
        down, right = (
            -moved.vectors(images.reshape(len(images), -1)).reshape(len(images), 2, *images.shape[1:]).swapaxes(0, 1)
        )
        # s(p) and a(p), in units of 2 pi / directions
        strength = np.hypot(down, right)
        angle = np.arctan2(down, right) * (self.directions / (2 * np.pi))
        angle = np.where(angle < 0, angle + self.directions, angle)  # 0 <= angle <= directions
        windows = []  # Gaussians around the grid points along each axis, (points, side)
        for side in images.shape[1:]:
            distance = np.arange(side) - _grid_points(side, self.step)[:, None]
            density = np.exp(-(distance**2) / (2 * self.width**2)) / (np.sqrt(2 * np.pi) * self.width)
            windows.append(density.astype(images.dtype))
        rows, columns = windows
        # sum over p of g(p - z) s(p) max(0, 1 - |a(p) - k|); g is a product of windows along rows and columns
        sums = []
        for k in range(self.directions + 1):  # the last direction is the first again
            share = strength * np.maximum(0, 1 - np.abs(angle - k))
            sums.append(rows @ share @ columns.T)
        sums[0] += sums.pop()
        return np.sqrt(np.stack(sums, axis=1))


def _grid_points(side: int, step: int) -> Vector:
    """Return coordinates with a distance of `step` pixels, centered on a side of an image."""
    count = -(-side // step)
    return (side - 1) / 2 + step * (np.arange(count) - (count - 1) / 2)
