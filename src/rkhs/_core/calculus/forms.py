"""Derivatives of kernels k(x, y) = phi(q(x, y)), with q one of the two quadratic forms of the classical kernels.

    q(x, y) = <x, y> - rho/2 (|x|^2 + |y|^2)

is the dot product for rho = 0 and minus half the squared distance for rho = 1.  Its derivatives along directions u in x
and v in y are

    q_u = <u, y - rho x>      q_v = <v, x - rho y>
    q_uu' = -rho <u, u'>      q_vv' = -rho <v, v'>      q_uv = <u, v>

and all third derivatives vanish.  So one formula gives all derivatives of k, for directions w_1 .. w_n in either
argument:

    D_{w1..wn} phi(q) = sum over partial matchings M of {1..n}:
        phi^(n-|M|)(q) * prod_{(i,j) in M} q_ij * prod_{i unmatched} q_i

with q_i the slope of q along w_i and q_ij its curvature along w_i and w_j (Faa di Bruno's formula with blocks of sizes
one and two).  It has two terms for n = 2 and ten for n = 4.  The minus sign of the distance is deliberate: phi' is then
positive for the positive definite radial kernels, all derivatives of the Gaussian exp(q) are the same array, and a
single formula serves both forms.

*Near points.*  As a difference of large numbers, q has an absolute error of eps (|x|^2 + |y|^2).  It matters for a
kernel that is smooth in q only if the points are many length scales from their center, but always near r = 0 for a
kernel that is a function of the distance r = sqrt(-2q), such as Matern.  Then q and its slopes at near points are
computed from the difference x - y itself.  In few dimensions, where many points may be near each other, q is computed
from differences at all pairs (`Form.direct`).  For the same reason radial forms center the points before A maps them,
unless they are sparse.  What remains is bounded by `Form.moved`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import combinations
from math import inf, prod
from operator import add, mul
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, inner, namespace, zeros
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.atoms import AllPairs, Atoms, LinearMap, Pairing, check_map, mapped

# Pairs with r^2 below this fraction of |x|^2 + |y|^2 are near.  For all others the relative error of r^2 is at most
# eps / NEAR = 1000 eps.
NEAR = 1e-3
# Up to this |x|^2/2 + |y|^2/2 a kernel that is smooth in q needs no correction at near points: the absolute error of q
# is at most FAR * eps, 2e-14 in float64 and 1e-5 in float32.
FAR = 100.0
# Up to this dimension, and from this |x|^2/2 + |y|^2/2 on, q is a sum of squared differences at all pairs, which takes
# up to twice as long.
DIRECT, SPREAD = 3, 20.0

ENTRIES = 2**20  # entries of the differences of near points that are computed at once, 8 MiB
NONZEROS = 2**8  # nonzeros that a sparse difference is assumed to have

FEW = 8  # directions up to which all matchings are listed; there are 764 of 8, and 23,758,664,096 of 20
STATES = 2**12  # the most multisets of directions that a derivative of high order may need, as of 12 different ones

# (q, orders) -> {k: phi^(k)(q) for k in orders}.  Derivatives that are singular at q = 0 must return finite numbers
# there.  q may be overwritten: tiles are large, and each allocation costs time.
RadialDerivatives = Callable[[Array, range], dict[int, Array]]


@dataclass(frozen=True, eq=False)
class Form:
    """A kernel of the dot product or the distance, with all its derivatives.

        k(x, y) = phi(q(A x, A y)),    q(x, y) = <x, y> - rho/2 (|x|^2 + |y|^2)

    Parameters
    ----------
    rho : {0, 1}
        The quadratic form q: the dot product (0), or minus half the squared distance (1).
    radial_derivatives : callable
        The function (q, orders) -> {k: phi^(k)(q) for k in orders}.  It may overwrite q.
    smooth : bool
        Whether phi is smooth in q at q = 0; if not, q is recomputed at near points, where it suffers from cancellation.
    linear : ndarray of shape (n,) or (m, n), optional
        The linear map A: one factor per feature, or a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import Form
    >>> gaussian = Form(1, lambda q, orders: dict.fromkeys(orders, np.exp(q)), smooth=True)
    >>> float(np.round(gaussian.difference(np.array([2.0]), np.array([0.5]))[0], 2))
    1.5
    """

    rho: int
    radial_derivatives: RadialDerivatives
    smooth: bool
    linear: LinearMap = None

    def careful(self, largest: float) -> bool:
        """Return whether q needs a correction at near points.

        Parameters
        ----------
        largest : float
            The largest |x|^2/2 + |y|^2/2.

        Returns
        -------
        bool
            True for a radial form that is not smooth in q, or whose points are far from the origin.
        """
        return bool(self.rho) and not (self.smooth and largest <= FAR)

    def direct(self, dimension: int, largest: float = inf) -> bool:
        """Return whether q is computed from the differences of all pairs of dense points, not only of near ones.

        Parameters
        ----------
        dimension : int
            The dimension n of the points.
        largest : float, default=inf
            The largest |x|^2/2 + |y|^2/2.

        Returns
        -------
        bool
            True for radial forms of spread points in few dimensions, unless a matrix mixes the features.
        """
        diagonal = self.linear is None or self.linear.ndim == 1
        return bool(self.rho) and diagonal and dimension <= DIRECT and largest > SPREAD

    def from_differences(self, x: Array, y: Array) -> Array:
        """Return q = -1/2 sum_j a_j^2 (x_j - y_j)^2 at all pairs, accurate to rounding wherever the points are.

        Parameters
        ----------
        x, y : array of shape (t, n) and (s, n)
            The points, before A maps them.

        Returns
        -------
        array of shape (t, s)
            The values of q.
        """
        factors = np.ones(x.shape[1]) if self.linear is None else self.linear
        check_map(factors, int(x.shape[1]))
        # One scale for all features is applied once, unless squares of other units might overflow.
        common = float(factors[0]) if np.all(factors == factors[0]) and 1e-50 < factors[0] < 1e50 else 1.0
        q: Array = None
        for j, factor in enumerate((factors / common).tolist()):
            square = x[:, j, None] - y[None, :, j]
            if factor != 1:
                square *= factor
            square *= square
            if q is None:
                q = square
            else:
                q += square
        q *= -0.5 * common**2
        return q

    def moved(self, atoms: Atoms, rounded: bool = False) -> Array:
        """Return e^2 of each atom such that rounding of q and its slopes changes an entry of G by about eps e_i e_j.

        With h = |A x|^2 / 2, relative to the center of the points, q has an error of eps (h_i + h_j), and

            h_i + h_j  <=  2 sqrt(h_i h_j) + |q|

        where |q phi'(q)| is no larger than phi itself.  Near points are corrected, so |q| >= NEAR (h_i + h_j) for the
        others; as phi' is log-convex, |phi'(q)| <= sqrt(g(h_i) g(h_j)) with g(h) = |phi'(-2 NEAR h)|.  Each derivative
        along u adds a factor |A u| and an order to phi:

            e^2  =  2 h g(h) |A u_1|^2 .. |A u_m|^2,        g(h) = |phi^(m+1)(-2 NEAR h)|

        With q from differences (`direct`) h is at most `SPREAD`, and derivatives have the error of one slope, which is
        eps |A x| |A u|.  Points that are results of a map have moved by eps |x|.  Both change <z_i, z_j> by
        eps |x| |D z_i| |z_j|.

        Parameters
        ----------
        atoms : Atoms
            The atoms.
        rounded : bool, default=False
            Whether the points are results of a map, rather than exact.

        Returns
        -------
        array of shape (atoms.size,)
            The squares, zero for values where q is computed from differences.
        """
        xp, m, sparse = namespace(atoms.points), atoms.order, isinstance(atoms.points, SparseVectors)
        if not self.rho or not atoms.size:
            return zeros((atoms.size,), atoms.points)
        image = (atoms if sparse else atoms.shifted(xp.mean(atoms.points, axis=0))).pushed(self.linear)
        halves = inner(image.points, image.points) / 2
        phi = self.radial_derivatives(-2 * NEAR * halves, range(m, m + 2))
        squares = 2 * halves * abs(phi[m + 1])
        if not sparse and self.direct(atoms.dimension):
            slopes = min(m, 1) * 2 * xp.sqrt(squares * abs(phi[m]))
            squares = squares * (SPREAD / xp.clip(halves, SPREAD, None)) + slopes
        if rounded:
            x = mapped(atoms.points, self.linear)
            one = self.radial_derivatives(0 * halves - 0.5, range(m, m + 2))  # at r = 1; |D z| may be infinite at 0
            squares = squares + 2 * xp.sqrt(inner(x, x) * abs(one[m] * one[m + 1]))
        squares = squares[:, None]
        for i in range(m):
            u = image.u(i)
            squares = squares * inner(u, u)
        return xp.reshape(xp.broadcast_to(squares, (halves.shape[0], atoms.per_point)), (-1,))

    def difference(self, x: Array, y: Array) -> Array:
        """Return A (x - y); the subtraction is exact for near points.

        Parameters
        ----------
        x, y : array of shape (..., n)
            The points.

        Returns
        -------
        array of shape (..., m)
            The mapped differences.
        """
        return mapped(x - y, self.linear)

    def __call__(self, original: Pairing) -> Array:
        """Return the inner products of all atoms of a pairing, in the shape that `Pairing.flat` defines."""
        left, right = original.left, original.right
        if self.rho and right.size and not isinstance(right.points, SparseVectors):
            origin = namespace(right.points).mean(right.points, axis=0)
            left, right = left.shifted(origin), right.shifted(origin)
        left, right = left.pushed(self.linear), right.pushed(self.linear)
        pairing = type(original)(left, right)
        x, y = left.points[:, None, :], right.points[:, None, :]
        us = [left.u(i) for i in range(left.order)]
        vs = [right.u(i) for i in range(right.order)]

        direct = self.direct(left.dimension) and isinstance(pairing, AllPairs) and not isinstance(x, SparseVectors)
        if direct and left.size and right.size:
            direct = self.direct(left.dimension, sum(float(namespace(a).max(inner(a, a))) / 2 for a in (x, y)))
        if direct:
            q = self.from_differences(original.left.points, original.right.points)[:, None, :, None]
        else:
            # q = <x, y>, for rho = 1 completed below to -|x - y|^2 / 2
            q = pairing.between(x, y)
        # q_u = <u, y - rho x>,  q_v = <v, x - rho y>,  q_uv = <u, v>
        slopes = [pairing.between(u, y) for u in us] + [pairing.between(x, v) for v in vs]
        curvatures = {(i, len(us) + j): pairing.between(u, v) for i, u in enumerate(us) for j, v in enumerate(vs)}
        if self.rho:
            # In this order of operations k(x, y) = k(y, x) holds to the last digit.
            if not direct:
                q -= pairing.within_left(x, x) / 2 + pairing.within_right(y, y) / 2
            within = [pairing.within_left(u, x) for u in us] + [pairing.within_right(v, y) for v in vs]
            slopes = [slope - product for slope, product in zip(slopes, within, strict=True)]
            if 0 not in q.shape and not (direct and not slopes):
                correct_near(self, original, pairing, q, slopes)
            # q_uu' = -rho <u, u'>,  q_vv' = -rho <v, v'>
            for first, vectors, product in ((0, us, pairing.within_left), (len(us), vs, pairing.within_right)):
                for i, j in combinations(range(len(vectors)), 2):
                    curvatures[first + i, first + j] = -product(vectors[i], vectors[j])
        n = len(slopes)
        # D_w1..wn phi(q): n directions in pairs leave phi^(n/2), none in pairs phi^(n)
        phi = self.radial_derivatives(q, range((n + 1) // 2, n + 1))
        if n > FEW:
            kinds = _kinds(us) + [len(us) + kind for kind in _kinds(vs)]
            return pairing.flat(derivative_along_equal_directions(phi, slopes, curvatures, kinds))
        return pairing.flat(derivative(phi, slopes, curvatures))


def correct_near(form: Form, original: Pairing, pairing: Pairing, q: Array, slopes: list[Array]) -> None:
    """Recompute q and its slopes at near points in place, from the differences x - y of the original points."""
    xp, left, right = namespace(q), pairing.left, pairing.right
    us, vs = ([side.u(i) for i in range(side.order)] for side in (left, right))
    if not isinstance(pairing, AllPairs):
        if not form.careful(pairing.largest):
            return
        # With d = x - y:  q = -|d|^2 / 2,  q_u = -<u, d>,  q_v = <d, v>
        difference = form.difference(original.left.points, original.right.points)[:, None, :]
        q[...] = -inner(difference, difference) / 2
        exact = [-pairing.between(u, difference) for u in us] + [pairing.between(difference, v) for v in vs]
        for slope, exact_slope in zip(slopes, exact, strict=True):
            slope[...] = exact_slope
        return
    x_halves, y_halves = (inner(side.points, side.points) / 2 for side in (left, right))
    size = NONZEROS if isinstance(left.points, SparseVectors) else original.left.dimension
    tables = [xp.permute_dims(slope, (0, 2, 1, 3)) for slope in slopes]  # (t, s, k, 1) and (t, s, 1, l)
    for i, j in near_pairs(form, q[:, 0, :, 0], x_halves, y_halves, size):
        difference = form.difference(original.left.points[i], original.right.points[j])  # (p, n)
        q[i, 0, j, 0] = -inner(difference, difference) / 2
        for u, table in zip(us, tables, strict=False):
            table[i, j, :, 0] = -_along(u, difference, i)
        for v, table in zip(vs, tables[len(us) :], strict=True):
            table[i, j, 0] = _along(v, difference, j)


def near_pairs(form: Form, q: Array, x_halves: Array, y_halves: Array, dimension: int) -> Iterator[tuple[Array, Array]]:
    """Yield the indices (i, j) of near pairs that need a correction, in portions whose differences fit in memory.

    One pass over q selects the pairs that are near relative to the largest |x|^2/2 and |y|^2/2 (the `halves`).  Only
    those are compared with the norms of their points, so that an outlier does not make all other pairs near.
    """
    xp = namespace(q)
    largest = float(xp.max(x_halves) + xp.max(y_halves))
    if not form.careful(largest):
        return
    # |x - y|^2 / 2 = -q < NEAR (|x|^2 + |y|^2) / 2, first with the largest norms of all points
    (flat,) = xp.nonzero(xp.reshape(q > -NEAR * largest, (-1,)))
    i, j = flat // q.shape[1], flat % q.shape[1]
    near = q[i, j] > -NEAR * (x_halves[i] + y_halves[j])
    i, j = i[near], j[near]
    portion = max(1, ENTRIES // dimension)
    for start in range(0, i.shape[0], portion):
        yield i[start : start + portion], j[start : start + portion]


def _along(vectors: Array, difference: Array, point: Array) -> Array:
    """Return <vector, difference> (p, k) for each difference (p, n) and the k vectors of its point."""
    if isinstance(vectors, SparseVectors):
        return inner(vectors[point], difference[:, None, :])
    if vectors.shape[0] == 1:
        return difference @ vectors[0].T
    return namespace(vectors).sum(vectors[point] * difference[:, None, :], axis=-1)


Matching = tuple[tuple[tuple[int, int], ...], tuple[int, ...]]


@cache
def matchings(n: int) -> tuple[Matching, ...]:
    """Return all partial matchings of {0..n-1} as tuples (matched pairs, unmatched elements).

    Examples
    --------
    >>> matchings(2)
    (((), (0, 1)), (((0, 1),), ()))
    >>> [len(matchings(n)) for n in range(7)]
    [1, 1, 2, 4, 10, 26, 76]
    """
    if n == 0:
        return (((), ()),)
    # Direction n-1 is unmatched, or matched with one of the others:  M(n) = M(n-1) + (n-1) M(n-2)
    result = [(pairs, (*rest, n - 1)) for pairs, rest in matchings(n - 1)]
    for partner in range(n - 1):
        others = [i for i in range(n - 1) if i != partner]
        for pairs, rest in matchings(n - 2):
            renamed = tuple((others[i], others[j]) for i, j in pairs)
            result.append(((*renamed, (partner, n - 1)), tuple(others[i] for i in rest)))
    return tuple(result)


def derivative(phi: Mapping[int, Any], slopes: Sequence[Any], curvatures: Mapping[tuple[int, int], Any]) -> Any:
    """Return D_{w1..wn} phi(q) by the formula at the top of this module.

    Factors may be elements of any ring, such as arrays that broadcast or power series of arrays.  `phi[r]` is
    phi^(r)(q); pairs missing from `curvatures` have curvature zero.
    """
    n = len(slopes)
    by_order: dict[int, Any] = {}
    for pairs, rest in matchings(n):
        if any(pair not in curvatures for pair in pairs):
            continue
        factors = [curvatures[pair] for pair in pairs] + [slopes[i] for i in rest]
        if not factors:
            return phi[0]
        # prod_{(i,j) in M} q_ij * prod_{i unmatched} q_i, collected by the order n - |M| of phi
        product = reduce(mul, factors)
        order = n - len(pairs)
        by_order[order] = by_order[order] + product if order in by_order else product
    return reduce(add, (phi[order] * coefficient for order, coefficient in by_order.items()))


def derivative_along_equal_directions(
    phi: Mapping[int, Any],
    slopes: Sequence[Any],
    curvatures: Mapping[tuple[int, int], Any],
    kinds: Sequence[int],
) -> Any:
    """Return `derivative` for many directions, of which few are different: those with equal `kinds` are the same.

    The coefficient c_r(S) of phi^(r) in D_S phi(q) depends on how often S has each kind.  With any i in S,

        c_r(S)  =  q_i c_(r-1)(S - i)  +  sum over the kinds j in S - i of  #j q_ij c_(r-1)(S - i - j)

    so that a tenth derivative along one direction on either side takes 121 multisets S.
    """
    counts = {kind: kinds.count(kind) for kind in kinds}
    if (states := prod(count + 1 for count in counts.values())) > STATES:
        raise ValueError(
            f"The inner product of these derivatives is a sum over {states:,} multisets of {len(kinds)} directions, "
            f"at most {STATES:,} are supported: take derivatives of lower orders, or along fewer different directions."
        )
    slope = dict(zip(kinds, slopes, strict=True))
    curvature = {(kinds[i], kinds[j]): value for (i, j), value in curvatures.items()}
    curvature |= {(b, a): value for (a, b), value in curvature.items()}
    known: dict[tuple[int, ...], dict[int, Any]] = {(): {0: 1.0}}

    def coefficients(S: tuple[int, ...]) -> dict[int, Any]:
        if S not in known:
            rest, i = S[:-1], S[-1]
            terms = [(r, slope[i] * c) for r, c in coefficients(rest).items()]
            for j in set(rest) & {b for a, b in curvature if a == i}:
                at = rest.index(j)
                factor = rest.count(j) * curvature[i, j]
                terms += [(r, factor * c) for r, c in coefficients(rest[:at] + rest[at + 1 :]).items()]
            known[S] = {r + 1: sum(c for order, c in terms if order == r) for r in {order for order, _ in terms}}
        return known[S]

    return sum(phi[r] * c for r, c in coefficients(tuple(sorted(kinds))).items())


def _kinds(directions: Sequence[Array]) -> list[int]:
    """Return for each array of directions the index of the first one that is equal to it."""

    def same(u: Array, v: Array) -> bool:
        return not isinstance(u, SparseVectors) and bool(namespace(u).all(u == v))

    return [
        next(i for i, u in enumerate(directions[: k + 1]) if i == k or same(u, v)) for k, v in enumerate(directions)
    ]
