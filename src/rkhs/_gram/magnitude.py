"""How large the numbers are that a Gram matrix is computed from: by these its rounding is judged, not by its entries.

An entry for f(x) - f(y) at near points is a difference of large numbers, right to a unit of rounding of those.
"""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Array, like, namespace
from rkhs._calculus.atoms import Atoms
from rkhs._gram.operator import gram
from rkhs.functionals.base import Combination, Functional, Part
from rkhs.kernels.base import Kernel


def magnitudes(kernel: Kernel, L: Functional) -> Array:
    """m (N, 1) with entries G_ij that are sums of numbers of size m_i m_j at most, or about that.

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

        def norms(atoms: Atoms) -> Array:
            family = Combination((atoms.size,), (Part(atoms),), "atoms")
            return namespace(atoms.points).sqrt(abs(gram(kernel, family).diagonal()))[:, None]

        return L.absolute().assemble(norms)
    signs = np.sign(np.random.default_rng(0).standard_normal((L.size, 1)))
    squares = (gram(kernel, L.absolute()) @ like(signs, L.prototype)) ** 2 / max(L.size, 1)
    xp = namespace(squares)
    return 3 * xp.sqrt(xp.sqrt(squares + xp.sum(squares) / max(L.size, 1)))  # thrice, for a sample of one


def cancelled(kernel: Kernel, L: Functional) -> float:
    """How much larger the numbers are, at most, from which functionals are computed than the functionals themselves.

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
