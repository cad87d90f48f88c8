"""The finite problem of the representer theorem.

With f = sum_i a_i z_i + sum_j c_j p_j, G the Gram matrix of all functionals of all terms and Q an orthonormal
basis of the columns of P_ij = L_i(p_j), the problem is

    min over a, c       1/2 a'Ga + sum_i w_i loss_i(u_i; b_i),    u = Ga + Qc

and its dual

    max over alpha      -1/2 alpha'G alpha - sum_i w_i loss_i*(-alpha_i / w_i),    Q'alpha = 0

with f = sum_i alpha_i z_i at the solution.  Several outputs are several such problems with one G, in the columns of a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, namespace, taken, to_numpy, zeros
from rkhs._gram.matrix import GramMatrix, GramOperator, diagonal_part
from rkhs.losses.base import Loss
from rkhs.losses.interval import shifted

LOST = {False: (32, 1), True: (1024, 2)}  # smooth? -> units of rounding that u may be off, order in which J sees that


@dataclass(frozen=True, eq=False)
class LossBlock:
    """The rows of one term: its loss, targets (n, c) and weights (n, 1), or (n, c) where outputs differ in them."""

    rows: slice
    loss: Loss
    target: Array
    weight: Array

    def conjugate(self, alpha: Array) -> Array:
        """sum_i w_i loss_i*(-alpha_i / w_i), per output (c,), for alpha (n, c) in the box up to rounding."""
        return namespace(alpha).sum(self.weight * self.loss.conjugate(self.dual_slope(alpha), self.target), axis=0)

    def dual_slope(self, alpha: Array) -> Array:
        """s = -alpha / w, inside the domain of the conjugate."""
        xp = namespace(alpha)
        low, high = self.loss.domain(self.target)
        s = -alpha / xp.where(self.weight > 0, self.weight, xp.ones_like(self.weight))
        return xp.minimum(xp.maximum(s, low), high)

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

    `alpha` (N, c) is a point of the dual, from solvers that know one which is neither a nor given by u.
    """

    a: Array
    basis: Array
    alpha: Array | None = None

    @classmethod
    def joined(cls, outputs: Sequence[Iterate]) -> Iterate:
        """One iterate of several outputs from iterates of one output each."""
        xp = namespace(outputs[0].a)
        alphas = [one.a if one.alpha is None else one.alpha for one in outputs]
        columns = ([one.a for one in outputs], [one.basis for one in outputs], alphas)
        return cls(*(xp.concat(column, axis=1) for column in columns))

    def output(self, which: int) -> Iterate:
        """The iterate of one output."""
        one = slice(which, which + 1)
        return Iterate(self.a[:, one], self.basis[:, one], None if self.alpha is None else self.alpha[:, one])

    def with_output(self, which: int, other: Iterate) -> Iterate:
        """The iterate with one output, a column, from another."""
        columns = [other if k == which else self.output(k) for k in range(int(self.a.shape[1]))]
        return Iterate.joined(columns)


@dataclass(frozen=True, eq=False)
class Geometry:
    """What all problems with the same functionals share: the Gram operator G and the basis Q (N, r), orthonormal.

    `gram` is for solvers and may multiply in a lower precision; `exact`, for images from which others are computed and
    for certificates, does not.  A kernel that is positive definite only where Q'a = 0 is not `definite`.
    """

    gram: GramOperator
    exact: GramOperator
    Q: Array
    definite: bool = True
    magnitudes: Callable[[], Array] | None = None
    of_basis: Array | None = None

    @cached_property
    def sizes(self) -> Array:
        """(N, 1): G_ij is computed from numbers of size sizes_i sizes_j (`gram.magnitude`); norms where that is all."""
        if self.magnitudes is not None:
            return self.magnitudes()
        return namespace(self.Q).sqrt(abs(self.exact.diagonal()))[:, None]

    @property
    def basis_sizes(self) -> Array:
        """(N, r), the same for Q_ik (`Basis.sizes`)."""
        return abs(self.Q) if self.of_basis is None else self.of_basis


