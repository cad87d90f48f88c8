"""Approximations: landmarks (Nystroem) and random Fourier features; `rkhs.maps` has Fourier grids and neighborhoods."""

from rkhs.spaces._base import Approximation, FiniteSpace
from rkhs.spaces._fourier_features import FourierFeatures, FourierSpace
from rkhs.spaces._landmarks import Landmarks, LandmarkSpace

__all__ = ["Approximation", "FiniteSpace", "FourierFeatures", "FourierSpace", "LandmarkSpace", "Landmarks"]
