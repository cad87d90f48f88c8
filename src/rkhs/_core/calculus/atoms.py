"""Atoms: the normal form of every functional.

An atom consists of a point, a list of directions and an optional blur.  It maps f to the derivative along the
directions, at the point, of the convolution of f with a Gaussian density:

    f  ->  D_{u_1} .. D_{u_m} (f * N(0, blur)) (x)

Atoms form homogeneous blocks of t points times k tuples of directions per point, all of the same order m and with the
same blur; atom (i, a) has the flat index i * k + a.

A `Pairing` combines two blocks.  Every inner product of representers is built from three bilinear products: within the
left atoms, within the right atoms, and between them.  `AllPairs` returns the matrix of all pairs of atoms, `Matched`
the vector of each atom with its counterpart (the diagonal of that matrix).  Kernels are written once for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from math import inf
from typing import Any, Self

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, like, namespace, take_rows, zeros
from rkhs._core.backend.sparse import SparseVectors, inner_products

# A linear map of the input: one factor per feature (n,), a matrix (m, n), or the identity.
LinearMap = Matrix | None


@dataclass(frozen=True, eq=False)
class Atoms:
    """A block of t * k atoms of the same order m, the normal form of a family of functionals.

    Atom (i, a) maps f to its derivative along the directions u_1 .. u_m at the point x_i, after a convolution with a
    Gaussian density if there is a blur:

        f  ->  D_{u_1} .. D_{u_m} (f * N(0, blur)) (x_i)

    Parameters
    ----------
    points : array of shape (t, n)
        The points; sparse ones are `SparseVectors`, which kernels with a `form` accept.
    directions : array of shape (k, m, n) or (t, k, m, n)
        The directions of the derivatives, shared by all points or given for each point; sparse at sparse points.
    blur : ndarray of shape (n,) or (n, n), optional
        The covariance of the Gaussian density, by its diagonal or in full.

    Attributes
    ----------
    dimension : int
        The dimension n of the points.
    order : int
        The order m of the derivatives.
    per_point : int
        The number k of atoms at each point.
    size : int
        The number t * k of atoms.
    shared : bool
        Whether all points have the same directions.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import Atoms
    >>> slopes = Atoms(np.zeros((3, 2)), np.array([[[1.0, 0.0]]]))  # the derivative along the first axis at 3 points
    >>> slopes.order, slopes.size, slopes.shared
    (1, 3, True)
    """

    points: Array
    directions: Array
    blur: Matrix | None = None
    dimension: int = field(init=False)
    order: int = field(init=False)
    per_point: int = field(init=False)
    size: int = field(init=False)
    shared: bool = field(init=False)

    def __post_init__(self) -> None:
        t, n = self.points.shape
        k, m, _ = self.directions.shape[-3:]
        shared = self.directions.ndim == 3
        vars(self).update(dimension=int(n), order=int(m), per_point=int(k), size=int(t) * int(k), shared=shared)

    @classmethod
    def values(cls, points: Array, blur: Matrix | None = None) -> Atoms:
        """Return the evaluations at the points, or local averages if there is a blur.

        Parameters
        ----------
        points : array of shape (t, n)
            The points.
        blur : ndarray of shape (n,) or (n, n), optional
            The covariance of the Gaussian density of the averages.

        Returns
        -------
        Atoms
            One atom of order 0 per point.
        """
        return cls(points, zeros((1, 0, points.shape[1]), points), blur)

    @cached_property
    def gradient(self) -> bool:
        """Whether the directions are the unit vectors e_1 .. e_n, so that the atoms are full gradients."""
        if self.order != 1 or not self.shared or self.per_point != self.dimension:
            return False
        units = like(np.eye(self.dimension), self.directions)
        return bool(namespace(units).all(self.directions[:, 0, :] == units))

    def u(self, which: int) -> Array:
        """Return direction number `which` of all atoms in a shape that broadcasts.

        Parameters
        ----------
        which : int
            The index of the direction, below `order`.

        Returns
        -------
        array of shape (t or 1, k, n)
            The directions.
        """
        chosen = self.directions[..., which, :]
        return chosen[None] if self.shared else chosen

    def restricted(self, which: Sequence[int]) -> Atoms:
        """Return the atoms with a subset of their directions, as in Leibniz's rule.

        Parameters
        ----------
        which : sequence of int
            The indices of the directions to keep.

        Returns
        -------
        Atoms
            The atoms of order len(which).
        """
        if len(which) == self.order:
            return self
        return replace(self, directions=self.directions[..., list(which), :])

    def shifted(self, origin: Array) -> Atoms:
        """Return the atoms with coordinates relative to another origin.

        Parameters
        ----------
        origin : array of shape (n,)
            The new origin.

        Returns
        -------
        Atoms
            The atoms at points - origin.
        """
        return replace(self, points=self.points - origin)

    def absolute(self) -> Atoms:
        """Return atoms with the absolute values of the points, directions and blur.

        Returns
        -------
        Atoms
            The atoms, from which bounds on rounding errors are computed.
        """
        blur = None if self.blur is None else np.abs(self.blur)
        return Atoms(abs(self.points), abs(self.directions), blur)

    def like(self, array: Array) -> Atoms:
        """Convert the atoms to the namespace, dtype and device of an array.

        Parameters
        ----------
        array : array
            The array whose namespace, dtype and device are used.

        Returns
        -------
        Atoms
            The converted atoms.
        """
        return replace(self, points=like(self.points, array), directions=like(self.directions, array))

    def pushed(self, linear: LinearMap) -> Atoms:
        """Push the atoms forward by a linear map A: atoms of f(A x) become atoms of f.

        Parameters
        ----------
        linear : ndarray of shape (n,) or (m, n), or None
            The map A: one factor per feature, a matrix, or None for the identity.

        Returns
        -------
        Atoms
            The atoms with points A x, directions A u and blur A C A'.
        """
        if linear is None:
            return self
        blur = None if self.blur is None else push_covariance(linear, self.blur)
        return Atoms(mapped(self.points, linear), mapped(self.directions, linear), blur)

    def take(self, flat: Vector) -> Atoms:
        """Return the atoms with the given flat indices, one per point of the result.

        Parameters
        ----------
        flat : ndarray of int
            The flat indices.

        Returns
        -------
        Atoms
            The atoms, with per_point = 1.
        """
        points = take_rows(self.points, flat // self.per_point)
        if self.shared and self.per_point == 1:
            return replace(self, points=points)
        if self.shared:
            directions = take_rows(self.directions, flat % self.per_point)
        else:
            merged = namespace(points).reshape(self.directions, (self.size, self.order, self.dimension))
            directions = take_rows(merged, flat)
        return replace(self, points=points, directions=directions[:, None])

    def gathered(self, flat: Vector) -> Atoms:
        """Return the atoms with the given flat indices, grouped by point if the indices cover whole points.

        Parameters
        ----------
        flat : ndarray of int
            The flat indices.

        Returns
        -------
        Atoms
            The atoms, with the same per_point if possible and per_point = 1 otherwise.
        """
        k = self.per_point
        first = flat[:: max(k, 1)]
        whole = k > 1 and flat.size % k == 0 and bool(np.all(first % k == 0))
        if not (whole and np.all(np.reshape(flat, (-1, k)) == first[:, None] + np.arange(k))):
            return self.take(flat)
        directions = self.directions if self.shared else take_rows(self.directions, first // k)
        return replace(self, points=take_rows(self.points, first // k), directions=directions)

    def tiled(self, most: int) -> Iterator[tuple[slice, Atoms]]:
        """Yield consecutive pieces of the atoms with the slices of their flat indices.

        A piece has several points with all their directions, or one point with some of its directions.

        Parameters
        ----------
        most : int
            The maximal number of atoms in a piece.

        Yields
        ------
        slice
            The flat indices of the piece.
        Atoms
            The piece.
        """
        t, k = int(self.points.shape[0]), self.per_point
        points_each, directions_each = max(1, most // max(k, 1)), max(1, min(k, most))
        for i in range(0, t, points_each):
            stop = min(i + points_each, t)
            directions = self.directions if self.shared else self.directions[i:stop]
            for a in range(0, k, directions_each):
                end = min(a + directions_each, k)
                piece = replace(self, points=self.points[i:stop], directions=directions[..., a:end, :, :])
                yield slice(i * k + a, (stop - 1) * k + end), piece


@dataclass(frozen=True, eq=False)
class Pairing(ABC):
    """Left and right atoms whose inner products are wanted; vectors of either have shape (t or 1, k or 1, n)."""

    left: Atoms
    right: Atoms

    @property
    def largest(self) -> float:
        """A bound on |x|^2/2 + |y|^2/2 for near points x and y; infinite if it is not worth computing."""
        return inf

    @abstractmethod
    def within_left(self, p: Array, q: Array) -> Array:
        """Return <p, q> for two vectors of each left atom."""

    @abstractmethod
    def within_right(self, p: Array, q: Array) -> Array:
        """Return <p, q> for two vectors of each right atom."""

    @abstractmethod
    def between(self, p: Array, q: Array) -> Array:
        """Return <p, q> for vectors p of the left atoms and q of the right atoms."""

    @abstractmethod
    def flat(self, values: Array) -> Array:
        """Broadcast the values to all atoms, and merge the axes of points and directions of each side."""

    def pushed(self, linear: LinearMap) -> Self:
        """Push both sides forward by a linear map of the input."""
        return self if linear is None else type(self)(self.left.pushed(linear), self.right.pushed(linear))

    def restricted(self, left: Sequence[int], right: Sequence[int]) -> Self:
        """Return the pairing with a subset of the directions on each side."""
        return type(self)(self.left.restricted(left), self.right.restricted(right))


class AllPairs(Pairing):
    """All pairs of a left and a right atom: values broadcast to (t, k, s, l)."""

    def within_left(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[:, :, None, None]

    def within_right(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[None, None, :, :]

    def between(self, p: Array, q: Array) -> Array:
        if isinstance(p, SparseVectors):
            return inner_products(p, q)
        xp, n = namespace(p, q), self.left.dimension
        # <p_ia, q_jb> for all pairs of points i, j and directions a, b: one matrix product
        product = xp.reshape(p, (-1, n)) @ xp.reshape(q, (-1, n)).T
        return xp.reshape(product, (*p.shape[:2], *q.shape[:2]))

    def flat(self, values: Array) -> Array:
        xp, left, right = namespace(self.left.points), self.left, self.right
        shape = (left.points.shape[0], left.per_point, right.points.shape[0], right.per_point)
        return xp.reshape(xp.broadcast_to(values, shape), (left.size, right.size))


class Matched(Pairing):
    """Pairs of left and right atoms with the same index: values broadcast to (t, k)."""

    def between(self, p: Array, q: Array) -> Array:
        return _inner(p, q)

    within_left = between
    within_right = between

    def flat(self, values: Array) -> Array:
        xp, left = namespace(self.left.points), self.left
        return xp.reshape(xp.broadcast_to(values, (left.points.shape[0], left.per_point)), (left.size,))


def _inner(p: Array, q: Array) -> Array:
    """Return <p, q> along the last axis, (t or 1, k or 1), by a matrix product for points and shared directions."""
    if isinstance(p, SparseVectors):
        return (p * q).sum()
    if p.shape[1] == 1 and q.shape[0] == 1:
        return p[:, 0, :] @ q[0].T
    if p.shape[0] == 1 and q.shape[1] == 1:
        return q[:, 0, :] @ p[0].T
    return namespace(p, q).sum(p * q, axis=-1)


def check_map(linear: Matrix, dimension: int) -> None:
    """Raise ValueError if a linear map of the input does not match the dimension of the points."""
    if linear.shape[-1] != dimension:
        what = "one scale per feature" if linear.ndim == 1 else f"a {linear.shape} matrix"
        raise ValueError(
            f"The kernel has {what} for {linear.shape[-1]} features, but the points have {dimension} features."
        )


def mapped(vectors: Array, linear: Any) -> Array:
    """Return A v for vectors v along the last axis."""
    if linear is None:
        return vectors
    check_map(linear, int(vectors.shape[-1]))
    if isinstance(vectors, SparseVectors) and linear.ndim == 1:
        return vectors.scaled(linear)
    matrix = like(linear, vectors)
    return vectors * matrix if linear.ndim == 1 else vectors @ matrix.T


def pulled_back(vectors: Array, linear: Any) -> Array:
    """Return A'v for vectors v along the last axis: the gradient of f at A x becomes that of f(A x) at x."""
    if linear is None:
        return vectors
    matrix = like(linear, vectors)
    return vectors * matrix if linear.ndim == 1 else vectors @ matrix


