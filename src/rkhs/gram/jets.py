"""Jets: the product with a Gram matrix of values and first derivatives that never forms it.

All functionals of order at most one at the points y_j are linear in the values and gradients of f there
(its 1-jet).  For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), coefficients c_j on the values and A_j on
the gradients at y_j give

    f(x_i)      =  sum_j  phi c_j + phi' S_ij                     S_ij = <A_j, x_i - rho y_j>
    grad f(x_i) =  sum_j  Q_ij (y_j - rho x_i) + phi' A_j         Q_ij = phi' c_j + phi'' S_ij

(phi, phi', phi'' at q_ij): four matrix products of t x t x n and some element-wise work on tiles that stay
in the cache.  The column of ones that makes S and the row sums of Q part of those products is all the
overhead that rho = 1 has.  Directional derivatives scatter their coefficients to A_j before, and contract
grad f with their directions after.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, add_at, like, namespace
from rkhs.backend.memory import tile_entries, tiles
from rkhs.calculus.atoms import Atoms, LinearMap
from rkhs.calculus.forms import Form, near_pairs
from rkhs.functionals.base import Part

ORDER = 1  # of the jets: parts up to this order of derivative take part
COPIES = 8  # arrays of the size of a tile that are alive at once, at most


@dataclass(frozen=True, eq=False)
class Jets:
    """The 1-jets of r functions at t points, or coefficients on them; None for a part that is not needed."""

    values: Array | None  # (t, r)
    gradients: Array | None  # (r, t, n)

    @property
    def count(self) -> int:
        """r."""
        return int(self.values.shape[1] if self.values is not None else self.gradients.shape[0])  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class JetPoints:
    """One set of points with the parts of a family that read or write jets there."""

    points: Array  # (t, n), centred and mapped
    parts: tuple[Part, ...]
    linear: LinearMap

    @property
    def given(self) -> Array:
        """The points as they were given."""
        return self.parts[0].atoms.points

    @cached_property
    def halves(self) -> Array:
        """|x|^2 / 2, (t,)."""
        return namespace(self.points).sum(self.points * self.points, axis=1) / 2

    @cached_property
    def augmented(self) -> Array:
        """[X, 1], (t, n + 1)."""
        xp = namespace(self.points)
        return xp.concat([self.points, xp.ones_like(self.points[:, :1])], axis=1)

    def scatter(self, v: Array) -> Jets:
        """The coefficients of the jets, from those (size, r) of the functionals."""
        c = A = None
        for part in self.parts:
            own = part.adjoint(v)
            if part.atoms.order == 0:
                c = own if c is None else c + own
            else:
                spread = _spread(part.atoms, own)
                A = spread if A is None else A + spread
        return Jets(c, None if A is None else _mapped(A, self.linear))

    def zeros(self, r: int) -> Jets:
        """Room for the jets that the parts need."""
        t, n = self.points.shape
        orders = {part.atoms.order for part in self.parts}
        values = like(np.zeros((t, r)), self.points) if 0 in orders else None
        return Jets(values, like(np.zeros((r, t, n)), self.points) if 1 in orders else None)

    def contract(self, jets: Jets, out: Array) -> None:
        """Add the functionals of f to `out`, from the jets of f."""
        gradients = None if jets.gradients is None else _pulled_back(jets.gradients, self.linear)
        for part in self.parts:
            own = jets.values if part.atoms.order == 0 else _contracted(part.atoms, gradients)
            out[part.rows] += part.forward(own)


class JetProduct:
    """The product with the Gram matrix of two tuples of parts under phi(q)."""

    def __init__(self, form: Form, lefts: tuple[Part, ...], rights: tuple[Part, ...], budget: int) -> None:
        self.form = form
        self.budget = budget
        origin = None
        if form.rho:
            points = rights[0].atoms.points
            origin = namespace(points).mean(points, axis=0)
        self.rights = _by_points(rights, form.linear, origin)
        self.lefts = self.rights if lefts == rights else _by_points(lefts, form.linear, origin)

    def add_to(self, out: Array, v: Array) -> None:
        """out += G @ v."""
        sources = [(right, right.scatter(v)) for right in self.rights]
        for left in self.lefts:
            jets = left.zeros(v.shape[1])
            for right, coefficients in sources:
                self._add_jets(left, right, coefficients, jets)
            left.contract(jets, out)

    def _add_jets(self, left: JetPoints, right: JetPoints, coefficients: Jets, jets: Jets) -> None:
        """Add to the jets at the left points the formula at the top, tile by tile."""
        c: Array = coefficients.values
        A: Array = coefficients.gradients
        f: Array = jets.values
        g: Array = jets.gradients
        rho = self.form.rho
        xp = namespace(left.points)
        slope_points, slope_A = left.points, A
        if rho and A is not None:  # [X, 1] and [A, -<A, y>], so that S is one product
            slope_points = left.augmented
            slope_A = xp.concat([A, -xp.vecdot(A, right.points, axis=-1)[:, :, None]], axis=2)
        last = (g is not None) + (A is not None)
        first = 0 if c is not None and f is not None else min(last, 1)
        entries = tile_entries(self.budget, left.points, COPIES)
        for i, j in tiles(left.points.shape[0], right.points.shape[0], entries):
            q = left.points[i] @ right.points[j].T
            if rho:
                q -= left.halves[i][:, None]
                q -= right.halves[j]
            near = [] if self.form.smooth else _mended(self.form, q, left, right, i, j)
            phi = self.form.ladder(q, range(first, last + 1))
            if last:
                for a, b, difference in near:
                    _add_near(phi, a, b, difference, _part(coefficients, j), _part(jets, i))
            if first == 0 and f is not None:
                f[i] += phi[0] @ c[j]
            for r in range(jets.count if last else 0):
                Q = None
                if A is not None:
                    Q = slope_points[i] @ slope_A[r, j].T  # S, until phi'' is on it
                    if f is not None:
                        f[i, r] += xp.vecdot(phi[1], Q, axis=-1)
                    if g is not None:
                        g[r, i] += phi[1] @ A[r, j]
                        Q *= phi[2]
                if g is None:
                    continue
                if c is not None:
                    from_values = phi[1] * c[j, r]
                    Q = from_values if Q is None else Q + from_values
                moved = Q @ (right.augmented if rho else right.points)[j]
                g[r, i] += moved[:, :-1] - moved[:, -1:] * left.points[i] if rho else moved


def _part(jets: Jets, rows: slice) -> Jets:
    """Views of the jets at some of the points."""
    values = None if jets.values is None else jets.values[rows]
    return Jets(values, None if jets.gradients is None else jets.gradients[:, rows])


def _mended(
    form: Form, q: Array, left: JetPoints, right: JetPoints, i: slice, j: slice
) -> list[tuple[Array, Array, Array]]:
    """Recompute q at near points (a, b) from their differences, in place; return a, b and the differences."""
    xp = namespace(q)
    squares = 2 * float(xp.max(left.halves) + xp.max(right.halves))
    found = []
    for a, b in near_pairs(q, squares, left.given.shape[1]):
        difference = form.difference(left.given[i][a], right.given[j][b])
        q[a, b] = -xp.vecdot(difference, difference, axis=-1) / 2
        found.append((a, b, difference))
    return found


def _add_near(phi: dict[int, Array], a: Array, b: Array, difference: Array, coefficients: Jets, jets: Jets) -> None:
    """Add the share of near points from their differences x - y, and take it out of the rungs of the tile."""
    xp = namespace(difference)
    rungs = {k: rung[a, b] for k, rung in phi.items()}
    for rung in phi.values():
        rung[a, b] = 0.0
    for r in range(jets.count):
        c = None if coefficients.values is None else coefficients.values[b, r]
        A = None if coefficients.gradients is None else coefficients.gradients[r][b]
        slope = None if A is None else xp.vecdot(A, difference, axis=-1)
        if jets.values is not None:
            add_at(jets.values[:, r], a, _total([(rungs.get(0), c), (rungs.get(1), slope)]))
        if jets.gradients is not None:
            Q = _total([(rungs.get(1), c), (rungs.get(2), slope)])
            straight = 0.0 if A is None else rungs[1][:, None] * A
            add_at(jets.gradients[r], a, straight - Q[:, None] * difference)


def _total(terms: list[tuple[Array | None, Array | None]]) -> Array:
    """The sum of the products of which both factors are there."""
    return sum(one * other for one, other in terms if one is not None and other is not None)


def _by_points(parts: tuple[Part, ...], linear: LinearMap, origin: Array | None) -> list[JetPoints]:
    """The parts grouped by the points they share."""
    groups: list[list[Part]] = []
    for part in parts:
        for group in groups:
            if _same(group[0].atoms.points, part.atoms.points):
                group.append(part)
                break
        else:
            groups.append([part])
    found = []
    for group in groups:
        points = group[0].atoms.points
        centred = Atoms.values(points if origin is None else points - origin)
        found.append(JetPoints(centred.pushed(linear).points, tuple(group), linear))
    return found


def _same(one: Array, other: Array) -> bool:
    return one is other or (one.shape == other.shape and bool(namespace(one).all(one == other)))


def _mapped(A: Array, linear: LinearMap) -> Array:
    """Gradient coefficients after the change of input: A'."""
    if linear is None:
        return A
    matrix = like(linear, A)
    return A * matrix if matrix.ndim == 1 else A @ matrix.T


