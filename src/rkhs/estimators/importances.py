"""How much a learnt function changes along each feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs.backend.arrays import to_numpy
from rkhs.functionals import Gradient

Vector = np.ndarray[Any, Any]
STEP = 0.1  # of a standard deviation, for kernels without slopes
ROUNDING = 1e-9  # of f, below which slopes are rounding
POINTS = 200  # at which slopes are looked at


def some_points(X: Any) -> Vector:
    """Some of the training points, in NumPy, a copy."""
    points = to_numpy(X).astype(np.float64)
    if len(points) > POINTS:
        points = points[np.random.default_rng(0).choice(len(points), POINTS, replace=False)]
    return np.array(points)


def importances(function: Any, X: Vector) -> Vector:
    """Shares (n,), which add up to one, of the features in the mean of |grad f|^2 at X, in units of their deviations.

    Functions of a kernel without slopes are compared a tenth of a deviation to both sides.  All shares are zero where f
    is constant.
    """
    n, spread = X.shape[1], X.std(axis=0)
    kernel = getattr(function, "kernel", None)  # Fourier features have none
    if kernel is not None and kernel.smoothness(n) > 1:
        slopes = to_numpy(Gradient(X)(function)).reshape(len(X), n, -1) * spread[:, None]
    else:
        steps = np.diag(STEP * spread)
        slopes = np.stack([to_numpy(function(X + h)) - to_numpy(function(X - h)) for h in steps], axis=1)
    squares = np.mean(np.sum(slopes.reshape(len(X), n, -1) ** 2, axis=2), axis=0)
    total = float(squares.sum())
    size = float(np.max(np.abs(to_numpy(function(X))), initial=0.0))
    return np.asarray(squares / total if total > (ROUNDING * size) ** 2 else np.zeros(n))
