"""Transformations of images and their tangents: flows of the plane, thickening of strokes, and random deformations.

An image is a function g of the plane, sampled at the pixels p (row, column).  A flow moves the plane with the velocity
v(p) = B (p - center) / r + b, where r is half the longer side, so that one unit of any flow moves the border of the
image by about one pixel.  After the time a the image is

    (T_a g)(p) = g(exp(-a v) p),       d/da T_a g = -<v(p), grad g(p)>   at a = 0.

Thickening depends on the image: contours move outwards with the speed |grad g| / s, where s is the maximal slope of
the image.  Its tangent is Simard's |grad g|^2 divided by s, again at most one pixel per unit, and its flow is the
dilation of mathematical morphology (Hopf and Lax):  (T_a g)(p) = max over h of  g(p + h) - s |h|^2 / (4 a).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import scipy.linalg
from scipy import ndimage
from scipy.interpolate import CubicSpline

from rkhs._core.backend.arrays import Array, Images, Matrix, as_points, check_choice, check_number, double, like
from rkhs._core.backend.memory import map_in_threads
from rkhs.invariances._tangents import TangentFamily, central_difference, checked_kinds, smoothed_slope

THICKNESS = "thickness"
# kind -> name of each flow -> (B, b) in row and column coordinates
FLOWS: dict[str, dict[str, tuple[list[list[float]], list[float]]]] = {
    "translation": {"down": ([[0, 0], [0, 0]], [1, 0]), "right": ([[0, 0], [0, 0]], [0, 1])},
    "rotation": {"rotation": ([[0, -1], [1, 0]], [0, 0])},
    "scaling": {"scaling": ([[1, 0], [0, 1]], [0, 0])},
    "shear": {"shear along columns": ([[0, 1], [0, 0]], [0, 0]), "shear along rows": ([[0, 0], [1, 0]], [0, 0])},
    THICKNESS: {THICKNESS: ([[0, 0], [0, 0]], [0, 0])},
}


def as_shape(shape: Any) -> tuple[int, int]:
    """Validate the shape of an image and return (rows, columns)."""
    sides = tuple(int(side) for side in shape)
    if len(sides) != 2 or min(sides) < 2:
        raise ValueError(f"shape must be (rows, columns), at least two of each, got {shape!r}.")
    return sides[0], sides[1]


def as_images(rows: Matrix, shape: tuple[int, int]) -> Images:
    """Return the rows of X as images (t, rows, columns)."""
    if rows.shape[1] != prod(shape):
        raise ValueError(
            f"X has {rows.shape[1]} features, but images of shape {shape} have {prod(shape)} pixels: "
            "give the shape of the images in the rows of X."
        )
    return rows.reshape(-1, *shape)


def smooth(images: Images, width: float, axes: Any = (1, 2)) -> Images:
    """Smooth the images with a Gaussian of `width` pixels."""
    return ndimage.gaussian_filter(images, width, axes=axes, mode="nearest") if width else images


def slopes(images: Images, width: float) -> Images:
    """Return the derivatives of the smoothed images along rows and columns, (2, t, rows, columns)."""
    return np.stack([smoothed_slope(smooth(images, width, 3 - axis), width, axis) for axis in (1, 2)])


def _from_center(shape: tuple[int, ...]) -> tuple[Images, Images]:
    """Return the pixels as offsets from the center of the image, (2, rows, columns), and the center, (2, 1, 1)."""
    center = (np.asarray(shape, dtype=float)[:, None, None] - 1) / 2
    return np.indices(shape) - center, center


def tangent(gradients: Images, kind: str, name: str) -> Images:
    """Return d/da T_a at a = 0 of images with the given derivatives along rows and columns."""
    if kind == THICKNESS:
        squared = np.sum(gradients**2, axis=0)
        steepest = np.sqrt(squared.max(axis=(1, 2), keepdims=True))
        return squared / np.where(steepest > 0, steepest, 1.0)  # a constant image has zero tangents
    (B, b), shape = FLOWS[kind][name], gradients.shape[2:]
    velocity = np.einsum("de,eij->dij", B, _from_center(shape)[0]) / (max(shape) / 2) + np.reshape(b, (2, 1, 1))
    return -np.einsum("dij,dtij->tij", velocity, gradients)


def moved(images: Images, kind: str, name: str, amount: float) -> Images:
    """Return the images T_a g for a = `amount`, by cubic splines."""
    if kind == THICKNESS:
        return _thickened(images, amount)
    B, b = FLOWS[kind][name]
    generator = np.zeros((3, 3))
    generator[:2, :2] = np.asarray(B) / (max(images.shape[1:]) / 2)
    generator[:2, 2] = b
    inverse = scipy.linalg.expm(-amount * generator)
    return resampled(images, affine_coordinates(images.shape[1:], inverse[:2, :2], inverse[:2, 2]))


def affine_coordinates(shape: tuple[int, ...], A: Images, b: Images) -> Images:
    """Return A (p - center) + b + center for the pixels p, (..., 2, rows, columns), for one or many A and b."""
    offsets, center = _from_center(shape)
    return np.einsum("...de,eij->...dij", A, offsets) + np.asarray(b)[..., None, None] + center


def resampled(images: Images, coordinates: Images) -> Images:
    """Return the images, interpolated by cubic splines, at the given coordinates.

    `coordinates` has shape (2, rows, columns) for all images, or (t, 2, rows, columns).  Threads process 500 images
    at a time; the splines are evaluated without holding the GIL.
    """
    per_image = np.broadcast_to(coordinates, (len(images), *coordinates.shape[-3:]))
    result = np.empty((len(images), *coordinates.shape[-2:]))
    margin = 12  # pixels; the influence of the boundary on a cubic spline decays by 0.27 per pixel, to 1e-7

    def resample(start: int) -> None:
        rows = slice(start, start + 500)
        wide = np.pad(images[rows], ((0, 0), (margin, margin), (margin, margin)), mode="edge")
        splines = ndimage.spline_filter1d(ndimage.spline_filter1d(wide, axis=1), axis=2)
        for spline, pixels, image in zip(splines, per_image[rows], result[rows], strict=True):
            ndimage.map_coordinates(spline, pixels + margin, image, order=3, mode="nearest", prefilter=False)

    for _ in map_in_threads(resample, range(0, len(images), 500)):
        pass
    return result


def _thickened(images: Images, amount: float) -> Images:
    """Return the dilation for a positive amount, the erosion for a negative one.

    The structuring function |h|^2 is separable, so that each axis is processed in turn.
    """
    if amount == 0:
        return images
    sign, size = np.sign(amount), abs(amount)
    steepest = np.sqrt(np.sum(slopes(images, 0.0) ** 2, axis=0).max(axis=(1, 2), keepdims=True))
    result = sign * images
    for axis in (1, 2):
        pixels = np.arange(images.shape[axis])
        spline = CubicSpline(pixels, result, axis=axis)
        for h in 2 * size * np.linspace(-1, 1, 9):
            values = spline(np.clip(pixels + h, 0, pixels[-1]))
            result = np.maximum(result, values - steepest * h**2 / (4 * size))
    return sign * result


@dataclass(frozen=True)
class ImageTangents(TangentFamily):
    """Invariance of images under small translations, rotations, scalings, shears and thickening.

        L_ik(f) = <v_ik, grad f(x_i)> with v_ik = d/da T_k(x_i, a): the change of f under transformation k of image x_i

    The rows of X are images of the given shape, flattened in C order.  One unit of each transformation moves the border
    of the image by about one pixel, so that the tangents of all kinds are comparable.

    Parameters
    ----------
    shape : tuple of int
        The numbers of rows and columns.
    kinds : sequence of {"translation", "rotation", "scaling", "shear", "thickness"}
        The transformations, by default all; translation and shear have two tangents each.
    method : {"analytic", "difference"}, default="analytic"
        Differentiate the smoothed image, or take (T(x, step) - T(x, -step)) / (2 step) of the transformed smoothed
        image (Zhang et al. 2013, section 6.3), which depends also on pixels at distance `step`.
    smoothing : float, default=0.7
        The width in pixels of the Gaussian that smooths the image first.
    step : float, default=1.0
        The amount of the difference, in pixels at the border.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import ImageTangents
    >>> ramp = np.outer(np.ones(5), np.arange(5.0)).reshape(1, -1)  # an image that rises by 1 per column
    >>> tangents = ImageTangents(shape=(5, 5), kinds=["translation"], smoothing=0)
    >>> tangents.vectors(ramp).reshape(2, 5, 5)[1, 2]  # a translation to the right by one pixel lowers it by 1
    array([-1., -1., -1., -1., -1.])
    >>> tangents(ramp)
    DirectionalDerivative(1 point in R^25)
    """

    common_unit = True  # of all features
    shape: tuple[int, int]
    kinds: Sequence[str] = ("translation", "rotation", "scaling", "shear", "thickness")
    method: str = "analytic"
    smoothing: float = 0.7
    step: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", checked_kinds(self.kinds, FLOWS))
        check_choice(self.method, "method", "analytic", "difference")
        check_number(self.smoothing, "smoothing", or_zero=True)
        check_number(self.step, "step")
        object.__setattr__(self, "shape", as_shape(self.shape))

    @property
    def names(self) -> list[str]:
        """The names of the tangents; translation and shear have two each."""
        return [name for kind in self.kinds for name in FLOWS[kind]]

    def _tangents(self, rows: Matrix) -> Matrix:
        images = as_images(rows, self.shape)
        if self.method == "analytic":
            gradients = slopes(images, self.smoothing)
            return self._stacked(lambda kind, name: tangent(gradients, kind, name))
        start = smooth(images, self.smoothing)
        return self._stacked(
            lambda kind, name: central_difference(lambda amount: moved(start, kind, name, amount), self.step)
        )

    def _moved(self, rows: Matrix, amount: float) -> Matrix:
        images = as_images(rows, self.shape)
        return self._stacked(lambda kind, name: moved(images, kind, name, amount))

    def _stacked(self, flow: Callable[[str, str], Images]) -> Matrix:
        """Return the images (t, rows, columns) of each flow as an array (t, k, n)."""
        images = np.stack([flow(kind, name) for kind in self.kinds for name in FLOWS[kind]], axis=1)
        return images.reshape(*images.shape[:2], prod(self.shape))


@dataclass(frozen=True)
class RandomImageTransform:
    """A random small rotation, stretch, shear, translation and elastic distortion of each image.

    Each amount is normally distributed with the given standard deviation.  The elastic distortion moves the pixels by
    noise that is smoothed with a Gaussian of `width` pixels (Simard, Steinkraus and Platt 2003).

    Parameters
    ----------
    shape : tuple of int
        The numbers of rows and columns.
    rotation : float, default=0.1
        The angle in radians.
    scaling : float, default=0.1
        The logarithm of the stretch of rows and columns.
    shear : float, default=0.1
        The displacement of rows and columns along each other, per pixel.
    translation : float, default=1.0
        The translation in pixels.
    bending : float, default=0.0
        The elastic distortion in pixels.
    width : float, default=4.0
        The width in pixels of the Gaussian that smooths the elastic distortion.
    random_state : int, default=0
        The seed; the same seed transforms the same rows in the same way.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import RandomImageTransform
    >>> image = np.zeros((8, 8))
    >>> image[2:6, 3:5] = 1.0
    >>> RandomImageTransform(shape=(8, 8), random_state=1)(image.reshape(1, -1)).shape
    (1, 64)
    >>> model = rkhs.VirtualSampleSVC([RandomImageTransform((8, 8), random_state=k) for k in range(7)])
    """

    common_unit = True  # of all features
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
        for name in ("rotation", "scaling", "shear", "translation", "bending"):
            check_number(getattr(self, name), name, or_zero=True)
        check_number(self.width, "width")

    def __call__(self, X: Array) -> Array:
        """Return the transformed images.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The images.

        Returns
        -------
        array of shape (t, n)
            The transformed images.
        """
        points = as_points(X)
        images = as_images(double(points), self.shape)
        return like(resampled(images, self._coordinates(len(images))).reshape(len(images), -1), points)

    def _coordinates(self, count: int) -> Images:
        """Return the coordinates in each image from which its pixels are taken, (t, 2, rows, columns)."""
        rng = np.random.default_rng(self.random_state)
        amounts = rng.standard_normal((count, 7))
        angle = self.rotation * amounts[:, 0]
        cos, sin = np.cos(angle), np.sin(angle)
        rotation = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
        stretch = np.zeros_like(rotation)
        stretch[:, [0, 1], [0, 1]] = np.exp(self.scaling * amounts[:, 1:3])
        stretch[:, [0, 1], [1, 0]] = self.shear * amounts[:, 3:5]
        coordinates = affine_coordinates(self.shape, rotation @ stretch, self.translation * amounts[:, 5:])
        if self.bending:
            noise = rng.standard_normal((count, 2, *self.shape))
            field = ndimage.gaussian_filter(noise, self.width, axes=(2, 3), mode="wrap")
            coordinates += self.bending * field / field.std()
        return coordinates
