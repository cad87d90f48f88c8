"""Few inner products at a time: single entries of Gram matrices, and sums of representers at a few points.

*Entries*, for many small matrices at once, such as those of neighborhoods.  A functional is a combination of atoms,
L_i = sum_a A_ia l_a, so that the entry of a pair of functionals is

    <L_i, M_j> = sum_ab A_ia B_jb <l_a, m_b>

which is summed over pairs of atoms of any kinds.  Values under kernels of the distance take a shorter way, the radial
function of differences of points.

*Expansions*, sums of representers that are evaluated many times, such as the energy along a trajectory: coefficients
are brought to one value and one direction at each point once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from rkhs._core.backend.arrays import Array, Matrix, Vector, namespace, to_numpy, zeros
from rkhs._core.backend.memory import budget_bytes
from rkhs._core.backend.precision import products_in
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.gram.blocks import GramBlock, pushed
from rkhs._core.gram.jets import ORDER, JetPoints, JetProduct, by_points
from rkhs._core.gram.operator import gram
from rkhs.functionals._base import Combination, Functional, Part
from rkhs.kernels._algebra import Push, PushedKernel
from rkhs.kernels._base import Kernel


@dataclass(frozen=True, eq=False)
class FunctionalTable:
    """A family of functionals as sparse combinations of atoms, from which single functionals are taken quickly.

    Parameters
    ----------
    functional : Functional
        The functionals.

    Examples
    --------
    >>> import rkhs
    >>> table = rkhs.extend.FunctionalTable(rkhs.Difference([[0.0], [1.0]], [[2.0], [3.0]]))
    >>> table.locations.tolist(), table.atoms_per_functional
    ([[1.0], [2.0]], 2.0)
    """

    functional: Functional

    @cached_property
    def parts(self) -> list[tuple[Atoms, csr_array]]:
        """The atoms of each part, with the matrix (size, atoms) of their coefficients."""
        found, size = [], self.functional.size
        for part in self.functional.parts:
            matrix: Any = part.as_matrix()
            block = csr_array(matrix if hasattr(matrix, "tocsr") else to_numpy(matrix))
            above, below = (csr_array((rows, block.shape[1])) for rows in (part.start, size - part.rows.stop))
            found.append((part.atoms, csr_array(vstack([above, block, below], format="csr"))))
        return found

    @cached_property
    def points(self) -> Matrix | None:
        """The points (size, n) if the functionals are values at these, otherwise None."""
        part = self.functional.parts[0]
        atoms, plain = part.atoms, len(self.functional.parts) == 1 and part.matrix is None and part.weight == 1.0
        return atoms.points if plain and not atoms.order and atoms.per_point == 1 and atoms.blur is None else None

    @cached_property
    def locations(self) -> Matrix:
        """The means (size, n) of the points of each functional, weighted by the sizes of coefficients."""
        if self.points is not None:
            return self.points
        total, sizes = np.zeros((self.functional.size, self.functional.dimension)), np.zeros(self.functional.size)
        for atoms, matrix in self.parts:
            size = abs(matrix)
            total += size @ np.repeat(atoms.points, atoms.per_point, axis=0)
            sizes += size.sum(axis=1)
        return total / np.where(sizes > 0, sizes, 1.0)[:, None]

    @cached_property
    def atoms_per_functional(self) -> float:
        """The mean number of atoms of a functional."""
        return 1.0 if self.points is not None else sum(A.nnz for _, A in self.parts) / max(self.functional.size, 1)


def entries(kernel: Kernel, left: FunctionalTable, i: Array, right: FunctionalTable, j: Array) -> Array:
    """Return the inner products of the representers of pairs of functionals, for many small Gram matrices at once.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    left, right : FunctionalTable
        The functionals L and M.
    i, j : ndarray of int
        Their indices, of shapes that broadcast.

    Returns
    -------
    ndarray
        The inner products <L_i, M_j>, of the common shape of i and j.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> table = rkhs.extend.FunctionalTable(rkhs.Evaluation([[0.0], [1.0]]))
    >>> rkhs.extend.entries(rkhs.Gaussian(), table, np.array([0, 1]), table, np.array([1, 1])).round(3)
    array([0.607, 1.   ])
    """
    forms = [(weight, summand.form(left.functional.dimension)) for weight, summand in kernel.summands()]
    radial = all(form is not None and form.rho for _, form in forms)
    if radial and left.points is not None and right.points is not None:
        x, y, values = left.points[i], right.points[j], 0.0
        for weight, form in forms:
            assert form is not None
            # k(x, y) = phi(-|A (x - y)|^2 / 2)
            r = form.difference(x, y)
            phi = form.radial_derivatives(-0.5 * np.einsum("...n,...n->...", r, r), range(1))[0]
            values = values + (phi if weight == 1 else weight * phi)
        return np.asarray(values)
    shape = np.broadcast_shapes(i.shape, j.shape)
    i, j = (np.broadcast_to(one, shape).ravel() for one in (i, j))
    total = np.zeros(len(i))
    for a, A in left.parts:
        rows_of_a = A[i]
        for b, B in right.parts:
            rows_of_b = B[j]
            counts = np.diff(rows_of_a.indptr), np.diff(rows_of_b.indptr)
            pair = np.repeat(np.arange(len(i)), counts[0] * counts[1])
            if not len(pair):
                continue
            before = np.cumsum(counts[0] * counts[1]) - counts[0] * counts[1]
            within = np.arange(len(pair)) - before[pair]  # counts the pairs of atoms of a pair of functionals
            of_a = rows_of_a.indptr[pair] + within // counts[1][pair]
            of_b = rows_of_b.indptr[pair] + within % counts[1][pair]
            # <L_i, M_j> = sum_ab A_ia B_jb <l_a, m_b>: all pairs of atoms of all pairs at once
            pairs = gram(kernel, _taken(a, rows_of_a.indices[of_a]), _taken(b, rows_of_b.indices[of_b]))
            products = rows_of_a.data[of_a] * rows_of_b.data[of_b] * to_numpy(pairs.diagonal())
            total += np.bincount(pair, products, len(i))
    return total.reshape(shape)


def _taken(atoms: Atoms, flat: Vector) -> Functional:
    """Return atoms with the given flat indices as a family of functionals."""
    return Combination((len(flat),), (Part(atoms.take(flat)),), f"{len(flat)} atoms")


@dataclass(frozen=True, eq=False)
class _Summand:
    weight: float
    kernel: Kernel
    on_left: tuple[Push, ...]
    rights: tuple[Part, ...]  # one value and one derivative at each point
    coefficients: Array


@dataclass(frozen=True, eq=False)
class Expansion:
    """A sum of representers, of functionals of order at most one, whose coefficients were brought to jets once.

    Each point y_j has the coefficient of k(y_j, .) and one direction, the sum of all derivatives there.  So a value
    takes as long as that of a function of as many points, without the pushing forward of all functionals.
    ``Expansion.of(kernel, functionals, coefficients)`` makes it, and calling it with functionals returns their values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> slopes, c = rkhs.Gradient(np.zeros((1, 2))), np.array([[1.0], [2.0]])
    >>> fast = rkhs.extend.Expansion.of(rkhs.Gaussian(), slopes, c)
    >>> point = rkhs.Evaluation([[0.5, 0.0]])
    >>> bool(np.isclose(fast(point)[0], point(rkhs.results.Function(rkhs.Gaussian(), slopes, c[:, 0]))[0]))
    True
    """

    summands: tuple[_Summand, ...]

    @classmethod
    def of(cls, kernel: Kernel, M: Functional, coefficients: Array) -> Expansion | None:
        """Return the expansion for coefficients (M.size, 1); None if the kernel has another form."""
        summands = []
        for weight, inner, on_left, rights in _pushed_right(kernel, M.parts):
            form = inner.form(rights[0].atoms.dimension)
            if form is None or any(part.atoms.order > ORDER or part.atoms.blur is not None for part in rights):
                return None
            xp, plain = namespace(coefficients), products_in(None)
            points, values, directions = [], [], []
            for group in by_points(rights):
                at = group[0].atoms.points
                jets = JetPoints(group, replace(form, linear=None), None, plain, plain).scatter(coefficients)
                points.append(at)
                values.append(zeros((int(at.shape[0]), 1), at) if jets.values is None else jets.values)
                directions.append(zeros(at.shape, at) if jets.gradients is None else jets.gradients[0])
            at, c = xp.concat(points), xp.concat(values)
            along = Part(Atoms(at, xp.concat(directions)[:, None, None, :]), start=int(at.shape[0]))
            coefficients_there = xp.concat([c, xp.ones_like(c)])
            summands.append(_Summand(weight, inner, on_left, (Part(Atoms.values(at)), along), coefficients_there))
        return cls(tuple(summands))

    def __call__(self, L: Functional) -> Array:
        """Return the values (L.size,) of functionals of order at most one."""
        out = zeros((L.size, 1), L.prototype)
        for one in self.summands:
            lefts = L.parts
            for push in one.on_left:
                lefts = pushed(lefts, push, False)
            block, form = (
                GramBlock(one.weight, one.kernel, lefts, one.rights),
                one.kernel.form(lefts[0].atoms.dimension),
            )
            assert form is not None
            JetProduct(form, block, budget_bytes(None, out), None).add_to(out, one.coefficients)
        return out[:, 0]


def _pushed_right(
    kernel: Kernel, rights: tuple[Part, ...]
) -> Iterator[tuple[float, Kernel, tuple[Push, ...], tuple[Part, ...]]]:
    """Yield the summands of a kernel with their weights, the maps on the left, and the parts on the right."""
    for weight, summand in kernel.summands():
        if not isinstance(summand, PushedKernel):
            yield weight, summand, (), rights
            continue
        for factor, on_left, on_right in summand.pushes():
            first = () if on_left is None else (on_left,)
            for inner, base, rest, parts in _pushed_right(summand.kernel, pushed(rights, on_right, summand.takes_blur)):
                yield weight * factor * inner, base, (*first, *rest), parts
