"""The Gram operator: G_ij = <z_i, w_j>, the inner products of the representers of two families."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, as_real, like, namespace, same_kind, to_numpy, zeros
from rkhs._backend.memory import budget_bytes, on_cpu, out_of_memory, release_memory
from rkhs._backend.precision import check_precision
from rkhs._gram.blocks import (
    GramBlock,
    TableProduct,
    add_diagonal,
    add_symmetric,
    add_table,
    blocks,
    check_bounded,
    mirror,
)
from rkhs._gram.jets import ORDER, JetProduct, by_points
from rkhs._gram.matrix import CALL
from rkhs._progress import subtask
from rkhs.functionals._base import Combination, Functional, Part
from rkhs.kernels._base import Kernel, check_known


def gram(
    kernel: Kernel,
    L: Functional,
    M: Functional | None = None,
    *,
    memory: float | None = None,
    precision: str | None = None,
) -> Gram:
    """Return the matrix of inner products of two families of functionals under a kernel, as an operator.

        G_ij = L_i^x M_j^y k(x, y), the inner products of the representers of L and M (of L and L if M is None)

    Parameters
    ----------
    kernel : Kernel
    L, M : families of functionals; multi-dimensional ones count in C order
    memory : bytes that products may take beyond their input and output; a quarter of what is free by default
    precision : "float64", "float32", "tf32x3" (float32 from tensor cores) or "tf32", in which products are computed;
        that of the points by default.  Vectors, blocks and the diagonal keep the type of the points

    Returns
    -------
    Gram
        An operator: nothing is computed before it is used, and nothing dense unless `dense` asks for it.

    Raises
    ------
    NotBoundedError
        When a functional has no representer in the kernel's space.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((2000, 100))
    >>> G = rkhs.gram(rkhs.Gaussian(scale=10.0), rkhs.Gradient(X))
    >>> G.shape                                        # dense, this would be 298 GiB
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
        raise ValueError(f"{L!r} and {M!r} live on spaces of different dimension.")
    check_precision(precision)
    check_bounded(kernel, L)
    if M is not None:
        check_bounded(kernel, M)
    return Gram(kernel, L, L if M is None else M, budget_bytes(memory, L.prototype), precision)


