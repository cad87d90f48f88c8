"""Two moons in the plane, one labelled point in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import make_moons

from rkhs._backend.arrays import Matrix, Vector

PLACES = {"middle": ((0.0, 1.0), (1.0, -0.5)), "end": ((-1.0, 0.0), (2.0, 0.5))}


@dataclass(frozen=True, eq=False)
class TwoMoons:
    """Points X (t, 2), their moons y (t,) in {-1, +1}, and the two labelled points.

    Examples
    --------
    >>> import rkhs
    >>> moons = rkhs.datasets.two_moons(100)
    >>> moons.X.shape, len(moons.labelled)
    ((100, 2), 2)
    """

    X: Matrix
    y: Vector
    labelled: Vector  # (2,)


def two_moons(points: int = 200, noise: float = 0.08, seed: int = 0, labelled: str = "middle") -> TwoMoons:
    """Two half circles with noise, and a labelled point near the "middle" or the outer "end" of each.

    Examples
    --------
    >>> moons = two_moons(100)
    >>> moons.X.shape, moons.y[moons.labelled]
    ((100, 2), array([-1,  1]))
    """
    X, moon = make_moons(points, noise=noise, random_state=seed)
    y = np.where(moon == 1, 1, -1)
    nearest = [
        int(rows[np.argmin(np.linalg.norm(X[rows] - place, axis=1))])
        for place, rows in zip(PLACES[labelled], (np.flatnonzero(y < 0), np.flatnonzero(y > 0)), strict=True)
    ]
    return TwoMoons(X, y, np.array(nearest))
