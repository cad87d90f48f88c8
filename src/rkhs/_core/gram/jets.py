"""Matrix-free products with Gram matrices of values and first derivatives, by 1-jets.

All functionals of order at most one at the points y_j are linear in the values and gradients of f there (its 1-jet).
For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), coefficients c_j of the values and A_j of the gradients at y_j
give

    f(x_i)      =  sum_j  phi c_j + phi' S_ij                     S_ij = <A_j, x_i - rho y_j>
    grad f(x_i) =  sum_j  Q_ij (y_j - rho x_i) + phi' A_j         Q_ij = phi' c_j + phi'' S_ij

with phi, phi', phi'' at q_ij.  These are four matrix products of size t x t x n and element-wise operations on tiles
that stay in the cache.  For rho = 1 an additional column of ones makes S and the row sums of Q part of those products.
Directional derivatives scatter their coefficients to A_j = sum_a alpha_ja V_ja first, and finally contract grad f with
their directions, <V_ia, grad f(x_i)>.

In the product of a family with itself, tile (j, i) shares the derivatives of phi with tile (i, j), which saves half of
the element-wise operations and an eighth of the matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from rkhs._core.backend.arrays import Array, add_at, inner, like, namespace, zeros
from rkhs._core.backend.memory import cores, in_threads, on_cpu, tile_entries, tiles
from rkhs._core.backend.precision import Products, products_in
from rkhs._core.calculus.atoms import mapped, pulled_back
from rkhs._core.calculus.forms import Form, near_pairs
from rkhs._core.gram.blocks import GramBlock
from rkhs._core.limits import limits
from rkhs.functionals._base import Part

ORDER = 1  # the highest order of derivatives that jets support


@dataclass(frozen=True, eq=False)
class Jets:
    """The values and gradients of r functions at t points, or coefficients of these; None if they are not needed."""

    values: Array | None  # (t, r)
    gradients: Array | None  # (r, t, n)


class JetPoints:
    """A set of points with all parts of a family whose functionals are taken there."""

    def __init__(
        self, parts: Sequence[Part], form: Form, origin: Array | None, products: Products, fine: Products
    ) -> None:
        original = parts[0].atoms.points
        self.parts, self.original, self.rho, self.products = parts, original, form.rho, products
        self.points = mapped(original if origin is None else original - origin, form.linear)  # (t, n)
        self.linear = None if form.linear is None else like(form.linear, original)
        self.halves = namespace(original).sum(self.points * self.points, axis=1) / 2  # |x|^2 / 2, (t,)
        self.largest = float(namespace(original).max(self.halves)) if original.shape[0] else 0.0
        self.fine = fine.operand(self.points)  # more accurate, for q, which suffers from cancellation

    @cached_property
    def operands(self) -> tuple[Any, Any]:
        """[X, 1], or X for a dot product, as operands stored by rows and by columns."""
        ones = namespace(self.points).ones_like(self.points[:, :1])
        return self.products.operands(augmented(self.points, ones) if self.rho else self.points)

    def scatter(self, v: Array) -> Jets:
        """Return the coefficients of the jets for coefficients v (size, r) of the functionals."""
        xp, c, A = namespace(v), None, None
        for part in self.parts:
            atoms, coefficients = part.atoms, part.adjoint(v)
            if atoms.order == 0:
                c = coefficients if c is None else c + coefficients
                continue
            alpha = xp.reshape(coefficients, (atoms.points.shape[0], atoms.per_point, v.shape[1]))
            if not atoms.shared:
                # A_j = sum_a alpha_ja V_ja, the coefficient of grad f at y_j
                along = xp.permute_dims(xp.matrix_transpose(alpha) @ atoms.directions[:, :, 0, :], (1, 0, 2))
            else:
                along = xp.permute_dims(alpha, (2, 0, 1))
                along = xp.asarray(along, copy=True) if atoms.gradient else along @ atoms.directions[:, 0, :]
            A = along if A is None else A + along  # sum_a alpha_ia V_ia, (r, t, n)
        return Jets(c, None if A is None else mapped(A, self.linear))

    def zeros(self, r: int) -> Jets:
        """Return zero jets of r functions, as far as the parts need them."""
        t, n = self.points.shape
        orders = {part.atoms.order for part in self.parts}
        values = zeros((t, r), self.points) if 0 in orders else None
        return Jets(values, zeros((r, t, n), self.points) if 1 in orders else None)

    def contract(self, jets: Jets, out: Array) -> None:
        """Add the values of the functionals on f to `out`, given the jets of f."""
        xp, gradients = namespace(out), jets.gradients
        if gradients is not None:  # from gradients of f at A x to those of f(A x)
            gradients = pulled_back(gradients, self.linear)
        for part in self.parts:
            atoms, values = part.atoms, jets.values
            if atoms.order and gradients is not None:  # <V_ia, g_i>, (t, k, r)
                if atoms.shared:
                    along = gradients if atoms.gradient else gradients @ atoms.directions[:, 0, :].T
                    values = xp.permute_dims(along, (1, 2, 0))
                else:
                    values = atoms.directions[:, :, 0, :] @ xp.permute_dims(gradients, (1, 2, 0))
                # <V_ia, grad f(x_i)>, after A' has pulled the gradient back to x
                values = xp.reshape(values, (atoms.size, out.shape[1]))
            out[part.rows] += part.forward(values)


def augmented(A: Array, column: Array) -> Array:
    """Return [A, column], padded to a multiple of 8 columns on accelerators, where tensor cores need aligned rows."""
    padding = 0 if on_cpu(A) else -(A.shape[-1] + 1) % 8
    return namespace(A).concat([A, column, zeros((*A.shape[:-1], padding), A)], axis=-1)


def by_points(parts: Sequence[Part]) -> list[list[Part]]:
    """Group the parts that share the same points."""
    groups: list[list[Part]] = []
    for part in parts:
        matching = [group for group in groups if same_points(group[0].atoms.points, part.atoms.points)]
        if matching:
            matching[0].append(part)
        else:
            groups.append([part])
    return groups


def same_points(X: Array, Y: Array) -> bool:
    """Return whether two arrays contain the same points in the same order."""
    return X is Y or (X.shape == Y.shape and bool(namespace(X).all(X == Y)))


class JetMap:
    """The linear map from coefficients at source points to the jets of f at target points (formula at the top)."""

    def __init__(self, source: JetPoints, coefficients: Jets, target: JetPoints, jets: Jets) -> None:
        self.source, self.coefficients, self.target, self.jets = source, coefficients, target, jets
        self.rho, self.products = source.rho, source.products
        c, A = coefficients.values, coefficients.gradients
        f: Array = jets.values
        g: Array = jets.gradients
        self.count = int(f.shape[1] if f is not None else g.shape[0])  # r
        last = (A is not None) + (g is not None)
        self.orders = range(0 if c is not None and f is not None else min(last, 1), last + 1)  # derivatives of phi
        self.slopes: Any = None  # [A, -<A, y>], or A if rho = 0; S is its product with [X, 1].  By rows and by columns
        if A is not None:
            self.slopes = self.products.operands(augmented(A, -inner(A, source.points)[:, :, None]) if self.rho else A)
        self.sums: Array = None  # sum_j Q_ij, (r, t), which is multiplied by rho x_i in the end
        if self.rho and g is not None:
            self.sums = zeros((self.count, target.points.shape[0]), target.points)

    def add(self, phi: dict[int, Array], first: Any, i: slice, j: slice, mirrored: bool = False) -> None:
        """Add the contribution of the source points j to the jets at the target points i.

        `first` is phi' as an operand.  The derivatives of a mirrored tile are transposed views, and S is computed in
        the same memory layout.
        """
        c: Array = self.coefficients.values
        f: Array = self.jets.values
        g: Array = self.jets.gradients
        n = self.source.points.shape[1]
        if self.orders[0] == 0:
            # f(x_i) = sum_j phi c_j ..
            f[i] += phi[0] @ c[j]
        if self.orders[-1] == 0:
            return
        X, anchors = self.target.operands[0][i], self.source.operands[1][j]
        for r in range(self.count):
            if self.slopes is None:
                # Q_ij = phi' c_j without coefficients of gradients
                Q = self.products.operand(phi[1] * c[j, r])
            else:
                B, columns = (slopes[r, j] for slopes in self.slopes)
                # phi' [A, -<A, y>], whose product with [x_i, 1] is sum_j phi' S_ij
                straight = self.products(first, columns)
                if f is not None:  # sum_j phi' S_ij is the inner product of `straight` and [X, 1]
                    along = inner(straight[:, :n], self.target.points[i])
                    f[i, r] += along + straight[:, n] if self.rho else along
                if g is None:
                    continue
                # grad f(x_i) = sum_j phi' A_j + ..
                g[r, i] += straight[:, :n]
                # S_ij = <A_j, x_i - y_j> and Q_ij = phi' c_j + phi'' S_ij
                S = self.products(B, X.T).T if mirrored else self.products(X, B.T)
                Q = self.products.combined(S, phi[2], phi[1], None if c is None else c[j, r])
            # .. + sum_j Q_ij y_j, and in the last column sum_j Q_ij, which multiplies x_i in the end
            moved = self.products(Q, anchors)
            g[r, i] += moved[:, :n]
            if self.rho:
                self.sums[r, i] += moved[:, n]

    def add_near(self, phi: dict[int, Array], i: Array, j: Array, difference: Array) -> None:
        """Add the contributions of near pairs, computed from their differences x - y."""
        for r in range(self.count):
            c = None if self.coefficients.values is None else self.coefficients.values[j, r]
            A = None if self.coefficients.gradients is None else self.coefficients.gradients[r][j]
            # With d = x - y:  f += phi c + phi' <A, d>,  grad f += phi' A - (phi' c + phi'' <A, d>) d
            slope = None if A is None else inner(A, difference)
            if self.jets.values is not None:
                add_at(self.jets.values[:, r], i, _total([(phi.get(0), c), (phi.get(1), slope)]))
            if self.jets.gradients is not None:
                Q = _total([(phi.get(1), c), (phi.get(2), slope)])
                straight = 0.0 if A is None else phi[1][:, None] * A
                add_at(self.jets.gradients[r], i, straight - Q[:, None] * difference)

    def with_zero_jets(self) -> JetMap:
        """Return the same map with new target jets, which are zero: partial sums for one thread."""
        result, arrays = copy(self), (self.jets.values, self.jets.gradients, self.sums)
        *jets, result.sums = (None if array is None else zeros(array.shape, array) for array in arrays)
        result.jets = Jets(*jets)
        return result

    def gather(self, other: JetMap) -> None:
        """Add the partial sums of another thread."""
        totals, partials = ((one.jets.values, one.jets.gradients, one.sums) for one in (self, other))
        for total, partial in zip(totals, partials, strict=True):
            if total is not None:
                total += partial


class JetProduct:
    """The product with a block of a Gram matrix whose kernel has a form phi(q)."""

    def __init__(self, form: Form, block: GramBlock, budget: int, precision: str | None) -> None:
        self.form, self.weight, self.budget = form, block.weight, budget
        self.products = products = products_in(precision)
        self.fine = fine = products_in("tf32x3" if precision == "tf32" else precision)  # at least float32 accuracy
        origin = None
        if form.rho:
            points = block.rights[0].atoms.points
            origin = namespace(points).mean(points, axis=0)
        self.rights = [JetPoints(group, form, origin, products, fine) for group in by_points(block.rights)]
        self.lefts = self.rights
        if block.lefts != block.rights:
            self.lefts = [JetPoints(group, form, origin, products, fine) for group in by_points(block.lefts)]

    def add_to(self, out: Array, v: Array) -> None:
        """Add G @ v to `out`."""
        symmetric = self.lefts is self.rights
        coefficients = [right.scatter(self.weight * v) for right in self.rights]
        jets = [left.zeros(v.shape[1]) for left in self.lefts]
        for a, left in enumerate(self.lefts):
            for b, right in enumerate(self.rights):
                if symmetric and a > b:  # added together with (b, a)
                    continue
                forward = JetMap(right, coefficients[b], left, jets[a])
                adjoint = None
                if symmetric:
                    adjoint = forward if a == b else JetMap(left, coefficients[a], right, jets[b])
                self.add_jets(forward, adjoint)
        for left, result in zip(self.lefts, jets, strict=True):
            left.contract(result, out)

    def add_jets(self, forward: JetMap, adjoint: JetMap | None) -> None:
        """Add the target jets of a map tile by tile, and those of its adjoint, which needs the same derivatives of phi.

        For a self-adjoint map only the tiles on and above the diagonal are computed.
        """
        t, s = forward.target.points.shape[0], forward.source.points.shape[0]
        maps = [forward] if adjoint is None or adjoint is forward else [forward, adjoint]
        threads = 1
        shared = limits().shared_pairs
        if t * s >= shared:  # one thread per core, as long as each has enough work and its partial sums fit in memory
            arrays = [array for one in maps for array in (one.jets.values, one.jets.gradients) if array is not None]
            size = sum(8 * prod(array.shape) for array in arrays)
            threads = max(1, min(cores(forward.target.points), self.budget // (2 * max(size, 1)), t * s * 2 // shared))
        entries = tile_entries(self.budget // threads, forward.target.points)
        if threads > 1:
            entries = min(entries, t * s // (4 * threads))  # at least four tiles per thread balance the load
        work = [(i, j) for i, j in tiles(t, s, entries) if forward is not adjoint or i.start <= j.start]
        # Each thread has its partial sums and a fixed set of tiles, so that results are reproducible.
        partials = [maps] if threads == 1 else [[one.with_zero_jets() for one in maps] for _ in range(threads)]

        def add(item: tuple[list[JetMap], slice, slice]) -> None:
            partial, i, j = item  # a self-adjoint map is the first and the last one
            twice = adjoint is not None and not (adjoint is forward and i == j)
            self._add_tile(partial[0], partial[-1] if twice else None, i, j)

        in_threads(add, [[(partial, i, j) for i, j in work[k::threads]] for k, partial in enumerate(partials)])
        for partial in partials if threads > 1 else []:
            for whole, share in zip(maps, partial, strict=True):
                whole.gather(share)
        for one in maps:
            if one.sums is not None and one.jets.gradients is not None:
                one.jets.gradients[...] -= one.sums[:, :, None] * one.target.points  # rho x_i sum_j Q_ij

    def quadratic(self, left: JetPoints, right: JetPoints, i: slice, j: slice) -> Array:
        """Return q at all pairs of the points i and j."""
        if self.form.direct(left.original.shape[1], left.largest + right.largest):
            return self.form.from_differences(left.original[i], right.original[j])
        # q = <x, y> - |x|^2/2 - |y|^2/2
        q = self.fine(left.fine[i], right.fine[j].T)
        if self.form.rho:
            q -= left.halves[i][:, None]
            q -= right.halves[j]
        return q

    def _add_tile(self, forward: JetMap, adjoint: JetMap | None, i: slice, j: slice) -> None:
        left, right = forward.target, forward.source
        q = self.quadratic(left, right, i, j)
        near = []
        exact = forward.orders[-1] == 0 and self.form.direct(left.original.shape[1], left.largest + right.largest)
        if not exact and self.form.careful(left.largest + right.largest):  # see "Near points" in `forms`
            near = list(near_pairs(self.form, q, left.halves[i], right.halves[j], left.points.shape[1]))
        for a, b in near:
            difference = self.form.difference(left.original[i][a], right.original[j][b])
            q[a, b] = -namespace(q).vecdot(difference, difference, axis=-1) / 2
        phi = self.form.radial_derivatives(q, forward.orders)
        for a, b in near if forward.orders[-1] else []:
            difference = self.form.difference(left.original[i][a], right.original[j][b])
            near_phi = {k: table[a, b] for k, table in phi.items()}
            forward.add_near(near_phi, a + i.start, b + j.start, difference)
            if adjoint is not None:
                adjoint.add_near(near_phi, b + j.start, a + i.start, -difference)
            for table in phi.values():
                table[a, b] = 0.0
        first = self.products.operand(phi[1]) if 1 in phi else None
        forward.add(phi, first, i, j)
        if adjoint is not None:
            transposed = None if first is None else first.T
            adjoint.add({k: table.T for k, table in phi.items()}, transposed, j, i, mirrored=True)


def _total(terms: list[tuple[Array | None, Array | None]]) -> Array:
    """Return the sum of the products whose factors are both not None."""
    return sum(a * b for a, b in terms if a is not None and b is not None)
