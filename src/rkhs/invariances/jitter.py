"""Noise in the measurements: f does not change when the features tremble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, as_array, as_points, to_numpy
from rkhs.functionals import Functional, Gradient
from rkhs.functionals.base import Combination


@dataclass(frozen=True)
class Jitter:
    """f changes little when features are off by their usual errors.

        L_ia(f) = width_a df/dx_a (x_i): how f changes when feature a of x_i is off by its usual error

    The sum of squares over a is E (f(x_i + z) - f(x_i))^2 for small noise z ~ N(0, diag(width^2)), so give the error of
    measurement of each feature; zero for one that is exact.  Estimators see which widths are larger, and by how much;
    how strong it all is, their `nu` says.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import Jitter
    >>> Jitter([0.5, 2.0])(np.array([[3.0, 4.0]]))(rkhs.Polynomials(degree=1))  # of 1, x, y
    array([[[0. , 0.5, 0. ],
            [0. , 0. , 2. ]]])
    """

    width: Any

    def __post_init__(self) -> None:
        width = to_numpy(as_array(self.width, "width"))
        if width.ndim > 1 or width.size == 0 or not np.all(width >= 0) or not np.any(width > 0):
            raise ValueError(f"width must be positive, one number or one per feature, got {self.width!r}.")
        object.__setattr__(self, "width", float(width) if width.ndim == 0 else tuple(width.tolist()))

    def __call__(self, X: Array) -> Functional:
        """The scaled partial derivatives at each row, of the features whose width is not zero: (t, these)."""
        points = as_points(X)
        if isinstance(self.width, float):
            return self.width * Gradient(points)
        t, n = points.shape
        if len(self.width) != n:
            raise ValueError(f"Jitter has {len(self.width)} widths and X has {n} features: give one for each.")
        widths = np.tile(self.width, t)
        kept = np.flatnonzero(widths)
        scaled = scipy.sparse.csr_array((widths[kept], (np.arange(kept.size), kept)), shape=(kept.size, t * n))
        each = kept.size // t
        return Combination((t, each), (scaled @ Gradient(points)).parts, f"Jitter({t} points, {each} features)")
