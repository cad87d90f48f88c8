"""Tangents: f does not change when the data are transformed a little, by a function, or as signals change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import ndimage

from rkhs._backend.arrays import Array, Matrix, as_points, like, to_numpy
from rkhs.functionals import DirectionalDerivative


class TangentFamily(ABC):
    """Ways to transform the rows of X, with tangents v_k = d/da T_k(x, a) at a = 0."""

    @abstractmethod
    def vectors(self, X: Array) -> Array:
        """Return the tangents (t, k, n) of the rows of X."""

    def __call__(self, X: Array) -> DirectionalDerivative:
        """Return the derivatives along the tangents at each row: shape (t, k)."""
        points = as_points(X)
        return DirectionalDerivative(points, self.vectors(points))


def checked_kinds(kinds: str | Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of transformations as a tuple; refuse unknown ones."""
    given = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if not given or not set(given) <= set(known):
        raise ValueError(f"kinds must be among {', '.join(known)}, got {list(given)}.")
    return given


@dataclass(frozen=True)
class Tangents(TangentFamily):
    """A transformation of your own changes nothing, as long as it is small.

        L_i(f) = <v_i, grad f(x_i)> with v_i = (T(x_i, step) - T(x_i, -step)) / (2 step)

    Parameters
    ----------
    transform : (X, a) -> the rows of X transformed by the amount a, where T(X, 0) = X.  A function of a module, not a
        lambda, if the model is to be pickled
    step : the amount of the difference

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import Tangents
    >>> def rotate(X, angle):
    ...     c, s = np.cos(angle), np.sin(angle)
    ...     return X @ np.array([[c, s], [-s, c]])
    >>> Tangents(rotate, step=1e-4).vectors(np.array([[1.0, 0.0]])).round(6)
    array([[0., 1.]])
    """

    transform: Callable[[Array, float], Array]
    step: float = 1e-3

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise TypeError(f"transform must be a function of (X, amount), got {self.transform!r}.")
        if not self.step > 0:
            raise ValueError(f"step must be positive, got {self.step!r}.")

    @property
    def names(self) -> list[str]:
        """The name of the one tangent."""
        return [getattr(self.transform, "__name__", "transform")]

    def vectors(self, X: Array) -> Array:
        """Return the tangents (t, n) of the rows of X."""
        points = as_points(X)
        ahead, behind = (self._transformed(to_numpy(points), amount) for amount in (self.step, -self.step))
        return like((ahead - behind) / (2 * self.step), points)

    def moved(self, X: Array, amount: float) -> Array:
        """Return the rows of X really transformed: (t, 1, n)."""
        points = as_points(X)
        return like(self._transformed(to_numpy(points), amount)[:, None], points)

    def _transformed(self, rows: Matrix, amount: float) -> Matrix:
        moved = np.asarray(self.transform(rows, amount))
        if moved.shape != rows.shape:
            raise ValueError(
                f"{self.names[0]} took points of shape {rows.shape} to {moved.shape}: a transformation keeps the shape."
            )
        return moved


# kind -> its tangent from the smoothed signals g, their slopes g' and the time, which runs from -1 to 1
TANGENTS: dict[str, Callable[[Matrix, Matrix, Matrix], Matrix]] = {
    "shift": lambda g, slope, time: -slope,  # g(time - a), a in samples
    "stretch": lambda g, slope, time: -time * slope,  # the ends move by a samples
    "amplitude": lambda g, slope, time: g,  # (1 + a) g
    "offset": lambda g, slope, time: np.ones_like(g),  # g + a
    "drift": lambda g, slope, time: np.broadcast_to(time, g.shape),  # g + a time: a baseline that tilts
}


