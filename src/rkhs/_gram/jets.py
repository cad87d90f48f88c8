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

In the product of a family with itself, tile (j, i) has the derivatives of phi of tile (i, j): half of the element-wise
work and an eighth of the matrix products are saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from rkhs._backend.arrays import Array, add_at, inner, like, namespace, zeros
from rkhs._backend.memory import on_cpu, tile_entries, tiles
from rkhs._backend.precision import Products, products_in
from rkhs._backend.threads import cores, in_threads
from rkhs._calculus.atoms import mapped, pulled_back
from rkhs._calculus.forms import Form, near_pairs
from rkhs.functionals._base import Part

ORDER = 1  # of the jets: parts up to this order of derivative take part
SHARED = 2**20  # pairs of points from which threads share the tiles


@dataclass(frozen=True, eq=False)
class Jets:
    """The 1-jets of r functions at t points, or coefficients on them; None for a part that is not needed."""

    values: Array | None  # (t, r)
    gradients: Array | None  # (r, t, n)


class JetPoints:
    """One set of points with the parts of a family that read or write jets there."""

    def __init__(
        self, parts: Sequence[Part], form: Form, origin: Array | None, products: Products, fine: Products
    ) -> None:
        given = parts[0].atoms.points
        self.parts, self.given, self.rho, self.products = parts, given, form.rho, products
        self.points = mapped(given if origin is None else given - origin, form.linear)  # (t, n)
        self.linear = None if form.linear is None else like(form.linear, given)
        self.halves = namespace(given).sum(self.points * self.points, axis=1) / 2  # |x|^2 / 2, (t,)
        self.largest = float(namespace(given).max(self.halves)) if given.shape[0] else 0.0
        self.fine = fine.operand(self.points)  # for differences of large numbers

    @cached_property
    def operands(self) -> tuple[Any, Any]:
        """[X, 1], or X for a dot product, as operands by rows and by columns."""
        ones = namespace(self.points).ones_like(self.points[:, :1])
        return self.products.operands(augmented(self.points, ones) if self.rho else self.points)

    def scatter(self, v: Array) -> Jets:
        """Return the coefficients of the jets, from those (size, r) of the functionals."""
        xp, c, A = namespace(v), None, None
        for part in self.parts:
            atoms, own = part.atoms, part.adjoint(v)
            if atoms.order == 0:
                c = own if c is None else c + own
                continue
            alpha = xp.reshape(own, (atoms.points.shape[0], atoms.per_point, v.shape[1]))
            if not atoms.shared:
                along = xp.permute_dims(xp.matrix_transpose(alpha) @ atoms.directions[:, :, 0, :], (1, 0, 2))
            else:
                along = xp.permute_dims(alpha, (2, 0, 1))
                along = xp.asarray(along, copy=True) if atoms.gradient else along @ atoms.directions[:, 0, :]
            A = along if A is None else A + along  # sum_a alpha_ia V_ia, (r, t, n)
        return Jets(c, None if A is None else mapped(A, self.linear))  # after the change of input

    def zeros(self, r: int) -> Jets:
        """Return zeros for the jets that the parts need."""
        t, n = self.points.shape
        orders = {part.atoms.order for part in self.parts}
        values = zeros((t, r), self.points) if 0 in orders else None
        return Jets(values, zeros((r, t, n), self.points) if 1 in orders else None)

    def contract(self, jets: Jets, out: Array) -> None:
        """Add the functionals of f to `out`, from the jets of f."""
        xp, gradients = namespace(out), jets.gradients
        if gradients is not None:  # of f(A x), from those of f at A x
            gradients = pulled_back(gradients, self.linear)
        for part in self.parts:
            atoms, found = part.atoms, jets.values
            if atoms.order and gradients is not None:  # <V_ia, g_i>, (t, k, r)
                if atoms.shared:
                    along = gradients if atoms.gradient else gradients @ atoms.directions[:, 0, :].T
                    found = xp.permute_dims(along, (1, 2, 0))
                else:
                    found = atoms.directions[:, :, 0, :] @ xp.permute_dims(gradients, (1, 2, 0))
                found = xp.reshape(found, (atoms.size, out.shape[1]))
            out[part.rows] += part.forward(found)


