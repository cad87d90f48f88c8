"""Points in space: surfaces, thin-plate splines, forces on atoms, and quadrature of integrals over regions.

The estimators are in `rkhs.surfaces` and `rkhs.molecules`.  Here are the quadrature errors of integral functionals in
the RKHS norm, and the number of nodes that reaches a tolerance.

For a Gaussian kernel the error of q Gauss-Legendre nodes has an a priori bound.  On a segment of half-length c, in
units of the length scale, k(x, y) = exp(-(x - y)^2 / 2) is analytic in both arguments, and at most
exp(c^2 (rho - 1/rho)^2 / 2) =: M^2 in the Bernstein ellipse with foci at the ends and semi-axes (rho +- 1/rho) c / 2.
So its Chebyshev coefficients are at most 4 M^2 rho^-(k + l).  On [-1, 1] the rule is exact for degrees below 2q and for
odd degrees, and its error is at most 2 + 2/(k^2 - 1) for the others (Trefethen, Approximation Theory and Approximation
Practice, chapter 19).  Relative to the length of the segment,

    |L - L*|_H  <=  (2 + 2/(4q^2 - 1)) rho^-2q / (1 - rho^-2) exp(c^2 (rho - 1/rho)^2 / 4)      for every rho > 1

A rule on a box is the product of rules on its sides, and their errors add up.
"""

from __future__ import annotations

from math import inf, prod

import numpy as np

from rkhs import Gaussian, Integral, gram
from rkhs.extend import Array, Matrix, like, namespace, to_numpy
from rkhs.kernels import Kernel, LinearTransform, Multiple, Product
from rkhs.molecules import ForceFieldRegressor
from rkhs.surfaces import ThinPlateClassifier, ThinPlateRegressor, reconstruct_surface

__all__ = ["ForceFieldRegressor", "ThinPlateClassifier", "ThinPlateRegressor"]
__all__ += ["quadrature_error", "quadrature_nodes", "reconstruct_surface"]

MOST = 200  # nodes per side, of which an estimate of the error needs twice as many


def quadrature_error(kernel: Kernel, L: Integral) -> Array:
    """Return the relative quadrature error of integral functionals in the RKHS of a kernel.

    The error is |L - L*| / |L| in the norm of the RKHS, so that |L(f) - L*(f)| is at most this times |L| |f| for every
    f.  For Gaussian kernels, and sums, products and linear changes of input of them, L* is the exact integral and the
    result is an upper bound.  For other kernels L* has twice as many nodes, and the result is an estimate that
    cannot resolve errors below about 1e-8.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    L : Integral
        The integrals over t regions.

    Returns
    -------
    array of shape (t,)
        The relative errors.

    Examples
    --------
    >>> import rkhs
    >>> L = rkhs.Integral.boxes([[0.0, 0.0]], [[1.0, 2.0]], nodes=4)
    >>> rkhs.geometry.quadrature_error(rkhs.Gaussian(scale=1.0), L).round(4)
    array([0.0002])
    >>> bool(rkhs.geometry.quadrature_error(rkhs.Gaussian(scale=1.0), L.with_nodes(16))[0] < 1e-15)
    True
    """
    if not isinstance(L, Integral):
        raise TypeError(f"quadrature_error needs an rkhs.Integral, got {L!r}.")
    fine = L.with_nodes(2 * L.nodes)
    difference, size = (gram(kernel, family).diagonal() for family in (L - fine, fine))
    xp = namespace(difference)
    estimate = xp.sqrt(xp.clip(difference, 0, None) / size)
    bound = bounded(kernel, L)
    if bound is None:
        return estimate
    estimate = xp.clip(estimate, 1e-7, None)  # smaller differences of two rules are rounding errors
    return xp.minimum(like(bound, estimate) / xp.sqrt(size), estimate)


