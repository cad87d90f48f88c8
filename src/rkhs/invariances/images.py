"""Ways to move an image: flows of the plane, and the thickening of its strokes.

An image is a function g of the plane, sampled at the pixels p (row, column).  A flow moves the plane with the velocity
v(p) = B (p - centre) / r + b, where r is half the longer side, so that one unit of any flow moves the border of the
image by about one pixel.  After the time a the image is

    (T_a g)(p) = g(exp(-a v) p),       d/da T_a g = -<v(p), grad g(p)>   at a = 0.

Thickening has no velocity of its own: contours move outwards with the speed |grad g| / s, s the steepest slope of the
image, which is Simard's |grad g|^2 divided by s, again at most a pixel per unit.  Its flow is the dilation of
mathematical morphology (Hopf and Lax):  (T_a g)(p) = max over h of  g(p + h) - s |h|^2 / (4 a).

Tangents of images: f does not change when the image moves a little.

Images moved at random: copies that are of the same class, for models that learn from virtual samples.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy import ndimage
from scipy.interpolate import CubicSpline

from rkhs._backend.arrays import Array, Images, as_points, like, to_numpy
from rkhs.functionals import DirectionalDerivative

THICKNESS = "thickness"
# kind -> its flows: (B, b) for rows and columns
FLOWS: dict[str, dict[str, tuple[list[list[float]], list[float]]]] = {
    "translation": {"down": ([[0, 0], [0, 0]], [1, 0]), "right": ([[0, 0], [0, 0]], [0, 1])},
    "rotation": {"rotation": ([[0, -1], [1, 0]], [0, 0])},
    "scaling": {"scaling": ([[1, 0], [0, 1]], [0, 0])},
    "shear": {"shear along columns": ([[0, 1], [0, 0]], [0, 0]), "shear along rows": ([[0, 0], [1, 0]], [0, 0])},
    THICKNESS: {THICKNESS: ([[0, 0], [0, 0]], [0, 0])},
}
RADII = 4  # the h that a dilation looks at, to each side
TOGETHER = 500  # images that a thread takes at a time
MARGIN = 12  # pixels after which a spline has forgotten where it began


def smooth(images: Images, width: float) -> Images:
    """The images averaged over a Gaussian of `width` pixels."""
    return ndimage.gaussian_filter(images, width, axes=(1, 2), mode="nearest") if width else images


def slopes(images: Images, width: float) -> Images:
    """The derivatives along rows and columns of the smoothed images, (2, t, rows, columns)."""
    if not width:
        return np.stack([np.gradient(images, axis=axis) for axis in (1, 2)])
    orders = ((0, 1, 0), (0, 0, 1))
    return np.stack([ndimage.gaussian_filter(images, (0, width, width), order, mode="nearest") for order in orders])


def tangent(steep: Images, kind: str, name: str) -> Images:
    """d/da T_a at a = 0 of images with the given slopes."""
    if kind == THICKNESS:
        squared = np.sum(steep**2, axis=0)
        return squared / _positive(np.sqrt(squared.max(axis=(1, 2), keepdims=True)))
    down, right = _velocity(kind, name, steep.shape[2:])
    return -(down * steep[0] + right * steep[1])


def moved(images: Images, kind: str, name: str, amount: float) -> Images:
    """T_a of the images, a = `amount`, by cubic splines."""
    if kind == THICKNESS:
        return _thickened(images, amount)
    B, b = FLOWS[kind][name]
    generator = np.zeros((3, 3))
    generator[:2, :2] = np.asarray(B) / _radius(images.shape[1:])
    generator[:2, 2] = b
    back = scipy.linalg.expm(-amount * generator)
    return resampled(images, carried(images.shape[1:], back[:2, :2], back[:2, 2]))


def carried(shape: tuple[int, ...], A: Images, b: Images) -> Images:
    """A (p - centre) + b + centre for the pixels p of an image, (.., 2, rows, columns), for one A or many."""
    centre = _centre(shape)
    return np.einsum("...de,eij->...dij", A, _pixels(shape) - centre) + np.asarray(b)[..., None, None] + centre


def resampled(images: Images, places: Images) -> Images:
    """Cubic splines through the images at the places (2, rows, columns), the same for all images or for each its own.

    Images are shared out among threads: the splines are evaluated outside Python's lock.
    """
    each = np.broadcast_to(places, (len(images), *places.shape[-3:]))
    found = np.empty((len(images), *places.shape[-2:]))

    def some(start: int) -> None:
        rows = slice(start, start + TOGETHER)
        for spline, place, image in zip(_splines(images[rows]), each[rows], found[rows], strict=True):
            ndimage.map_coordinates(spline, place + MARGIN, image, order=3, mode="nearest", prefilter=False)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(some, range(0, len(images), TOGETHER)))
    return found


def _thickened(images: Images, amount: float) -> Images:
    """The dilation for a positive amount, the erosion for a negative one; |h|^2 is a sum, so one axis at a time."""
    if amount == 0:
        return images
    sign = 1.0 if amount > 0 else -1.0
    steepest = np.sqrt(np.sum(slopes(images, 0.0) ** 2, axis=0).max(axis=(1, 2), keepdims=True))
    found = sign * images
    for axis in (1, 2):
        pixels = np.arange(images.shape[axis])
        spline = CubicSpline(pixels, found, axis=axis)
        for h in 2 * abs(amount) * np.arange(-RADII, RADII + 1) / RADII:
            there = spline(np.clip(pixels + h, 0, pixels[-1]))
            found = np.maximum(found, there - steepest * h**2 / (4 * abs(amount)))
    return sign * found


def _splines(images: Images) -> Images:
    """The coefficients of the splines through the images, continued beyond the border."""
    wide = np.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)), mode="edge")
    return ndimage.spline_filter1d(ndimage.spline_filter1d(wide, axis=1), axis=2)


def _velocity(kind: str, name: str, shape: tuple[int, ...]) -> Images:
    B, b = FLOWS[kind][name]
    away = (_pixels(shape) - _centre(shape)) / _radius(shape)
    return np.einsum("de,eij->dij", np.asarray(B, dtype=float), away) + np.asarray(b, dtype=float)[:, None, None]


def _pixels(shape: tuple[int, ...]) -> Images:
    return np.stack(np.meshgrid(*(np.arange(side, dtype=float) for side in shape), indexing="ij"))


def _centre(shape: tuple[int, ...]) -> Images:
    return (np.asarray(shape, dtype=float)[:, None, None] - 1) / 2


def _radius(shape: tuple[int, ...]) -> float:
    return max(shape) / 2


def _positive(values: Images) -> Images:
    """The values, with one in place of zero: an image without slopes has zero tangents."""
    return np.where(values > 0, values, 1.0)


@dataclass(frozen=True)
class ImageTangents:
    """An image stays the same when it moves, turns, grows or shears a little.

        L_ik(f) = <v_ik, grad f(x_i)> with v_ik = d/da T_k(x_i, a): how f changes when the image x_i moves in the way k

    The rows of X are images of the given shape, flat in C order.  One unit of each motion moves the border of the image
    by about one pixel, so that all kinds have comparable tangents (`rkhs.invariances.images`).

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