@dataclass(frozen=True, eq=False)
class Gram:
    """The Gram operator of two families under a kernel; made by `gram`.

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
    symmetric: bool = field(init=False)  # whether both families are the same
    dtype: Any = field(init=False)
    _empty: Array = field(init=False)  # no numbers, of the dtype, namespace and device of the result
    stored = False

    def __post_init__(self) -> None:
        empty = same_kind(self.L.prototype[:0], self.M.prototype[:0])[0]
        shape, symmetric = (self.L.size, self.M.size), self.L is self.M
        vars(self).update(shape=shape, symmetric=symmetric, dtype=empty.dtype, _empty=empty)

    def __repr__(self) -> str:
        return f"Gram({self.kernel!r}, {self.L!r}{'' if self.symmetric else f', {self.M!r}'})"

    @property
    def T(self) -> Gram:
        return Gram(self.kernel, self.M, self.L, self.budget, self.precision)

    def __matmul__(self, v: Array) -> Array:
        """G @ v for a vector or a block of right-hand sides, tiled within the memory budget."""
        v = as_real(v, "v")
        if isinstance(v, np.ndarray) and not isinstance(self._empty, np.ndarray):
            v = like(v, self._empty)
        if v.ndim not in (1, 2) or v.shape[0] != self.shape[1]:
            raise ValueError(
                f"{self!r} has shape {self.shape}; it multiplies arrays of shape ({self.shape[1]},) or "
                f"({self.shape[1]}, r), got {tuple(v.shape)}."
            )
        namespace(v, self._empty)  # refuses arrays of different libraries
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
        """Return the same product where a device has less memory than it said; later products use the same tiles."""
        if self.budget < 2**20:  # bytes, under which smaller tiles would not help
            raise MemoryError(
                f"The device of {self!r} has too little memory for {v.shape[1]} right-hand sides, even in small tiles: "
                'multiply fewer at a time, use precision="float32", or leave the data on the CPU.'
            )
        release_memory()
        smaller = replace(self, budget=self.budget // 4)
        out = smaller @ v
        self.__dict__["_product"] = smaller._product
        return out

    @property
    def seconds(self) -> float:
        """What a product is estimated to take; nothing on an accelerator, where that is not known."""
        return self.core_seconds if on_cpu(self._empty) else 0.0

    @property
    def firsts(self) -> Vector:
        """Return the rows at which the functionals of a point begin."""
        return self.L.firsts()

    @cached_property
    def core_seconds(self) -> float:
        """What a product is estimated to take on one core, wherever it is computed: a measure of its work."""
        # Seconds of a call, of a pair of points with derivatives or values alone, and of a point and a functional:
        # `python -m benchmarks.regret`.
        seconds, pair, entry = CALL, 25e-9 if self.L.order or self.M.order else 8e-9, 8e-11
        for block in self.blocks:  # one for each summand of the kernel, and for each element of a symmetry group
            left, right = (
                sum(int(group[0].atoms.points.shape[0]) for group in by_points(side))
                for side in (block.lefts, block.rights)
            )
            seconds += pair * left * right + entry * (left * self.shape[1] + right * self.shape[0])
        return seconds

    @property
    def steady(self) -> bool:
        """Whether products do the same whatever their numbers are, so that an accelerator can record them."""
        return self._cast.steady if self._cast is not None else all(step.steady for step in self._product)

    def dense(self, out: Array | None = None) -> Array:
        """Return the whole matrix, from `Kernel.pair`; exactly symmetric when both families are the same.

        `out` is an array of zeros to write it to.
        """
        out = zeros(self.shape, self._empty) if out is None else out
        exact = not self.symmetric
        for k, block in enumerate(self.blocks):
            if self.symmetric and block.lefts is block.rights:
                with subtask(k, len(self.blocks)):
                    add_symmetric(out, block.kernel, block.lefts, block.weight, self.budget)
                sizes = [sum(part.size for part in parts) for parts in (self.L.parts, block.lefts)]
                disjoint = sizes == [self.shape[0]] * 2  # no entry is a sum of several: mirror images are exact
                exact = len(self.blocks) == 1 and disjoint and all(part.matrix is None for part in block.lefts)
                continue
            pairs = list(product(block.lefts, block.rights))
            for i, (left, right) in enumerate(pairs):  # one such block need not be symmetric, all of them together are
                with subtask(k * len(pairs) + i, len(self.blocks) * len(pairs)):
                    add_table(out, block.kernel, left, right, block.weight, self.budget, self.symmetric)
        if not exact:
            mirror(out)
        return out

    def in_double(self, out: Matrix | None = None) -> Matrix:
        """Return the whole matrix in NumPy and float64, computed in float64 even for points in float32."""
        xp = namespace(self._empty)
        if self._empty.dtype == xp.float64:
            if out is None or isinstance(self._empty, np.ndarray):
                return np.asarray(to_numpy(self.dense(out)))
            out += to_numpy(self.dense())
            return out
        double = xp.astype(self._empty, xp.float64)
        L = self.L.like(double)
        return replace(self, L=L, M=L if self.symmetric else self.M.like(double)).in_double(out)

    def diagonal(self) -> Array:
        """G_ii for i up to the smaller side."""
        size = min(self.shape)
        out = zeros((size,), self._empty)
        pairs = [(block, left, right) for block in self.blocks for left, right in product(block.lefts, block.rights)]
        # Where functional i of each side is atom i of its parts, the diagonal is a matched pairing.
        aligned = self.shape[0] == self.shape[1] and all(
            (left.matrix is None and right.matrix is None)
            and (
                (left.rows == right.rows and left.atoms.per_point == right.atoms.per_point)
                or left.rows.stop <= right.rows.start
                or right.rows.stop <= left.rows.start
            )
            for _, left, right in pairs
        )
        if aligned:
            for block, left, right in pairs:
                if left.rows == right.rows:
                    add_diagonal(out, block.kernel, left, right, block.weight, self.budget)
            return out
        some = 64
        for start in range(0, size, some):
            rows = slice(start, min(start + some, size))
            out[rows] = namespace(out).linalg.diagonal(self.block(rows, rows))
        return out

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the dense submatrix of the given rows and columns: integers, slices or masks."""
        return Gram(self.kernel, self.L.take(rows), self.M.take(columns), self.budget).dense()

    def part(self, rows: Any, columns: Any) -> Gram:
        """Return the operator of the given rows and columns; all of them, without a copy, for slice(None)."""
        whole = isinstance(rows, slice) and rows == slice(None)
        L = self.L if whole else self.L.take(rows)
        return replace(self, L=L, M=L if self.symmetric and columns is rows else self.M.take(columns))

    @cached_property
    def _cast(self) -> Gram | None:
        """The same operator on points of the precision's type, where that is another one."""
        xp = namespace(self._empty)
        dtype = xp.float64 if self.precision == "float64" else xp.float32  # in which operands are held
        if self.precision is None or dtype == self._empty.dtype:
            return None
        empty = xp.astype(self._empty, dtype)
        L = self.L.like(empty)
        return replace(self, L=L, M=L if self.symmetric else self.M.like(empty))

    @cached_property
    def blocks(self) -> list[GramBlock]:
        """What the matrix is the sum of."""
        return blocks(self.kernel, self.L, self.M)

    @cached_property
    def _product(self) -> list[JetProduct | TableProduct]:
        """What adds up to the product: jets where they apply, tables elsewhere."""
        steps: list[JetProduct | TableProduct] = []
        for block in self.blocks:
            form = block.kernel.form(block.lefts[0].atoms.dimension)
            lefts, rights = (
                tuple(part for part in side if form and part.atoms.order <= ORDER and part.atoms.blur is None)
                for side in (block.lefts, block.rights)
            )
            if form and lefts and rights:
                steps.append(JetProduct(form, lefts, rights, block.weight, self.budget, self.precision))
            for left, right in product(block.lefts, block.rights):
                if not (left in lefts and right in rights):
                    steps.append(TableProduct(block.kernel, left, right, block.weight, self.budget))
        return steps


