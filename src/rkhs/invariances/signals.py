"""Tangents of signals: f does not change when the signal shifts, stretches, grows or drifts a little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from rkhs._backend.arrays import Array, Matrix, as_points, like, to_numpy
from rkhs.functionals import DirectionalDerivative

# kind -> its tangent from the smoothed signals g, their slopes g' and the time, which runs from -1 to 1
TANGENTS: dict[str, Callable[[Matrix, Matrix, Matrix], Matrix]] = {
    "shift": lambda g, slope, time: -slope,  # g(time - a), a in samples
    "stretch": lambda g, slope, time: -time * slope,  # the ends move by a samples
    "amplitude": lambda g, slope, time: g,  # (1 + a) g
    "offset": lambda g, slope, time: np.ones_like(g),  # g + a
    "drift": lambda g, slope, time: np.broadcast_to(time, g.shape),  # g + a time: a baseline that tilts
}


@dataclass(frozen=True)
class SignalTangents:
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
        kinds = (self.kinds,) if isinstance(self.kinds, str) else tuple(self.kinds)
        if not kinds or not set(kinds) <= set(TANGENTS):
            raise ValueError(f"kinds must be among {', '.join(TANGENTS)}, got {list(kinds)}.")
        if not self.smoothing >= 0:
            raise ValueError(f"smoothing must be a width in samples, zero or more, got {self.smoothing!r}.")
        object.__setattr__(self, "kinds", kinds)

    @property
    def names(self) -> list[str]:
        """The name of each tangent."""
        return list(self.kinds)

    def __call__(self, X: Array) -> DirectionalDerivative:
        """The derivatives along the tangents at each row: shape (t, k)."""
        points = as_points(X)
        return DirectionalDerivative(points, self.vectors(points))

    def vectors(self, X: Array) -> Array:
        """The tangents (t, k, n) of the rows of X."""
        points = as_points(X)
        signals, time = _signals(points)
        if self.smoothing:
            g = ndimage.gaussian_filter1d(signals, self.smoothing, axis=1, mode="nearest")
            slope = ndimage.gaussian_filter1d(signals, self.smoothing, axis=1, order=1, mode="nearest")
        else:
            g, slope = signals, np.gradient(signals, axis=1)
        return like(np.stack([TANGENTS[kind](g, slope, time) for kind in self.kinds], axis=1), points)

    def moved(self, X: Array, amount: float) -> Array:
        """The rows of X really changed, in each of the ways: (t, k, n).  They are not smoothed."""
        points = as_points(X)
        signals, time = _signals(points)
        changed = [MOTIONS[kind](signals, time, amount) for kind in self.kinds]
        return like(np.stack(changed, axis=1), points)


def _signals(points: Array) -> tuple[Matrix, Matrix]:
    """The signals, and the time of their samples."""
    if points.shape[1] < 2:
        raise ValueError("X has one feature: a signal needs at least two samples.")
    return to_numpy(points).astype(np.float64), np.linspace(-1, 1, points.shape[1])


def _sampled(signals: Matrix, places: Matrix) -> Matrix:
    """The signals at places counted in samples, by cubic splines, the ends continued outwards."""
    found = np.empty_like(signals)
    for signal, out in zip(signals, found, strict=True):
        ndimage.map_coordinates(signal, [places], out, order=3, mode="nearest")
    return found


# kind -> the signals g after the change by the amount a
MOTIONS: dict[str, Callable[[Matrix, Matrix, float], Matrix]] = {
    "shift": lambda g, time, a: _sampled(g, np.arange(g.shape[1]) - a),
    "stretch": lambda g, time, a: _sampled(g, np.arange(g.shape[1]) - a * time),
    "amplitude": lambda g, time, a: (1 + a) * g,
    "offset": lambda g, time, a: g + a,
    "drift": lambda g, time, a: g + a * time,
}
