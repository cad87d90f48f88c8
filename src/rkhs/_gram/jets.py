"""Jets: the product with a Gram matrix of values and first derivatives that never forms it.

All functionals of order at most one at the points y_j are linear in the values and gradients of f there
(its 1-jet).  For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), coefficients c_j on the values and A_j on
the gradients at y_j give

    f(x_i)      =  sum_j  phi c_j + phi' S_ij                     S_ij = <A_j, x_i - rho y_j>
    grad f(x_i) =  sum_j  Q_ij (y_j - rho x_i) + phi' A_j         Q_ij = phi' c_j + phi'' S_ij

(phi, phi', phi'' at q_ij): four matrix products of t x t x n and some element-wise work on tiles that stay
in the cache.  The column of ones that makes S and the row sums of Q part of those products is all the
overhead that rho = 1 has.  Directional derivatives scatter their coefficients to A_j = sum_a alpha_ja V_ja before,
and contract grad f with their directions, <V_ia, grad f(x_i)>, after.

In the product of a family with itself, tile (j, i) has the rungs of tile (i, j): half of the element-wise
work and an eighth of the matrix products are saved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from rkhs._backend.arrays import Array, add_at, inner, like, namespace, zeros
from rkhs._backend.memory import on_cpu, tile_entries, tiles
from rkhs._backend.precision import Products
from rkhs._backend.threads import cores, in_threads
from rkhs._calculus.atoms import Atoms, LinearMap
from rkhs._calculus.forms import Form, near_pairs
from rkhs.functionals.base import Part

ORDER = 1  # of the jets: parts up to this order of derivative take part
SHARED, EACH = 2**20, 4  # pairs of points from which threads share the tiles; tiles each has, so that all end together


@dataclass(frozen=True, eq=False)
class Jets:
    """The 1-jets of r functions at t points, or coefficients on them; None for a part that is not needed."""

    values: Array | None  # (t, r)
    gradients: Array | None  # (r, t, n)

    @property
    def count(self) -> int:
        """r."""
        if self.values is not None:
            return int(self.values.shape[1])
        return 0 if self.gradients is None else int(self.gradients.shape[0])

    @property
    def nbytes(self) -> int:
        """How much memory they take, counted as float64."""
        return sum(8 * prod(array.shape) for array in (self.values, self.gradients) if array is not None)

    def zeros(self) -> Jets:
        """Return zeros of the same shapes."""
        arrays = (self.values, self.gradients)
        return Jets(*(None if array is None else zeros(array.shape, array) for array in arrays))

    def add(self, other: Jets) -> None:
        """Add other jets, in place."""
        if self.values is not None:
            self.values[...] += other.values
        if self.gradients is not None:
            self.gradients[...] += other.gradients


@dataclass(frozen=True, eq=False)
class JetPoints:
    """One set of points with the parts of a family that read or write jets there."""

    points: Array  # (t, n), centred and mapped
    parts: tuple[Part, ...]
    linear: LinearMap
    products: Products

    @property
    def given(self) -> Array:
        """The points as they were given."""
        return self.parts[0].atoms.points

    @cached_property
    def halves(self) -> Array:
        """|x|^2 / 2, (t,)."""
        return namespace(self.points).sum(self.points * self.points, axis=1) / 2

    @cached_property
    def largest(self) -> float:
        """The largest of the halves."""
        return float(namespace(self.points).max(self.halves)) if self.halves.shape[0] else 0.0

    @cached_property
    def fine(self) -> Any:
        """X as an operand of fine products."""
        return self.products.fine.operand(self.points)

    @cached_property
    def plain(self) -> tuple[Any, Any]:
        """X as operands by rows and by columns."""
        return self.products.operands(self.points)

    @cached_property
    def augmented(self) -> tuple[Any, Any]:
        """[X, 1] as operands by rows and by columns, see `augmented`."""
        return self.products.operands(augmented(self.points, namespace(self.points).ones_like(self.points[:, :1])))

    def scatter(self, v: Array) -> Jets:
        """Return the coefficients of the jets, from those (size, r) of the functionals."""
        c = A = None
        for part in self.parts:
            own = part.adjoint(v)
            if part.atoms.order == 0:
                c = own if c is None else c + own
            else:
                spread = _spread(part.atoms, own)
                A = spread if A is None else A + spread
        if A is not None and self.linear is not None:  # after the change of input
            A = A * self.linear if self.linear.ndim == 1 else A @ self.linear.T
        return Jets(c, A)

    def zeros(self, r: int) -> Jets:
        """Return zeros for the jets that the parts need."""
        t, n = self.points.shape
        orders = {part.atoms.order for part in self.parts}
        values = zeros((t, r), self.points) if 0 in orders else None
        return Jets(values, zeros((r, t, n), self.points) if 1 in orders else None)

    def contract(self, jets: Jets, out: Array) -> None:
        """Add the functionals of f to `out`, from the jets of f."""
        gradients = jets.gradients
        if gradients is not None and self.linear is not None:  # of f(A x), from those of f at A x
            gradients = gradients * self.linear if self.linear.ndim == 1 else gradients @ self.linear
        for part in self.parts:
            own = jets.values if part.atoms.order == 0 else _contracted(part.atoms, gradients)
            out[part.rows] += part.forward(own)


def augmented(A: Array, column: Array) -> Array:
    """Return [A, column], on accelerators with zeros up to a multiple of 8 columns: tensor cores need aligned rows."""
    more = 0 if on_cpu(A) else -(A.shape[-1] + 1) % 8
    return namespace(A).concat([A, column, zeros((*A.shape[:-1], more), A)], axis=-1)


def by_points(parts: tuple[Part, ...], linear: LinearMap, origin: Array | None, products: Products) -> list[JetPoints]:
    """Group the parts by the points they share."""
    groups: list[list[Part]] = []
    for part in parts:
        known = [group for group in groups if same_points(group[0].atoms.points, part.atoms.points)]
        if known:
            known[0].append(part)
        else:
            groups.append([part])
    found = []
    for group in groups:
        points = group[0].atoms.points
        centred = Atoms.values(points if origin is None else points - origin)
        here = None if linear is None else like(linear, points)
        found.append(JetPoints(centred.pushed(linear).points, tuple(group), here, products))
    return found


def same_points(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same points in the same order."""
    return one is other or (one.shape == other.shape and bool(namespace(one).all(one == other)))


