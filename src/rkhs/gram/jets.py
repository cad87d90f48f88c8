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
class JetPoints:
    """One set of points with the parts of a family that read or write jets there."""

    points: Array  # (t, n), mapped and centred
    parts: tuple[Part, ...]
    linear: LinearMap

    @cached_property
    def halves(self) -> Array:
        """|x|^2 / 2, (t,)."""
        return namespace(self.points).sum(self.points * self.points, axis=1) / 2

    @cached_property
    def augmented(self) -> Array:
        """[X, 1], (t, n + 1)."""
        xp = namespace(self.points)
        return xp.concat([self.points, xp.ones_like(self.points[:, :1])], axis=1)

    def has(self, order: int) -> bool:
        return any(part.atoms.order == order for part in self.parts)

    def scatter(self, v: Array) -> tuple[Array | None, Array | None]:
        """The coefficients c (t, r) and A (r, t, n) of the jets, from those of the functionals."""
        c = A = None
        for part in self.parts:
            own = part.adjoint(v)
            if part.atoms.order == 0:
                c = own if c is None else c + own
            else:
                spread = _spread(part.atoms, own)
                A = spread if A is None else A + spread
        return c, A if A is None else _mapped(A, self.linear)

    def contract(self, values: Array | None, gradients: Array | None, out: Array) -> None:
        """Add the functionals of f to `out`, from the values (t, r) and gradients (r, t, n) of f."""
        if gradients is not None:
            gradients = _pulled_back(gradients, self.linear)
        for part in self.parts:
            own = values if part.atoms.order == 0 else _contracted(part.atoms, gradients)
            out[part.rows] += part.forward(own)


class JetProduct:
    """v -> the product of the Gram matrix of two tuples of parts with v, added to `out`."""

    def __init__(self, form: Form, lefts: tuple[Part, ...], rights: tuple[Part, ...], budget: int) -> None:
        self.form = form
        self.budget = budget
        origin = None
        if form.rho:
            points = rights[0].atoms.pushed(form.linear).points
            origin = namespace(points).mean(points, axis=0)
        self.rights = _by_points(rights, form.linear, origin)
        self.lefts = self.rights if lefts is rights else _by_points(lefts, form.linear, origin)

    def add_to(self, out: Array, v: Array, weight: float) -> None:
        jets = [(right, *right.scatter(weight * v)) for right in self.rights]
        for left in self.lefts:
            t, n = left.points.shape
            r = v.shape[1]
            values = like(np.zeros((t, r)), v) if left.has(0) else None
            gradients = like(np.zeros((r, t, n)), v) if left.has(1) else None
            for right, c, A in jets:
                self._add_jets(left, right, c, A, values, gradients)
            left.contract(values, gradients, out)

    def _add_jets(
        self,
        left: JetPoints,
        right: JetPoints,
        c: Array | None,
        A: Array | None,
        values: Array | None,
        gradients: Array | None,
    ) -> None:
        """Add the formula at the top, tile by tile, to the values and gradients at the left points."""
        rho, slow = self.form.rho, not self.form.smooth
        xp = namespace(left.points)
        if A is not None and rho:  # [A, -<A, y>], so that S is one product with [X, 1]
            A_slope = xp.concat([A, -xp.sum(A * right.points, axis=2)[:, :, None]], axis=2)
        else:
            A_slope = A
        slope_points = left.augmented if rho else left.points
        top = (gradients is not None) + (A is not None)
        first = 0 if c is not None and values is not None else min(top, 1)
        entries = tile_entries(self.budget, left.points, COPIES)
        for i, j in tiles(left.points.shape[0], right.points.shape[0], entries):
            q = left.points[i] @ right.points[j].T
            near = []
            if rho:
                q -= left.halves[i][:, None]
                q -= right.halves[j]
                if slow:
                    near = self._mend(q, left, right, i, j)
            phi = self.form.ladder(q, range(first, top + 1))
            if near and top:
                self._add_near(near, phi, left, right, i, j, c, A, values, gradients)
            if c is not None and values is not None:
                values[i] += phi[0] @ c[j]
            for r in range(0 if top == 0 else (A if A is not None else c.T).shape[0]):
                Q = None
                if A is not None:
                    S = slope_points[i] @ A_slope[r, j].T
                    if values is not None:
                        values[i, r] += xp.vecdot(phi[1], S, axis=-1)
                    if gradients is not None:
                        gradients[r, i] += phi[1] @ A[r, j]
                        S *= phi[2]
                        Q = S
                if c is not None and gradients is not None:
                    Q = phi[1] * c[j, r] if Q is None else Q + phi[1] * c[j, r]
                if Q is not None:
                    if rho:
                        moved = Q @ right.augmented[j]
                        gradients[r, i] += moved[:, :-1] - moved[:, -1:] * left.points[i]
                    else:
                        gradients[r, i] += Q @ right.points[j]

    def _mend(self, q: Array, left: JetPoints, right: JetPoints, i: slice, j: slice) -> list[tuple[Array, Array, Array]]:
        """Recompute q at near points from their differences, in place; return the indices and differences."""
        xp = namespace(q)
        squares = 2 * float(xp.max(left.halves) + xp.max(right.halves))
        found = []
        for a, b in near_pairs(q, squares, left.points.shape[1]):
            difference = left.points[i][a] - right.points[j][b]
            q[a, b] = -xp.sum(difference * difference, axis=1) / 2
            found.append((a, b, difference))
        return found

    def _add_near(
        self,
        near: list[tuple[Array, Array, Array]],
        phi: dict[int, Array],
        left: JetPoints,
        right: JetPoints,
        i: slice,
        j: slice,
        c: Array | None,
        A: Array | None,
        values: Array | None,
        gradients: Array | None,
    ) -> None:
        """Add the near points' share from their differences, and take it out of the tile."""
        xp = namespace(left.points)
        for a, b, difference in near:
            rungs = {k: rung[a, b] for k, rung in phi.items()}
            for r in range((A if A is not None else c.T).shape[0]):  # type: ignore[union-attr]
                weight = 0.0 if c is None else c[j, r][b]
                slope = 0.0 if A is None else xp.sum(A[r, j][b] * difference, axis=1)
                if values is not None:
                    share = 0.0 if c is None else rungs[0] * weight
                    add_at(values[i, r], a, share if A is None else share + rungs[1] * slope)
                if gradients is not None:
                    Q = rungs[1] * weight + (rungs[2] * slope if A is not None else 0.0)
                    straight = 0.0 if A is None else rungs[1][:, None] * A[r, j][b]
                    add_at(gradients[r, i], a, straight - Q[:, None] * difference)
        for a, b, _ in near:
            for rung in phi.values():
                rung[a, b] = 0.0


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
        points = Atoms.values(group[0].atoms.points).pushed(linear).points
        found.append(JetPoints(points if origin is None else points - origin, tuple(group), linear))
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