@dataclass(frozen=True, eq=False)
class FiniteProblem:
    """The finite problem: what problems with the same functionals share, and the rows of the losses."""

    geometry: Geometry
    terms: tuple[LossBlock, ...]
    outputs: int | None = None

    @classmethod
    def stored(cls, G: Array, Q: Array, terms: tuple[LossBlock, ...], outputs: int | None = None) -> FiniteProblem:
        """The problem of a Gram matrix (N, N) that is at hand."""
        matrix = GramMatrix(G)
        return cls(Geometry(matrix, matrix, Q), terms, outputs)

    @property
    def gram(self) -> GramOperator:
        return self.geometry.gram

    @property
    def exact(self) -> GramOperator:
        return self.geometry.exact

    @property
    def Q(self) -> Array:
        """An orthonormal basis (N, r) of the values of the basis functions; r = 0 without a basis.

        It carries the namespace, dtype and device of all that the system computes with.
        """
        return self.geometry.Q

    @property
    def definite(self) -> bool:
        return self.geometry.definite

    @property
    def inexact(self) -> bool:
        """Whether products of solvers are in a lower precision."""
        return self.gram is not self.exact

    @property
    def size(self) -> int:
        return int(self.Q.shape[0])

    @property
    def columns(self) -> int:
        return self.outputs or 1

    def with_rows(self, terms: tuple[LossBlock, ...], outputs: int | None = None) -> FiniteProblem:
        """The system of the same functionals with other losses, weights or targets."""
        return replace(self, terms=terms, outputs=outputs)

    def shifted(self, shift: Array) -> FiniteProblem:
        """The system with u + shift in place of u in all losses."""
        if not np.any(to_numpy(shift)):
            return self
        return self.with_rows(tuple(replace(t, loss=shifted(t.loss, shift[t.rows])) for t in self.terms))

    def part(self, rows: np.ndarray[Any, Any], terms: Sequence[LossBlock]) -> FiniteProblem:
        """The system of some functionals, which are those of the given terms, with their rows of Q."""
        operator = diagonal_part(self.exact, rows)
        return FiniteProblem(
            Geometry(operator, operator, taken(self.Q, rows), self.definite), consecutive(terms), self.outputs
        )

    def output(self, which: int) -> FiniteProblem:
        """The system of one output."""
        return replace(self.some(slice(which, which + 1)), outputs=None)

    def some(self, which: Any) -> FiniteProblem:
        """The system of some outputs."""

        def of(columns: Array) -> Array:
            return columns if columns.shape[1] == 1 < self.columns else columns[:, which]

        terms = tuple(replace(t, target=t.target[:, which], weight=of(t.weight)) for t in self.terms)
        return self.with_rows(terms, int(terms[0].target.shape[1]))

    def zeros(self, columns: int | None = None) -> Array:
        return zeros((self.size, self.columns if columns is None else columns), self.Q)

    def start(self) -> Iterate:
        """f = 0."""
        return Iterate(self.zeros(), zeros((self.Q.shape[1], self.columns), self.Q))

    def inside(self, a: Array) -> Array:
        """a, or the part of it on {Q'a = 0} for kernels whose norm is one only there; twice, for rounding."""
        for _ in range(0 if self.definite else 2):
            a = a - self.Q @ (self.Q.T @ a)
        return a

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

    @property
    def weight(self) -> Array:
        """w (N, 1)."""
        return self._rowwise(lambda t: t.weight)

    @property
    def target(self) -> Array:
        """b (N, c)."""
        return self._rowwise(lambda t: t.target)

    @cached_property
    def at_zero(self) -> np.ndarray[Any, Any]:
        """J(0) of each output."""
        return to_numpy(self.risk(self.zeros())).astype(np.float64)

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

    @cached_property
    def quadratic_rows(self) -> np.ndarray[Any, Any]:
        """The indices of the functionals with a squared loss."""
        return _indices([t for t in self.terms if t.loss.quadratic])

    @cached_property
    def other_rows(self) -> np.ndarray[Any, Any]:
        """The indices of the others."""
        return _indices([t for t in self.terms if not t.loss.quadratic])

    def _rowwise(self, values: Callable[[LossBlock], Array]) -> Array:
        parts = [values(t) for t in self.terms]
        return namespace(parts[0]).concat(parts, axis=0)


def check_range(terms: Iterable[LossBlock]) -> None:
    """Refuse targets and weights for which J(0) of an output overflows, or underflows.

    J(0) is less than a normal number because it underflows where the derivative of a smooth loss is not zero.
    """
    at_zero: Any = 0.0
    slopes: Any = 0.0
    with np.errstate(over="ignore", under="ignore"):
        for t in terms:
            zero = namespace(t.target).zeros_like(t.target)
            at_zero = at_zero + np.sum(to_numpy(t.weight * t.loss.value(zero, t.target)), axis=0)
            slope = to_numpy(t.loss.gradient(zero, t.target)) * (to_numpy(t.weight) > 0)
            slopes = np.maximum(slopes, np.max(np.abs(slope), axis=0, initial=0.0) if t.loss.smooth else 0.0)
    numbers = np.finfo(np.asarray(at_zero).dtype)
    high = ~(at_zero <= float(numbers.max))
    low = (at_zero < float(numbers.smallest_normal)) & (slopes > 0)
    for wrong, what in ((high, "overflows"), (low, "underflows")):
        if np.any(wrong):
            raise ValueError(
                f"The objective of f = 0, the sum of weight * loss(0; target), is {np.asarray(at_zero)[wrong][0]:g} "
                f"and {what} {numbers.dtype}: rescale the targets or the weights of the terms."
            )


def consecutive(terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
    """The rows of some terms, one after the other."""
    ends = np.cumsum([0, *(t.rows.stop - t.rows.start for t in terms)])
    return tuple(replace(t, rows=slice(int(a), int(b))) for t, a, b in zip(terms, ends[:-1], ends[1:], strict=True))


def _indices(terms: Sequence[LossBlock]) -> np.ndarray[Any, Any]:
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(t.rows.start, t.rows.stop) for t in terms)])
