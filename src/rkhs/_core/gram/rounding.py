"""Bounds on the rounding errors of Gram matrices, which certificates count.

The rounding error of an entry G_ij is of the order of eps m_i m_j, where the magnitude m_i of a functional has two
parts: the size of the terms whose sum G_ij is, and the errors of the quadratic form q far from the center of the points
(`Form.moved`), by which G_ij changes much more than by its own rounding if the kernel's length scale is short.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, like, namespace, zeros
from rkhs._core.calculus.atoms import Atoms, Matched, sharpen
from rkhs._core.gram.blocks import node_magnitudes
from rkhs._core.gram.operator import gram
from rkhs.functionals._base import Combination, Functional, Part
from rkhs.kernels._algebra import LinearTransform, Multiple, Product, PushedKernel, Sum, splits
from rkhs.kernels._base import Kernel
from rkhs.kernels._graph import GraphKernel


def magnitudes(kernel: Kernel, L: Functional) -> Array:
    """Return m (N, 1) such that the rounding error of G_ij is of the order of eps m_i m_j.

    An entry G_ij may be much smaller than the terms whose sum it is: those of f(x) - f(y) at near points suffer from
    cancellation, and their absolute error is a rounding error of the terms.

    For positive definite kernels m_i = sum_a |c_a| sqrt(|z_a|^2 + e_a^2) over the atoms of L_i, with the errors e_a of
    q (`moved`).  The representers of conditionally positive definite kernels have no norms; there a product with random
    signs estimates the size of the terms.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> x = np.array([[0.0], [1.0]])
    >>> magnitudes(rkhs.Gaussian(1.0), rkhs.Difference(x, x))  # these functionals are zero
    array([[2.23601208],
           [2.23601208]])
    """
    if kernel.order == 0:
        graphs = [(weight, k) for weight, k in kernel.summands() if isinstance(k, GraphKernel)]
        others = [(weight, k) for weight, k in kernel.summands() if not isinstance(k, GraphKernel)]
        rest = kernel if not graphs else Sum(tuple(weight * k for weight, k in others))
        total = zeros((L.size, 1), L.prototype)
        for part in L.parts if others else ():
            family = Combination((part.atoms.size,), (Part(part.atoms),), "atoms")
            # m_a^2 = |z_a|^2 + e_a^2
            squares = abs(gram(rest, family).diagonal()) + moved(rest, part.atoms)
            norms = namespace(total).sqrt(squares)[:, None]
            matrix = None if part.matrix is None else abs(part.matrix)
            total[part.rows] += replace(part, weight=abs(part.weight), matrix=matrix).forward(norms)
        for weight, graph in graphs:
            total += like(weight**0.5 * node_magnitudes(graph, L.parts, L.size)[:, None], total)
        return total
    signs = np.sign(np.random.default_rng(0).standard_normal((L.size, 1)))
    # E (sum_j G_ij sigma_j)^2 = sum_j G_ij^2 for independent signs sigma
    squares = (gram(kernel, L.absolute()) @ like(signs, L.prototype)) ** 2 / max(L.size, 1)
    xp = namespace(squares)
    return 3 * xp.sqrt(xp.sqrt(squares + xp.sum(squares) / max(L.size, 1)))  # a safety factor of 3 for one sample


def moved(kernel: Kernel, atoms: Atoms, rounded: bool = False) -> Array:
    """Return e^2 (atoms,) such that errors of q change <z_a, z_b> by about eps e_a e_b, for a composed kernel.

    Sums add e^2, and terms sum_ab k(l_a, r_b) of pushed atoms have the error (sum_a e_a) (sum_b e_b).  A factor of a
    product is multiplied by the others:  d_1 d_2 becomes (d_1 + e_1^2) (d_2 + e_2^2), for each way in which Leibniz's
    rule distributes the directions.
    """
    xp: Any = namespace(atoms.points)
    if atoms.blur is not None and not kernel.blurs:
        average = kernel.blurred(2 * atoms.blur)
        matrix, sharp = sharpen(atoms) if average is None else (None, Atoms(atoms.points, atoms.directions))
        squares = moved(kernel if average is None else average, sharp, rounded)
        return squares if matrix is None else (abs(matrix) @ xp.sqrt(squares)) ** 2
    match kernel:
        case Sum():
            return sum(moved(k, atoms, rounded) for k in kernel.kernels)
        case Multiple():
            return kernel.factor * moved(kernel.kernel, atoms, rounded)
        case PushedKernel():
            return sum(
                weight * _summed(kernel.kernel, atoms, left) * _summed(kernel.kernel, atoms, right)
                for weight, left, right in kernel.pushes()
            )
        case Product() if len(kernel.kernels) > 1:
            first, others = kernel.kernels[0], Product(kernel.kernels[1:])
            total = zeros((atoms.size,), atoms.points)
            for chosen, rest in splits(atoms.order):
                (d, e), (c, f) = (
                    (abs(k.pair(Matched(some, some))), moved(k, some, rounded))
                    for k, some in ((first, atoms.restricted(chosen)), (others, atoms.restricted(rest)))
                )
                # (d + e) (c + f) - d c, with the squares d, c of the norms and e, f of the errors
                total = total + e * (c + f) + d * f
            return total
        case Product():
            return moved(kernel.kernels[0], atoms, rounded)
    form = kernel.form(atoms.dimension)
    if form is None and isinstance(kernel, LinearTransform):
        return moved(kernel.kernel, atoms.pushed(kernel.linear), rounded=True)
    return zeros((atoms.size,), atoms.points) if form is None else form.moved(atoms, rounded)


def _summed(kernel: Kernel, atoms: Atoms, push: Any) -> Array:
    """Return sum_a e_a over the atoms l_a to which each atom is pushed forward."""
    return sum(
        namespace(atoms.points).sqrt(moved(kernel, one, rounded=True))
        for one in ([atoms] if push is None else push(atoms))
    )


def cancellation_ratio(kernel: Kernel, L: Functional) -> float:
    """Return the largest ratio of the magnitudes of functionals (see `magnitudes`) to their norms.

    It is about 1 without cancellation.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> x = np.array([[0.0], [1.0]])
    >>> round(cancellation_ratio(rkhs.Gaussian(1.0), rkhs.Evaluation(x)), 2)
    1.12
    """
    if kernel.order or not L.size:
        return 1.0
    sizes, diagonal = magnitudes(kernel, L)[:, 0], abs(gram(kernel, L).diagonal())
    xp = namespace(sizes)
    return float(xp.max(sizes / xp.sqrt(xp.where(diagonal > 0, diagonal, sizes**2))))
