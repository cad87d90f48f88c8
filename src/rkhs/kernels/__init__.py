"""Kernels: frozen values that know the inner products of atoms, and nothing of functionals."""

from rkhs._calculus.maps import Features, InverseDistances
from rkhs.kernels.algebra import Composition, Multiple, Product, Pullback, Sum, additive
from rkhs.kernels.autodiff import AutodiffKernel
from rkhs.kernels.base import Kernel, learn
from rkhs.kernels.fields import CurlFree, DivergenceFree, components
from rkhs.kernels.gaussian import Gaussian, Periodic
from rkhs.kernels.laplace import Laplace
from rkhs.kernels.matern import Matern
from rkhs.kernels.polyharmonic import Polyharmonic, ThinPlate
from rkhs.kernels.polynomial import ConstantKernel, Linear, Polynomial
from rkhs.kernels.rational_quadratic import RationalQuadratic
from rkhs.kernels.scaled import median_scale
from rkhs.kernels.symmetrised import Symmetrised

__all__ = [
    "AutodiffKernel",
    "Composition",
    "ConstantKernel",
    "CurlFree",
    "DivergenceFree",
    "Features",
    "Gaussian",
    "InverseDistances",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "Multiple",
    "Periodic",
    "Polyharmonic",
    "Polynomial",
    "Product",
    "Pullback",
    "RationalQuadratic",
    "Sum",
    "Symmetrised",
    "ThinPlate",
    "additive",
    "components",
    "learn",
    "median_scale",
]
