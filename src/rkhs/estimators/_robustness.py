"""Certified radii: distances within which a prediction cannot change.

A function of an RKHS changes by at most its norm times the distance of the kernel,

    |f(x) - f(y)| = |<f, k_x - k_y>| <= |f| |k_x - k_y|,      |k_x - k_y|^2 = 2 (phi(0) - phi(d))

for a kernel k(x, y) = phi(d) that decreases with the distance d of x and y.  A prediction compares scores
that are linear in the outputs of f, s = A f + a, and is the class of the largest one.  It stays c in all points y with

    |(A_c - A_d) f| |k_x - k_y| < s_c(x) - s_d(x)      for all other classes d.

The sign of a single function is the case of the scores 0 and f.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, as_points, double, to_numpy
from rkhs._core.calculus.function_spaces import Polynomials
from rkhs._core.finite.function import Function
from rkhs._core.gram import gram
from rkhs.functionals import Evaluation
from rkhs.kernels import Kernel, LinearTransform
from rkhs.kernels._scaled import HasLengthScale

DECADES = 100.0  # radii are between 10^-DECADES, which stands for zero, and 10^DECADES, which stands for infinity
HALVINGS = 64  # bisections of the logarithm of the radius
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of phi(0) - phi(d), in units of phi(0)


@runtime_checkable
class Classifying(Protocol):
    """A classifier whose `predict` returns the class of the largest of some scores that are linear in f."""

    def _compared_scores(self, X: Any, method: str) -> tuple[Any, Array, Matrix, Vector]:
        """Return f, the validated points, and A (classes, outputs) and a (classes,) of the scores A f + a."""


def scores_of_outputs(outputs: int) -> tuple[Matrix, Vector]:
    """Return A and a of the scores A f + a of each class: 0 and f for one output, and otherwise the outputs."""
    A: Matrix = np.array([[0.0], [1.0]]) if outputs == 1 else np.eye(outputs)
    return A, np.zeros(len(A))


def certified_radius(model: Any, X: Any) -> Array:
    """Return for each point the radius of a ball in which a prediction provably does not change.

    The radius is the largest Euclidean distance for which the norm of f guarantees that no score overtakes that of the
    predicted class: with the linear scores s = A f + a that `predict` compares,

        |(A_c - A_d) f| |k_x - k_y| < s_c(x) - s_d(x) for all classes d other than c, and all y within the radius of x

    The scores are those of the fitted model, including a `discriminant_` and the thresholds of ordered classes.  A
    constant in f takes part in the scores but not in the norm.  The guarantee needs no search for counterexamples and
    costs one evaluation of f; it is a lower bound of the distance to the nearest point with another prediction, which
    may be much larger.

    Parameters
    ----------
    model : classifier or Function
        A fitted classifier of this package, whose `predict` is certified.  For a function alone the prediction is its
        sign, or the index of the largest of several outputs; this is not what a model with a `discriminant_` or with
        thresholds predicts.  The kernel is a Gaussian, Matern, rational quadratic or Laplace kernel, a multiple or a
        sum of such kernels, or one of these with a linear map of the features; the basis is a constant or None.
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
    >>> radius = rkhs.certified_radius(model, X)
    >>> bool((radius > 0).all()), bool(radius.max() < 1)
    (True, True)
    """
    if isinstance(model, Function):
        function, points = model, as_points(X)
        A, offset = scores_of_outputs(1 if model.outputs is None else model.outputs)
    elif isinstance(model, Classifying):
        function, points, A, offset = model._compared_scores(X, "certified_radius")
    else:
        raise TypeError(
            f"certified_radius needs a fitted classifier of rkhs or an rkhs.results.Function, got {model!r}. For a "
            "Pipeline, pass its last step and the transformed X: the radii have the units of the transformed features."
        )
    if not isinstance(function, Function):
        raise TypeError(
            f"certified_radius needs a sum of kernel functions, got {function!r}: fit without an approximation, or "
            "with rkhs.Landmarks."
        )
    basis = function.basis
    if basis is not None and not (isinstance(basis, Polynomials) and basis.degree == 0):
        raise ValueError(
            f"certified_radius needs a basis that is constant, because the norm of f does not bound how fast other "
            f"unpenalized functions change; got {basis!r}."
        )
    distance = _squared_kernel_distance(function.kernel, int(points.shape[1]))
    margins, squared_norms = _margins(function, points, A, offset)
    with np.errstate(divide="ignore", invalid="ignore"):  # the squared distance that is needed to use up the margin
        ratios = np.where(margins > 0, margins**2 / np.maximum(squared_norms, 0.0), 0.0)
    return _largest_radius(distance, ratios.min(axis=1, initial=np.inf))


def _margins(function: Function, points: Array, A: Matrix, offset: Vector) -> tuple[Matrix, Matrix]:
    """Return s_c - s_d (t, classes - 1) for the predicted class c and others d, and |(A_c - A_d) f|^2.

    Margins are rounded down and norms up.  Sums of N products have rounding errors of 8 sqrt(N) eps times the sum of
    absolute values, except with a probability of 1e-13 N (Higham and Mary 2019, theorem 2.4).
    """
    f = to_numpy(function(points))
    scores = double(f).reshape(len(f), -1) @ A.T + offset
    best = np.argmax(scores, axis=1)
    others = np.argsort(np.arange(len(A)) == best[:, None], axis=1, kind="stable")[:, :-1]
    difference = A[best][:, None] - A[others]  # (t, classes - 1, outputs)
    G = gram(function.kernel, function.functionals)
    a = double(function.coefficients).reshape(G.shape[0], -1)
    products = a.T @ double(G @ function.coefficients).reshape(a.shape)
    rounding = 8 * len(a) ** 0.5 * float(np.finfo(f.dtype).eps)
    sizes = np.sqrt(double(G.diagonal())) @ abs(a)  # sum_i |a_i| |z_i|, which bounds the norm of f
    largest = sizes * float(np.max(double(gram(function.kernel, Evaluation(points)).diagonal()), initial=0.0)) ** 0.5
    if function.basis_coefficients is not None:
        largest = largest + abs(double(function.basis_coefficients)).reshape(-1)
    rows = np.arange(len(f))[:, None]
    margins = scores[rows, best[:, None]] - scores[rows, others]
    margins = margins - rounding * (abs(difference) @ largest + abs(offset[best][:, None]) + abs(offset[others]))
    squared = np.einsum("tdi,ij,tdj->td", difference, products, difference)
    return margins, squared + rounding * (abs(difference) @ sizes) ** 2


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
    if not (isinstance(base, HasLengthScale) and base.decreasing):
        raise ValueError(
            f"certified_radius needs a kernel that decreases with the distance of the points, such as rkhs.Gaussian(), "
            f"got {kernel!r}."
        )
    A: Matrix = np.diag(linear) if linear.ndim == 1 else linear
    A = base.linear(len(A))[:, None] * A
    unit: Any = replace(cast(Any, base), scale=1.0)

    def phi(d: Vector) -> Vector:
        return np.asarray(unit(np.zeros((1, 1)), d[:, None])[0])

    if base.distance == "cityblock":  # the L1 norm of A z: at most |diagonal| |z|, or by the norms of the rows of A
        diagonal = A.shape[0] == A.shape[1] and not np.any(A - np.diag(np.diagonal(A)))
        return phi, float(np.linalg.norm(np.diagonal(A)) if diagonal else np.linalg.norm(A, axis=1).sum())
    return phi, float(np.linalg.norm(A, 2))


def _largest_radius(distance: Callable[[Vector], Vector], target: Vector) -> Vector:
    """Return the largest radii with distance(r) <= target, rounded down; infinity where there is no bound."""
    target = target * (1 - ROUNDING)
    low, high = np.full(len(target), -DECADES), np.full(len(target), DECADES)
    for _ in range(HALVINGS):  # of decades, so that small radii are relative to their size
        middle = (low + high) / 2
        inside = distance(10.0**middle) <= target
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    radius = np.where(low > -DECADES, 10.0**low, 0.0)
    return np.where(distance(np.full(1, 10.0**DECADES))[0] < target, np.inf, radius)
