"""The finite problem of the representer theorem.

With f = sum_i a_i z_i + sum_j c_j p_j, G the Gram matrix of all functionals of all terms and Q an orthonormal
basis of the columns of P_ij = L_i(p_j), the problem is

    min over a, c       1/2 a'Ga + sum_i w_i loss_i(u_i; b_i),    u = Ga + Qc

and its dual

    max over alpha      -1/2 alpha'G alpha - sum_i w_i loss_i*(-alpha_i / w_i),    Q'alpha = 0

with f = sum_i alpha_i z_i at the solution.  Several outputs are several such problems with one G, in the columns of a.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.backend.arrays import Array, like, namespace, to_numpy, zeros
from rkhs.calculus.polynomials import Polynomials
from rkhs.calculus.spaces import Space, SumOfSpaces
from rkhs.finite.term import Term
from rkhs.functionals.base import Functional, stack
from rkhs.gram import Gram, gram
from rkhs.gram.matrix import GramMatrix
from rkhs.kernels.base import Kernel
from rkhs.losses.base import Loss

LOST = {False: (32, 1), True: (1024, 2)}  # smooth? -> units of rounding that u may be off, order in which J sees that


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one term: its loss, targets (n, c) and weights (n, 1)."""

    rows: slice
    loss: Loss
    target: Array
    weight: Array

    def conjugate(self, alpha: Array) -> Array:
        """sum_i w_i loss_i*(-alpha_i / w_i), per output (c,), for alpha (n, c) in the box up to rounding."""
        xp = namespace(alpha)
        low, high = self.loss.domain(self.target)
        s = -alpha / xp.where(self.weight > 0, self.weight, xp.ones_like(self.weight))
        s = xp.minimum(xp.maximum(s, low), high)
        return xp.sum(self.weight * self.loss.conjugate(s, self.target), axis=0)

    @property
    def box(self) -> tuple[Array, Array]:
        """The bounds (n, c) that the conjugate puts on alpha: -w times its domain; 0 for rows of weight zero."""
        xp = namespace(self.target)
        low, high = self.loss.domain(self.target)

        def bound(end: Array) -> Array:
            present = xp.broadcast_to(self.weight > 0, end.shape)
            return xp.where(present, -self.weight * xp.where(present, end, xp.zeros_like(end)), xp.zeros_like(end))

        return bound(high), bound(low)


@dataclass(frozen=True, eq=False)
class Iterate:
    """Coefficients a (N, c) of the representers and c (r, c) of the orthonormal basis Q.

    `alpha` (N, c) is a point of the dual, from solvers that know one which is neither a nor given by u; `bounds` are
    the primal values of a and the dual values of alpha, (c,) each, from solvers that have checked them (`Ledger`).
    """

    a: Array
    basis: Array
    alpha: Array | None = None
    bounds: tuple[Array, Array] | None = None

    @classmethod
    def joined(cls, outputs: Sequence[Iterate]) -> Iterate:
        """One iterate of several outputs from iterates of one output each."""
        xp = namespace(outputs[0].a)
        alphas = [one.a if one.alpha is None else one.alpha for one in outputs]
        columns = ([one.a for one in outputs], [one.basis for one in outputs], alphas)
        known = [one.bounds for one in outputs if one.bounds is not None]
        bounds = None
        if len(known) == len(outputs):
            bounds = xp.concat([primal for primal, _ in known]), xp.concat([dual for _, dual in known])
        a, basis, alpha = (xp.concat(column, axis=1) for column in columns)
        return cls(a, basis, alpha, bounds)

    def output(self, which: int) -> Iterate:
        """The iterate of one output."""
        one = slice(which, which + 1)
        return Iterate(self.a[:, one], self.basis[:, one], None if self.alpha is None else self.alpha[:, one])

    def with_output(self, which: int, other: Iterate) -> Iterate:
        """The iterate with one output, a column, from another."""
        xp = namespace(self.a)

        def put(columns: Array, column: Array) -> Array:
            return xp.concat([columns[:, :which], column, columns[:, which + 1 :]], axis=1)

        mine, theirs = (one.a if one.alpha is None else one.alpha for one in (self, other))
        return Iterate(put(self.a, other.a), put(self.basis, other.basis), put(mine, theirs))


