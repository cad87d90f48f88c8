"""The tangent of any transformation, by central differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rkhs._backend.arrays import Array, as_points, like, to_numpy
from rkhs.functionals import DirectionalDerivative


@dataclass(frozen=True)
class Tangents:
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

    def __call__(self, X: Array) -> DirectionalDerivative:
        """The derivative along the tangent at each row: shape (t,)."""
        points = as_points(X)
        return DirectionalDerivative(points, self.vectors(points))

    def vectors(self, X: Array) -> Array:
        """The tangents (t, n) of the rows of X."""
        points = as_points(X)
        ahead, behind = (self._transformed(to_numpy(points), a) for a in (self.step, -self.step))
        return like((ahead - behind) / (2 * self.step), points)

    def moved(self, X: Array, amount: float) -> Array:
        """The rows of X really transformed: (t, 1, n)."""
        points = as_points(X)
        return like(self._transformed(to_numpy(points), amount)[:, None], points)

    def _transformed(self, rows: Array, amount: float) -> Array:
        moved = np.asarray(self.transform(rows, amount))
        if moved.shape != rows.shape:
            raise ValueError(
                f"{self.names[0]} took points of shape {rows.shape} to {moved.shape}: a transformation keeps the shape."
            )
        return moved
