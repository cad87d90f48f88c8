"""Coordinates of maps: longitudes and latitudes in degrees become positions in kilometers.

A degree of longitude is 111 km at the equator and nothing at a pole, and the longitudes -180 and 180 are the same
place, so distances in degrees are wrong.  With the unit vector (x, y, z) of a point in a frame whose third axis points
to the center of the data, and whose second axis points north, the position is one of

    the plane     R sqrt(2 / (1 + z)) (x, y)    Lambert's azimuthal equal-area projection
    the sphere    R (x, y, z)                   whose distances are chords

At the angle c from the center, the plane shrinks distances along the radius by cos(c/2) and stretches those across it
by 1 / cos(c/2): by 0.9 % at c = 15 degrees and 3.5 % at 30 degrees.  A map in the plane is one of two variables, for
which Fourier grids are small.  400 values of fields that are isotropic on the sphere, within c of a center, were
predicted from the plane with errors that were 0.4 % smaller to 0.9 % larger than from chords for c from 5 to 60
degrees, and 6 % larger for 90.  Data that reach farther than `WIDEST` are put on the sphere; there the center is on the
equator, so that the second axis is that of the earth.  Longitudes may begin anywhere: only their differences count.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs.extend import Array, Map, Matrix, as_points, double, like, warn

RADIUS = 6371.0088  # mean radius of the earth in km
WIDEST = 30.0  # degrees from the center of the data up to which the plane is used
LONLAT = "lonlat"
STEPS = (1e-5, 1e-4)  # of first and second differences of positions, in units of coordinates; errors are about 1e-8


class Coordinates(Map):
    """A map from rows of X to positions, the points of a problem; it is called with rows."""

    orders = 2

    @abstractmethod
    def __call__(self, X: Any) -> Matrix:
        """Return the positions (t, m) of rows (t, n)."""

    def smooth(self, X: Matrix) -> Matrix:
        """Return the positions of rows without rounding, and also of rows a little outside of the domain."""
        return np.asarray(self(X), dtype=np.float64)

    def image(self, dimension: int) -> int:
        return int(self.values(np.zeros((1, dimension))).shape[1])

    def values(self, X: Array) -> Array:
        rows = double(X)
        found = np.asarray(self(rows), dtype=np.float64)
        if found.ndim != 2 or len(found) != len(rows):
            raise ValueError(f"{self!r} must map X of shape {rows.shape} to ({len(rows)}, m), got shape {found.shape}.")
        if not np.all(np.isfinite(found)):
            row = int(np.argmin(np.isfinite(found).all(axis=1)))
            raise ValueError(f"{self!r} maps row {row} of X, {rows[row].tolist()}, to {found[row].tolist()}.")
        return like(found, X)

    def jacobian(self, X: Array) -> Array:
        return like(differences(self.smooth, double(X), 1), X)

    def second(self, X: Array) -> Array:
        return like(differences(self.smooth, double(X), 2), X)


def differences(function: Callable[[Matrix], Matrix], X: Matrix, order: int, step: float = 0.0) -> Matrix:
    """Return the derivatives (t, m, n) or (t, m, n, n) of a function of rows X (t, n), by central differences."""
    if not order:
        return function(X)
    step = step or STEPS[order - 1]

    def along(k: int) -> Matrix:
        h = np.zeros_like(X)
        h[:, k] = step * (1 + np.abs(X[:, k]))
        # (phi(x + h) - phi(x - h)) / (2 h)
        after, before = (differences(function, X + sign * h, order - 1, step) for sign in (1, -1))
        return (after - before) / (2 * h[:, k]).reshape(-1, *[1] * order)

    return np.stack([along(k) for k in range(X.shape[1])], axis=-1)


@dataclass(frozen=True)
class Projection(Coordinates):
    """Coordinates by a smooth function of the user."""

    function: Callable[[Any], Any]

    def __repr__(self) -> str:
        return f"coordinates={getattr(self.function, '__name__', type(self.function).__name__)}"

    def __call__(self, X: Any) -> Matrix:
        found: Matrix = self.function(X)
        return found


@dataclass(frozen=True)
class Transformed(Coordinates):
    """Features by a fitted transformer of scikit-learn, whose derivatives are not known."""

    transformer: Any
    orders = 0

    def __call__(self, X: Any) -> Matrix:
        return as_points(self.transformer.transform(X), "features")


@dataclass(frozen=True)
class LonLat(Coordinates):
    """Map rows of longitude and latitude in degrees, and perhaps further columns, to kilometers.

    Parameters
    ----------
    longitude, latitude : float
        The center of the data.
    sphere : bool
        Whether positions are on the sphere, and not in Lambert's projection about the center.

    Examples
    --------
    >>> from rkhs.maps import LonLat
    >>> LonLat.of([[179.5, 60.0], [-179.5, 60.0]])([[180.0, 60.0], [-179.0, 60.0]]).round(1) + 0.0
    array([[ 0. , -0.1],
           [55.6,  0.3]])
    """

    longitude: float
    latitude: float
    sphere: bool = False

    @classmethod
    def of(cls, X: Any) -> LonLat:
        """Return the map for data with longitudes and latitudes in the first two columns."""
        u = _unit_vectors(np.asarray(X), 0.0, 0.0)
        east, north, front = u.mean(axis=0)
        around = float(np.hypot(east, front))
        # without a mean direction, as of points in all directions, no longitude is special
        longitude = float(np.degrees(np.arctan2(east, front))) if around > 1e-9 else 0.0
        plane = cls(longitude, float(np.degrees(np.arctan2(north, around))))
        least = _unit_vectors(np.asarray(X), plane.longitude, plane.latitude)[:, 2].min()
        return plane if least >= np.cos(np.radians(WIDEST)) else cls(longitude, 0.0, sphere=True)

    def __call__(self, X: Any) -> Matrix:
        """Return the positions (t, 2) or (t, 3) of rows (t, 2) in km; further columns follow unchanged.

        Positions are rounded to a micrometer, so that rows at one place, such as -180 and 180 degrees, are equal.
        """
        X = np.asarray(X, dtype=np.float64)
        check_degrees(X)
        positions = self.smooth(X)
        further = X.shape[1] - 2
        return np.hstack([positions[:, : positions.shape[1] - further].round(9), X[:, 2:]])

    def smooth(self, X: Matrix) -> Matrix:
        u = _unit_vectors(X, self.longitude, self.latitude)
        if self.sphere:
            return np.hstack([RADIUS * u, X[:, 2:]])
        # R sqrt(2 / (1 + z)) (x, y)  (Snyder 1987, Map projections, ch. 24)
        opposite = 1 + u[:, 2:] < 1e-12  # the point opposite to the center is a circle in the plane
        stretched = np.where(
            opposite, [np.sqrt(2), np.sqrt(2)], u[:, :2] * np.sqrt(2 / np.maximum(1 + u[:, 2:], 1e-12))
        )
        return np.hstack([RADIUS * stretched, X[:, 2:]])


def are_degrees(names: Sequence[Any]) -> bool:
    """Return whether the first two of these columns are called longitude and latitude."""
    starts = zip((str(name).strip().casefold() for name in names), (("lon", "lng"), ("lat",)), strict=False)
    return len(names) > 1 and all(name.startswith(start) for name, start in starts)


def check_degrees(X: Matrix) -> None:
    """Raise ValueError for rows whose first two columns are no longitude and latitude in degrees."""
    wrong = np.flatnonzero((np.abs(X[:, 1]) > 90) | (np.abs(X[:, 0]) > 360))
    if len(wrong):
        raise ValueError(
            f"Row {wrong[0]} of X has longitude {X[wrong[0], 0]:g} and latitude {X[wrong[0], 1]:g}, which are no "
            f"degrees, and so have {len(wrong)} of {len(X)} rows: correct them or leave them out. Longitudes belong in "
            "the first column, and latitudes from -90 to 90 in the second."
        )


def _unit_vectors(X: Matrix, longitude: float, latitude: float) -> Matrix:
    """Return unit vectors (t, 3) to points, whose axes point east, north and out of the earth at a center."""
    around = np.radians(np.remainder(X[:, 0] - longitude, 360.0))
    up, tilt = np.radians(X[:, 1]), np.radians(latitude)
    front, above = np.cos(up) * np.cos(around), np.sin(up)
    return np.column_stack(
        [
            np.cos(up) * np.sin(around),
            np.cos(tilt) * above - np.sin(tilt) * front,
            np.sin(tilt) * above + np.cos(tilt) * front,
        ]
    )


def as_coordinates(coordinates: Any, X: Array, names: Any = None) -> Coordinates | None:
    """Return the map from rows to positions for the parameter `coordinates` and training rows X with these names.

    Without one, warn if the columns of a map are called longitude and latitude.
    """
    if coordinates is None:
        if names is not None and len(names) <= 3 and (are_degrees(names) or are_degrees([*names[1::-1]])):
            warn(
                f"The columns {names[0]!r} and {names[1]!r} are taken for a plane, where all degrees are equally long: "
                f'put the longitude first and pass coordinates="{LONLAT}", or X.to_numpy() if they are no degrees.'
            )
        return None
    if isinstance(coordinates, str) and coordinates == LONLAT:
        first = "" if names is None else str(names[0]).casefold()
        if X.shape[1] < 2 or first.startswith("lat"):
            raise ValueError(
                f'coordinates="{LONLAT}" needs the longitude in the first column and the latitude in the second; '
                + (f"the first one is {names[0]!r}: change their order." if first else "X has one column.")
            )
        check_degrees(double(X))
        return LonLat.of(double(X))
    if not callable(coordinates):
        raise ValueError(f'coordinates must be "{LONLAT}", a callable or None, got {coordinates!r}.')
    return Projection(coordinates)