def _pulled_back(gradients: Array, linear: LinearMap) -> Array:
    """The gradient of f(A x) from that of f at A x."""
    if linear is None:
        return gradients
    matrix = like(linear, gradients)
    return gradients * matrix if matrix.ndim == 1 else gradients @ matrix


def _is_gradient(atoms: Atoms) -> bool:
    """Whether the directions are all unit vectors in turn, so that nothing needs to be multiplied."""
    if not atoms.shared or atoms.per_point != atoms.dimension:
        return False
    xp = namespace(atoms.directions)
    return bool(xp.all(atoms.directions[:, 0, :] == like(np.eye(atoms.dimension), atoms.directions)))


def _spread(atoms: Atoms, coefficients: Array) -> Array:
    """A_i = sum_a alpha_ia V_ia: (r, t, n) from (t k, r)."""
    xp = namespace(coefficients)
    t, k, r = atoms.points.shape[0], atoms.per_point, coefficients.shape[1]
    alpha = xp.reshape(coefficients, (t, k, r))
    if not atoms.shared:
        return xp.permute_dims(xp.matrix_transpose(alpha) @ atoms.directions[:, :, 0, :], (1, 0, 2))
    alpha = xp.permute_dims(alpha, (2, 0, 1))
    return xp.asarray(alpha, copy=True) if _is_gradient(atoms) else alpha @ atoms.directions[:, 0, :]


def _contracted(atoms: Atoms, gradients: Any) -> Array:
    """<V_ia, g_i>: (t k, r) from (r, t, n)."""
    xp = namespace(gradients)
    t, k, r = atoms.points.shape[0], atoms.per_point, gradients.shape[0]
    if not atoms.shared:
        found = atoms.directions[:, :, 0, :] @ xp.permute_dims(gradients, (1, 2, 0))  # (t, k, r)
    else:
        along = gradients if _is_gradient(atoms) else gradients @ atoms.directions[:, 0, :].T  # (r, t, k)
        found = xp.permute_dims(along, (1, 2, 0))
    return xp.reshape(found, (t * k, r))
