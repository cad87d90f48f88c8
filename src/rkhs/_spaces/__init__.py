"""Approximations: landmarks (Nystroem), random Fourier features, Fourier grids, and neighborhoods."""

from rkhs._spaces.base import Approximation, FiniteSpace
from rkhs._spaces.fourier_features import FourierFeatures, FourierSpace
from rkhs._spaces.fourier_grid import FourierGrid, FourierGridSpace
from rkhs._spaces.landmarks import Landmarks, LandmarkSpace
from rkhs._spaces.neighbors import Neighbors

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
