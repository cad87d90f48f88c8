"""Ways to move an image: flows of the plane, and the thickening of its strokes.

An image is a function g of the plane, sampled at the pixels p (row, column).  A flow moves the plane with the velocity
v(p) = B (p - centre) / r + b, where r is half the longer side, so that one unit of any flow moves the border of the
image by about one pixel.  After the time a the image is

    (T_a g)(p) = g(exp(-a v) p),       d/da T_a g = -<v(p), grad g(p)>   at a = 0.

Thickening has no velocity of its own: contours move outwards with the speed |grad g| / s, s the steepest slope of the
image, which is Simard's |grad g|^2 divided by s, again at most a pixel per unit.  Its flow is the dilation of
mathematical morphology (Hopf and Lax):  (T_a g)(p) = max over h of  g(p + h) - s |h|^2 / (4 a).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.linalg
from scipy import ndimage
from scipy.interpolate import CubicSpline

from rkhs._backend.arrays import Images

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