def _spread(atoms: Atoms, coefficients: Array) -> Array:
    """A_i = sum_a alpha_ia V_ia: (r, t, n) from (t k, r)."""
    xp = namespace(coefficients)
    t, k, r = atoms.points.shape[0], atoms.per_point, coefficients.shape[1]
    alpha = xp.reshape(coefficients, (t, k, r))
    if not atoms.shared:
        return xp.permute_dims(xp.matrix_transpose(alpha) @ atoms.directions[:, :, 0, :], (1, 0, 2))
    alpha = xp.permute_dims(alpha, (2, 0, 1))
    return xp.asarray(alpha, copy=True) if atoms.gradient else alpha @ atoms.directions[:, 0, :]


def _contracted(atoms: Atoms, gradients: Any) -> Array:
    """<V_ia, g_i>: (t k, r) from (r, t, n)."""
    xp = namespace(gradients)
    t, k, r = atoms.points.shape[0], atoms.per_point, gradients.shape[0]
    if not atoms.shared:
        found = atoms.directions[:, :, 0, :] @ xp.permute_dims(gradients, (1, 2, 0))  # (t, k, r)
    else:
        along = gradients if atoms.gradient else gradients @ atoms.directions[:, 0, :].T  # (r, t, k)
        found = xp.permute_dims(along, (1, 2, 0))
    return xp.reshape(found, (t * k, r))


