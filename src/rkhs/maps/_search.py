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
from typing import Any

import numpy as np
import scipy  # imports scipy.spatial on first use
import scipy.sparse

from rkhs import Term
from rkhs.extend import Matrix, Vector, to_numpy

CLUSTERS = 10  # neighborhoods of a spatial sample
THINNER = 4  # functionals of a subset for each one of the next


@dataclass(frozen=True, eq=False)
class NeighborSearch:
    """Finds the neighborhoods of points among locations (N, n); `rkhs.Neighbors` documents the options."""

    locations: Matrix
    count: int
    far: int = 0
    continuous: bool = False

    @cached_property
    def levels(self) -> list[tuple[Any, Vector, int]]:
        """The trees of all locations and of the subsets, the indices of their locations, and the number to search."""
        every = np.arange(len(self.locations))
        found = [(scipy.spatial.KDTree(self.locations), every, min(self.count, len(every)))]
        low, extent = self.locations.min(axis=0), float(np.ptp(self.locations, axis=0).max())
        index, dimension = np.random.default_rng(0).permutation(every), self.locations.shape[1]
        depth = ceil(log2(len(every)) / dimension)  # cells of side extent / 2^depth: about one for each location
        for level in range(depth, 0, -1) if self.far and extent > 0 else ():
            cells = np.minimum((self.locations[index] - low) * (2**level / extent), 2**level - 1).astype(np.int64)
            keys = cells @ (2**level) ** np.arange(dimension, dtype=np.int64)
            index = index[np.unique(keys, return_index=True)[1]]
            if 2 * self.far <= len(index) <= len(found[-1][1]) / THINNER:
                found.append((scipy.spatial.KDTree(self.locations[index]), index, self.far))
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
            if self.continuous:
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


def spatial_sample(terms: Sequence[Term], most: int, random: np.random.Generator) -> list[Term]:
    """Return terms with about `most` functionals in total: half at random points, half in a few neighborhoods.

    Points drawn at random from many are far apart, and do not distinguish noise from variation over short distances.
    """
    total = sum(term.size for term in terms)
    if total <= most:
        return list(terms)
    largest = max(terms, key=lambda term: term.size)
    candidates = _first_points(largest)
    seeds = random.choice(candidates, min(CLUSTERS, len(candidates)), replace=False)
    sampled = []
    for term in terms:
        points, share = _first_points(term), most * term.size / total
        each = term.size // len(points)
        count = min(max(int(share / each), 2), len(points))
        rows = [random.choice(len(points), count - count // 2, replace=False)]
        near = max(1, count // 2 // CLUSTERS)
        rows += [np.argpartition(np.sum((points - x) ** 2, axis=1), near - 1)[:near] for x in seeds]
        index = (np.unique(np.concatenate(rows))[:, None] * each + np.arange(each)).ravel()
        sampled.append(term.take(index))
    return sampled


def _first_points(term: Term) -> Matrix:
    """Return points (t, d), each the first one of as many consecutive functionals, such as those of a gradient."""
    parts = term.functional.parts
    points = to_numpy(parts[0].atoms.points)
    if term.size % len(points) == 0 and all(part.size == term.size for part in parts):
        return np.asarray(points)
    first = np.zeros((term.size, points.shape[1]))
    for part in reversed(parts):  # means over several points and stacks: the first point of each functional
        columns = np.arange(part.size)
        if part.matrix is not None:
            W = scipy.sparse.csr_array(part.matrix)
            columns = np.append(W.indices, 0)[W.indptr[:-1]]
        first[part.rows] = to_numpy(part.atoms.points)[columns // part.atoms.per_point]
    return first
