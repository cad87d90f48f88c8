"""The Gram operator G_ij = <z_i, w_j>: the inner products of the representers of two families of functionals."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, as_real, like, namespace, same_kind, zeros
from rkhs._core.backend.memory import budget_bytes, out_of_memory, release_memory
from rkhs._core.backend.precision import check_precision
from rkhs._core.gram.blocks import GramBlock, NodeProduct, TableProduct, blocks, check_bounded, mirror
from rkhs._core.gram.gradients import add_gradients, sums_of_gradients
from rkhs._core.gram.jets import ORDER, JetProduct, by_points
from rkhs._core.gram.matrix import CALL, GramMatrix
from rkhs._core.progress import subtask
from rkhs.functionals._base import Functional, check_same_storage, flat_indices
from rkhs.kernels._base import Kernel, check_known, check_sparse
from rkhs.kernels._graph import GraphKernel


def gram(
    kernel: Kernel,
    L: Functional,
    M: Functional | None = None,
    *,
    memory: float | None = None,
    precision: str | None = None,
) -> Gram:
    """Return the Gram matrix of two families of functionals under a kernel, as an operator.

        G_ij = L_i^x M_j^y k(x, y), the inner products of the representers of L and M

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    L : Functional
        The functionals of the rows; multi-dimensional families are flattened in C order.
    M : Functional, optional
        The functionals of the columns; L by default.
    memory : float, optional
        The memory, in bytes, that products may use in addition to their input and output; a quarter of the free memory
        by default.
    precision : {"float64", "float32", "tf32x3", "tf32"}, optional
        The precision of products, that of the points by default.  "tf32x3" has the accuracy of float32 on tensor cores.
        Vectors, blocks and the diagonal keep the dtype of the points.

    Returns
    -------
    Gram
        A lazy operator; its dense matrix is computed only by `dense`.

    Raises
    ------
    NotBoundedError
        If a functional is not bounded on the RKHS of the kernel, so that it has no representer.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((2000, 100))
    >>> G = rkhs.gram(rkhs.Gaussian(scale=10.0), rkhs.Gradient(X))
    >>> G.shape                                        # the dense matrix would take 298 GiB
    (200000, 200000)
    >>> (G @ np.ones(200000)).shape
    (200000,)
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be an rkhs kernel such as rkhs.Gaussian(scale=1.0), got {kernel!r}.")
    check_known(kernel)
    for family in (L,) if M is None else (L, M):
        if not isinstance(family, Functional):
            raise TypeError(
                f"{family!r} is not a family of functionals; for values at points X use rkhs.Evaluation(X)."
            )
    if M is not None and L.dimension != M.dimension:
        raise ValueError(f"{L!r} and {M!r} have points of different dimension.")
    if L.sparse:
        check_sparse(kernel, L.dimension)
    if M is not None:
        check_same_storage(L, M)
    check_precision(precision)
    if has_graph(kernel):  # rounded points would not be nodes
        precision = None
    check_bounded(kernel, L)
    if M is not None:
        check_bounded(kernel, M)
    return Gram(kernel, L, L if M is None else M, budget_bytes(memory, L.prototype), precision)


def has_graph(kernel: Kernel) -> bool:
    """Return whether a kernel is a graph kernel, or is built from one."""
    return isinstance(kernel, GraphKernel) or any(map(has_graph, kernel.children().values()))


