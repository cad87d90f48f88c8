"""Approximations: landmarks (Nystroem), random Fourier features, Fourier grids, and neighborhoods."""

from rkhs.spaces._base import Approximation, FiniteSpace
from rkhs.spaces._fourier_features import FourierFeatures, FourierSpace
from rkhs.spaces._fourier_grid import FourierGrid, FourierGridSpace
from rkhs.spaces._landmarks import Landmarks, LandmarkSpace
from rkhs.spaces._neighbors import Neighbors

__all__ = [
    "Approximation",
    "FiniteSpace",
    "FourierFeatures",
    "FourierGrid",
    "FourierGridSpace",
    "FourierSpace",
    "LandmarkSpace",
    "Landmarks",
    "Neighbors",
]