@dataclass(frozen=True)
class SignalTangents(TangentFamily):
    """A signal stays the same when it shifts, stretches, grows or drifts a little.

        L_ik(f) = <v_ik, grad f(x_i)>: how f changes when the signal x_i changes a little in the way k

    The rows of X are signals sampled at equal steps.  With g the smoothed signal and time from -1 to 1 the tangents are
    -g' (shift), -time g' (stretch), g (amplitude), 1 (offset) and time (drift).

    Parameters
    ----------
    kinds : of "shift", "stretch", "amplitude", "offset", "drift"
    smoothing : width in samples of the Gaussian that smooths the signal first

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import SignalTangents
    >>> SignalTangents(kinds=["shift", "drift"], smoothing=0).vectors(np.array([[0.0, 2.0, 4.0, 6.0, 8.0]]))
    array([[[-2. , -2. , -2. , -2. , -2. ],
            [-1. , -0.5,  0. ,  0.5,  1. ]]])
    """

    kinds: Sequence[str] = ("shift", "stretch", "amplitude")
    smoothing: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", checked_kinds(self.kinds, TANGENTS))
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing must be a width in samples, zero or more, got {self.smoothing!r}.")

    @property
    def names(self) -> list[str]:
        """The name of each tangent."""
        return list(self.kinds)

    def vectors(self, X: Array) -> Array:
        """Return the tangents (t, k, n) of the rows of X."""
        points = as_points(X)
        g, time = _signals(points)
        slope = np.gradient(g, axis=1)
        if self.smoothing:
            g, slope = (ndimage.gaussian_filter1d(g, self.smoothing, 1, order, mode="nearest") for order in (0, 1))
        return like(np.stack([TANGENTS[kind](g, slope, time) for kind in self.kinds], axis=1), points)

    def moved(self, X: Array, amount: float) -> Array:
        """Return the rows of X really changed, in each of the ways: (t, k, n).  They are not smoothed."""
        points = as_points(X)
        g, time = _signals(points)
        changed = []
        for kind in self.kinds:
            if kind in ("shift", "stretch"):
                places = np.arange(g.shape[1]) - amount * (time if kind == "stretch" else 1.0)
                moved = [ndimage.map_coordinates(one, [places], order=3, mode="nearest") for one in g]
                changed.append(np.array(moved).reshape(g.shape))
            else:
                added: Any = {"amplitude": g, "offset": 1.0, "drift": time}[kind]
                changed.append(g + amount * added)
        return like(np.stack(changed, axis=1), points)


def _signals(points: Array) -> tuple[Matrix, Matrix]:
    """Return the signals, and the time of their samples."""
    if points.shape[1] < 2:
        raise ValueError("X has one feature: a signal needs at least two samples.")
    return to_numpy(points).astype(np.float64), np.linspace(-1, 1, points.shape[1])


@dataclass(frozen=True)
class Moved:
    """X -> T_k(X, amount): the rows moved in one of the ways of `ImageTangents`, `SignalTangents` or `Tangents`."""

    tangents: Any
    which: int
    amount: float

    def __call__(self, X: Array) -> Array:
        """Return the moved rows, of the shape of X."""
        return self.tangents.moved(X, self.amount)[:, self.which]


def copies(tangents: Any, amounts: Sequence[float] = (-1.0, 1.0)) -> list[Moved]:
    """Return the transformations of all kinds by all amounts, for `rkhs.VirtualSampleSVC`.

    Parameters
    ----------
    tangents : `ImageTangents`, `SignalTangents` or `Tangents`
    amounts : by how much, in the units of the tangents

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.invariances import ImageTangents, copies
    >>> transforms = copies(ImageTangents(shape=(8, 8), kinds=["translation", "rotation"]), amounts=(-1, 1))
    >>> len(transforms)  # down, right and rotation, forth and back
    6
    >>> model = rkhs.VirtualSampleSVC(transforms)
    """
    kinds = getattr(tangents, "kinds", None)
    singles = [tangents] if kinds is None else [replace(tangents, kinds=(kind,)) for kind in kinds]
    return [Moved(single, k, float(a)) for single in singles for k in range(len(single.names)) for a in amounts]
