"""Atoms: the normal form of every functional.

An atom is a point, a list of directions and perhaps a blur; it takes f to the derivative along the
directions, at the point, of f averaged over a Gaussian around it:

    f  ->  D_{u_1} .. D_{u_m} (f * N(0, blur)) (x)

Atoms come in homogeneous blocks of t points times k direction tuples per point, all of one order m
and one blur; atom (i, a) has flat index i * k + a.

Two blocks meet in a layout.  Every inner product of representers is built from three bilinear products: within the left
atoms, within the right ones, and between them.  `AllPairs` lays the result out as a table, one entry for each pair of
atoms; `Matched` as a list, one entry for each atom and its counterpart (the diagonal of the table).  Kernels are
written once, against either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any, Self

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import EPS, Array, Matrix, Vector, like, namespace, taken, zeros

# A linear map of the input: one factor per feature (n,), a matrix (m, n), or the identity.
LinearMap = Matrix | None


@dataclass(frozen=True, eq=False)
class Atoms:
    """A block of t * k atoms of one order m.

    Parameters
    ----------
    points : (t, n)
    directions : (k, m, n) when all points share them, (t, k, m, n) when each has its own
    blur : None, or the covariance of the Gaussian: its diagonal (n,) or the whole (n, n), in NumPy
    """

    points: Array
    directions: Array
    blur: Matrix | None = None
    dimension: int = field(init=False)  # n
    order: int = field(init=False)  # m
    per_point: int = field(init=False)  # k
    size: int = field(init=False)  # t * k
    shared: bool = field(init=False)  # whether all points have the same directions

    def __post_init__(self) -> None:
        t, n = self.points.shape
        k, m, _ = self.directions.shape[-3:]
        shared = self.directions.ndim == 3
        vars(self).update(dimension=int(n), order=int(m), per_point=int(k), size=int(t) * int(k), shared=shared)

    @classmethod
    def values(cls, points: Array, blur: Matrix | None = None) -> Atoms:
        """Evaluations at the points (blurred: local averages)."""
        return cls(points, zeros((1, 0, points.shape[1]), points), blur)

    @cached_property
    def gradient(self) -> bool:
        """Whether the directions are all unit vectors in turn, so that they make whole gradients."""
        if self.order != 1 or not self.shared or self.per_point != self.dimension:
            return False
        units = like(np.eye(self.dimension), self.directions)
        return bool(namespace(units).all(self.directions[:, 0, :] == units))

    def u(self, which: int) -> Array:
        """Return the directions number `which` of all atoms, ready to broadcast: (t or 1, k, n)."""
        chosen = self.directions[..., which, :]
        return chosen[None] if self.shared else chosen

    def restricted(self, which: Sequence[int]) -> Atoms:
        """Return the same atoms with only some of their directions (for Leibniz's rule)."""
        if len(which) == self.order:
            return self
        return replace(self, directions=self.directions[..., list(which), :])

    def shifted(self, origin: Array) -> Atoms:
        """Return the same atoms seen from another origin."""
        return replace(self, points=self.points - origin)

    def absolute(self) -> Atoms:
        """Return the atoms whose points, directions and blur are the absolute values of these."""
        blur = None if self.blur is None else np.abs(self.blur)
        return Atoms(abs(self.points), abs(self.directions), blur)

    def like(self, array: Array) -> Atoms:
        """Return the same atoms in the namespace, dtype and on the device of an array."""
        return replace(self, points=like(self.points, array), directions=like(self.directions, array))

    def pushed(self, linear: LinearMap) -> Atoms:
        """Return the atoms of f o A seen as atoms of f: points, directions and blur pushed forward by A."""
        if linear is None:
            return self
        blur = None if self.blur is None else push_covariance(linear, self.blur)
        return Atoms(mapped(self.points, linear), mapped(self.directions, linear), blur)

    def take(self, flat: Vector) -> Atoms:
        """Return the atoms of the given flat indices, one per point of the result."""
        points = taken(self.points, flat // self.per_point)
        if self.shared and self.per_point == 1:
            return replace(self, points=points)
        if self.shared:
            own = taken(self.directions, flat % self.per_point)
        else:
            merged = namespace(points).reshape(self.directions, (self.size, self.order, self.dimension))
            own = taken(merged, flat)
        return replace(self, points=points, directions=own[:, None])

    def gathered(self, flat: Vector) -> Atoms:
        """Return the same, with all atoms of a point together where the indices are those of whole points."""
        k = self.per_point
        first = flat[:: max(k, 1)]
        whole = k > 1 and flat.size % k == 0 and bool(np.all(first % k == 0))
        if not (whole and np.all(np.reshape(flat, (-1, k)) == first[:, None] + np.arange(k))):
            return self.take(flat)
        own = self.directions if self.shared else taken(self.directions, first // k)
        return replace(self, points=taken(self.points, first // k), directions=own)

    def tiled(self, most: int) -> Iterator[tuple[slice, Atoms]]:
        """Consecutive pieces of at most `most` atoms, each with the slice of flat indices it holds.

        A piece is some points with all their directions, or one point with some of them.
        """
        t, k = int(self.points.shape[0]), self.per_point
        tall, deep = max(1, most // max(k, 1)), max(1, min(k, most))
        for i in range(0, t, tall):
            stop = min(i + tall, t)
            for a in range(0, k, deep):
                end = min(a + deep, k)
                own = self.directions if self.shared else self.directions[i:stop]
                piece = replace(self, points=self.points[i:stop], directions=own[..., a:end, :, :])
                yield slice(i * k + a, (stop - 1) * k + end), piece


@dataclass(frozen=True, eq=False)
class Pairing(ABC):
    """Left and right atoms in a layout; vectors of either are (t or 1, k or 1, n)."""

    left: Atoms
    right: Atoms

    @abstractmethod
    def within_left(self, p: Array, q: Array) -> Array:
        """<p, q> for vectors of the left atoms."""

    @abstractmethod
    def within_right(self, p: Array, q: Array) -> Array:
        """<p, q> for vectors of the right atoms."""

    @abstractmethod
    def between(self, p: Array, q: Array) -> Array:
        """<p, q> for p of the left atoms and q of the right ones."""

    @abstractmethod
    def flat(self, values: Array) -> Array:
        """Broadcast values to the layout and merge each side's points and directions into one axis."""

    def pushed(self, linear: LinearMap) -> Self:
        """Return the same pairing after a linear change of input."""
        return self if linear is None else type(self)(self.left.pushed(linear), self.right.pushed(linear))

    def restricted(self, left: Sequence[int], right: Sequence[int]) -> Self:
        """Return the same pairing with only some of the directions on each side."""
        return type(self)(self.left.restricted(left), self.right.restricted(right))


class AllPairs(Pairing):
    """Each left atom with each right atom: values broadcast to (t, k, s, l)."""

    def within_left(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[:, :, None, None]

    def within_right(self, p: Array, q: Array) -> Array:
        return _inner(p, q)[None, None, :, :]

    def between(self, p: Array, q: Array) -> Array:
        xp, n = namespace(p, q), self.left.dimension
        product = xp.reshape(p, (-1, n)) @ xp.reshape(q, (-1, n)).T
        return xp.reshape(product, (*p.shape[:2], *q.shape[:2]))

    def flat(self, values: Array) -> Array:
        xp, left, right = namespace(self.left.points), self.left, self.right
        shape = (left.points.shape[0], left.per_point, right.points.shape[0], right.per_point)
        return xp.reshape(xp.broadcast_to(values, shape), (left.size, right.size))


class Matched(Pairing):
    """Each left atom with the right atom of the same index: values broadcast to (t, k)."""

    def between(self, p: Array, q: Array) -> Array:
        return _inner(p, q)

    within_left = between
    within_right = between

    def flat(self, values: Array) -> Array:
        xp, left = namespace(self.left.points), self.left
        return xp.reshape(xp.broadcast_to(values, (left.points.shape[0], left.per_point)), (left.size,))


def _inner(p: Array, q: Array) -> Array:
    """<p, q> along the last axis, (t or 1, k or 1); for points and shared directions as a matrix product."""
    if p.shape[1] == 1 and q.shape[0] == 1:
        return p[:, 0, :] @ q[0].T
    if p.shape[0] == 1 and q.shape[1] == 1:
        return q[:, 0, :] @ p[0].T
    return namespace(p, q).sum(p * q, axis=-1)


def check_map(linear: Matrix, dimension: int) -> None:
    """Refuse a linear map of the input that does not fit the dimension of the points."""
    if linear.shape[-1] != dimension:
        what = "one scale per feature" if linear.ndim == 1 else f"a {linear.shape} matrix"
        raise ValueError(
            f"The kernel has {what} for {linear.shape[-1]} features, but the points have {dimension} features."
        )


def mapped(vectors: Array, linear: Any) -> Array:
    """Return A v for vectors along the last axis."""
    if linear is None:
        return vectors
    check_map(linear, int(vectors.shape[-1]))
    matrix = like(linear, vectors)
    return vectors * matrix if linear.ndim == 1 else vectors @ matrix.T


def pulled_back(vectors: Array, linear: Any) -> Array:
    """Return A'v for vectors along the last axis, such as the gradient of f at A x: it is then that of f(A x) at x."""
    if linear is None:
        return vectors
    matrix = like(linear, vectors)
    return vectors * matrix if linear.ndim == 1 else vectors @ matrix


def push_covariance(linear: Matrix, covariance: Matrix) -> Matrix:
    """Return the covariance A C A' of A z, diagonal as long as both are."""
    check_map(linear, len(covariance))
    if linear.ndim == 1:
        return linear**2 * covariance if covariance.ndim == 1 else np.outer(linear, linear) * covariance
    return linear @ (covariance[:, None] * linear.T if covariance.ndim == 1 else covariance @ linear.T)


def add_covariances(one: Matrix | None, other: Matrix | None) -> Matrix | None:
    """Return the covariance of a sum of independent Gaussians, either of which may be missing."""
    if one is None or other is None:
        return one if other is None else other
    if one.ndim == other.ndim:
        return one + other
    return (np.diag(one) if one.ndim == 1 else one) + (np.diag(other) if other.ndim == 1 else other)


def compose_maps(outer: LinearMap, inner: LinearMap) -> LinearMap:
    """Return the linear map outer o inner."""
    if outer is None or inner is None:
        return inner if outer is None else outer
    if outer.ndim == 1:
        return outer * inner if inner.ndim == 1 else outer[:, None] * inner
    return outer * inner if inner.ndim == 1 else outer @ inner


def gaussian_rule(n: int) -> tuple[Matrix, Vector]:
    """Return points z_j (p, n) and weights w_j (p,) with E f(z) ~ sum_j w_j f(z_j) for z ~ N(0, I_n).

    | n        | rule                                   | points       | exact for polynomials of degree |
    |----------|----------------------------------------|--------------|---------------------------------|
    | 1 .. 3   | product of Gauss-Hermite rules         | 15^n or less | 29 (n = 1), 17 (2), 13 (3)      |
    | 4 .. 16  | fully symmetric (McNamee and Stenger)  | 2 n^2 + 1    | 5                               |
    | 17 ..    | +- sqrt(n) e_i                         | 2 n          | 3                               |

    So the local average of width w of a function that varies on the scale s is off by the order (w/s)^(degree + 1)
    where the function is smooth.  Both sides of a Gram matrix see the same points, so that it stays positive
    semi-definite for positive weights, and symmetric always.
    """
    if 0 < n <= 3:
        z, w = np.polynomial.hermite_e.hermegauss({1: 15, 2: 9, 3: 7}[n])
        grid = np.array(list(product(z, repeat=n)))
        return grid, np.array([np.prod(c) for c in product(w / w.sum(), repeat=n)])
    axes = np.concatenate([np.eye(n), -np.eye(n)])
    if n > 16:
        return np.sqrt(n) * axes, np.full(2 * n, 1 / (2 * n))
    pairs = np.zeros((2 * n * (n - 1), n))
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    for row, ((i, j), (a, b)) in enumerate(product(combinations(range(n), 2), signs)):
        pairs[row, [i, j]] = a, b
    # From E z_i^2 z_j^2 = 1 and E z_i^4 = 3, with all generators at sqrt(3).
    w_pair, w_axis = 1 / 36, (4 - n) / 18
    w_origin = 1 - 2 * n * w_axis - len(pairs) * w_pair
    weights = np.concatenate([[w_origin], np.full(2 * n, w_axis), np.full(len(pairs), w_pair)])
    return np.sqrt(3) * np.concatenate([np.zeros((1, n)), axes, pairs]), weights


def sharpen(atoms: Atoms) -> tuple[Any, Atoms]:
    """Replace blurred atoms by weighted sums of sharp ones: return W and sharp atoms with atoms ~ W @ sharp atoms."""
    if atoms.blur is None or atoms.per_point != 1:
        raise ValueError("Only blurred atoms, one at each point, are replaced by a cubature.")
    covariance = np.diag(atoms.blur) if atoms.blur.ndim == 1 else atoms.blur
    values, vectors = np.linalg.eigh(covariance)
    kept = values > values[-1] * EPS * len(values)
    z, weights = gaussian_rule(int(kept.sum()))
    steps = z @ (vectors[:, kept] * np.sqrt(values[kept])).T  # (p, n)
    xp = namespace(atoms.points)
    points = xp.reshape(atoms.points[:, None, :] + like(steps, atoms.points), (-1, atoms.dimension))
    directions = atoms.directions
    if not atoms.shared:
        directions = xp.repeat(directions, len(weights), axis=0)
    matrix = scipy.sparse.kron(scipy.sparse.eye_array(atoms.size), weights[None, :], format="csr")
    return matrix, Atoms(points, directions)
