"""Decomposition of Gram matrices into blocks, and their computation entry by entry.

    <L, M>  =  sum over blocks of  weight * (parts of L) x (parts of M) under one kernel

Sums of kernels are split into summands, and blurs are replaced by closed forms or cubature, unless the kernel handles
them itself.  Then `kernel.pair` on atoms gives all entries: the dense matrix, the diagonal, or one tile at a time.
This works for every order and kernel, and is the reference against which faster products are tested.

For graph kernels, a functional that takes values of f at points, or sums of them, is a row of a sparse matrix A on the
nodes, and

    G = A_left filter(A_right'),         G v = A_left filter(A_right' v)

so that a mean over all nodes costs no more than a value, and a product as much as one column of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse import csr_array

from rkhs._core.backend.arrays import Array, Vector, apply_matrix, compose, namespace, to_numpy, zeros
from rkhs._core.backend.memory import cores, in_threads, tile_entries
from rkhs._core.calculus.atoms import AllPairs, Atoms, Matched, add_covariances, sharpen
from rkhs._core.progress import report_progress
from rkhs.exceptions import NotBoundedError
from rkhs.functionals._base import Functional, Part, in_one_dtype, take_parts
from rkhs.kernels._algebra import Push, PushedKernel
from rkhs.kernels._base import FormKernel, Kernel
from rkhs.kernels._graph import GraphKernel


@dataclass(frozen=True, eq=False)
class GramBlock:
    """A summand of a Gram matrix: weight * the inner products of all left and all right parts under a kernel."""

    weight: float
    kernel: Kernel
    lefts: tuple[Part, ...]
    rights: tuple[Part, ...]

    def part(self, rows: Vector | None, columns: Vector) -> GramBlock:
        """Return the block of a submatrix, with all rows for None, and a symmetric one for the same array twice."""
        lefts = self.lefts if rows is None else take_parts(self.lefts, rows)
        symmetric = columns is rows and self.lefts is self.rights
        return replace(self, lefts=lefts, rights=lefts if symmetric else take_parts(self.rights, columns))

    def add_table(self, out: Array, left: Part, right: Part, budget: int, lower: bool) -> None:
        """Add the inner products of two parts to their rows and columns of `out`.

        With `lower`, tiles above the diagonal of `out` are omitted.
        """
        target = out[left.rows, right.rows]
        half = lower and left.matrix is None and right.matrix is None
        for i, a, j, b in _tiles(left, right, budget, out):
            if not half or left.start + i.stop > right.start + j.start:
                target[_rows(left, i), _rows(right, j)] += self._tile(left, right, (i, a), (j, b))
                report_progress(i.stop / left.atoms.size)

    def add_symmetric(self, out: Array, budget: int) -> None:
        """Add the symmetric matrix of the inner products of the left parts with each other, computing one half of it.

        Tiles are computed in threads, unless several of them contribute to the same entries, or the kernel may be a
        function of the user, which need not be safe in threads.
        """
        ordered = sorted((part.rows for part in self.lefts), key=lambda rows: rows.start)
        disjoint = all(rows.stop <= following.start for rows, following in pairwise(ordered))
        separate = disjoint and all(part.matrix is None for part in self.lefts)
        threads = cores(out) if separate and isinstance(self.kernel, FormKernel) else 1
        side = max(1, int(tile_entries(budget // threads, out) ** 0.5))
        pieces = [(part, piece) for part in self.lefts for piece in part.atoms.tiled(side)]
        work = list(enumerate((k, i) for k in range(len(pieces)) for i in range(k + 1)))

        def add(item: tuple[int, tuple[int, int]]) -> None:
            number, (k, i) = item
            (left, a), (right, b) = pieces[k], pieces[i]
            report_progress(number / len(work))
            tile = self._tile(left, right, a, b)
            target = out[left.rows, right.rows][_rows(left, a[0]), _rows(right, b[0])]
            if i == k:
                target += (tile + tile.T) / 2
                return
            target += tile
            transposed = out[right.rows, left.rows][_rows(right, b[0]), _rows(left, a[0])]
            transposed += tile.T

        threads = threads if len(work) >= 4 * threads else 1  # at least four tiles per thread balance the load
        in_threads(add, [work[k::threads] for k in range(threads)])

    def _tile(self, left: Part, right: Part, rows: tuple[slice, Atoms], columns: tuple[slice, Atoms]) -> Array:
        """Return the contribution of a piece of the left atoms and a piece of the right atoms to the Gram matrix."""
        (i, a), (j, b) = rows, columns
        # G_ij = weight sum_ab A_ia <l_a, m_b> B_jb for parts with the matrices A and B
        tile, factor = self.kernel.pair(AllPairs(a, b)), self.weight * left.weight * right.weight
        if factor != 1:
            tile = factor * tile
        if left.matrix is not None:
            tile = apply_matrix(left.matrix[:, i], tile)
        if right.matrix is not None:
            tile = apply_matrix(right.matrix[:, j], tile.T).T
        return tile

    def add_diagonal(self, out: Array, left: Part, right: Part, budget: int) -> None:
        """Add the inner products <L_i, M_i> of two parts without matrices to `out`."""
        entries = tile_entries(budget, out, 8 * max(left.atoms.dimension, 1))
        target, factor = out[left.rows], self.weight * left.weight * right.weight
        for (i, a), (_, b) in zip(left.atoms.tiled(entries), right.atoms.tiled(entries), strict=True):
            target[i] += factor * self.kernel.pair(Matched(a, b))


def blocks(kernel: Kernel, L: Functional, M: Functional) -> list[GramBlock]:
    """Return the blocks of the Gram matrix of L and M."""
    parts = in_one_dtype(L.parts if M is L else L.parts + M.parts)
    lefts = parts[: len(L.parts)]
    return blocks_of_parts(kernel, lefts, lefts if M is L else parts[len(L.parts) :])


def blocks_of_parts(kernel: Kernel, lefts: tuple[Part, ...], rights: tuple[Part, ...]) -> list[GramBlock]:
    """Return the blocks of the Gram matrix of two families, given by their parts."""
    lefts_by_blur = _by_blur(lefts)
    rights_by_blur = lefts_by_blur if rights is lefts else _by_blur(rights)
    pairs = product(lefts_by_blur, rights_by_blur)
    unfolded = (block for left, right in pairs for block in _unfolded(kernel, left, right))
    return [resolved for block in unfolded for resolved in _resolved(block)]


def _unfolded(kernel: Kernel, lefts: tuple[Part, ...], rights: tuple[Part, ...]) -> Iterator[GramBlock]:
    """Yield a block for each summand of the kernel; pushed kernels become their inner kernel on pushed parts."""
    for weight, summand in kernel.summands():
        if not isinstance(summand, PushedKernel):
            yield GramBlock(weight, summand, lefts, rights)
            continue
        # k(x, y) = sum_p factor_p k_1(left_p x, right_p y): functionals of f are functionals of f_1
        for factor, on_left, on_right in summand.pushes():
            new_lefts = pushed(lefts, on_left, summand.takes_blur)
            same = on_left is on_right and lefts is rights
            new_rights = new_lefts if same else pushed(rights, on_right, summand.takes_blur)
            if new_lefts and new_rights:
                for block in _unfolded(summand.kernel, new_lefts, new_rights):
                    yield replace(block, weight=weight * factor * block.weight)


def pushed(parts: tuple[Part, ...], push: Push | None, takes_blur: bool) -> tuple[Part, ...]:
    """Push the atoms of all parts forward; atoms that become a sum yield several parts on the same rows."""
    if push is None:
        return parts
    sharp = parts if takes_blur else tuple(map(_by_cubature, parts))
    return tuple(replace(part, atoms=atoms) for part in sharp for atoms in push(part.atoms))


def check_bounded(kernel: Kernel, L: Functional) -> None:
    """Raise NotBoundedError if functionals take derivatives that are not bounded on the RKHS of the kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    L : Functional
        The functionals.

    Examples
    --------
    >>> import rkhs
    >>> slopes = rkhs.Gradient([[0.0]])
    >>> rkhs.extend.check_bounded(rkhs.Matern(1.5), slopes)
    >>> rkhs.extend.check_bounded(rkhs.Matern(0.5), slopes)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    rkhs.exceptions.NotBoundedError: they take derivatives of order 1, which are not bounded
    """
    n = L.dimension
    limit = kernel.smoothness(n)
    if L.order >= limit:
        remedy = kernel.smoother(L.order, n)
        raise NotBoundedError(
            f"{L!r} takes derivatives of order {L.order}, which are not bounded on the RKHS of {kernel!r} "
            f"in R^{n}: it bounds orders below {limit:g}. "
            f"Use {f'{remedy}, or ' if remedy else ''}a Difference of values."
        )


def _by_blur(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """Group the parts by their blur; omit parts without atoms."""
    groups: dict[Any, list[Part]] = {}
    for part in parts:
        blur = part.atoms.blur
        key = None if blur is None else (blur.shape, blur.tobytes())
        if part.atoms.size:
            groups.setdefault(key, []).append(part)
    return [tuple(group) for group in groups.values()]


def _resolved(block: GramBlock) -> list[GramBlock]:
    """Return blocks without blur whose sum is equal to the given one, or approximates it by cubature."""
    covariance = add_covariances(block.lefts[0].atoms.blur, block.rights[0].atoms.blur)
    if covariance is None or block.kernel.blurs:
        return [block]
    # <L * N(0, C), M * N(0, D)> = E k(x + z, y), z ~ N(0, C + D), for k(x, y) = k(x - y)
    average = block.kernel.blurred(np.asarray(covariance))
    if average is None:
        lefts, rights = (tuple(map(_by_cubature, side)) for side in (block.lefts, block.rights))
        return [replace(block, lefts=lefts, rights=rights)]
    lefts, rights = (
        tuple(replace(part, atoms=replace(part.atoms, blur=None)) for part in side)
        for side in (block.lefts, block.rights)
    )
    return [GramBlock(block.weight * weight, kernel, lefts, rights) for weight, kernel in average.summands()]


def _by_cubature(part: Part) -> Part:
    if part.atoms.blur is None:
        return part
    matrix, atoms = sharpen(part.atoms)
    return replace(part, atoms=atoms, matrix=matrix if part.matrix is None else compose(part.matrix, matrix))


def _tiles(left: Part, right: Part, budget: int, array: Array) -> Iterator[tuple[slice, Atoms, slice, Atoms]]:
    """Yield (rows, left atoms, columns, right atoms) of the tiles of two parts, square tiles if possible."""
    entries = tile_entries(budget, array)
    height = max(1, min(left.atoms.size, max(int(entries**0.5), entries // max(right.atoms.size, 1))))
    for i, a in left.atoms.tiled(height):
        for j, b in right.atoms.tiled(max(1, entries // a.size)):
            yield i, a, j, b


@dataclass(frozen=True, eq=False)
class TableProduct:
    """The product with the Gram matrix of two parts, computed tile by tile from its entries."""

    block: GramBlock
    left: Part
    right: Part
    budget: int

    def add_to(self, out: Array, v: Array) -> None:
        """Add G @ v to `out`."""
        left, right = self.left, self.right
        coefficients = right.adjoint(self.block.weight * v)
        values = zeros((left.atoms.size, v.shape[1]), v)
        for i, a, j, b in _tiles(left, right, self.budget, v):
            # sum_b <l_a, m_b> c_b, tile by tile
            values[i] += self.block.kernel.pair(AllPairs(a, b)) @ coefficients[j]
        out[left.rows] += left.forward(values)


def mirror(table: Array) -> None:
    """Copy the lower triangle of a square matrix to its upper triangle, in place."""
    xp, size, height = namespace(table), int(table.shape[0]), 1024  # rows of a tile
    for start in range(0, size, height):
        rows = slice(start, start + height)
        tile = table[rows, rows]
        table[rows, rows] = xp.tril(tile) + xp.matrix_transpose(xp.tril(tile, k=-1))
        for below in range(start + height, size, height):
            others = slice(below, below + height)
            table[rows, others] = xp.matrix_transpose(table[others, rows])


def _rows(part: Part, piece: slice) -> slice:
    """Return the rows to which a piece of a part's atoms contributes: all of them if the part has a matrix."""
    return piece if part.matrix is None else slice(None)


@dataclass(frozen=True, eq=False)
class NodeProduct:
    """The block of a Gram matrix of the given shape under a graph kernel."""

    kernel: GraphKernel
    block: GramBlock
    shape: tuple[int, int]

    @cached_property
    def _left(self) -> csr_array:
        return node_matrix(self.kernel, self.block.lefts, self.shape[0])

    @cached_property
    def _right(self) -> csr_array:
        block = self.block
        return self._left if block.rights is block.lefts else node_matrix(self.kernel, block.rights, self.shape[1])

    def add_to(self, out: Array, v: Array) -> None:
        """Add G @ v to `out`."""
        # G v = A_left filter(A_right' v)
        out += self.block.weight * apply_matrix(self._left, self.kernel.filter(apply_matrix(self._right.T, v)))

    def add_matrix(self, out: Array) -> None:
        """Add the matrix to `out`."""
        out += self.block.weight * self.kernel.between(self._left, self._right, out)


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
