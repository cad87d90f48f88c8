"""Total variation: the integral of the length of the gradient, for functions with jumps.

The integral over the convex hull of some points is that of the piecewise linear function with the values of f at the
points, on their Delaunay triangulation: a sum over simplices of volume times the length of the slope, which is a linear
combination of the values at the corners.  Derivatives at nodes, or differences between points that are not data, would
be a poor choice: f can follow the noise of the data in between without changing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import Array, Matrix, Vector, as_points, double, like, to_numpy, unique_rows
from rkhs._core.finite.term import Term
from rkhs.functionals import Evaluation
from rkhs.functionals._base import Combination, Functional
from rkhs.losses import GroupNorm
from rkhs.losses._base import Loss

MOST_DIMENSIONS = 3  # of Delaunay triangulations, whose number of simplices grows as that of the points up to the plane


@dataclass(frozen=True, eq=False)
class TotalVariation:
    """The prior that f has little total variation, which permits jumps and removes noise between them.

        integral of |grad f|,        as a sum over the simplices of a triangulation of points

    The squared gradient makes large slopes expensive and rounds off jumps; the length of the gradient does not (Rudin,
    Osher and Fatemi 1992).  Use `term` with a `Problem`, or pass the prior as the `invariance` of an estimator.

    Parameters
    ----------
    points : array-like of shape (k, n), optional
        The points of the triangulation, in one to three dimensions, among them the points of the data; in an estimator
        by default the training points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> y = (x[:, 0] > 0.5) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> values = rkhs.Term(rkhs.Evaluation(x), rkhs.Squared(), target=y, weight=50.0)
    >>> variation = rkhs.invariances.TotalVariation(x)
    >>> f = rkhs.Problem(rkhs.Matern(1.5, scale=0.1), [values, variation.term(weight=10.0)]).solve(tol=1e-3).function
    >>> abs(f([[0.2], [0.8]]) - [0.0, 1.0]).round(1)
    array([0.1, 0.1])

    More points where f changes most between two of them:

    >>> len(variation.points), len(variation.refined(f, 10).points)
    (60, 70)
    """

    points: Any = None

    def __post_init__(self) -> None:
        if self.points is not None:
            points = unique_rows(double(as_points(self.points, "points")))[0]
            object.__setattr__(self, "points", points)
            _ = self._simplices

    def __repr__(self) -> str:
        return "TotalVariation()" if self.points is None else f"TotalVariation({len(self.points)} points)"

    @property
    def default_loss(self) -> Loss:
        """The loss in estimators: the length of the gradient."""
        return GroupNorm()

    @property
    def _known(self) -> Matrix:
        if self.points is None:
            raise ValueError("A TotalVariation without points has no triangulation: pass points=.")
        known: Matrix = self.points
        return known

    @cached_property
    def _simplices(self) -> Matrix:
        """The indices (s, n + 1) of the corners of all simplices."""
        return _triangulated(self._known)

    def __call__(self, X: Array) -> Functional:
        """Return the slopes on all simplices times their volumes.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points, which are triangulated if none were given.

        Returns
        -------
        Functional
            The functionals, of shape (s, n).
        """
        X = as_points(X)
        prior = TotalVariation(X) if self.points is None else self
        points, corners = prior._known, prior._simplices
        s, n = corners.shape[0], points.shape[1]
        edges = points[corners[:, 1:]] - points[corners[:, :1]]  # (s, n, n): slope = edges^-1 (f_1 - f_0, ..)
        slopes = _adjugates(edges) / factorial(n)  # volume times edges^-1
        weights = np.concatenate([-np.sum(slopes, axis=2, keepdims=True), slopes], axis=2)  # (s, n, n + 1)
        columns = np.broadcast_to(corners[:, None, :], weights.shape)
        starts = np.arange(0, weights.size + 1, n + 1)
        matrix = scipy.sparse.csr_array((weights.ravel(), columns.ravel(), starts), shape=(s * n, len(points)))
        return Combination((s, n), (matrix @ Evaluation(like(points, X))).parts, f"slopes on {s} simplices")

    def term(self, weight: float) -> Term:
        """Return the total variation as a term of a problem.

        Parameters
        ----------
        weight : float
            The weight of the integral.

        Returns
        -------
        Term
            The slopes on all simplices, with their lengths as loss.
        """
        return Term(self(self._known), GroupNorm(), weight=weight)

    def value(self, function: Any) -> float:
        """Return the total variation of the piecewise linear function with the values of a function.

        Parameters
        ----------
        function : Function
            The function.

        Returns
        -------
        float
            The sum over the simplices.
        """
        return float(np.sum(np.linalg.norm(to_numpy(self(self._known)(function)), axis=1)))

    def refined(self, function: Any, count: int) -> TotalVariation:
        """Add the midpoints of the edges along which a function is least linear.

        Parameters
        ----------
        function : Function
            The solution with the present points.
        count : int
            The number of additional points.

        Returns
        -------
        TotalVariation
            The prior with more points.
        """
        points, corners = self._known, self._simplices
        pairs = np.array([(i, j) for i in range(corners.shape[1]) for j in range(i)])
        edges = unique_rows(np.sort(corners[:, pairs].reshape(-1, 2), axis=1))[0]
        middle = points[edges].mean(axis=1)
        values: Vector = to_numpy(Evaluation(points)(function))
        errors = np.abs(to_numpy(Evaluation(middle)(function)) - values[edges].mean(axis=1))
        worst = np.argsort(-errors, kind="stable")[:count]
        return TotalVariation(np.concatenate([points, middle[worst]]))


def _triangulated(points: Matrix) -> Matrix:
    n = points.shape[1]
    if n > MOST_DIMENSIONS:
        raise ValueError(
            f"TotalVariation triangulates points in at most {MOST_DIMENSIONS} dimensions, got {n}: use "
            "rkhs.Invariance(rkhs.Gradient, loss=rkhs.losses.GroupNorm()), the lengths of gradients at training points."
        )
    if n == 1 and len(points) > 1:
        return np.stack([np.arange(len(points) - 1), np.arange(1, len(points))], axis=1)
    from scipy.spatial import Delaunay, QhullError  # slow to import

    try:
        if len(points) > n > 1:
            return np.asarray(Delaunay(points - points.mean(axis=0)).simplices)  # squares of large offsets round
    except QhullError:
        pass
    raise ValueError(f"The {len(points)} different points of a TotalVariation do not span R^{n}: pass more points.")


def _adjugates(edges: Matrix) -> Matrix:
    """Return |det E| E^-1 for matrices (s, n, n) with n <= 3, also its limit for singular ones.

    Triangulations of points on a common sphere, such as those of a regular grid in space, contain flat simplices.  The
    limit is the jump of the piecewise linear function across them.
    """
    n, adjugates = edges.shape[1], np.empty_like(edges)
    for i, j in np.ndindex(n, n):
        # adj(E)_ji = (-1)^(i+j) det E without row i and column j
        minors = np.delete(np.delete(edges, i, axis=1), j, axis=2)
        adjugates[:, j, i] = (-1.0) ** (i + j) * np.linalg.det(minors)
    return np.where(np.linalg.det(edges) < 0, -1.0, 1.0)[:, None, None] * adjugates
