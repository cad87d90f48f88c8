"""Tangents of signals: f does not change when the signal shifts, stretches, grows or drifts a little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage

from rkhs.backend.arrays import Array, as_points, like, to_numpy
from rkhs.functionals import DirectionalDerivative

Signals = np.ndarray[Any, Any]  # (t, n)

# kind -> its tangent from the smoothed signals g, their slopes g' and the time, which runs from -1 to 1
TANGENTS: dict[str, Callable[[Signals, Signals, Signals], Signals]] = {
    "shift": lambda g, slope, time: -slope,  # g(time - a), a in samples
    "stretch": lambda g, slope, time: -time * slope,  # g((1 - a') time): the ends move by a samples
    "amplitude": lambda g, slope, time: g,  # (1 + a) g
    "offset": lambda g, slope, time: np.ones_like(g),  # g + a
    "drift": lambda g, slope, time: np.broadcast_to(time, g.shape),  # g + a time: a baseline that tilts
}


@dataclass(frozen=True)
class SignalTangents:
    """L_ik(f) = <v_ik, grad f(x_i)>: how f changes when the signal x_i changes a little in the way k.

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
        if points.shape[1] < 2:
            raise ValueError("X has one feature: a signal needs at least two samples.")
        signals = to_numpy(points).astype(np.float64)
        if self.smoothing:
            g = ndimage.gaussian_filter1d(signals, self.smoothing, axis=1, mode="nearest")
            slope = ndimage.gaussian_filter1d(signals, self.smoothing, axis=1, order=1, mode="nearest")
        else:
            g, slope = signals, np.gradient(signals, axis=1)
        time = np.linspace(-1, 1, signals.shape[1])
        return like(np.stack([TANGENTS[kind](g, slope, time) for kind in self.kinds], axis=1), points)
