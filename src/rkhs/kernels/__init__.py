"""Kernels: immutable objects that compute inner products of representers.

A kernel pairs atoms (point evaluations and derivatives at points); it does not depend on `rkhs.functionals`.
"""

from typing import Any

from rkhs._calculus.maps import Features, InverseDistances, Standardized
from rkhs._graphs.neighbor_graph import NeighborGraph
from rkhs.kernels._algebra import Composition, LinearTransform, Multiple, Product, Sum, additive
from rkhs.kernels._autodiff import AutodiffKernel
from rkhs.kernels._base import Kernel, Tunable
from rkhs.kernels._fields import CurlFree, DivergenceFree, components
from rkhs.kernels._gaussian import Gaussian, Matern, Periodic, RationalQuadratic
from rkhs.kernels._graph import GraphKernel
from rkhs.kernels._laplace import Laplace
from rkhs.kernels._objects import ObjectKernel, Precomputed
from rkhs.kernels._polyharmonic import Polyharmonic, ThinPlate
from rkhs.kernels._polynomial import ConstantKernel, Linear, Polynomial
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
    "GraphKernel",
    "InverseDistances",
    "Kernel",
    "Laplace",
    "Linear",
    "LinearTransform",
    "Matern",
    "Multiple",
    "NeighborGraph",
    "ObjectKernel",
    "Periodic",
    "Polyharmonic",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Standardized",
    "Sum",
    "Symmetrized",
    "ThinPlate",
    "Tunable",
    "additive",
    "components",
    "median_scale",
]


def __getattr__(name: str) -> Any:
    from rkhs._moved import KERNELS, missing

    raise missing(__name__, name, KERNELS)
