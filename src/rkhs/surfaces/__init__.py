"""Surfaces and thin plates."""

from rkhs.surfaces._signed_distance import Surface, reconstruct_surface
from rkhs.surfaces._thin_plate import ThinPlateClassifier, ThinPlateRegressor

__all__ = ["Surface", "ThinPlateClassifier", "ThinPlateRegressor", "reconstruct_surface"]
