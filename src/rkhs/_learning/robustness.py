"""Certified radii: distances within which a prediction cannot change.

A function of an RKHS changes by at most its norm times the distance of the kernel,

    |f(x) - f(y)| = |<f, k_x - k_y>| <= |f| |k_x - k_y|,      |k_x - k_y|^2 = 2 (phi(0) - phi(d))

for a kernel k(x, y) = phi(d) that decreases with the distance d of x and y.  As long as the right-hand side is below
|f(x)|, f(y) has the sign of f(x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, as_points, double, to_numpy
from rkhs._calculus.function_spaces import Polynomials
from rkhs._finite.function import Function
from rkhs._gram import gram
from rkhs.kernels import Gaussian, Kernel, Laplace, LinearTransform, Matern, RationalQuadratic

RADIAL = (Gaussian, Matern, RationalQuadratic, Laplace)
FARTHEST = 1e100  # a distance that stands for infinity
HALVINGS = 60  # bisections of the radius
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of phi(0) - phi(d), in units of phi(0)


def certified_radius(function: Function, X: Any) -> Array:
    """Return for each point the radius of a ball in which the prediction of a function provably does not change.

    The prediction is the sign of a function with one output, and the index of the largest of several outputs, as in
    classifiers.  The radius is the largest Euclidean distance for which the norm of the function guarantees it:

        |f| |k_x - k_y| < |f(x)| for all y within the radius of x

    and for several outputs the same for the difference of the largest and each other one.  A constant in f takes part
    in f(x) but not in its norm.  The guarantee needs no search for counterexamples and costs one evaluation of f; it is
    a lower bound of the distance to the nearest point with another prediction, which may be much larger.

    Parameters
    ----------
    function : Function
        The function, such as `function_` of a classifier.  Its kernel is a Gaussian, Matern, rational quadratic or
        Laplace kernel, a multiple or a sum of such kernels, or one of these with a linear map of the features; its
        basis is a constant or None.
    X : array-like of shape (t, n)
        The points.

    Returns
    -------
    ndarray of shape (t,)
        The radii in the units of the features; infinite where no point at all can have another prediction, and exact
        for kernels with one length scale in the sense that no larger radius follows from the norm of f.

    Examples
    --------
    >>> import rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = rkhs.InvariantClassifier(scale=0.5).fit(X, y)
    >>> radius = rkhs.certified_radius(model.function_, X)
    >>> bool((radius > 0).all()), bool(radius.max() < 1)
    (True, True)
    """
    if not isinstance(function, Function):
        raise TypeError(f"certified_radius needs a function in an RKHS, such as model.function_, got {function!r}.")
    basis = function.basis
    if basis is not None and not (isinstance(basis, Polynomials) and basis.degree == 0):
        raise ValueError(
            f"certified_radius needs a basis that is constant, because the norm of f does not bound how fast other "
            f"unpenalized functions change; got {basis!r}."
        )
    points = as_points(X)
    distance = _squared_kernel_distance(function.kernel, int(points.shape[1]))
    values = double(function(points))
    a = double(function.coefficients).reshape(function.functionals.size, -1)
    products = a.T @ to_numpy(gram(function.kernel, function.functionals) @ function.coefficients).reshape(a.shape)
    if function.outputs is None:
        return _largest_radius(distance, _ratio(abs(values), products[0, 0]))
    best = np.argmax(values, axis=1)
    margins = values[np.arange(len(values)), best][:, None] - values
    norms = products.diagonal()[best][:, None] + products.diagonal() - products[best] - products[:, best].T
    ratios = _ratio(margins, norms)
    ratios[np.arange(len(values)), best] = np.inf
    return _largest_radius(distance, ratios.min(axis=1))


def _ratio(margin: Array, squared_norm: Any) -> Array:
    """Return (margin / norm)^2, the squared distance of kernel functions that is needed to use up the margin."""
    squared = np.maximum(squared_norm, 0.0) * (1 + ROUNDING)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(margin > 0, margin**2 / squared, 0.0)


def _squared_kernel_distance(kernel: Kernel, n: int) -> Callable[[Vector], Vector]:
    """Return the function r -> max |k_x - k_y|^2 over |x - y| <= r, or an upper bound of it for sums of kernels."""
    profiles = [(weight, *_profile(summand, n)) for weight, summand in kernel.summands()]

    def largest(r: Vector) -> Vector:
        total: Vector = np.zeros_like(r)
        for weight, phi, factor in profiles:
            change = phi(np.zeros(1)) - phi(factor * r)
            total = total + 2 * weight * (change + ROUNDING * (r > 0))
        return total

    return largest


def _profile(kernel: Kernel, n: int) -> tuple[Callable[[Vector], Vector], float]:
    """Return phi with k(x, y) = phi(d), and the largest ratio of d to the Euclidean distance of x and y."""
    linear, base = (kernel.linear, kernel.kernel) if isinstance(kernel, LinearTransform) else (np.ones(n), kernel)
    if not isinstance(base, RADIAL):
        raise ValueError(
            f"certified_radius needs a kernel that decreases with the distance of the points, such as rkhs.Gaussian(), "
            f"got {kernel!r}."
        )
    A: Matrix = np.diag(linear) if linear.ndim == 1 else linear
    A = base.linear(len(A))[:, None] * A
    unit: Any = replace(cast(Any, base), scale=1.0)

    def phi(d: Vector) -> Vector:
        return np.asarray(unit(np.zeros((1, 1)), d[:, None])[0])

    if isinstance(base, Laplace):  # the L1 norm of A z: at most |diagonal| |z|, or by the norms of the rows of A
        diagonal = A.shape[0] == A.shape[1] and not np.any(A - np.diag(np.diagonal(A)))
        return phi, float(np.linalg.norm(np.diagonal(A)) if diagonal else np.linalg.norm(A, axis=1).sum())
    return phi, float(np.linalg.norm(A, 2))


def _largest_radius(distance: Callable[[Vector], Vector], target: Vector) -> Vector:
    """Return the largest radii with distance(r) <= target, rounded down; infinity where there is no bound."""
    target = target * (1 - ROUNDING)
    unbounded = distance(np.full(1, FARTHEST))[0] < target
    low, high = np.zeros(len(target)), np.ones(len(target))
    for _ in range(1000):  # doubling
        short = ~unbounded & (distance(high) <= target)
        if not np.any(short):
            break
        high = np.where(short, 2 * high, high)
    for _ in range(1000):  # halving, so that small radii are relative to their size
        long = (target > 0) & (high > 1 / FARTHEST) & (distance(high / 2) > target)
        if not np.any(long):
            break
        high = np.where(long, high / 2, high)
    low = np.where(distance(high / 2) <= target, high / 2, low)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        inside = distance(middle) <= target
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(unbounded, np.inf, low)
