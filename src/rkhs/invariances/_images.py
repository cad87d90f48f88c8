"""Ways to move an image: flows of the plane, the thickening of its strokes, and random motions; their tangents.

An image is a function g of the plane, sampled at the pixels p (row, column).  A flow moves the plane with the velocity
v(p) = B (p - center) / r + b, where r is half the longer side, so that one unit of any flow moves the border of the
image by about one pixel.  After the time a the image is

    (T_a g)(p) = g(exp(-a v) p),       d/da T_a g = -<v(p), grad g(p)>   at a = 0.

Thickening has no velocity of its own: contours move outwards with the speed |grad g| / s, s the steepest slope of the
image, which is Simard's |grad g|^2 divided by s, again at most a pixel per unit.  Its flow is the dilation of
mathematical morphology (Hopf and Lax):  (T_a g)(p) = max over h of  g(p + h) - s |h|^2 / (4 a).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import ndimage
from scipy.interpolate import CubicSpline

from rkhs._backend.arrays import Array, Images, as_points, like, to_numpy
from rkhs.invariances._tangents import TangentFamily, checked_kinds

THICKNESS = "thickness"
# kind -> its flows: (B, b) for rows and columns
FLOWS: dict[str, dict[str, tuple[list[list[float]], list[float]]]] = {
    "translation": {"down": ([[0, 0], [0, 0]], [1, 0]), "right": ([[0, 0], [0, 0]], [0, 1])},
    "rotation": {"rotation": ([[0, -1], [1, 0]], [0, 0])},
    "scaling": {"scaling": ([[1, 0], [0, 1]], [0, 0])},
    "shear": {"shear along columns": ([[0, 1], [0, 0]], [0, 0]), "shear along rows": ([[0, 0], [1, 0]], [0, 0])},
    THICKNESS: {THICKNESS: ([[0, 0], [0, 0]], [0, 0])},
}


def as_shape(shape: Any) -> tuple[int, int]:
    """Return (rows, columns), at least two of each."""
    sides = tuple(int(side) for side in shape)
    if len(sides) != 2 or min(sides) < 2:
        raise ValueError(f"shape must be (rows, columns), at least two of each, got {shape!r}.")
    return sides[0], sides[1]


def as_images(points: Array, shape: tuple[int, int]) -> Images:
    """Return the rows as images (t, rows, columns), in float64."""
    rows, columns = shape
    if points.shape[1] != rows * columns:
        raise ValueError(
            f"X has {points.shape[1]} features, and images of shape {shape} have {rows * columns}: "
            "give the shape of the images that are the rows of X."
        )
    return to_numpy(points).astype(np.float64).reshape(-1, rows, columns)


def smooth(images: Images, width: float) -> Images:
    """Return the images averaged over a Gaussian of `width` pixels."""
    return ndimage.gaussian_filter(images, width, axes=(1, 2), mode="nearest") if width else images


def slopes(images: Images, width: float) -> Images:
    """Return the derivatives along rows and columns of the smoothed images, (2, t, rows, columns)."""
    if not width:
        return np.stack([np.gradient(images, axis=axis) for axis in (1, 2)])
    orders = ((0, 1, 0), (0, 0, 1))
    return np.stack([ndimage.gaussian_filter(images, (0, width, width), order, mode="nearest") for order in orders])


def _from_center(shape: tuple[int, ...]) -> tuple[Images, Images]:
    """Return the pixels of an image as offsets from its center, (2, rows, columns), and the center, (2, 1, 1)."""
    center = (np.asarray(shape, dtype=float)[:, None, None] - 1) / 2
    return np.indices(shape) - center, center


def tangent(steep: Images, kind: str, name: str) -> Images:
    """Return d/da T_a at a = 0 of images with the given slopes."""
    if kind == THICKNESS:
        squared = np.sum(steep**2, axis=0)
        steepest = np.sqrt(squared.max(axis=(1, 2), keepdims=True))
        return squared / np.where(steepest > 0, steepest, 1.0)  # an image without slopes has zero tangents
    (B, b), shape = FLOWS[kind][name], steep.shape[2:]
    velocity = np.einsum("de,eij->dij", B, _from_center(shape)[0]) / (max(shape) / 2) + np.reshape(b, (2, 1, 1))
    return -np.einsum("dij,dtij->tij", velocity, steep)


def moved(images: Images, kind: str, name: str, amount: float) -> Images:
    """Return T_a of the images, a = `amount`, by cubic splines."""
    if kind == THICKNESS:
        return _thickened(images, amount)
    B, b = FLOWS[kind][name]
    generator = np.zeros((3, 3))
    generator[:2, :2] = np.asarray(B) / (max(images.shape[1:]) / 2)
    generator[:2, 2] = b
    back = scipy.linalg.expm(-amount * generator)
    return resampled(images, carried(images.shape[1:], back[:2, :2], back[:2, 2]))


def carried(shape: tuple[int, ...], A: Images, b: Images) -> Images:
    """Return A (p - center) + b + center for the pixels p of an image, (.., 2, rows, columns), for one A or many."""
    offsets, center = _from_center(shape)
    return np.einsum("...de,eij->...dij", A, offsets) + np.asarray(b)[..., None, None] + center


def resampled(images: Images, places: Images) -> Images:
    """Return cubic splines through the images at places (2, rows, columns), the same for all or for each its own.

    Images are shared out among threads, 500 at a time: the splines are evaluated outside Python's lock.
    """
    each = np.broadcast_to(places, (len(images), *places.shape[-3:]))
    found = np.empty((len(images), *places.shape[-2:]))
    margin = 12  # pixels after which a spline has forgotten where it began

    def resample(start: int) -> None:
        rows = slice(start, start + 500)
        wide = np.pad(images[rows], ((0, 0), (margin, margin), (margin, margin)), mode="edge")
        splines = ndimage.spline_filter1d(ndimage.spline_filter1d(wide, axis=1), axis=2)
        for spline, place, image in zip(splines, each[rows], found[rows], strict=True):
            ndimage.map_coordinates(spline, place + margin, image, order=3, mode="nearest", prefilter=False)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(resample, range(0, len(images), 500)))
    return found


def _thickened(images: Images, amount: float) -> Images:
    """Return the dilation for a positive amount, the erosion for a negative one; |h|^2 is a sum: axis by axis."""
    if amount == 0:
        return images
    sign, size = np.sign(amount), abs(amount)
    steepest = np.sqrt(np.sum(slopes(images, 0.0) ** 2, axis=0).max(axis=(1, 2), keepdims=True))
    found = sign * images
    for axis in (1, 2):
        pixels = np.arange(images.shape[axis])
        spline = CubicSpline(pixels, found, axis=axis)
        for h in 2 * size * np.linspace(-1, 1, 9):
            there = spline(np.clip(pixels + h, 0, pixels[-1]))
            found = np.maximum(found, there - steepest * h**2 / (4 * size))
    return sign * found


@dataclass(frozen=True)
class ImageTangents(TangentFamily):
    """An image stays the same when it moves, turns, grows or shears a little.

        L_ik(f) = <v_ik, grad f(x_i)> with v_ik = d/da T_k(x_i, a): how f changes when the image x_i moves in the way k

    The rows of X are images of the given shape, flat in C order.  One unit of each motion moves the border of the image
    by about one pixel, so that all kinds have comparable tangents (`rkhs.invariances._images`).

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
        object.__setattr__(self, "kinds", checked_kinds(self.kinds, FLOWS))
        if self.method not in ("analytic", "difference"):
            raise ValueError(f'method must be "analytic" or "difference", got {self.method!r}.')
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing must be a width in pixels, zero or more, got {self.smoothing!r}.")
        if not self.step > 0:
            raise ValueError(f"step must be a positive number of pixels, got {self.step!r}.")
        object.__setattr__(self, "shape", as_shape(self.shape))

    @property
    def names(self) -> list[str]:
        """The name of each tangent: translation is two of them, shear too."""
        return [name for kind in self.kinds for name in FLOWS[kind]]

    def vectors(self, X: Array) -> Array:
        """Return the tangents (t, k, n) of the rows of X."""
        images = as_images(as_points(X), self.shape)
        if self.method == "analytic":
            steep = slopes(images, self.smoothing)
            return self._each(X, lambda kind, name: tangent(steep, kind, name))
        start, step = smooth(images, self.smoothing), self.step

        def difference(kind: str, name: str) -> Images:
            return (moved(start, kind, name, step) - moved(start, kind, name, -step)) / (2 * step)

        return self._each(X, difference)

    def moved(self, X: Array, amount: float) -> Array:
        """Return the rows of X really moved, in each of the ways: (t, k, n).  They are not smoothed."""
        images = as_images(as_points(X), self.shape)
        return self._each(X, lambda kind, name: moved(images, kind, name, amount))

    def _each(self, X: Array, flow: Callable[[str, str], Images]) -> Array:
        """Return images (t, rows, columns) of each flow as rows (t, k, n) like those of X."""
        points = as_points(X)
        found = np.stack([flow(kind, name) for kind in self.kinds for name in FLOWS[kind]], axis=1)
        return like(found.reshape(*found.shape[:2], points.shape[1]), points)


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
        for name in ("rotation", "scaling", "shear", "translation", "bending"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a finite number, zero or more, got {getattr(self, name)!r}.")
        if not 0 < self.width < np.inf:
            raise ValueError(f"width must be a positive number of pixels, got {self.width!r}.")

    def __call__(self, X: Array) -> Array:
        """Return the moved rows, of the shape of X."""
        points = as_points(X)
        images = as_images(points, self.shape)
        return like(resampled(images, self._places(len(images))).reshape(len(images), -1), points)

    def _places(self, count: int) -> Images:
        """Return where each pixel of each image comes from, (t, 2, rows, columns)."""
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
