"""The one place where kernels meet functionals."""

from rkhs._gram.approximation import FourierFeatures, Landmarks
from rkhs._gram.operator import Gram, gram

__all__ = ["FourierFeatures", "Gram", "Landmarks", "gram"]
