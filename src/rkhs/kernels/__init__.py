"""Kernels: immutable objects that compute inner products of representers.

A kernel pairs atoms (point evaluations and derivatives at points); it does not depend on `rkhs.functionals`.
"""

from rkhs._core.calculus.maps import Features, InverseDistances, Standardized
from rkhs._core.graphs.neighbor_graph import NeighborGraph
from rkhs.kernels._algebra import Composition, LinearTransform, Multiple, Product, Sum, additive
from rkhs.kernels._base import Kernel, Tunable
from rkhs.kernels._fields import CurlFree, DivergenceFree, components
from rkhs.kernels._gaussian import Gaussian, Matern, Periodic, RationalQuadratic
from rkhs.kernels._graph import GraphKernel
from rkhs.kernels._objects import AutodiffKernel, ObjectKernel, Precomputed
from rkhs.kernels._polynomial import ConstantKernel, Linear, Polyharmonic, Polynomial, ThinPlate
from rkhs.kernels._scaled import Laplace, median_scale
from rkhs.kernels._symmetrized import Symmetrized, generated_group, group_order

__all__ = ["Gaussian", "Laplace", "Matern", "Periodic", "Polyharmonic", "RationalQuadratic", "ThinPlate"]
__all__ += ["ConstantKernel", "CurlFree", "DivergenceFree", "GraphKernel", "Linear", "NeighborGraph", "Polynomial"]
__all__ += ["AutodiffKernel", "ObjectKernel", "Precomputed", "Symmetrized", "generated_group", "group_order"]
__all__ += ["Composition", "LinearTransform", "Multiple", "Product", "Sum", "additive"]
__all__ += ["Features", "InverseDistances", "Kernel", "Standardized", "Tunable", "components", "median_scale"]