def augmented(A: Array, column: Array) -> Array:
    """Return [A, column], on accelerators with zeros up to a multiple of 8 columns: tensor cores need aligned rows."""
    more = 0 if on_cpu(A) else -(A.shape[-1] + 1) % 8
    return namespace(A).concat([A, column, zeros((*A.shape[:-1], more), A)], axis=-1)


def by_points(parts: Sequence[Part]) -> list[list[Part]]:
    """Group the parts by the points they share."""
    groups: list[list[Part]] = []
    for part in parts:
        known = [group for group in groups if same_points(group[0].atoms.points, part.atoms.points)]
        if known:
            known[0].append(part)
        else:
            groups.append([part])
    return groups


def same_points(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same points in the same order."""
    return one is other or (one.shape == other.shape and bool(namespace(one).all(one == other)))


class Flow:
    """From coefficients at the source points to the jets of f at the target points: the formula at the top."""

    def __init__(
        self,
        source: JetPoints,
        coefficients: Jets,
        target: JetPoints,
        jets: Jets,
        slopes: tuple[Any, Any] | None = None,
    ) -> None:
        self.source, self.coefficients, self.target, self.jets = source, coefficients, target, jets
        self.rho, self.products = source.rho, source.products
        c, A = coefficients.values, coefficients.gradients
        f: Array = jets.values
        g: Array = jets.gradients
        self.count = int(f.shape[1] if f is not None else g.shape[0])  # r
        last = (A is not None) + (g is not None)
        self.orders = range(0 if c is not None and f is not None else min(last, 1), last + 1)  # of derivatives of phi
        self.slopes = slopes  # [A, -<A, y>], whose product with [X, 1] is S, by rows and by columns; A for rho = 0
        if A is not None and slopes is None:
            own = augmented(A, -inner(A, source.points)[:, :, None]) if self.rho else A
            self.slopes = self.products.operands(own)
        self.sums: Array = None  # sum_j Q_ij, (r, t): what rho x_i is multiplied with in the end
        if self.rho and g is not None:
            self.sums = zeros((self.count, target.points.shape[0]), target.points)

    def add(self, phi: dict[int, Array], first: Any, i: slice, j: slice, mirrored: bool = False) -> None:
        """Add the share of the source points j to the jets at the target points i; `first` is phi' as an operand.

        The derivatives of a mirrored tile are transposed, and what meets them is laid out as they are.
        """
        c: Array = self.coefficients.values
        f: Array = self.jets.values
        g: Array = self.jets.gradients
        n = self.source.points.shape[1]
        if self.orders[0] == 0:
            f[i] += phi[0] @ c[j]
        if self.orders[-1] == 0:
            return
        X, anchors = self.target.operands[0][i], self.source.operands[1][j]
        for r in range(self.count):
            if self.slopes is None:
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

    def add_near(self, phi: dict[int, Array], i: Array, j: Array, difference: Array) -> None:
        """Add the shares of pairs of near points, from their differences x - y."""
        for r in range(self.count):
            c = None if self.coefficients.values is None else self.coefficients.values[j, r]
            A = None if self.coefficients.gradients is None else self.coefficients.gradients[r][j]
            slope = None if A is None else inner(A, difference)
            if self.jets.values is not None:
                add_at(self.jets.values[:, r], i, _total([(phi.get(0), c), (phi.get(1), slope)]))
            if self.jets.gradients is not None:
                Q = _total([(phi.get(1), c), (phi.get(2), slope)])
                straight = 0.0 if A is None else phi[1][:, None] * A
                add_at(self.jets.gradients[r], i, straight - Q[:, None] * difference)

    def apart(self) -> Flow:
        """Return the same flow to jets of its own, zero so far."""
        own = (
            None if array is None else zeros(array.shape, array) for array in (self.jets.values, self.jets.gradients)
        )
        return Flow(self.source, self.coefficients, self.target, Jets(*own), self.slopes)

    def gather(self, other: Flow) -> None:
        """Add the jets of a flow that was apart."""
        mine, theirs = ((flow.jets.values, flow.jets.gradients, flow.sums) for flow in (self, other))
        for total, share in zip(mine, theirs, strict=True):
            if total is not None:
                total += share


class JetProduct:
    """The product with the Gram matrix of two tuples of parts under phi(q)."""

    def __init__(
        self,
        form: Form,
        lefts: tuple[Part, ...],
        rights: tuple[Part, ...],
        weight: float,
        budget: int,
        precision: str | None,
    ) -> None:
        self.form, self.weight, self.budget = form, weight, budget
        self.products = products = products_in(precision)
        self.fine = fine = products_in("tf32x3" if precision == "tf32" else precision)  # as accurate as their operands
        origin = None
        if form.rho:
            points = rights[0].atoms.points
            origin = namespace(points).mean(points, axis=0)
        self.rights = [JetPoints(group, form, origin, products, fine) for group in by_points(rights)]
        self.lefts = self.rights
        if lefts != rights:
            self.lefts = [JetPoints(group, form, origin, products, fine) for group in by_points(lefts)]

    @property
    def steady(self) -> bool:
        """Whether the product does the same to all numbers: no near points to look for, nothing from another device."""
        groups = self.lefts + self.rights
        furthest = (max(group.largest for group in side) for side in (self.lefts, self.rights))
        return not self.form.careful(sum(furthest)) and all(p.matrix is None for group in groups for p in group.parts)

    def add_to(self, out: Array, v: Array) -> None:
        """out += G @ v."""
        symmetric = self.lefts is self.rights
        coefficients = [right.scatter(self.weight * v) for right in self.rights]
        jets = [left.zeros(v.shape[1]) for left in self.lefts]
        for a, left in enumerate(self.lefts):
            for b, right in enumerate(self.rights):
                if symmetric and a > b:  # the way back of (b, a)
                    continue
                flow = Flow(right, coefficients[b], left, jets[a])
                back = None
                if symmetric:
                    back = flow if a == b else Flow(left, coefficients[a], right, jets[b])
                self.add_flow(flow, back)
        for left, found in zip(self.lefts, jets, strict=True):
            left.contract(found, out)

    def add_flow(self, flow: Flow, back: Flow | None) -> None:
        """Add the jets of a flow, tile by tile; and those of the flow back, which needs the same derivatives of phi.

        A flow that is its own way back only takes the tiles on and above the diagonal.
        """
        t, s = flow.target.points.shape[0], flow.source.points.shape[0]
        both = [flow] if back is None or back is flow else [flow, back]
        hands = 1
        if t * s >= SHARED:  # as many threads as there are cores, where each has work and its jets fit
            arrays = [array for one in both for array in (one.jets.values, one.jets.gradients) if array is not None]
            room = sum(8 * prod(array.shape) for array in arrays)
            hands = max(1, min(cores(flow.target.points), self.budget // (2 * max(room, 1)), t * s * 2 // SHARED))
        entries = tile_entries(self.budget // hands, flow.target.points)
        if hands > 1:
            entries = min(entries, t * s // (4 * hands))  # four tiles for each thread, so that all end together
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
        for one in both:
            if one.sums is not None and one.jets.gradients is not None:
                one.jets.gradients[...] -= one.sums[:, :, None] * one.target.points  # rho x_i sum_j Q_ij

    def quadratic(self, left: JetPoints, right: JetPoints, i: slice, j: slice) -> Array:
        """q of the points i and j, a difference of large numbers."""
        q = self.fine(left.fine[i], right.fine[j].T)
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
        phi = self.form.radial_derivatives(q, flow.orders)
        for a, b in near if flow.orders[-1] else []:
            difference = self.form.difference(left.given[i][a], right.given[j][b])
            own = {k: table[a, b] for k, table in phi.items()}
            flow.add_near(own, a + i.start, b + j.start, difference)
            if back is not None:
                back.add_near(own, b + j.start, a + i.start, -difference)
            for table in phi.values():
                table[a, b] = 0.0
        first = self.products.operand(phi[1]) if 1 in phi else None
        flow.add(phi, first, i, j)
        if back is not None:
            transposed = None if first is None else first.T
            back.add({k: table.T for k, table in phi.items()}, transposed, j, i, mirrored=True)


def _total(terms: list[tuple[Array | None, Array | None]]) -> Array:
    """Return the sum of the products of which both factors are there."""
    return sum(one * other for one, other in terms if one is not None and other is not None)
