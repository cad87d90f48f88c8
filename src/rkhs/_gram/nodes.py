"""Gram matrices of graph kernels: sparse maps from functionals to nodes, around a filter on the nodes.

A functional that takes values of f at points, or sums of them, is a row of a sparse matrix A on the nodes, and

    G = A_left filter(A_right'),         G v = A_left filter(A_right' v)

so that a mean over all nodes costs no more than a value, and a product as much as one column of the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse
from scipy.sparse import csr_array

from rkhs._backend.arrays import Array, Vector, apply_matrix, to_numpy
from rkhs.functionals._base import Part
from rkhs.kernels._graph import GraphKernel


@dataclass(frozen=True, eq=False)
class NodeProduct:
    """The Gram matrix of two families of functionals under a graph kernel, times a factor."""

    kernel: GraphKernel
    lefts: tuple[Part, ...]
    rights: tuple[Part, ...]
    shape: tuple[int, int]
    weight: float = 1.0
    recordable: ClassVar[bool] = False  # points are looked up among the nodes on the CPU

    @cached_property
    def _left(self) -> csr_array:
        return node_matrix(self.kernel, self.lefts, self.shape[0])

    @cached_property
    def _right(self) -> csr_array:
        return self._left if self.rights is self.lefts else node_matrix(self.kernel, self.rights, self.shape[1])

    def add_to(self, out: Array, v: Array) -> None:
        """Add G @ v to `out`."""
        out += self.weight * apply_matrix(self._left, self.kernel.filter(apply_matrix(self._right.T, v)))

    def add_matrix(self, out: Array) -> None:
        """Add the matrix to `out`."""
        out += self.weight * self.kernel.between(self._left, self._right, out)


def node_matrix(kernel: GraphKernel, parts: tuple[Part, ...], size: int) -> csr_array:
    """Return the sparse matrix A (size, t) of functionals as combinations of the values at the nodes."""
    total = csr_array((size, len(kernel.graph.nodes)))
    for part in parts:
        matrix = part.as_matrix()
        sparse = csr_array(matrix if scipy.sparse.issparse(matrix) else to_numpy(matrix))
        block = csr_array(sparse @ kernel.on_nodes(part.atoms.points))
        above, below = csr_array((part.start, total.shape[1])), csr_array((size - part.rows.stop, total.shape[1]))
        total = total + scipy.sparse.vstack([above, block, below], format="csr")
    return csr_array(total)


def node_magnitudes(kernel: GraphKernel, parts: tuple[Part, ...], size: int) -> Vector:
    """Return m (size,) such that |G_ij| and its rounding error, in units of eps, are at most m_i m_j.

    The filter has eigenvalues of at most one, so that the length of a row of A bounds the norm of its representer.
    """
    A = abs(node_matrix(kernel, tuple(parts), size))
    return np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
