"""How far integrals by nodes are from the true ones, and how many nodes are enough.

Where the kernel is a Gaussian, the error of q Gauss-Legendre nodes has a bound that needs no integral.  On a line of
half-length c, in units of the scale, k(x, y) = exp(-(x - y)^2 / 2) is analytic in both arguments, and in the ellipse
with foci at the ends and half-axes (rho +- 1/rho) c / 2 at most exp(c^2 (rho - 1/rho)^2 / 2) =: M^2.  So its Chebyshev
coefficients are at most 4 M^2 rho^-(k + l).  The rule is right for degrees below 2q and for odd ones, and off by at
most 2 + 2/(k^2 - 1) for the others (Trefethen, Approximation Theory and Approximation Practice, chapter 19), of a
length of 2:

    |L - L*|_H  <=  (2 + 2/(4q^2 - 1)) rho^-2q / (1 - rho^-2) exp(c^2 (rho - 1/rho)^2 / 4)      for every rho > 1

of the length.  A box is one line after the other: the errors of its sides add up.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy
from rkhs._gram.operator import gram
from rkhs.functionals._integrals import MOST, Integral
from rkhs.kernels._algebra import Multiple, Product, Pullback
from rkhs.kernels._base import Kernel
from rkhs.kernels._gaussian import Gaussian


def quadrature_error(kernel: Kernel, L: Integral) -> Array:
    """Return how far integrals by finitely many nodes may be off, as a share: (t,).

    |L - L*| / |L| in the space of the kernel, so that |L(f) - L*(f)| is at most this share of |L| |f| for every f.  L*
    is the integral itself where the kernel is a Gaussian, or made of such ones by `+`, `*` and `@`: then a bound is
    known that is right to any digit.  Else L* has twice the nodes, and what is below about 1e-8 is rounding.

    Examples
    --------
    >>> import rkhs
    >>> L = rkhs.Integral.boxes([[0.0, 0.0]], [[1.0, 2.0]], nodes=4)
    >>> rkhs.quadrature_error(rkhs.Gaussian(scale=1.0), L).round(4)
    array([0.0002])
    >>> bool(rkhs.quadrature_error(rkhs.Gaussian(scale=1.0), L.with_nodes(16))[0] < 1e-15)
    True
    """
    if not isinstance(L, Integral):
        raise TypeError(f"The error of nodes is that of an rkhs.Integral, got {L!r}.")
    fine = L.with_nodes(2 * L.nodes)
    difference, size = (gram(kernel, one).diagonal() for one in (L - fine, fine))
    xp = namespace(difference)
    seen = xp.sqrt(xp.clip(difference, 0, None) / size)
    bound = bounded(kernel, L)
    if bound is None:
        return seen
    seen = xp.clip(seen, 1e-7, None)  # a smaller difference of two rules is rounding
    return xp.minimum(like(bound, seen) / xp.sqrt(size), seen)


def quadrature_nodes(kernel: Kernel, L: Integral, tol: float = 1e-12) -> Integral:
    """Return the same integrals with the fewest nodes a side whose `quadrature_error` is at most tol.

    For Gaussian kernels (and sums, products and linear changes of input of them) that is integrals to rounding: 8 nodes
    a side for sides of a scale, 13 for three, 31 for ten, 141 for fifty.  Other kernels are rougher: ask for a tol of
    1e-7 or more.

    Examples
    --------
    >>> import rkhs
    >>> bins = rkhs.Integral.boxes([[0.0], [2.0]], [[2.0], [6.0]])
    >>> rkhs.quadrature_nodes(rkhs.Gaussian(scale=1.0), bins)
    Integral(2 boxes in R^1, 16 nodes a side)
    """
    if not isinstance(L, Integral):
        raise TypeError(f"The error of nodes is that of an rkhs.Integral, got {L!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"tol is a share between 0 and 1, got {tol!r}.")
    left, size = inf, np.full(len(L.places), inf)
    known = bounded(kernel, L) is not None
    for nodes in range(1, MOST + 1) if known else (2, 4, 8, 16, 32, 64):
        found = L.with_nodes(nodes)
        bound = bounded(kernel, found)
        if bound is None:
            left = float(np.max(to_numpy(quadrature_error(kernel, found))))
        elif np.all(bound <= tol * size):  # |L| is known to some digits by then
            size = np.sqrt(to_numpy(gram(kernel, found).diagonal()))
            left = float(np.max(bound / size))
        if left <= tol:
            return found
    raise ValueError(
        f"{L!r} has an error of {left:.0e} with as many as {nodes} nodes a side for {kernel!r}, more than tol={tol:g}: "
        "cut the regions into smaller ones, or allow more."
    )


def bounded(kernel: Kernel, L: Integral) -> Matrix | None:
    """Return a bound of |L - L*| in the space of a kernel made of Gaussians, (t,); None for other kernels."""
    n, total = L.places.shape[2], np.zeros(len(L.places))
    for weight, summand in kernel.summands():
        found = _gaussian(summand, n)
        if found is None:
            return None
        factor, linear = found
        errors: Matrix = np.zeros(len(L.places))  # of the lines that the rule goes along, which add up
        for line in L.lines:
            half = np.linalg.norm(line.sides @ linear.T, axis=-1) / 2
            np.add.at(errors, line.region, line.size * _along(half, L.nodes, line.growing))
        total = total + weight * factor * errors**2
    return np.asarray(np.sqrt(total))


def _along(half: Matrix, nodes: int, growing: bool) -> Matrix:
    """Return the bound above for lines of the given half-lengths (m,), where the weights have the sum one.

    With a density u on [0, 1], as triangles have, the integrand is larger in the ellipse, by |u|.
    """
    rho = np.exp(np.linspace(0.02, 7.0, 400))  # of the ellipses that are tried
    logs = np.log(2 + 2 / (4 * nodes**2 - 1)) - 2 * nodes * np.log(rho) - np.log1p(-(rho**-2))
    logs = logs + half[:, None] ** 2 * (rho - 1 / rho) ** 2 / 4
    if growing:
        logs = logs + np.log(0.5 + (rho + 1 / rho) / 4)
    return np.asarray(np.minimum(np.exp(np.minimum(logs.min(axis=1), 1.0)), 2.0))  # two averages differ by 2 at most


def _gaussian(kernel: Kernel, n: int) -> tuple[float, Matrix] | None:
    """Return a number and A (m, n) with k(x, y) = number * exp(-|A(x - y)|^2 / 2); None for other kernels."""
    match kernel:
        case Gaussian():
            return 1.0, np.diag(np.broadcast_to(kernel.linear(n), (n,)))
        case Multiple():
            found = _gaussian(kernel.kernel, n)
            return None if found is None else (kernel.factor * found[0], found[1])
        case Pullback():
            change = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
            found = _gaussian(kernel.kernel, len(change))
            return None if found is None else (found[0], found[1] @ change)
        case Product():
            factors = [one for k in kernel.kernels if (one := _gaussian(k, n)) is not None]
            if len(factors) < len(kernel.kernels):
                return None
            return prod(number for number, _ in factors), np.concatenate([linear for _, linear in factors])
    return None