@dataclass(frozen=True, eq=False)
class Flow:
    """From coefficients at the source points to the jets of f at the target points: the formula at the top."""

    rho: int
    source: JetPoints
    coefficients: Jets
    target: JetPoints
    jets: Jets
    products: Products

    @cached_property
    def rungs(self) -> range:
        """The derivatives of phi that take part."""
        last = (self.jets.gradients is not None) + (self.coefficients.gradients is not None)
        values = self.jets.values is not None and self.coefficients.values is not None
        return range(0 if values else min(last, 1), last + 1)

    @cached_property
    def slopes(self) -> tuple[Any, Any]:
        """[A, -<A, y>], whose product with [X, 1] is S; A for a dot product.  As operands by rows and by columns."""
        A: Array = self.coefficients.gradients
        if self.rho:
            A = augmented(A, -inner(A, self.source.points)[:, :, None])
        return self.products.operands(A)

    @cached_property
    def sums(self) -> Array:
        """Room for sum_j Q_ij, (r, t): what rho x_i is multiplied with in the end."""
        return zeros((self.jets.count, self.target.points.shape[0]), self.target.points)

    def add(self, phi: dict[int, Array], first: Any, i: slice, j: slice, mirrored: bool = False) -> None:
        """Add the share of the source points j to the jets at the target points i; `first` is phi' as an operand.

        The rungs of a mirrored tile are transposed, and what meets them is laid out as they are.
        """
        c: Array = self.coefficients.values
        A: Array = self.coefficients.gradients
        f: Array = self.jets.values
        g: Array = self.jets.gradients
        n = self.source.points.shape[1]
        (X, _), (_, anchors) = (p.augmented if self.rho else p.plain for p in (self.target, self.source))
        X, anchors = X[i], anchors[j]
        if self.rungs[0] == 0:
            f[i] += phi[0] @ c[j]
        for r in range(self.jets.count if self.rungs[-1] else 0):
            if A is None:
                Q = self.products.operand(phi[1] * c[j, r])
            else:
                B, columns = (slopes[r, j] for slopes in self.slopes)
                straight = self.products(first, columns)
                if f is not None:  # sum_j phi' S_ij, of straight * [X, 1]
                    along = inner(straight[:, :n], self.target.points[i])
                    f[i, r] += along + straight[:, n] if self.rho else along
                if g is None:
                    continue
                g[r, i] += straight[:, :n]
                S = self.products(B, X.T).T if mirrored else self.products(X, B.T)
                Q = self.products.combined(S, phi[2], phi[1], None if c is None else c[j, r])
            moved = self.products(Q, anchors)
            g[r, i] += moved[:, :n]
            if self.rho:
                self.sums[r, i] += moved[:, n]

    def add_near(self, rungs: dict[int, Array], i: Array, j: Array, difference: Array) -> None:
        """Add the shares of pairs of near points, from their differences x - y."""
        for r in range(self.jets.count):
            c = None if self.coefficients.values is None else self.coefficients.values[j, r]
            A = None if self.coefficients.gradients is None else self.coefficients.gradients[r][j]
            slope = None if A is None else namespace(A).vecdot(A, difference, axis=-1)
            if self.jets.values is not None:
                add_at(self.jets.values[:, r], i, _total([(rungs.get(0), c), (rungs.get(1), slope)]))
            if self.jets.gradients is not None:
                Q = _total([(rungs.get(1), c), (rungs.get(2), slope)])
                straight = 0.0 if A is None else rungs[1][:, None] * A
                add_at(self.jets.gradients[r], i, straight - Q[:, None] * difference)

    def apart(self) -> Flow:
        """Return the same flow to jets of its own, zero so far."""
        other = replace(self, jets=self.jets.zeros())
        if self.coefficients.gradients is not None and self.rungs[-1]:
            other.__dict__["slopes"] = self.slopes  # which are made once
        return other

    def gather(self, other: Flow) -> None:
        """Add the jets of a flow that was apart."""
        self.jets.add(other.jets)
        if "sums" in other.__dict__:
            self.sums[...] += other.sums

    def finish(self) -> None:
        """Take away rho x_i sum_j Q_ij, once all tiles are in."""
        if self.rho and self.jets.gradients is not None:
            self.jets.gradients[...] -= self.sums[:, :, None] * self.target.points


