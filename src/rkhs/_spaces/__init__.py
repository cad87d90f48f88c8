"""Finite-dimensional approximations of an RKHS: landmarks (Nystroem), random Fourier features, Fourier grids."""

from rkhs._spaces.base import Approximation, FiniteSpace
from rkhs._spaces.fourier_features import FourierFeatures, FourierSpace
from rkhs._spaces.fourier_grid import FourierGrid, FourierGridSpace
from rkhs._spaces.landmarks import Landmarks, LandmarkSpace

__all__ = [
    "Approximation",
    "FiniteSpace",
    "FourierFeatures",
    "FourierGrid",
    "FourierGridSpace",
    "FourierSpace",
    "LandmarkSpace",
    "Landmarks",
]
