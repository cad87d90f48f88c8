"""The neighborhoods of points among functionals: the nearest ones, and further ones that are spread evenly.

Points of a survey lie on tracks, and those of one track are much nearer to each other than tracks are.  The nearest
functionals of a point in a gap then lie on one side of it.  `far` adds the nearest ones of each of several subsets,
each with at most a quarter of the functionals of the one before: a representative of each cell of ever coarser grids.
So a few functionals describe what is farther away, at every distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from typing import Any, ClassVar

import numpy as np
import scipy  # imports scipy.spatial on first use

from rkhs._core.backend.arrays import Matrix, Vector, check_count
from rkhs.functionals._base import Functional
from rkhs.kernels._base import Kernel
from rkhs.spaces._base import Approximation, FiniteSpace

THINNER = 4  # functionals of a subset for each one of the next


@dataclass(frozen=True)
class Neighbors(Approximation):
    """Learn f at each point from the functionals near it, by a small problem of its own.

    f(x), or another functional of f, is that of the minimizer of the problem of the nearest functionals alone, which is
    computed exactly; all losses have to be squared.  This is kriging with a moving neighborhood.  It takes any kernel,
    conditionally positive definite ones too (`rkhs.kernels.ThinPlate`, `rkhs.kernels.Polyharmonic`), any functionals
    and any basis.  Nothing is learned for the whole: time is that of one small linear system for each evaluation.
    Slopes of f are predicted from the neighborhood of their point.

    f is not continuous where the neighborhood changes, unless it is `continuous`.  The steps are small compared with
    the error bars.

    Parameters
    ----------
    count : int, default=50
        The number of nearest functionals.
    far : int, default=0
        The number of functionals of each of several subsets that are spread evenly and ever more widely, in addition.
        A few make predictions in gaps between tracks better and cost little.
    continuous : bool, default=False
        Whether the noise that is assumed for functionals increases to infinity towards the end of the neighborhood, so
        that f is continuous.  It uses only about half of the functionals in full.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).uniform(size=(10_000, 2))
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e6)
    >>> problem = rkhs.Problem(rkhs.kernels.ThinPlate(), [term], approximation=rkhs.Neighbors(30))
    >>> problem.solve().function(np.array([[0.5, 0.5]])).round(3)
    array([0.141])
    """

    count: int = 50
    far: int = 0
    continuous: bool = False
    is_span: ClassVar[bool] = False
    local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count(self.count, "The number of functionals of Neighbors")
        check_count(self.far, "far of Neighbors", 0)

    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Any) -> FiniteSpace:
        raise NotImplementedError(
            f"{self!r} solves a small problem at each point, and has no space of functions for all of them: use "
            "Problem.solve, or rkhs.Landmarks."
        )


@dataclass(frozen=True, eq=False)
class NeighborSearch:
    """Finds the neighborhoods of points among locations (N, n)."""

    locations: Matrix
    neighbors: Neighbors

    @cached_property
    def levels(self) -> list[tuple[Any, Vector, int]]:
        """The trees of all locations and of the subsets, the indices of their locations, and the number to search."""
        every = np.arange(len(self.locations))
        found = [(scipy.spatial.KDTree(self.locations), every, min(self.neighbors.count, len(every)))]
        low, extent = self.locations.min(axis=0), float(np.ptp(self.locations, axis=0).max())
        index, dimension = np.random.default_rng(0).permutation(every), self.locations.shape[1]
        depth = ceil(log2(len(every)) / dimension)  # cells of side extent / 2^depth: about one for each location
        for level in range(depth, 0, -1) if self.neighbors.far and extent > 0 else ():
            cells = np.minimum((self.locations[index] - low) * (2**level / extent), 2**level - 1).astype(np.int64)
            keys = cells @ (2**level) ** np.arange(dimension, dtype=np.int64)
            index = index[np.unique(keys, return_index=True)[1]]
            if 2 * self.neighbors.far <= len(index) <= len(found[-1][1]) / THINNER:
                found.append((scipy.spatial.KDTree(self.locations[index]), index, self.neighbors.far))
        return found

    @property
    def size(self) -> int:
        """The number of functionals of a neighborhood."""
        return sum(count for _, _, count in self.levels)

    def __call__(self, points: Matrix, omitted: Vector | None = None) -> tuple[Matrix, Matrix]:
        """Return the neighborhoods of points, without one functional each if `omitted` (t,) has their indices.

        Returns
        -------
        index : ndarray of shape (t, m)
            The indices of functionals.
        share : ndarray of shape (t, m)
            Numbers from 0 for entries that do not count, such as repetitions, to 1 for those that count in full.
        """
        indices, shares = [], []
        for tree, members, count in self.levels:
            wanted = count + 1 + (omitted is not None)
            distance, found = (a.reshape(len(points), -1) for a in tree.query(points, wanted))
            index = members[np.minimum(found, len(members) - 1)]  # the tree returns its size where there are too few
            if omitted is not None:
                distance = np.where(index == omitted[:, None], np.inf, distance)
                order = np.argsort(distance, axis=1, kind="stable")
                distance, index = (np.take_along_axis(a, order, axis=1) for a in (distance, index))
            share = np.isfinite(distance[:, :count]).astype(float)
            if self.neighbors.continuous:
                radius = distance[:, count : count + 1]  # that of the nearest functional outside
                end = np.where(radius > 0, distance[:, :count] / np.where(radius > 0, radius, 1.0), 1.0)
                outer = np.clip(2 * np.where(np.isfinite(end), end, 1.0) - 1, 0.0, 1.0)
                share = share * (1 - outer) ** 2 * (1 + 2 * outer)  # 1 up to half of the radius, 0 at the radius
            indices.append(index[:, :count])
            shares.append(share)
        index, share = np.concatenate(indices, axis=1), np.concatenate(shares, axis=1)
        if len(indices) == 1:
            return index, share
        order = np.lexsort((-share, index), axis=1)  # of repeated functionals the one with the largest share counts
        index, share = (np.take_along_axis(a, order, axis=1) for a in (index, share))
        share[:, 1:][index[:, 1:] == index[:, :-1]] = 0.0
        return index, share
