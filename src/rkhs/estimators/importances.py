"""How much a learnt function changes along each feature."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Vector, like, taken, to_numpy
from rkhs.functionals import Evaluation, Gradient

STEP = 0.1  # of a standard deviation, for kernels without slopes
ROUNDING = 1e-9  # of f, below which slopes are rounding
POINTS = 200  # at which slopes are looked at


def some_places(X: Array) -> Evaluation:
    """Some of the training points, as functionals, which are saved with a model and stay on their device."""
    if len(X) <= POINTS:
        return Evaluation(X)
    return Evaluation(taken(X, np.random.default_rng(0).choice(len(X), POINTS, replace=False)))


def importances(function: Any, places: Evaluation) -> Vector:
    """Shares (n,), which add up to one, of the features in the mean of |grad f|^2 at some places.

    Slopes are in units of the deviations of features.  Functions of a kernel without slopes are compared a tenth of a
    deviation to both sides.  All shares are zero where f is constant.
    """
    X = places.parts[0].atoms.points
    spread = to_numpy(X).astype(np.float64).std(axis=0)
    n, kernel = len(spread), getattr(function, "kernel", None)  # Fourier features have none
    if kernel is not None and kernel.smoothness(n) > 1:
        slopes = to_numpy(Gradient(X)(function)).reshape(len(X), n, -1) * spread[:, None]
    else:
        steps = like(np.diag(STEP * spread), X)
        slopes = np.stack([to_numpy(function(X + h)) - to_numpy(function(X - h)) for h in steps], axis=1)
    squares = np.mean(np.sum(slopes.reshape(len(X), n, -1) ** 2, axis=2), axis=0)
    total, size = float(squares.sum()), float(np.max(np.abs(to_numpy(places(function))), initial=0.0))
    return np.asarray(squares / total if total > (ROUNDING * size) ** 2 else np.zeros(n))
