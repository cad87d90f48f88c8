"""Where a search for settings begins, and how far it may go: by the data, so that their units do not matter.

A scale begins at the median distance of the points, with one for each feature at the median distance of points in units
of their spread, times that spread; the factor of a kernel where its values are of size one; the weight of a term where
the noise is a hundredth of what the kernel expects of its functionals.  Bounds are multiples of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._gram.operator import gram
from rkhs.functionals.base import Functional
from rkhs.kernels.base import Kernel, Open
from rkhs.kernels.scaled import median_scale
from rkhs.learning.observations import Observations

SCALE = (1e-2, 1e3)  # of the start, the bounds
ALPHA = (1e-2, 1e3)
FACTOR = (1e-5, 1e5)
NOISE = 1e-2  # the variance of noise at the start, in units of what the kernel expects
NOISES = (1e-12, 1e3)  # its bounds: below the first, rounding would be taken for signal
FEW = 500  # functionals that are looked at for their size


@dataclass(frozen=True)
class Range:
    """A start between two bounds, and whether the start was given by the user."""

    start: float
    low: float
    high: float
    given: bool = False

    @classmethod
    def of(cls, marked: Open, start: float, bounds: tuple[float, float]) -> Range:
        """What was marked, and what the data say where nothing was."""
        given, start = marked.start is not None, marked.start or start
        low = bounds[0] * start if marked.low is None else marked.low
        high = bounds[1] * start if marked.high is None else marked.high
        return cls(float(np.clip(start, low, high)), low, high, given)


def started(kernel: Kernel, X: Matrix) -> tuple[Kernel, dict[str, list[Range]]]:
    """The kernel with numbers where it was open, and their ranges: one, or one for each feature."""
    found: dict[str, list[Range]] = {}
    for place, child in kernel.children().items():
        filled, ranges = started(child, kernel.seen(X))
        kernel = kernel.with_parameters({f"{place}.{name}": value for name, value in filled.parameters().items()})
        found |= {f"{place}.{name}": own for name, own in ranges.items()}
    for name in kernel.positive:
        marked = getattr(kernel, name)
        if isinstance(marked, Open):
            found[name] = _ranges(kernel, name, marked, X)
            values = [own.start for own in found[name]]
            kernel = kernel.with_parameters({name: tuple(values) if marked.each else values[0]})
    return kernel, found


def _ranges(kernel: Any, name: str, marked: Open, X: Matrix) -> list[Range]:
    if marked.each and name != "scale":
        raise ValueError(f"{kernel!r} has one {name}: leave each=True out, which is for scales.")
    if name == "scale" and marked.start is None and len(np.unique(X, axis=0)) < 2:
        raise ValueError(
            f"{kernel!r} is to find its scale, and all functionals are at one point, which says nothing about it: give "
            "the scale as a number, or a start, as in rkhs.learn(start=1.0)."
        )
    if name == "scale" and marked.each:
        spread = np.std(X, axis=0)
        spread = np.where(spread > 0, spread, np.mean(spread) if np.any(spread) else 1.0)
        starts = spread if marked.start is not None else spread * median_scale(X / spread, distance=kernel.distance)
        return [Range.of(marked, float(own), SCALE) for own in starts]
    if name == "scale":
        return [Range.of(marked, marked.start or median_scale(X, distance=kernel.distance), SCALE)]
    if name == "factor":
        size = float(np.mean(np.abs(kernel.kernel(X[:FEW]))))
        return [Range.of(marked, 1 / size if size > 0 else 1.0, FACTOR)]
    return [Range.of(marked, 1.0, ALPHA)]


def weight_range(marked: Open, shares: Matrix, size: float) -> Range:
    """Of a weight that multiplies shares (n,), for functionals of a mean square size."""
    unit = 1 / (2 * size * float(np.mean(shares)))
    return Range.of(marked, unit / NOISE, (NOISE / NOISES[1], NOISE / NOISES[0]))


def sizes(kernel: Kernel, observations: Observations, random: np.random.Generator) -> dict[int, float]:
    """The mean square that the kernel expects of the functionals of each term, the basis taken out."""
    found = {}
    for k in np.unique(observations.term).tolist():
        rows = np.flatnonzero(observations.term == k)
        rows = rows if len(rows) <= FEW else np.sort(random.choice(rows, FEW, replace=False))
        G, Q = gram(kernel, observations.functionals.take(rows)).in_double(), observations.Q[rows]
        if kernel.order:
            U = np.linalg.qr(Q)[0]
            G = G - U @ (U.T @ G)
            G = G - (G @ U) @ U.T
        size = float(np.mean(np.diag(G)))
        found[k] = size if size > 0 else 1.0
    return found


def points_of(functionals: Functional, random: np.random.Generator, most: int = 1000) -> Matrix:
    """Distinct points of the functionals, a sample where there are many."""
    points = np.unique(np.concatenate([np.asarray(part.atoms.points) for part in functionals.parts]), axis=0)
    return points if len(points) <= most else random.choice(points, most, replace=False)