@dataclass(frozen=True, eq=False)
class Gram:
    """The Gram matrix of two families of functionals under a kernel, as an operator.

    Use `rkhs.gram` to create one.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    L, M : Functional
        The functionals of the rows and of the columns.
    budget : int
        The memory, in bytes, that products may use in addition to their input and output.
    precision : str, optional
        The precision of products, see `rkhs.gram`.

    Attributes
    ----------
    shape : tuple of int
        The number of functionals in L and in M.
    symmetric : bool
        Whether L and M are the same object.
    dtype : dtype
        The dtype of the entries.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> G = rkhs.gram(rkhs.Gaussian(), rkhs.Gradient(np.zeros((1, 3))))
    >>> isinstance(G, rkhs.results.Gram), G.shape, G @ np.ones(3)
    (True, (3, 3), array([1., 1., 1.]))
    """

    kernel: Kernel
    L: Functional
    M: Functional
    budget: int
    precision: str | None = None
    shape: tuple[int, int] = field(init=False)
    symmetric: bool = field(init=False)
    dtype: Any = field(init=False)
    _empty: Array = field(init=False)  # an empty array with the dtype, namespace and device of the result
    stored = False

    def __post_init__(self) -> None:
        empty = same_kind(self.L.prototype[:0], self.M.prototype[:0])[0]
        shape, symmetric = (self.L.size, self.M.size), self.L is self.M
        vars(self).update(shape=shape, symmetric=symmetric, dtype=empty.dtype, _empty=empty)

    def __repr__(self) -> str:
        return f"Gram({self.kernel!r}, {self.L!r}{'' if self.symmetric else f', {self.M!r}'})"

    @property
    def T(self) -> Gram:
        """The transposed operator."""
        return Gram(self.kernel, self.M, self.L, self.budget, self.precision)

    def __matmul__(self, v: Array) -> Array:
        """Return G @ v, computed in tiles within the memory budget.

        Parameters
        ----------
        v : array of shape (M.size,) or (M.size, r)
            A vector, or a block of right-hand sides.

        Returns
        -------
        array of shape (L.size,) or (L.size, r)
            The product.
        """
        v = as_real(v, "v")
        if isinstance(v, np.ndarray) and not isinstance(self._empty, np.ndarray):
            v = like(v, self._empty)
        if v.ndim not in (1, 2) or v.shape[0] != self.shape[1]:
            raise ValueError(
                f"{self!r} has shape {self.shape}; it multiplies arrays of shape ({self.shape[1]},) or "
                f"({self.shape[1]}, r), got {tuple(v.shape)}."
            )
        namespace(v, self._empty)  # raises TypeError for arrays of different libraries
        v = like(v, self._empty)
        if self._cast is not None:
            return like(self._cast @ like(v, self._cast._empty), v)
        flat = v[:, None] if v.ndim == 1 else v
        out = zeros((self.shape[0], flat.shape[1]), flat)
        try:
            for step in () if 0 in flat.shape else self._product:
                step.add_to(out, flat)
        except out_of_memory():
            out = self._in_smaller_tiles(flat)
        return out[:, 0] if v.ndim == 1 else out

    def _in_smaller_tiles(self, v: Array) -> Array:
        """Return G @ v with smaller tiles after a device ran out of memory; later products use the same tiles."""
        if self.budget < 2**20:  # bytes; below that, smaller tiles would not help
            raise MemoryError(
                f"The device of {self!r} has too little memory for {v.shape[1]} right-hand sides, even in small tiles: "
                'multiply fewer at a time, use precision="float32", or keep the data on the CPU.'
            )
        release_memory()
        smaller = replace(self, budget=self.budget // 4)
        out = smaller @ v
        self.__dict__["_product"] = smaller._product
        return out

    @cached_property
    def core_seconds(self) -> float:
        """The estimated time of a product on one core in seconds, wherever it is computed: a measure of its work."""
        # Seconds per call, per pair of points (with derivatives, or with values only), and per point and functional,
        # measured by `python -m benchmarks.regret`.
        seconds, pair, entry = CALL, 25e-9 if self.L.order or self.M.order else 8e-9, 8e-11
        for block in self.blocks:  # one for each summand of the kernel and each element of a symmetry group
            if isinstance(block.kernel, GraphKernel):
                seconds += 1e-9 * block.kernel.operations_per_column
                continue
            left, right = (
                sum(int(group[0].atoms.points.shape[0]) for group in by_points(side))
                for side in (block.lefts, block.rights)
            )
            seconds += pair * left * right + entry * (left * self.shape[1] + right * self.shape[0])
        return seconds

    def dense(self, out: Array | None = None) -> Array:
        """Return the matrix as an array, exactly symmetric if both families are the same.

        Parameters
        ----------
        out : array of shape (L.size, M.size), optional
            An array of zeros to write the result to.

        Returns
        -------
        array of shape (L.size, M.size)
            The matrix.
        """
        out = zeros(self.shape, self._empty) if out is None else out
        exact = not self.symmetric
        for k, block in enumerate(self.blocks):
            if isinstance(block.kernel, GraphKernel):
                with subtask(k, len(self.blocks)):
                    NodeProduct(block.kernel, block, self.shape).add_matrix(out)
                continue
            together = sums_of_gradients(block)
            if together is not None:
                with subtask(k, len(self.blocks)):
                    add_gradients(out, together, self.symmetric)
                    for left, right in product(block.lefts, block.rights):
                        if not (left in together.lefts and right in together.rights):
                            block.add_table(out, left, right, self.budget, self.symmetric)
                exact = not self.symmetric
                continue
            if self.symmetric and block.lefts is block.rights:
                with subtask(k, len(self.blocks)):
                    block.add_symmetric(out, self.budget)
                sizes = [sum(part.size for part in parts) for parts in (self.L.parts, block.lefts)]
                disjoint = sizes == [self.shape[0]] * 2  # no entry is a sum, whose rounding would break the symmetry
                exact = len(self.blocks) == 1 and disjoint and all(part.matrix is None for part in block.lefts)
                continue
            pairs = list(product(block.lefts, block.rights))
            for i, (left, right) in enumerate(pairs):  # these blocks need not be symmetric, but their sum is
                with subtask(k * len(pairs) + i, len(self.blocks) * len(pairs)):
                    block.add_table(out, left, right, self.budget, self.symmetric)
        if not exact:
            mirror(out)
        return out

    def stored_if_small(self) -> Gram | GramMatrix:
        """Return the matrix in memory if it fits into the budget, otherwise this operator.

        Each entry under a graph kernel takes as long as a product, so that solvers share one computation.
        """
        small = self.shape[0] * self.shape[1] * self._empty.dtype.itemsize <= self.budget
        if not small:
            return self
        same = self._empty.dtype == namespace(self._empty).float64
        return GramMatrix(self.in_double(), None if same else self._empty)

    def in_double(self, out: Array | None = None) -> Array:
        """Return the matrix as an array in float64, computed in float64 even for float32 points.

        Parameters
        ----------
        out : array of shape (L.size, M.size), optional
            An array of zeros in float64 to write the result to.

        Returns
        -------
        array of shape (L.size, M.size)
            The matrix, in the library and on the device of the points.
        """
        xp = namespace(self._empty)
        same = self._empty.dtype == xp.float64
        return (self if same else self._like(xp.astype(self._empty, xp.float64))).dense(out)

    def diagonal(self) -> Array:
        """Return the diagonal of the matrix.

        Returns
        -------
        array of shape (min(L.size, M.size),)
            The entries G_ii.
        """
        size = min(self.shape)
        out = zeros((size,), self._empty)
        # Only parts with rows in common contribute.  If functional i of each side is atom i of its part, then the
        # diagonal is a `Matched` pairing.
        overlapping = [
            (block, left, right)
            for block in self.blocks
            for left, right in product(block.lefts, block.rights)
            if left.rows.stop > right.rows.start and right.rows.stop > left.rows.start
        ]
        plain = all(part.matrix is None for block in self.blocks for part in block.lefts + block.rights)
        same = all(a.rows == b.rows and a.atoms.per_point == b.atoms.per_point for _, a, b in overlapping)
        if plain and same and self.shape[0] == self.shape[1]:
            for block, left, right in overlapping:
                block.add_diagonal(out, left, right, self.budget)
            return out
        step = 64
        for start in range(0, size, step):
            rows = slice(start, min(start + step, size))
            out[rows] = namespace(out).linalg.diagonal(self.block(rows, rows))
        return out

    def block(self, rows: Any, columns: Any) -> Array:
        """Return a submatrix as an array.

        Parameters
        ----------
        rows, columns : int, slice, or array-like of int or bool
            The rows and columns.

        Returns
        -------
        array
            The submatrix.
        """
        return Gram(self.kernel, self.L.take(rows), self.M.take(columns), self.budget).dense()

    def part(self, rows: Any, columns: Any) -> Gram:
        """Return a submatrix as an operator, without pushing functionals forward again if `blocks` were computed.

        Parameters
        ----------
        rows, columns : int, slice, or array-like of int or bool
            The rows and columns.  All rows, as slice(None), need no copy.

        Returns
        -------
        Gram
            The operator.
        """
        whole = isinstance(rows, slice) and rows == slice(None)
        L = self.L if whole else self.L.take(rows)
        part = replace(self, L=L, M=L if self.symmetric and columns is rows else self.M.take(columns))
        if "blocks" in vars(self):
            i = None if whole else flat_indices(rows, self.shape[0])
            j = i if i is not None and part.symmetric else flat_indices(columns, self.shape[1])
            found = [block.part(i, j) for block in self.blocks]
            vars(part)["blocks"] = [block for block in found if block.lefts and block.rights]
        return part

    @cached_property
    def _cast(self) -> Gram | None:
        """The same operator with points in the dtype of `precision`; None if they have it already."""
        xp = namespace(self._empty)
        dtype = xp.float64 if self.precision == "float64" else xp.float32  # dtype of the operands
        if self.precision is None or dtype == self._empty.dtype:
            return None
        return self._like(xp.astype(self._empty, dtype))

    def _like(self, array: Array) -> Gram:
        L = self.L.like(array)
        return replace(self, L=L, M=L if self.symmetric else self.M.like(array))

    @cached_property
    def blocks(self) -> list[GramBlock]:
        """The blocks whose sum is the matrix."""
        return blocks(self.kernel, self.L, self.M)

    @cached_property
    def _product(self) -> list[JetProduct | TableProduct | NodeProduct]:
        """The operators whose sum is the matrix: graphs, jets where they apply, and tables otherwise."""
        steps: list[JetProduct | TableProduct | NodeProduct] = []
        for block in self.blocks:
            if isinstance(block.kernel, GraphKernel):
                steps.append(NodeProduct(block.kernel, block, self.shape))
                continue
            form = None if self.L.sparse else block.kernel.form(block.lefts[0].atoms.dimension)
            lefts, rights = (
                tuple(part for part in side if form and part.atoms.order <= ORDER and part.atoms.blur is None)
                for side in (block.lefts, block.rights)
            )
            if form and lefts and rights:
                steps.append(JetProduct(form, replace(block, lefts=lefts, rights=rights), self.budget, self.precision))
            for left, right in product(block.lefts, block.rights):
                if not (left in lefts and right in rights):
                    steps.append(TableProduct(block, left, right, self.budget))
        return steps
