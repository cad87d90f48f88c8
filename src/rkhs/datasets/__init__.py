"""Data sets of the papers, by name."""

from rkhs.datasets.catalogue import NAMES
from rkhs.datasets.files import MissingDataError
from rkhs.datasets.loading import Dataset, load
from rkhs.datasets.moons import TwoMoons, two_moons

__all__ = ["NAMES", "Dataset", "MissingDataError", "TwoMoons", "load", "two_moons"]