class JetProduct:
    """The product with the Gram matrix of two tuples of parts under phi(q)."""

    def __init__(
        self,
        form: Form,
        lefts: tuple[Part, ...],
        rights: tuple[Part, ...],
        weight: float,
        budget: int,
        products: Products,
    ) -> None:
        self.form = form
        self.weight = weight
        self.budget = budget
        self.products = products
        origin = None
        if form.rho:
            points = rights[0].atoms.points
            origin = namespace(points).mean(points, axis=0)
        self.rights = by_points(rights, form.linear, origin, products)
        self.lefts = self.rights if lefts == rights else by_points(lefts, form.linear, origin, products)

    @property
    def steady(self) -> bool:
        """Whether the product does the same to all numbers: no near points to look for, nothing from another device."""
        groups = self.lefts + self.rights
        furthest = (max(group.largest for group in side) for side in (self.lefts, self.rights))
        return not self.form.careful(sum(furthest)) and all(p.matrix is None for group in groups for p in group.parts)

    def add_to(self, out: Array, v: Array) -> None:
        """out += G @ v."""
        rho, symmetric = self.form.rho, self.lefts is self.rights
        coefficients = [right.scatter(self.weight * v) for right in self.rights]
        jets = [left.zeros(v.shape[1]) for left in self.lefts]
        for a, left in enumerate(self.lefts):
            for b, right in enumerate(self.rights):
                flow = Flow(rho, right, coefficients[b], left, jets[a], self.products)
                if not symmetric:
                    self.add_flow(flow)
                elif a == b:
                    self.add_flow(flow, flow)
                elif a < b:
                    self.add_flow(flow, Flow(rho, left, coefficients[a], right, jets[b], self.products))
        for left, found in zip(self.lefts, jets, strict=True):
            left.contract(found, out)

    def add_flow(self, flow: Flow, back: Flow | None = None) -> None:
        """Add the jets of a flow, tile by tile; and those of the flow back, which needs the same rungs.

        A flow that is its own way back only takes the tiles on and above the diagonal.
        """
        t, s = flow.target.points.shape[0], flow.source.points.shape[0]
        hands = 1
        if t * s >= SHARED:  # as many threads as there are cores, where each has work and its jets fit
            room = flow.jets.nbytes + (0 if back is None or back is flow else back.jets.nbytes)
            hands = max(1, min(cores(flow.target.points), self.budget // (2 * max(room, 1)), t * s * 2 // SHARED))
        entries = tile_entries(self.budget // hands, flow.target.points)
        if hands > 1:
            entries = min(entries, t * s // (EACH * hands))
        work = [(i, j) for i, j in tiles(t, s, entries) if flow is not back or i.start <= j.start]
        # Each thread adds up jets of its own, from tiles that depend on nothing but their number: sums repeat.
        own = [flow] if hands == 1 else [flow.apart() for _ in range(hands)]
        backs = own if back is flow else [back if hands == 1 or back is None else back.apart() for _ in range(hands)]

        def add(item: tuple[int, slice, slice]) -> None:
            k, i, j = item
            self._add_tile(own[k], None if flow is back and i == j else backs[k], i, j)

        shares = [[(k, i, j) for i, j in work[k::hands]] for k in range(hands)]
        if hands == 1:
            for item in shares[0]:
                add(item)
        else:
            in_threads(add, shares)
            for mine, returned in zip(own, backs, strict=True):
                flow.gather(mine)
                if back is not None and back is not flow and returned is not None:
                    back.gather(returned)
        flow.finish()
        if back is not None and back is not flow:
            back.finish()

    def quadratic(self, left: JetPoints, right: JetPoints, i: slice, j: slice) -> Array:
        """q of the points i and j, a difference of large numbers."""
        q = self.products.fine(left.fine[i], right.fine[j].T)
        if self.form.rho:
            q -= left.halves[i][:, None]
            q -= right.halves[j]
        return q

    def _add_tile(self, flow: Flow, back: Flow | None, i: slice, j: slice) -> None:
        left, right = flow.target, flow.source
        q = self.quadratic(left, right, i, j)
        near = []
        if self.form.careful(left.largest + right.largest):  # there, q and the slopes come from the differences
            near = list(near_pairs(self.form, q, left.halves[i], right.halves[j], left.points.shape[1]))
        for a, b in near:
            difference = self.form.difference(left.given[i][a], right.given[j][b])
            q[a, b] = -namespace(q).vecdot(difference, difference, axis=-1) / 2
        phi = self.form.ladder(q, flow.rungs)
        for a, b in near if flow.rungs[-1] else []:
            difference = self.form.difference(left.given[i][a], right.given[j][b])
            rungs = {k: rung[a, b] for k, rung in phi.items()}
            flow.add_near(rungs, a + i.start, b + j.start, difference)
            if back is not None:
                back.add_near(rungs, b + j.start, a + i.start, -difference)
            for rung in phi.values():
                rung[a, b] = 0.0
        first = self.products.operand(phi[1]) if 1 in phi else None
        flow.add(phi, first, i, j)
        if back is not None:
            transposed = None if first is None else first.T
            back.add({k: rung.T for k, rung in phi.items()}, transposed, j, i, mirrored=True)


def _total(terms: list[tuple[Array | None, Array | None]]) -> Array:
    """Return the sum of the products of which both factors are there."""
    return sum(one * other for one, other in terms if one is not None and other is not None)
