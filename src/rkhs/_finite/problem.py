"""The finite problem of the representer theorem.

With f = sum_i a_i z_i + sum_j c_j p_j, G the Gram matrix of all functionals of all terms and Q an orthonormal
basis of the columns of P_ij = L_i(p_j), the problem is

    min over a, c       1/2 a'Ga + sum_i w_i loss_i(u_i; b_i),    u = Ga + Qc

and its dual

    max over alpha      -1/2 alpha'G alpha - sum_i w_i loss_i*(-alpha_i / w_i),    Q'alpha = 0

with f = sum_i alpha_i z_i at the solution.  Several outputs are several such problems with one G, in the columns of a.
On a subspace with explicit features it is a `ReducedProblem` (`solvers._reduced`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs._backend.arrays import Array, Matrix, Vector, namespace, taken, to_numpy, zeros
from rkhs._gram.matrix import GramMatrix, GramOperator, diagonal_part
from rkhs.losses._base import Loss
from rkhs.losses._interval import shifted

LOST = {False: (32, 1), True: (1024, 2)}  # smooth? -> units of rounding that u may be off, order in which J sees that


@dataclass(frozen=True, eq=False)
class LossBlock:
    """The rows of one term: its loss, targets (n, c) and weights (n, 1), or (n, c) where outputs differ in them."""

    rows: slice
    loss: Loss
    target: Array
    weight: Array

    def conjugate(self, alpha: Array) -> Array:
        """Return sum_i w_i loss_i*(-alpha_i / w_i), per output (c,), for alpha (n, c) in the box up to rounding."""
        return namespace(alpha).sum(self.weight * self.loss.conjugate(self.dual_slope(alpha), self.target), axis=0)

    def dual_slope(self, alpha: Array) -> Array:
        """Return s = -alpha / w, inside the domain of the conjugate."""
        xp = namespace(alpha)
        low, high = self.loss.domain(self.target)
        s = -alpha / xp.where(self.weight > 0, self.weight, xp.ones_like(self.weight))
        return xp.minimum(xp.maximum(s, low), high)

    @property
    def box(self) -> tuple[Array, Array]:
        """Return the bounds (n, c) on alpha: -w times the domain of the conjugate; 0 for rows of weight zero."""
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
        """Join iterates of one output each."""
        xp = namespace(outputs[0].a)
        alphas = [one.a if one.alpha is None else one.alpha for one in outputs]
        columns = ([one.a for one in outputs], [one.basis for one in outputs], alphas)
        return cls(*(xp.concat(column, axis=1) for column in columns))

    def output(self, which: int) -> Iterate:
        """Return the iterate of one output."""
        one = slice(which, which + 1)
        return Iterate(self.a[:, one], self.basis[:, one], None if self.alpha is None else self.alpha[:, one])

    def with_output(self, which: int, other: Iterate) -> Iterate:
        """Return the iterate with one output, a column, from another."""
        return Iterate.joined([other if k == which else self.output(k) for k in range(int(self.a.shape[1]))])


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


class FiniteProblem:
    """The finite problem: what problems with the same functionals share, and a block of losses for each term.

    Q (N, r) carries the namespace, dtype and device of all that the problem computes with.
    """

    def __init__(self, geometry: Geometry, terms: tuple[LossBlock, ...], outputs: int | None = None) -> None:
        self.geometry, self.terms, self.outputs = geometry, terms, outputs
        self.gram, self.exact, self.Q, self.definite = geometry.gram, geometry.exact, geometry.Q, geometry.definite
        self.inexact = self.gram is not self.exact  # whether products of solvers are in a lower precision
        self.size, self.columns = int(self.Q.shape[0]), outputs or 1
        self.smooth = all(t.loss.smooth for t in terms)
        self.quadratic = all(t.loss.quadratic for t in terms)

    @classmethod
    def stored(cls, G: Array, Q: Array, terms: tuple[LossBlock, ...], outputs: int | None = None) -> FiniteProblem:
        """Return the problem of a Gram matrix (N, N) that is at hand."""
        matrix = GramMatrix(G)
        return cls(Geometry(matrix, matrix, Q), terms, outputs)

    def with_geometry(self, **changes: Any) -> FiniteProblem:
        """Return the problem with another Gram operator or basis."""
        return FiniteProblem(replace(self.geometry, **changes), self.terms, self.outputs)

    def with_rows(self, terms: tuple[LossBlock, ...], outputs: int | None = None) -> FiniteProblem:
        """Return the problem of the same functionals with other losses, weights or targets."""
        return FiniteProblem(self.geometry, terms, outputs)

    def shifted(self, shift: Array) -> FiniteProblem:
        """Return the problem with u + shift in place of u in all losses."""
        if not np.any(to_numpy(shift)):
            return self
        return self.with_rows(tuple(replace(t, loss=shifted(t.loss, shift[t.rows])) for t in self.terms))

    def part(self, rows: Vector, terms: Sequence[LossBlock]) -> FiniteProblem:
        """Return the problem of some functionals, which are those of the given blocks, with their rows of Q."""
        operator = diagonal_part(self.exact, rows)
        geometry = Geometry(operator, operator, taken(self.Q, rows), self.definite)
        return FiniteProblem(geometry, consecutive(terms), self.outputs)

    def output(self, which: int) -> FiniteProblem:
        """Return the problem of one output."""
        return self.with_rows(self.some([which]).terms)

    def some(self, which: Any) -> FiniteProblem:
        """Return the problem of some outputs."""

        def of(columns: Array) -> Array:
            return columns if columns.shape[1] == 1 < self.columns else columns[:, which]

        terms = tuple(replace(t, target=of(t.target), weight=of(t.weight)) for t in self.terms)
        return self.with_rows(terms, int(terms[0].target.shape[1]))

    def zeros(self, columns: int | None = None) -> Array:
        return zeros((self.size, self.columns if columns is None else columns), self.Q)

    def start(self) -> Iterate:
        """Return f = 0."""
        return Iterate(self.zeros(), zeros((self.Q.shape[1], self.columns), self.Q))

    def inside(self, a: Array) -> Array:
        """Project on {Q'a = 0} for kernels whose norm is one only there; twice, for rounding."""
        for _ in range(0 if self.definite else 2):
            a = a - self.Q @ (self.Q.T @ a)
        return a

    def loss(self, u: Array) -> Array:
        """Return sum_i w_i loss_i(u_i), per output (c,)."""
        xp = namespace(u)
        return sum(xp.sum(t.weight * t.loss.value(u[t.rows], t.target), axis=0) for t in self.terms)

    def gradient(self, u: Array) -> Array:
        """Return w_i loss_i'(u_i), (N, c)."""
        return self._rowwise(lambda t: t.weight * t.loss.gradient(u[t.rows], t.target))

    def hessian_diagonal(self, u: Array) -> Array:
        """Return w_i loss_i''(u_i), (N, c)."""
        return self._rowwise(lambda t: t.weight * t.loss.curvature(u[t.rows], t.target))

    def conjugate(self, alpha: Array) -> Array:
        """Return sum_i w_i loss_i*(-alpha_i / w_i), per output, for alpha in the box up to rounding."""
        return sum(t.conjugate(alpha[t.rows]) for t in self.terms)

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """Return the bounds (N, c) that the conjugates put on alpha."""
        boxes = [t.box for t in self.terms]
        low, high = (namespace(self.Q).concat(ends, axis=0) for ends in zip(*boxes, strict=True))
        return low, high

    @property
    def weight(self) -> Array:
        """Return w (N, 1)."""
        return self._rowwise(lambda t: t.weight)

    @property
    def target(self) -> Array:
        """Return b (N, c)."""
        return self._rowwise(lambda t: t.target)

    @cached_property
    def at_zero(self) -> Vector:
        """Return J(0) of each output."""
        return to_numpy(self.loss(self.zeros())).astype(np.float64)

    @cached_property
    def rounding(self) -> tuple[float, ...]:
        """Return for each output the J that is zero but for the rounding of u, by which smooth losses change less."""
        total = np.zeros(self.columns)
        for t in self.terms:
            xp = namespace(t.target)
            units, order = LOST[t.loss.smooth]
            at_zero = xp.sum(t.weight * t.loss.value(xp.zeros_like(t.target), t.target), axis=0)
            total += (units * float(xp.finfo(t.target.dtype).eps)) ** order * to_numpy(at_zero)
        return tuple(total.tolist())

    @cached_property
    def quadratic_rows(self) -> Vector:
        """Return the indices of the functionals with a squared loss."""
        return _indices([t for t in self.terms if t.loss.quadratic])

    @cached_property
    def other_rows(self) -> Vector:
        """Return the indices of the others."""
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


def recedes(problem: FiniteProblem, output: int) -> bool:
    """Return whether some function of the basis, which is not penalized, lowers the losses without end.

    Then the minimum is at infinity.  A linear program in the coefficients of the basis: maximize the sum of s_i v_i
    over the rows of losses without a minimum (the logistic loss), all of them >= 0, where v = Q c, |c_j| <= 1, and
    s_i = +1 or -1 is the direction in which the loss does not grow; rows that grow in both directions need v_i = 0.
    """
    Q = to_numpy(problem.Q).astype(np.float64) * problem.size**0.5
    if Q.shape[1] == 0 or all(t.loss.attained for t in problem.terms):
        return False
    falling: list[Matrix] = []
    level: list[Matrix] = []
    still: list[Matrix] = []
    for t in problem.terms:
        low, high = (to_numpy(end)[:, 0] for end in t.loss.domain(t.target[:, output : output + 1]))
        rows = Q[t.rows]
        free = (high == 0) | (low == 0)
        still.append(rows[~free])
        signed = rows[free] * np.where(high == 0, 1.0, -1.0)[free, None]
        (level if t.loss.attained else falling).append(signed)
    down, flat, fixed = (np.concatenate(m) if m else np.zeros((0, Q.shape[1])) for m in (falling, level, still))
    if len(down) == 0:
        return False
    above = np.concatenate([down, flat])
    zero = np.linalg.qr(fixed, mode="r")  # as many equations as unknowns say the same
    found = scipy.optimize.linprog(
        -np.mean(down, axis=0),
        A_ub=-above,
        b_ub=np.zeros(len(above)),
        A_eq=zero,
        b_eq=np.zeros(len(zero)),
        bounds=(-1, 1),
    )
    return bool(found.status == 0 and np.max(down @ found.x) > 1e-5)  # linear programs are solved to 1e-7


def consecutive(terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
    """Renumber the rows of some blocks, one after the other."""
    ends = np.cumsum([0, *(t.rows.stop - t.rows.start for t in terms)])
    return tuple(replace(t, rows=slice(int(a), int(b))) for t, a, b in zip(terms, ends[:-1], ends[1:], strict=True))


def _indices(terms: Sequence[LossBlock]) -> Vector:
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(t.rows.start, t.rows.stop) for t in terms)])
