"""What distances are measured by, learnt from all points, labelled or not.

Features are taken as they are or divided by their deviations.  Of these

    all features             x
    principal components     the first few directions in which points differ most
    decorrelated features    S^-1/2 x  with the covariance S, so that points differ by the same in every direction

Distances in many noisy features say little: what two classes differ by is lost among all else.  Where classes are
clusters they differ along the first components, and this is what unlabelled points are worth most for (cluster kernels:
Chapelle, Weston and Scholkopf 2003).  Where features are many measurements of few things, with classes in what is left,
as in brain signals, decorrelated ones are what classical discriminants look at (Mahalanobis 1936).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Vector
from rkhs.estimators.choosing.metrics import KernelOf
from rkhs.invariances.graph import Graph, principal_directions
from rkhs.kernels import median_scale

ALIKE = 1e-6  # share below which differences of standard deviations, and these themselves, are rounding
COMPONENTS = (3, 10, 30)  # principal ones, of more features
MOST = 500  # features that are decorrelated
SEEN = 1000  # points of which a median distance is found


@dataclass(frozen=True, eq=False)
class Measure:
    """What features are divided by, a number or one each, and a linear map (m, n) of them, None for themselves."""

    unit: Any
    linear: Vector | None = None
    components: int | None = None  # how many of them the map leaves, where it leaves these

    @property
    def graphs(self) -> bool:
        """Whether a `Graph` knows it."""
        return self.linear is None or self.components is not None

    def points(self, X: Vector) -> Vector:
        """The points (t, m) whose distances are meant."""
        scaled = X / self.unit
        return scaled if self.linear is None else scaled @ self.linear.T

    def kernel(self, kernel: Any, scale: float, kernel_of: KernelOf) -> tuple[Any, Any]:
        """The parameters `kernel` and `scale` of an estimator that say the same."""
        if self.linear is not None:
            return kernel_of(kernel, scale) @ (self.linear / self.unit), scale
        each = np.asarray(scale * self.unit)
        return kernel, float(each) if each.ndim == 0 else tuple(each.tolist())

    def graph(self, neighbours: int, power: int) -> Graph:
        """The graph of neighbours by these distances."""
        return Graph(neighbours, power, scale=self.unit, components=self.components)

    def median(self, X: Vector, distance: str) -> float:
        """The median distance of some of the points."""
        some = X if len(X) <= SEEN else np.random.default_rng(0).choice(X, SEEN, replace=False)
        return median_scale(self.points(some), distance=distance)


def measures(X: Vector) -> Iterator[Measure]:
    """Those to try for points X (t, n): features themselves first."""
    t, n = X.shape
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    alike = np.ptp(spread) <= ALIKE * spread.max()
    units: list[Any] = [1.0] if alike else [1.0, spread]
    yield from map(Measure, units)
    for unit in units if min(t, n) > min(COMPONENTS) else []:
        directions = principal_directions(X / unit, max(COMPONENTS) + 1)
        along = (X / unit @ directions.T).std(axis=0)
        several = int(np.sum(along > ALIKE * along[0]))  # features that are others in other words are no directions
        yield from (Measure(unit, directions[:count], count) for count in COMPONENTS if count < several)
    if 1 < n <= MOST and t > 1:
        yield Measure(spread, decorrelating(X / spread))


def decorrelating(X: Vector) -> Vector:
    """(S + s I)^-1/2 with the covariance S of points X (t, n).

    s = tr S / t is about how wrong each variance is that t points tell.  It does not change when a feature is split
    into equal ones that together say the same.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((1000, 2)) @ [[1.0, 0.9], [0.0, 0.5]]
    >>> bool(np.allclose(np.cov((X @ decorrelating(X)).T), np.eye(2), atol=0.05))
    True
    """
    variances, U = scipy.linalg.eigh(np.cov(X.T, bias=True))
    variances = np.clip(variances, 0.0, None)
    least = max(float(variances.sum()) / len(X), np.finfo(float).tiny)
    return np.asarray((U / np.sqrt(variances + least)) @ U.T)
