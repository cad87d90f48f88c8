"""How far integrals by nodes are from the true ones."""

from __future__ import annotations

from rkhs.backend.arrays import Array, namespace
from rkhs.functionals.integrals import Integral
from rkhs.gram.operator import gram
from rkhs.kernels.base import Kernel


def integration_error(kernel: Kernel, L: Integral) -> Array:
    """How far integrals by finitely many nodes may be off, as a share: (t,).

    |L - L'| / |L'| in the space of the kernel, where L' has twice the nodes.

    |L(f) - L'(f)| is at most this share of |L'| |f|, for every f of the space.  Below about 1e-8 it is rounding.

    Examples
    --------
    >>> import rkhs
    >>> L = rkhs.Integral.boxes([[0.0, 0.0]], [[1.0, 2.0]], nodes=4)
    >>> rkhs.integration_error(rkhs.Gaussian(scale=1.0), L).round(4)
    array([0.0002])
    """
    if not isinstance(L, Integral):
        raise TypeError(f"The error of nodes is that of an rkhs.Integral, got {L!r}.")
    fine = L.with_nodes(2 * L.nodes)
    difference = gram(kernel, L - fine).diagonal()
    xp = namespace(difference)
    return xp.sqrt(xp.clip(difference, 0, None) / gram(kernel, fine).diagonal())
