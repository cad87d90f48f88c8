"""Integrals over boxes, segments and polygons by Gauss-Legendre quadrature.

With q nodes per side the rule is exact for polynomials of degree 2q - 1.  For a function that is smooth on the scale s
and sides of length h, the error falls like (h / 4 s sqrt(q))^2q: 16 nodes are exact to rounding for sides of up to
three scales of a Gaussian.  `rkhs.geometry` bounds the error for a kernel (`quadrature_error`) and returns integrals
with enough nodes (`quadrature_nodes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import Matrix, as_array, double
from rkhs._core.calculus.atoms import Atoms
from rkhs.functionals._base import Functional, Part

MOST = 200  # nodes per side; error estimates compare with twice as many


@dataclass(frozen=True, eq=False)
class Lines:
    """Line rules that make up a quadrature rule: the regions (m,), the sides (m, n) and the weights (m,) of the lines.

    On a `growing` line the density rises linearly from 0 to 1; otherwise it is 1.
    """

    region: Matrix
    sides: Matrix
    size: Matrix
    growing: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Integral(Functional):
    """Integrals of f over boxes, segments or polygons.

        L_i(f) = integral of f over region i, or its mean: shape (t,)

    Use `Integral.boxes`, `Integral.segments` or `Integral.polygons` to construct it.

    Parameters
    ----------
    points : ndarray of shape (t, k, n)
        The quadrature nodes of each region.
    weights : ndarray of shape (t, k)
        Their weights.
    kind : str
        The name of the constructor: "boxes", "segments" or "polygons".
    nodes : int
        The number of nodes per side.
    regions : tuple
        The positional arguments of the constructor, for `with_nodes`.
    mean : bool, default=False
        Whether the integrals are divided by the sizes of the regions.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> squares = rkhs.Integral.boxes([[0.0, 0.0]], [[1.0, 2.0]])
    >>> squares(rkhs.Polynomials(degree=2)).round(6)  # of 1, x, y, x^2, x y, y^2
    array([[2.      , 1.      , 2.      , 0.666667, 1.      , 2.666667]])
    """

    points: Matrix
    weights: Matrix
    kind: str
    nodes: int
    regions: tuple[Any, ...]
    mean: bool = False

    def __repr__(self) -> str:
        t, _, n = self.points.shape
        return f"Integral({'mean over ' if self.mean else ''}{t} {self.kind} in R^{n}, {self.nodes} nodes a side)"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.points),)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, k, n = self.points.shape
        rows = np.repeat(np.arange(t), k)
        W = scipy.sparse.csr_array((self.weights.reshape(-1), (rows, np.arange(t * k))), shape=(t, t * k))
        return (Part(Atoms.values(self.points.reshape(t * k, n)), matrix=W),)

    def with_nodes(self, nodes: int) -> Integral:
        """Return the same integrals with another number of nodes per side.

        Parameters
        ----------
        nodes : int
            The number of nodes per side.

        Returns
        -------
        Integral
            The integrals.
        """
        return getattr(Integral, self.kind)(*self.regions, nodes=nodes, mean=self.mean)

    @property
    def lines(self) -> list[Lines]:
        """The one-dimensional rules whose composition is this rule; their errors add up to a bound of its error."""
        if self.kind == "polygons":  # per triangle: the side opposite to the first corner, and the two other sides
            (polygons,) = self.regions
            region = np.repeat(np.arange(len(polygons)), [len(corners) - 2 for corners in polygons])
            a = np.concatenate([corners[1:-1] - corners[0] for corners in polygons])
            b = np.concatenate([corners[2:] - corners[0] for corners in polygons])
            doubled = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]  # twice the signed areas
            if self.mean:
                doubled = doubled / np.abs(np.bincount(region, doubled / 2))[region]
            size = np.abs(doubled)
            return [Lines(region, b - a, size / 2), Lines(region, a, size, True), Lines(region, b, size, True)]
        sizes, sides = self.weights.sum(axis=1), self.regions[1] - self.regions[0]
        region = np.arange(len(sides))
        if self.kind == "segments":
            return [Lines(region, sides, sizes)]
        return [Lines(region, sides * unit, sizes) for unit in np.eye(sides.shape[1])]

    @classmethod
    def boxes(cls, lower: Any, upper: Any, *, nodes: int = 8, mean: bool = False) -> Integral:
        """Return the integrals over boxes, such as bins of a table, cells of a grid or pixels.

        Each box takes nodes^n points, so n should be small.

        Parameters
        ----------
        lower : array-like of shape (t, n)
            The lower corners.
        upper : array-like of shape (t, n)
            The upper corners.
        nodes : int, default=8
            The number of nodes per side.
        mean : bool, default=False
            Whether to divide by the volumes.

        Returns
        -------
        Integral
            The t integrals.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Integral.boxes([[0.0]], [[2.0]], mean=True)(rkhs.Polynomials(degree=1)).round(6)
        array([[1., 1.]])
        """
        low, high = (_rows(value, name) for value, name in ((lower, "lower"), (upper, "upper")))
        if low.shape != high.shape or not np.all(high > low):
            invalid = "" if low.shape != high.shape else f", and box {np.argmax(np.any(high <= low, axis=1))} is empty"
            raise ValueError(
                f"Boxes need a lower corner below the upper one in each feature, got shapes {low.shape} and "
                f"{high.shape}{invalid}."
            )
        n = low.shape[1]
        x, w = _rule(nodes)
        # sum over j_1..j_n of w_j1 .. w_jn f(low + (high - low) x_j): a product rule
        grid = np.stack(np.meshgrid(*[x] * n, indexing="ij"), axis=-1).reshape(-1, n)
        weights = np.stack(np.meshgrid(*[w] * n, indexing="ij"), axis=-1).reshape(-1, n).prod(axis=1)
        points = low[:, None, :] + (high - low)[:, None, :] * grid
        return cls(points, _weights(weights, (high - low).prod(axis=1), mean), "boxes", nodes, (low, high), mean)

    @classmethod
    def segments(cls, start: Any, end: Any, *, nodes: int = 8, mean: bool = False) -> Integral:
        """Return the line integrals along segments, such as rays of tomography or tracks of an aircraft.

        Parameters
        ----------
        start : array-like of shape (t, n)
            The first end points.
        end : array-like of shape (t, n)
            The second end points.
        nodes : int, default=8
            The number of nodes per segment.
        mean : bool, default=False
            Whether to divide by the lengths.

        Returns
        -------
        Integral
            The t integrals.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Integral.segments([[0.0, 0.0]], [[3.0, 4.0]])(rkhs.Polynomials(degree=0)).round(6)
        array([[5.]])
        """
        a, b = (_rows(value, name) for value, name in ((start, "start"), (end, "end")))
        lengths = np.linalg.norm(b - a, axis=1) if a.shape == b.shape else np.zeros(1)
        if a.shape != b.shape or not np.all(lengths > 0):
            raise ValueError(f"Segments need two distinct end points, got shapes {a.shape} and {b.shape}.")
        x, w = _rule(nodes)
        # |b - a| sum_j w_j f(a + x_j (b - a))
        points = a[:, None, :] + x[:, None] * (b - a)[:, None, :]
        return cls(points, _weights(w, lengths, mean), "segments", nodes, (a, b), mean)

    @classmethod
    def polygons(cls, corners: Sequence[Any], *, nodes: int = 8, mean: bool = False) -> Integral:
        """Return the integrals over simple polygons of the plane.

        A polygon is a signed sum of triangles at its first corner.  This is correct for every polygon whose sides do
        not cross, but f is evaluated on all of these triangles, also outside a polygon that is not convex.

        Parameters
        ----------
        corners : sequence of array-like of shape (k, 2)
            The corners of each polygon in order.
        nodes : int, default=8
            The number of nodes per side of a triangle.
        mean : bool, default=False
            Whether to divide by the areas.

        Returns
        -------
        Integral
            The integrals.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Integral.polygons([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])(rkhs.Polynomials(degree=0)).round(6)
        array([[0.5]])
        """
        if not corners:
            raise ValueError("corners is empty: give an array of corners (k, 2) for each polygon.")
        polygons = [_rows(polygon, "corners") for polygon in corners]
        most = max(len(polygon) for polygon in polygons) - 2
        if any(polygon.shape[1] != 2 or len(polygon) < 3 for polygon in polygons):
            raise ValueError("A polygon needs at least three corners in the plane, an array of shape (k, 2).")
        x, w = _rule(nodes)
        u, v = (part.reshape(-1) for part in np.meshgrid(x, x, indexing="ij"))
        density = np.outer(w * x, w).reshape(-1)  # Duffy's map (u, u v) covers the triangle with density u
        points, weights = [], []
        for polygon in polygons:
            first, a, b = polygon[0], polygon[1:-1] - polygon[0], polygon[2:] - polygon[0]
            # twice the signed area of the triangle (0, a, b), whose sum over triangles is that of the polygon
            doubled = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
            area = float(doubled.sum()) / 2
            if abs(area) <= 1e-12 * float(np.abs(doubled).sum()):
                raise ValueError(f"A polygon has no area: {polygon.tolist()}.")
            # f over a triangle: 2 area sum_jk w_j w_k u_j f(first + u_j (a + v_k (b - a)))  (Duffy 1982)
            nodes_of_triangles = first + u[None, :, None] * (a[:, None, :] + v[None, :, None] * (b - a)[:, None, :])
            share = np.sign(area) * doubled[:, None] * density / (abs(area) if mean else 1.0)
            missing = most - len(a)  # triangles of weight zero make all polygons equally long
            padding = np.repeat(nodes_of_triangles[:1], missing, axis=0)
            points.append(np.concatenate([nodes_of_triangles, padding]).reshape(-1, 2))
            weights.append(np.concatenate([share, np.zeros((missing, len(density)))]).reshape(-1))
        return cls(np.stack(points), np.stack(weights), "polygons", nodes, (polygons,), mean)


def _rule(nodes: int) -> tuple[Matrix, Matrix]:
    """Return Gauss-Legendre nodes and weights on [0, 1]."""
    if not (isinstance(nodes, int) and 1 <= nodes <= 2 * MOST):
        raise ValueError(f"nodes must be an integer from 1 to {2 * MOST}, got {nodes!r}.")
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


def _weights(weights: Matrix, sizes: Matrix, mean: bool) -> Matrix:
    return np.broadcast_to(weights, (len(sizes), len(weights))) * (1.0 if mean else sizes[:, None])


def _rows(values: Any, name: str) -> Matrix:
    rows = double(as_array(values, name))
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(f"{name} must be a two-dimensional array, got shape {rows.shape}.")
    return rows
