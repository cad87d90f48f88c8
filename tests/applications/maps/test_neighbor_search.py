"""Neighborhoods of points against exhaustive search."""

from itertools import pairwise

import numpy as np
import pytest

import rkhs
from rkhs.maps._search import NeighborSearch

RANDOM = np.random.default_rng(0)
X, Z = RANDOM.uniform(size=(400, 2)), RANDOM.uniform(size=(20, 2))


def test_the_nearest_locations_are_found():
    index, share = NeighborSearch(X, 7)(Z)
    nearest = np.argsort(np.linalg.norm(Z[:, None] - X, axis=2), axis=1)[:, :7]
    assert np.array_equal(np.sort(index), np.sort(nearest))
    assert np.all(share == 1)


def test_an_omitted_location_is_replaced_by_the_next_one():
    rows = np.arange(20)
    index, share = NeighborSearch(X, 7)(X[rows], rows)
    distances = np.linalg.norm(X[rows, None] - X, axis=2)
    assert np.array_equal(np.sort(index), np.sort(np.argsort(distances, axis=1)[:, 1:8]))
    assert np.all(share == 1)


def test_few_locations_are_all_used():
    index, share = NeighborSearch(X[:3], 7)(Z)
    assert np.all(share == 1)
    assert np.array_equal(np.sort(index), np.tile([0, 1, 2], (20, 1)))


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