def quadrature_nodes(kernel: Kernel, L: Integral, tol: float = 1e-12) -> Integral:
    """Return the integrals with the fewest nodes per side whose quadrature error is within a tolerance.

    For Gaussian kernels (and sums, products and linear changes of input of them) the default tolerance needs 8 nodes
    for sides of one length scale, 13 for three, 31 for ten and 141 for fifty.  For other kernels the error is an
    estimate: use a tolerance of 1e-7 or more.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    L : Integral
        The integrals; their number of nodes is ignored.
    tol : float, default=1e-12
        The largest relative error, see `quadrature_error`.

    Returns
    -------
    Integral
        The same integrals with another number of nodes.

    Examples
    --------
    >>> import rkhs
    >>> bins = rkhs.Integral.boxes([[0.0], [2.0]], [[2.0], [6.0]])
    >>> rkhs.geometry.quadrature_nodes(rkhs.Gaussian(scale=1.0), bins)
    Integral(2 boxes in R^1, 16 nodes a side)
    """
    if not isinstance(L, Integral):
        raise TypeError(f"quadrature_nodes needs an rkhs.Integral, got {L!r}.")
    if not 0 < tol < 1:
        raise ValueError(f"tol must be between 0 and 1, got {tol!r}.")
    error, size = inf, np.full(len(L.points), inf)
    known = bounded(kernel, L) is not None
    for nodes in range(1, MOST + 1) if known else (2, 4, 8, 16, 32, 64):
        rule = L.with_nodes(nodes)
        bound = bounded(kernel, rule)
        if bound is None:
            error = float(np.max(to_numpy(quadrature_error(kernel, rule))))
        elif np.all(bound <= tol * size):  # with that many nodes, |L| is accurate to some digits
            size = np.sqrt(to_numpy(gram(kernel, rule).diagonal()))
            error = float(np.max(bound / size))
        if error <= tol:
            return rule
    raise ValueError(
        f"{L!r} has an error of {error:.0e} with {nodes} nodes per side for {kernel!r}, more than tol={tol:g}: "
        "split the regions into smaller ones, or increase tol."
    )


def bounded(kernel: Kernel, L: Integral) -> Matrix | None:
    """Return a bound of |L - L*| (t,) in the RKHS of a kernel composed of Gaussians; None for other kernels."""
    n, total = L.points.shape[2], np.zeros(len(L.points))
    for weight, summand in kernel.summands():
        gaussian = _gaussian(summand, n)
        if gaussian is None:
            return None
        factor, linear = gaussian
        errors: Matrix = np.zeros(len(L.points))  # the sum over the sides of each region
        for line in L.lines:
            half = np.linalg.norm(line.sides @ linear.T, axis=-1) / 2
            np.add.at(errors, line.region, line.size * _along(half, L.nodes, line.growing))
        total = total + weight * factor * errors**2
    return np.asarray(np.sqrt(total))


def _along(half: Matrix, nodes: int, growing: bool) -> Matrix:
    """Return the error bound for segments of the given half-lengths (m,) and weights that sum to one.

    Triangles have a density u on [0, 1] (`growing`), by which the integrand is larger in the ellipse.
    """
    rho = np.exp(np.linspace(0.02, 7.0, 400))  # the grid of ellipses over which the bound is minimized
    logs = np.log(2 + 2 / (4 * nodes**2 - 1)) - 2 * nodes * np.log(rho) - np.log1p(-(rho**-2))
    logs = logs + half[:, None] ** 2 * (rho - 1 / rho) ** 2 / 4
    if growing:
        logs = logs + np.log(0.5 + (rho + 1 / rho) / 4)
    return np.asarray(np.minimum(np.exp(np.minimum(logs.min(axis=1), 1.0)), 2.0))  # two averages differ by at most 2


def _gaussian(kernel: Kernel, n: int) -> tuple[float, Matrix] | None:
    """Return c and A (m, n) with k(x, y) = c exp(-|A(x - y)|^2 / 2); None for other kernels."""
    match kernel:
        case Gaussian():
            return 1.0, np.diag(np.broadcast_to(kernel.linear(n), (n,)))
        case Multiple():
            inner = _gaussian(kernel.kernel, n)
            return None if inner is None else (kernel.factor * inner[0], inner[1])
        case LinearTransform():
            change = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
            inner = _gaussian(kernel.kernel, len(change))
            return None if inner is None else (inner[0], inner[1] @ change)
        case Product():
            factors = [factor for k in kernel.kernels if (factor := _gaussian(k, n)) is not None]
            if len(factors) < len(kernel.kernels):
                return None
            return prod(c for c, _ in factors), np.concatenate([linear for _, linear in factors])
    return None
