"""The span of representers: psi_a = z_a, of any functionals.

For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), a landmark is a value at c_a or a derivative there along v_a:

    psi_a(x)      = phi                    or   phi' s_a                   s_a = <v_a, x - rho c_a>
    grad psi_a(x) = A_a (c_a - rho x) + B_a v_a,     A = phi', B = 0   or   A = phi'' s, B = phi'

and with d = c - x for rho = 1, <d_a, d_b> = -q_a - q_b - |c_a - c_b|^2/2, so that all gradients at all points sum to

    A'W + W'A - (A'A) * |c_a - c_b|^2/2 + (A'B) * <c_a - c_b, v_b> + its transpose + (B'B) * <v_a, v_b>

(* entry by entry) with W = -A q - B s: a few products of t x p x p, and no gradient is ever stored.  For rho = 0, W = 0
and <c_a, c_b>, <c_a, v_b> take the places of the differences.  After a linear change of input x -> Mx, the products of
gradients are those of M'(..): the metric N = MM'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, indices, like, namespace, to_numpy, zeros
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.forms import Form, near_pairs
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._gram.operator import gram
from rkhs._gram.span import Span, Sums, Tile, in_double
from rkhs.functionals.base import Functional
from rkhs.functionals.points import centred
from rkhs.kernels.base import Kernel


@dataclass(frozen=True, eq=False)
class LandmarkSpan(Span):
    """The span of the representers of a family of functionals."""

    kernel: Kernel
    functionals: Functional

    def __post_init__(self) -> None:
        given = self.functionals
        double = in_double(given.prototype[:0])
        if any(part.atoms.points.dtype != double.dtype for part in given.parts):
            object.__setattr__(self, "functionals", given.like(double))

    def __getstate__(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "functionals": self.functionals}  # what is cached is computed again

    @property
    def home(self) -> Array:
        return self.functionals.prototype[:0]

    def moved(self, home: Array) -> LandmarkSpan:
        return LandmarkSpan(self.kernel, self.functionals.like(home))

    @property
    def size(self) -> int:
        return self.functionals.size

    @property
    def dimension(self) -> int:
        return self.functionals.dimension

    @cached_property
    def norm(self) -> Matrix:
        return to_numpy(gram(self.kernel, self.functionals).dense())

    @cached_property
    def null_space(self) -> FunctionSpace:
        """The polynomials of the kernel, seen from the middle of the landmarks."""
        return centred(self.kernel.null_space, [self.functionals])

    @cached_property
    def constraints(self) -> Matrix:
        """For a conditionally positive definite kernel: its polynomials must vanish on tau."""
        if not self.kernel.order:
            return np.zeros((0, self.size))
        return to_numpy(self.functionals.assemble(self.null_space.on)).T

    def rows(self, functional: Functional) -> Array:
        return gram(self.kernel, self.brought(functional), self.functionals).dense()

    def tile(self, points: Array) -> LandmarkTile | None:
        return None if self._anchors is None else LandmarkTile(self._anchors, points)

    def sums(self) -> Sums | None:
        return None if self._anchors is None else LandmarkSums(self._anchors)

    @cached_property
    def _anchors(self) -> Anchors | None:
        (weight, kernel), *others = self.kernel.summands()
        form = kernel.form(self.dimension)
        single = sum(part.size for part in self.functionals.parts) == self.size  # each landmark is one atom
        if (
            others
            or form is None
            or not single
            or any(
                part.matrix is not None or part.atoms.blur is not None or part.atoms.order > 1
                for part in self.functionals.parts
            )
        ):
            return None
        return Anchors.of(form, self.functionals, weight)


@dataclass(frozen=True, eq=False)
class Anchors:
    """Values at c_a, and derivatives along v_a there: points and directions after the linear map, centred before."""

    form: Form
    given: Array  # (p, n), as they were given
    origin: Array  # (n,)
    C: Array  # (p, m)
    V: Array  # (d, m)
    slopes: np.ndarray[Any, Any]  # (d,) which of the p are derivatives
    factors: Array  # (p,)

    @classmethod
    def of(cls, form: Form, family: Functional, weight: float) -> Anchors:
        xp = namespace(family.prototype)
        parts = sorted(family.parts, key=lambda part: part.start)
        flat = [part.atoms.take(np.arange(part.atoms.size)) for part in parts]
        given = xp.concat([atoms.points for atoms in flat])
        origin = xp.mean(given, axis=0) if form.rho else xp.zeros_like(given[0])
        slopes = np.concatenate([np.full(a.size, bool(a.order)) for a in flat])
        directions = xp.concat(
            [given[:0], *(xp.broadcast_to(a.u(0), (a.size, 1, a.dimension))[:, 0] for a in flat if a.order)]
        )
        factors = np.concatenate([np.full(part.size, weight * part.weight) for part in parts])
        C = Atoms.values(given - origin).pushed(form.linear).points
        V = Atoms.values(directions).pushed(form.linear).points
        return cls(form, given, origin, C, V, np.flatnonzero(slopes), like(factors, given))

    @cached_property
    def columns(self) -> Any:
        """Where the derivatives are, as a slice if they are neighbours."""
        first, count = (int(self.slopes[0]), len(self.slopes)) if len(self.slopes) else (0, 0)
        if count == 0 or int(self.slopes[-1]) == first + count - 1:
            return slice(first, first + count)
        return indices(self.slopes, self.C)

    def scaled(self, columns: Array, which: Any = slice(None)) -> Array:
        """The columns of some landmarks times their factors, in place."""
        if not self.plain:
            columns *= self.factors[which]
        return columns

    @cached_property
    def plain(self) -> bool:
        """Whether all factors are one."""
        return bool(np.all(to_numpy(self.factors) == 1))

    @cached_property
    def scale(self) -> float | None:
        """The c^2 of a metric N = c^2 I, None of any other."""
        linear = self.form.linear
        if linear is None:
            return 1.0
        return float(linear[0]) ** 2 if linear.ndim == 1 and bool(np.all(linear == linear[0])) else None

    def pulled(self, points: Array) -> Array:
        """M'y: the metric is |M'y|^2."""
        linear = self.form.linear
        if linear is None:
            return points
        matrix = like(linear, points)
        return points * matrix if matrix.ndim == 1 else points @ matrix

    @cached_property
    def pulled_both(self) -> tuple[Array, Array]:
        return self.pulled(self.C), self.pulled(self.V)

    @cached_property
    def products(self) -> tuple[Matrix, Matrix, Matrix]:
        """What A'A, A'B and B'B are multiplied with."""
        C, V = (to_numpy(side).astype(np.float64) for side in self.pulled_both)
        across, towards = C @ C.T, C @ V.T
        if self.form.rho:
            halves = np.diag(across) / 2
            across = across - halves[:, None] - halves
            towards = towards - np.sum(C[self.slopes] * V, axis=1)
        return across, towards, V @ V.T


