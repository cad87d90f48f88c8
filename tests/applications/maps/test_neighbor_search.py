"""Neighborhoods with far locations; the nearest ones are those of `test_neighborhoods`."""

from itertools import pairwise

import numpy as np
import pytest

import rkhs
from rkhs.maps._search import NeighborSearch

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(20, 2))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_far_locations_are_spread_evenly_and_counted_once(dimension):
    points = np.random.default_rng(1).uniform(size=(2000, dimension)) ** 3  # many near one corner
    search = NeighborSearch(points, 10, far=3)
    sizes = [len(index) for _, index, _ in search.levels]
    assert len(sizes) > 2
    assert all(4 * after <= before for before, after in pairwise(sizes))
    index, share = search(points[:50])
    for row, used in zip(index, share, strict=True):
        assert len(set(row[used > 0])) == np.sum(used > 0)
    radius = np.linalg.norm(points[index] - points[:50, None], axis=2).max(axis=1)
    nearest, _ = NeighborSearch(points, index.shape[1])(points[:50])
    assert np.all(radius >= np.linalg.norm(points[nearest] - points[:50, None], axis=2).max(axis=1) - 1e-12)


@pytest.mark.parametrize("options", [{"count": 0}, {"count": 2.5}, {"far": -1}])
def test_wrong_numbers_are_refused(options):
    with pytest.raises(ValueError, match="of Neighbors must be a"):
        rkhs.Neighbors(**options)


def test_there_is_no_space_of_all_neighborhoods():
    with pytest.raises(NotImplementedError, match=r"use Problem\.solve, or rkhs.Landmarks"):
        rkhs.Neighbors().choose(rkhs.Gaussian(), [rkhs.Evaluation(X)], None)