@dataclass(frozen=True, eq=False)
class System:
    """The finite problem: Gram operator, basis and rows of losses."""

    kernel: Kernel
    functionals: Functional
    space: Space | None
    terms: tuple[Rows, ...]
    outputs: int | None
    precision: str | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        terms: Sequence[Term],
        basis: Space | None,
        place: Array = None,
        precision: str | None = None,
    ) -> System:
        """The finite problem of a kernel, terms and a basis; functionals of weight zero are left out.

        With a `place`, an array, all numbers are brought to its namespace, dtype and device.
        """
        counts = {term.outputs for term in terms if term.outputs is not None}
        if len(counts) > 1:
            raise ValueError(f"The terms disagree on the number of outputs: {sorted(counts)}.")
        outputs = counts.pop() if counts else None
        families, rows, start = [], [], 0
        for term in terms:
            family, target, weight = term.functional, term.target, term.weights()
            if not np.all(to_numpy(weight) > 0):
                kept = np.flatnonzero(to_numpy(weight)[:, 0] > 0)
                family, target, weight = family.take(kept), target[kept], weight[kept]
            target = target if target.ndim == 2 else target[:, None]
            if place is not None:
                family, target, weight = family.like(place), like(target, place), like(weight, place)
            families.append(family)
            wide = namespace(target).broadcast_to(target, (family.size, outputs or 1))
            rows.append(Rows(slice(start, start + family.size), term.loss, wide, weight))
            start += family.size
        return cls(kernel, stack(families), joined(basis, kernel.null_space), tuple(rows), outputs, precision)

    @property
    def size(self) -> int:
        return self.functionals.size

    @property
    def columns(self) -> int:
        return self.outputs or 1

    @cached_property
    def gram(self) -> Gram:
        return gram(self.kernel, self.functionals, precision=self.precision)

    @cached_property
    def exact(self) -> Gram | GramMatrix:
        """The Gram operator for images from which others are computed: in the precision of the data."""
        return self.gram if self.precision is None else gram(self.kernel, self.functionals)

    @cached_property
    def _basis(self) -> tuple[Array, np.ndarray[Any, Any]]:
        """Q (N, rank) and the map (r, rank) from its coefficients to those of the basis functions."""
        if self.space is None:
            return zeros((self.size, 0), self.functionals.prototype), np.zeros((0, 0))
        P = to_numpy(self.functionals.assemble(self.space.on)).astype(np.float64)
        if not np.all(np.isfinite(P)):
            raise ValueError("The functionals of the basis functions are not all finite.")
        sizes = np.abs(P).max(axis=0, initial=0.0)
        scale = np.where(sizes > 0, sizes, 1.0)
        Q, R, pivots = scipy.linalg.qr(P / scale, mode="economic", pivoting=True)
        diagonal = np.abs(np.diag(R))
        tolerance = np.finfo(np.float64).eps * max(P.shape) * 8
        rank = int(np.sum(diagonal > tolerance * diagonal.max(initial=0.0))) if diagonal.size else 0
        back = np.zeros((P.shape[1], rank))
        back[pivots[:rank]] = np.linalg.inv(R[:rank, :rank])
        return like(Q[:, :rank], self.functionals.prototype), back / scale[:, None]

    def with_rows(self, terms: tuple[Rows, ...], outputs: int | None = None) -> System:
        """The system of the same functionals with other losses, weights or targets; Gram and basis are shared."""
        other = replace(self, terms=terms, outputs=outputs)
        other.__dict__.update(
            gram=self.gram, exact=self.exact, _basis=self._basis
        )  # what `cached_property` would compute again
        return other

    def with_matrices(self, gram: Gram | GramMatrix, Q: Array) -> System:
        """The system with another Gram matrix, and the values Q (N, r), orthonormal columns, of another basis."""
        other = replace(self, space=None)
        other.__dict__.update(gram=gram, exact=gram, _basis=(Q, np.eye(int(Q.shape[1]))))
        return other

    def output(self, which: int) -> System:
        """The system of one output."""
        return self.with_rows(tuple(replace(t, target=t.target[:, which : which + 1]) for t in self.terms))

    @property
    def Q(self) -> Array:
        """An orthonormal basis (N, r) of the values of the basis functions; r = 0 without a basis.

        It carries the namespace, dtype and device of all that the system computes with.
        """
        return self._basis[0]

    def zeros(self, columns: int | None = None) -> Array:
        return zeros((self.size, self.columns if columns is None else columns), self.Q)

    def start(self) -> Iterate:
        """f = 0."""
        return Iterate(self.zeros(), zeros((self.Q.shape[1], self.columns), self.Q))

    def basis_coefficients(self, iterate: Iterate) -> Array | None:
        """The coefficients of the basis functions themselves, (r, c)."""
        if self.space is None:
            return None
        back = self._basis[1]
        return like(back, iterate.basis) @ iterate.basis

    def risk(self, u: Array) -> Array:
        """sum_i w_i loss_i(u_i), per output (c,)."""
        xp = namespace(u)
        return sum(xp.sum(t.weight * t.loss.value(u[t.rows], t.target), axis=0) for t in self.terms)

    def slope(self, u: Array) -> Array:
        """w_i loss_i'(u_i), (N, c)."""
        return self._rowwise(lambda t: t.weight * t.loss.gradient(u[t.rows], t.target))

    def bend(self, u: Array) -> Array:
        """w_i loss_i''(u_i), (N, c)."""
        return self._rowwise(lambda t: t.weight * t.loss.curvature(u[t.rows], t.target))

    def conjugate(self, alpha: Array) -> Array:
        """sum_i w_i loss_i*(-alpha_i / w_i), per output, for alpha in the box up to rounding."""
        return sum(t.conjugate(alpha[t.rows]) for t in self.terms)

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """The bounds (N, c) that the conjugates put on alpha."""
        return self._rowwise(lambda t: t.box[0]), self._rowwise(lambda t: t.box[1])

    @cached_property
    def rounding(self) -> tuple[float, ...]:
        """For each output the J that is zero but for the rounding of u, by which smooth losses change less."""
        total = np.zeros(self.columns)
        for t in self.terms:
            xp = namespace(t.target)
            units, order = LOST[t.loss.smooth]
            at_zero = xp.sum(t.weight * t.loss.value(xp.zeros_like(t.target), t.target), axis=0)
            total += (units * float(xp.finfo(t.target.dtype).eps)) ** order * to_numpy(at_zero)
        return tuple(total.tolist())

    @property
    def smooth(self) -> bool:
        return all(t.loss.smooth for t in self.terms)

    @property
    def quadratic(self) -> bool:
        return all(t.loss.quadratic for t in self.terms)

    def _rowwise(self, values: Any) -> Array:
        parts = [values(t) for t in self.terms]
        return namespace(parts[0]).concat(parts, axis=0)


def joined(basis: Space | None, null_space: Space) -> Space | None:
    """The span of both, without repetition where that is easy to see; None if there is nothing in it."""
    spaces = [s for s in (basis, null_space) if s is not None and not (isinstance(s, Polynomials) and s.degree < 0)]
    if len(spaces) < 2:
        return spaces[0] if spaces else None
    plain = [s for s in spaces if isinstance(s, Polynomials) and s.linear is None]
    if len(plain) == len(spaces):
        return max(plain, key=lambda s: s.degree)
    return SumOfSpaces(tuple(spaces))