def magnitudes(kernel: Kernel, L: Functional) -> Array:
    """Return m (N, 1) with entries G_ij that are sums of numbers of size m_i m_j at most, or about that.

    By these the rounding of a Gram matrix is judged, not by its entries: an entry for f(x) - f(y) at near points is a
    difference of large numbers, right to a unit of rounding of those.

    For positive definite kernels m_i = sum_a |c_a| |z_a| over the atoms of L_i.  The representers of others have no
    norms: a product with random signs shows how large the entries are.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> x = np.array([[0.0], [1.0]])
    >>> magnitudes(rkhs.Gaussian(1.0), rkhs.Difference(x, x))  # which is zero
    array([[2.],
           [2.]])
    """
    if kernel.order == 0:
        total = zeros((L.size, 1), L.prototype)
        for part in L.parts:
            family = Combination((part.atoms.size,), (Part(part.atoms),), "atoms")
            norms = namespace(total).sqrt(abs(gram(kernel, family).diagonal()))[:, None]
            matrix = None if part.matrix is None else abs(part.matrix)
            total[part.rows] += replace(part, weight=abs(part.weight), matrix=matrix).forward(norms)
        return total
    signs = np.sign(np.random.default_rng(0).standard_normal((L.size, 1)))
    squares = (gram(kernel, L.absolute()) @ like(signs, L.prototype)) ** 2 / max(L.size, 1)
    xp = namespace(squares)
    return 3 * xp.sqrt(xp.sqrt(squares + xp.sum(squares) / max(L.size, 1)))  # thrice, for a sample of one


def cancelled(kernel: Kernel, L: Functional) -> float:
    """Return how much larger, at most, the numbers are that functionals are computed from than the functionals.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> x = np.array([[0.0], [1.0]])
    >>> cancelled(rkhs.Gaussian(1.0), rkhs.Evaluation(x))
    1.0
    """
    if kernel.order or not L.size:
        return 1.0
    sizes, diagonal = magnitudes(kernel, L)[:, 0], abs(gram(kernel, L).diagonal())
    xp = namespace(sizes)
    return float(xp.max(sizes / xp.sqrt(xp.where(diagonal > 0, diagonal, sizes**2))))