class LandmarkTile(Tile):
    """q, s and the rungs at some points."""

    def __init__(self, anchors: Anchors, points: Array) -> None:
        self.anchors = anchors
        form, C, V = anchors.form, anchors.C, anchors.V
        points = like(points, anchors.given)
        self.Y = Y = Atoms.values(points - anchors.origin).pushed(form.linear).points
        xp = namespace(Y)
        index = self.index = anchors.columns
        q, s = Y @ C.T, Y @ V.T
        if form.rho:
            x_halves, c_halves = (xp.vecdot(side, side, axis=-1) / 2 for side in (Y, C))
            q -= x_halves[:, None]
            q -= c_halves
            s -= xp.vecdot(C[index], V, axis=-1)
            if 0 not in q.shape:
                self._mend(form, points, q, s, x_halves, c_halves)
        self.q, self.s = q, s
        last = 2 if len(anchors.slopes) else 1
        self.phi = phi = form.ladder(xp.asarray(q, copy=True), range(last + 1))
        self.alike = anchors.plain and all(rung is phi[0] for rung in phi.values())

    def _mend(self, form: Form, points: Array, q: Array, s: Array, x_halves: Array, c_halves: Array) -> None:
        """q and s of near points from their differences."""
        place = np.full(len(self.anchors.C), -1)
        place[self.anchors.slopes] = np.arange(len(self.anchors.slopes))
        for i, j in near_pairs(form, q, x_halves, c_halves, self.anchors.given.shape[1]):
            difference = form.difference(points[i], self.anchors.given[j])
            xp = namespace(difference)
            q[i, j] = -xp.sum(difference * difference, axis=-1) / 2
            column = place[to_numpy(j)]
            some, k = indices(np.flatnonzero(column >= 0), q), indices(column[column >= 0], q)
            s[i[some], k] = xp.sum(difference[some] * self.anchors.V[k], axis=-1)

    @property
    def values(self) -> Array:
        E = namespace(self.q).asarray(self.phi[0], copy=True)
        if len(self.anchors.slopes):
            E[:, self.index] = self.phi[1][:, self.index] * self.s
        return self.anchors.scaled(E)


class LandmarkSums(Sums):
    """A'A, A'W, A'B and B'B."""

    def __init__(self, anchors: Anchors) -> None:
        self.anchors = anchors
        p, d = len(anchors.C), len(anchors.slopes)
        shapes = (p, p), (p, p), (p, d), (d, d)
        self.AA, self.AW, self.AB, self.BB = (zeros(shape, anchors.C) for shape in shapes)

    def add(self, tile: LandmarkTile, root: Array, known: Array | None = None) -> None:
        anchors, index = self.anchors, tile.index
        xp = namespace(tile.q)
        A = tile.phi[1] * root
        B = None
        if len(anchors.slopes):
            B = xp.asarray(A[:, index], copy=True)
            A[:, index] = tile.phi[2][:, index] * (tile.s * root)
            B = anchors.scaled(B, index)
        A = anchors.scaled(A)
        if anchors.form.rho:
            self._add_moved(tile, A, B)
        self.AA += A.T @ A if known is None else known
        if B is not None:
            self.AB += A.T @ B
            self.BB += B.T @ B

    def _add_moved(self, tile: LandmarkTile, A: Array, B: Array | None) -> None:
        """A'W."""
        anchors, xp = self.anchors, namespace(A)
        if anchors.scale is not None:
            q, s = tile.q, tile.s
            factor = -anchors.scale
        else:
            (C, V), Y = anchors.pulled_both, anchors.pulled(tile.Y)
            q = Y @ C.T - xp.vecdot(Y, Y, axis=-1)[:, None] / 2 - xp.vecdot(C, C, axis=-1) / 2
            s = Y @ V.T - xp.vecdot(C[tile.index], V, axis=-1)
            factor = -1.0
        W = A * q
        if B is not None:
            W[:, tile.index] += B * s
        W *= factor
        self.AW += A.T @ W

    def total(self) -> Matrix:
        across, towards, along = self.anchors.products
        AA, AW, AB, BB = map(to_numpy, (self.AA, self.AW, self.AB, self.BB))
        found = AW + AW.T + AA * across
        slopes = self.anchors.slopes
        if len(slopes):
            mixed = AB * towards
            found[:, slopes] += mixed
            found[slopes] += mixed.T
            found[np.ix_(slopes, slopes)] += BB * along
        return (found + found.T) / 2
