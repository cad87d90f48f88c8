"""Kernels: frozen values that know the inner products of atoms, and nothing of functionals."""

from rkhs._calculus.maps import Features, InverseDistances
from rkhs.kernels._algebra import Composition, Multiple, Product, Pullback, Sum, additive
from rkhs.kernels._autodiff import AutodiffKernel
from rkhs.kernels._base import Kernel, Tunable
from rkhs.kernels._fields import CurlFree, DivergenceFree, components
from rkhs.kernels._gaussian import Gaussian, Periodic
from rkhs.kernels._laplace import Laplace
from rkhs.kernels._matern import Matern
from rkhs.kernels._polyharmonic import Polyharmonic, ThinPlate
from rkhs.kernels._polynomial import ConstantKernel, Linear, Polynomial
from rkhs.kernels._rational_quadratic import RationalQuadratic
from rkhs.kernels._scaled import median_scale
from rkhs.kernels._symmetrized import Symmetrized

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
    "Symmetrized",
    "ThinPlate",
    "Tunable",
    "additive",
    "components",
    "median_scale",
]