def push_covariance(linear: Matrix, covariance: Matrix) -> Matrix:
    """Return the covariance A C A' of A z; it stays a diagonal (n,) if both A and C are diagonal."""
    check_map(linear, len(covariance))
    if linear.ndim == 1:
        return linear**2 * covariance if covariance.ndim == 1 else np.outer(linear, linear) * covariance
    return linear @ (covariance[:, None] * linear.T if covariance.ndim == 1 else covariance @ linear.T)


def add_covariances(A: Matrix | None, B: Matrix | None) -> Matrix | None:
    """Return A + B for covariances given as a diagonal (n,), in full (n, n), or as None for zero."""
    if A is None or B is None:
        return A if B is None else B
    if A.ndim == B.ndim:
        return A + B
    return (np.diag(A) if A.ndim == 1 else A) + (np.diag(B) if B.ndim == 1 else B)


def compose_maps(outer: LinearMap, inner: LinearMap) -> LinearMap:
    """Return the linear map outer o inner."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    if outer.ndim == 1:
        return outer * inner if inner.ndim == 1 else outer[:, None] * inner
    return outer * inner if inner.ndim == 1 else outer @ inner


def gaussian_rule(n: int) -> tuple[Matrix, Vector]:
    """Return cubature points z_j (p, n) and weights w_j (p,) with E f(z) ~ sum_j w_j f(z_j) for z ~ N(0, I_n).

    | n        | rule                                   | points       | exact for polynomials of degree |
    |----------|----------------------------------------|--------------|---------------------------------|
    | 1 .. 3   | product of Gauss-Hermite rules         | 15^n or less | 29 (n = 1), 17 (2), 13 (3)      |
    | 4 .. 16  | fully symmetric (McNamee and Stenger)  | 2 n^2 + 1    | 5                               |
    | 17 ..    | +- sqrt(n) e_i                         | 2 n          | 3                               |

    For a smooth function of length scale s, the error of a local average of width w is of order (w/s)^(degree + 1).
    Both sides of a Gram matrix use the same points, so that it stays symmetric, and positive semi-definite if the
    weights are positive.
    """
    if 0 < n <= 3:
        z, w = np.polynomial.hermite_e.hermegauss({1: 15, 2: 9, 3: 7}[n])
        # sum over j_1..j_n of w_j1 .. w_jn f(z_j1, .., z_jn): nodes^n points, exact to degree 2 nodes - 1
        grid = np.array(list(product(z, repeat=n)))
        return grid, np.array([np.prod(c) for c in product(w / w.sum(), repeat=n)])
    axes = np.concatenate([np.eye(n), -np.eye(n)])
    if n > 16:
        return np.sqrt(n) * axes, np.full(2 * n, 1 / (2 * n))
    # The points sqrt(3) (+-e_i +- e_j), i < j (McNamee and Stenger 1967)
    pairs = np.zeros((2 * n * (n - 1), n))
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    for row, ((i, j), (a, b)) in enumerate(product(combinations(range(n), 2), signs)):
        pairs[row, [i, j]] = a, b
    # The weights follow from E z_i^2 z_j^2 = 1 and E z_i^4 = 3, with all generators at sqrt(3).
    w_pair, w_axis = 1 / 36, (4 - n) / 18
    w_origin = 1 - 2 * n * w_axis - len(pairs) * w_pair
    weights = np.concatenate([[w_origin], np.full(2 * n, w_axis), np.full(len(pairs), w_pair)])
    return np.sqrt(3) * np.concatenate([np.zeros((1, n)), axes, pairs]), weights


def sharpen(atoms: Atoms) -> tuple[Any, Atoms]:
    """Approximate blurred atoms by cubature: return W and atoms without blur with atoms ~ W @ (atoms without blur)."""
    if atoms.blur is None or atoms.per_point != 1:
        raise ValueError("Cubature applies to blurred atoms with one tuple of directions per point only.")
    covariance = np.diag(atoms.blur) if atoms.blur.ndim == 1 else atoms.blur
    # C = V diag(values) V', so that x + V sqrt(values) z ~ N(x, C) for z ~ N(0, I)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > values[-1] * EPS * len(values)
    z, weights = gaussian_rule(int(kept.sum()))
    steps = z @ (vectors[:, kept] * np.sqrt(values[kept])).T  # (p, n)
    xp = namespace(atoms.points)
    points = xp.reshape(atoms.points[:, None, :] + like(steps, atoms.points), (-1, atoms.dimension))
    directions = atoms.directions
    if not atoms.shared:
        directions = xp.repeat(directions, len(weights), axis=0)
    # E f(x + z) ~ sum_j w_j f(x + z_j): the rows of W repeat the weights
    matrix = scipy.sparse.kron(scipy.sparse.eye_array(atoms.size), weights[None, :], format="csr")
    return matrix, Atoms(points, directions)
