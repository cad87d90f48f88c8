"""Finite-dimensional approximations of an RKHS: landmarks (Nystroem) and random Fourier features."""

from rkhs._spaces.base import Approximation, DenseSpace, FiniteSpace
from rkhs._spaces.fourier_features import FourierFeatures, FourierSpace
from rkhs._spaces.landmarks import Landmarks, LandmarkSpace

__all__ = [
    "Approximation",
    "DenseSpace",
    "FiniteSpace",
    "FourierFeatures",
    "FourierSpace",
    "LandmarkSpace",
    "Landmarks",
]
