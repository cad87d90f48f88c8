"""The one place where kernels meet functionals."""

from rkhs.gram.approximation import FourierFeatures, Landmarks
from rkhs.gram.operator import Gram, gram

__all__ = ["FourierFeatures", "Gram", "Landmarks", "gram"]
