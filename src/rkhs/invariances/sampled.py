"""Knowledge at some of the points, where all of them would be too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rkhs._backend.arrays import Array, as_points, taken
from rkhs.functionals import Functional
from rkhs.invariances.base import Invariance


@dataclass(frozen=True)
class Sampled:
    """Another invariance, at a random sample of the points only.

        L = functional(X_S) for a random subset S of at most `most` rows of X

    Parameters
    ----------
    functional : a callable X -> functionals, or the name of one, as in `Invariance`
    most : how many rows at most
    random_state : the seed of the draw

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import Sampled
    >>> Sampled("gradient", most=100)(np.random.default_rng(0).standard_normal((5000, 3)))
    Gradient(100 points in R^3)
    """

    functional: Callable[[Array], Functional] | str
    most: int
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most must be a positive number of points, got {self.most!r}.")
        Invariance(self.functional)  # refuses what is none

    def __call__(self, X: Array) -> Functional:
        """The functionals at the drawn rows, in the order of the rows."""
        points = as_points(X)
        t = int(points.shape[0])
        if t > self.most:
            rows = np.sort(np.random.default_rng(self.random_state).choice(t, self.most, replace=False))
            points = taken(points, rows)
        return Invariance(self.functional)(points)
