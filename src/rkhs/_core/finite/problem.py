"""The finite-dimensional problem in which all coefficients of f are numbers, in any space.

With f = sum_a tau_a psi_a + sum_j c_j p_j in a space of functions psi with Gram matrix K, the rows E_ia = L_i(psi_a) of
all functionals of all terms, and the values P_ij = L_i(p_j) of the unpenalized functions, the problem is

    min over tau, c     1/2 tau'K tau + sum_i w_i loss_i(u_i; b_i),    u = E tau + P c

and its dual

    max over alpha      -1/2 |sum_i alpha_i z_i|^2 - sum_i w_i loss_i*(-alpha_i / w_i),    P'alpha = 0

with f = sum_i alpha_i z_i at the solution, z_i the representers of the functionals in the space.  A `Geometry` has K, E
and P: that of the representers themselves, where E = K = G (`representers`), that of stored features (`features`), and
that of operators (`operators`).  Several outputs are several such problems with the same geometry, in the columns of
tau.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily

from rkhs._core.backend.arrays import Array, Matrix, Vector, double, namespace, take_rows, to_numpy, zeros
from rkhs.losses._base import Loss, between
from rkhs.losses._interval import shifted

# loss.smooth -> (rounding error of u in units of eps, order in which J depends on it).  J of a smooth loss changes to
# second order near its minimum.
LOST = {False: (32, 1), True: (1024, 2)}


@dataclass(frozen=True, eq=False)
class LossBlock:
    """The rows of one term: its loss, targets (n, c) and weights (n, 1), or (n, c) if they differ between outputs."""

    rows: slice
    loss: Loss
    target: Array
    weight: Array

    def conjugate(self, alpha: Array) -> Array:
        """Return sum_i w_i loss_i*(-alpha_i / w_i) of each output (c,), for alpha (n, c) in the box up to rounding."""
        return namespace(alpha).sum(self.weight * self.loss.conjugate(self.dual_slope(alpha), self.target), axis=0)

    def dual_slope(self, alpha: Array) -> Array:
        """Return s = -alpha / w, projected onto the domain of the conjugate."""
        xp = namespace(alpha)
        s = -alpha / xp.where(self.weight > 0, self.weight, xp.ones_like(self.weight))
        return self.loss.project_dual(s, self.target)

    def project_dual(self, alpha: Array) -> Array:
        """Return the dual feasible alpha nearest to alpha (n, c)."""
        return between(alpha, *self.box) if self.loss.separable else -self.weight * self.dual_slope(alpha)

    @property
    def box(self) -> tuple[Array, Array]:
        """The bounds (n, c) on alpha: -w times the domain of the conjugate, and 0 for rows of weight zero.

        For losses of vectors they are necessary, not sufficient.
        """
        xp = namespace(self.target)
        low, high = self.loss.domain(self.target)

        def bound(end: Array) -> Array:
            present = xp.broadcast_to(self.weight > 0, end.shape)
            return xp.where(present, -self.weight * xp.where(present, end, xp.zeros_like(end)), xp.zeros_like(end))

        return bound(high), bound(low)


@dataclass(frozen=True, eq=False)
class Iterate:
    """Coefficients of a function of a finite problem, the result of a solver.

    Parameters
    ----------
    a : array of shape (N, c)
        The coefficients of the representers, for each of c outputs.
    basis : array of shape (r, c)
        The coefficients of the orthonormal basis Q.
    alpha : array of shape (N, c), optional
        A dual point, if the solver has a better one than a and the negative gradients of the losses.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.extend import Iterate
    >>> iterate = Iterate(np.zeros((3, 2)), np.zeros((1, 2)))
    >>> iterate.output(1).a.shape
    (3, 1)
    """

    a: Array
    basis: Array
    alpha: Array | None = None

    @classmethod
    def joined(cls, outputs: Sequence[Iterate]) -> Iterate:
        """Join iterates of one output each.

        Parameters
        ----------
        outputs : sequence of Iterate
            The iterates.

        Returns
        -------
        Iterate
            The iterate of all outputs.
        """
        xp = namespace(outputs[0].a)
        alphas = [one.a if one.alpha is None else one.alpha for one in outputs]
        columns = ([one.a for one in outputs], [one.basis for one in outputs], alphas)
        return cls(*(xp.concat(column, axis=1) for column in columns))

    def output(self, which: int) -> Iterate:
        """Return the iterate of one output.

        Parameters
        ----------
        which : int
            The index of the output.

        Returns
        -------
        Iterate
            An iterate with one column.
        """
        column = slice(which, which + 1)
        return Iterate(self.a[:, column], self.basis[:, column], None if self.alpha is None else self.alpha[:, column])

    def with_output(self, which: int, other: Iterate) -> Iterate:
        """Replace one output.

        Parameters
        ----------
        which : int
            The index of the output.
        other : Iterate
            The new iterate of this output, with one column.

        Returns
        -------
        Iterate
            The iterate with the other column.
        """
        return Iterate.joined([other if k == which else self.output(k) for k in range(int(self.a.shape[1]))])


class Point(ABC):
    """An iterate of a problem with the bounds of its rounding errors, from which its certificate is computed."""

    iterate: Iterate
    u: Array  # (N, c), the values of the functionals
    primal: Vector  # (c,), the objective J
    error: Array  # (N, c), bounds on the rounding errors of u
    shift: Vector  # (c,), bounds on the error of J
    eps: float

    def candidates(self, quick: bool) -> Iterator[Array]:
        """Yield dual points (N, c), possibly slightly infeasible, the most promising one first: that of the solver."""
        if self.iterate.alpha is not None:
            yield self.iterate.alpha

    def reach(self, norms: Array) -> Array:
        """Return |z_i| |f| and the part of the basis (N, c), which bound |u_i|, for norms |z_i| (N, 1)."""
        raise NotImplementedError

    @abstractmethod
    def distance(self, alpha: Array, energy: Array | None = None) -> tuple[Vector, Vector]:
        """Return 1/2 |f - sum_i alpha_i z_i|^2 (c,), infinite if alpha is not feasible, and its rounding errors.

        `energy` is twice this number if it is known.
        """


class Geometry(ABC):
    """The squared norm of f and the values u of functionals as functions of coefficients (tau, c).

    All problems with the same functionals in the same space share it.  Those with constraints also need `norms` (N, 1)
    and `sizes` (N, 1) of the functionals, the magnitudes of rounding errors, and `inner_products(rows)`, a part of the
    Gram matrix with the values of the basis functions.
    """

    gram: Any = None  # the Gram operators of the space of the representers
    exact: Any = None
    definite: bool = True

    @property
    def finer(self) -> Geometry | None:
        """The same geometry with more accurate products; None if there is none."""
        return None

    @property
    def summed_at_zero(self) -> Any:
        """The part of J(0) (c,) that is not in the losses on rows."""
        return 0.0

    @property
    @abstractmethod
    def size(self) -> int:
        """The number N of functionals."""

    @property
    @abstractmethod
    def Q(self) -> Array:
        """The values (N, r), orthonormalized, of the basis functions on which a dual point has to vanish."""

    @abstractmethod
    def start(self, columns: int) -> Iterate:
        """Return the coefficients of f = 0."""

    @abstractmethod
    def point(self, system: FiniteProblem, iterate: Iterate, image: Array | None = None) -> Point:
        """Return an iterate with its values and the bounds of their rounding errors; `image` is E tau if known."""

    def some(self, which: Any) -> Geometry:
        """Return the geometry of a subset of the outputs."""
        return self


class FiniteProblem:
    """The finite-dimensional convex problem in a space, which solvers minimize.

        min over tau, c of  1/2 tau'K tau + sum_i w_i loss_i(u_i; b_i),    u = E tau + P c

    In the space of the representers, E = K = G and P = Q.  The namespace, dtype and device of Q are those of all arrays
    of the problem.

    Parameters
    ----------
    geometry : Geometry
        The space: Gram matrix, rows and basis functions.
    terms : tuple of LossBlock
        The losses with their targets and weights, one block for each term.
    outputs : int, optional
        The number of outputs; None for a scalar function.

    Attributes
    ----------
    gram, exact : GramOperator
        The operator G, in the precision of the solver and in full precision; only in the space of the representers.
    Q : array of shape (N, r)
        The orthonormal basis.
    size, columns : int
        The number N of functionals and the number c of outputs.
    smooth, quadratic, separable : bool
        Whether all losses are smooth, or quadratic, or losses of single functionals.
    hard : bool
        Whether some terms are constraints (`Indicator`).
    definite : bool
        Whether the kernel is positive definite, not only conditionally.
    inexact : bool
        Whether products of solvers are computed in a lower precision.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), target=[0.0, 1.0])
    >>> system = rkhs.Problem(rkhs.Gaussian(), [term]).system
    >>> system.size, system.smooth, system.loss(system.zeros())
    (2, True, array([1.]))
    """

    def __init__(self, geometry: Any, terms: tuple[LossBlock, ...], outputs: int | None = None) -> None:
        self.geometry, self.terms, self.outputs, self.columns = geometry, terms, outputs, outputs or 1
        self.gram, self.exact, self.definite = geometry.gram, geometry.exact, geometry.definite
        self.size = int(geometry.size)
        self.smooth = all(t.loss.smooth for t in terms)
        self.quadratic = all(t.loss.quadratic for t in terms)
        self.separable = all(t.loss.separable for t in terms)
        self.hard = any(t.loss.hard for t in terms)
        self.inexact = self.gram is not self.exact

    @property
    def Q(self) -> Array:
        """The values of the basis functions, orthonormalized."""
        return self.geometry.Q

    def with_geometry(self, **changes: Any) -> FiniteProblem:
        """Return the problem with another Gram operator or basis.

        Parameters
        ----------
        **changes
            The fields of the geometry to replace.

        Returns
        -------
        FiniteProblem
            The new problem.
        """
        return FiniteProblem(replace(self.geometry, **changes), self.terms, self.outputs)

    def with_rows(self, terms: tuple[LossBlock, ...], outputs: int | None = None) -> FiniteProblem:
        """Return the problem of the same functionals with other losses, weights or targets.

        Parameters
        ----------
        terms : tuple of LossBlock
            The new losses.
        outputs : int, optional
            The number of outputs.

        Returns
        -------
        FiniteProblem
            The new problem.
        """
        return FiniteProblem(self.geometry, terms, outputs)

    def shifted(self, shift: Array) -> FiniteProblem:
        """Return the problem with u + shift instead of u in all losses.

        Parameters
        ----------
        shift : array of shape (N, c)
            The shift.

        Returns
        -------
        FiniteProblem
            The new problem.
        """
        if not np.any(to_numpy(shift)):
            return self
        return self.with_rows(tuple(replace(t, loss=shifted(t.loss, shift[t.rows])) for t in self.terms))

    def part(self, rows: Vector, terms: Sequence[LossBlock]) -> FiniteProblem:
        """Return the problem of a subset of the functionals.

        Parameters
        ----------
        rows : ndarray of int
            The indices of the functionals.
        terms : sequence of LossBlock
            The losses of these functionals.

        Returns
        -------
        FiniteProblem
            The smaller problem.
        """
        return FiniteProblem(self.geometry.part(rows), consecutive(terms), self.outputs)

    def output(self, which: int) -> FiniteProblem:
        """Return the problem of one output.

        Parameters
        ----------
        which : int
            The index of the output.

        Returns
        -------
        FiniteProblem
            The problem of a scalar function.
        """
        one = self.some([which])
        return FiniteProblem(one.geometry, one.terms)

    def some(self, which: Any) -> FiniteProblem:
        """Return the problem of a subset of the outputs.

        Parameters
        ----------
        which : sequence of int
            The indices of the outputs.

        Returns
        -------
        FiniteProblem
            The problem of these outputs.
        """

        def of(columns: Array) -> Array:
            return columns if columns.shape[1] == 1 < self.columns else columns[:, which]

        terms = tuple(replace(t, target=of(t.target), weight=of(t.weight)) for t in self.terms)
        return FiniteProblem(self.geometry.some(which), terms, len(which))

    def zeros(self, columns: int | None = None) -> Array:
        """Return zero coefficients of the representers.

        Parameters
        ----------
        columns : int, optional
            The number of columns, by default that of the outputs.

        Returns
        -------
        array of shape (N, columns)
            Zeros.
        """
        return zeros((self.size, self.columns if columns is None else columns), self.Q)

    def start(self) -> Iterate:
        """Return the iterate f = 0.

        Returns
        -------
        Iterate
            Zero coefficients.
        """
        return self.geometry.start(self.columns)

    def inside(self, a: Array) -> Array:
        """Project coefficients onto {Q'a = 0} if the kernel is only conditionally positive definite.

        Parameters
        ----------
        a : array of shape (N, c)
            The coefficients.

        Returns
        -------
        array of shape (N, c)
            The projection, or a itself for positive definite kernels.
        """
        for _ in range(0 if self.definite else 2):  # the second pass removes the rounding error of the first
            # a <- (I - QQ') a
            a = a - self.Q @ (self.Q.T @ a)
        return a

    def loss(self, u: Array) -> Array:
        """Return the total loss sum_i w_i loss_i(u_i).

        Parameters
        ----------
        u : array of shape (N, c)
            The values of the functionals.

        Returns
        -------
        array of shape (c,)
            The loss of each output.
        """
        xp = namespace(u)
        losses = [xp.sum(t.weight * t.loss.value(u[t.rows], t.target), axis=0) for t in self.terms]
        return sum(losses[1:], losses[0]) if losses else np.zeros(self.columns)

    def gradient(self, u: Array) -> Array:
        """Return the derivatives w_i loss_i'(u_i).

        Parameters
        ----------
        u : array of shape (N, c)
            The values of the functionals.

        Returns
        -------
        array of shape (N, c)
            The derivatives.
        """
        return self._rowwise(lambda t: t.weight * t.loss.gradient(u[t.rows], t.target))

    def hessian_diagonal(self, u: Array) -> Array:
        """Return the second derivatives w_i loss_i''(u_i).

        Parameters
        ----------
        u : array of shape (N, c)
            The values of the functionals.

        Returns
        -------
        array of shape (N, c)
            The second derivatives.
        """
        return self._rowwise(lambda t: t.weight * t.loss.curvature(u[t.rows], t.target))

    def conjugate(self, alpha: Array) -> Array:
        """Return the conjugate sum_i w_i loss_i*(-alpha_i / w_i) of the total loss.

        Parameters
        ----------
        alpha : array of shape (N, c)
            A dual point within the box up to rounding.

        Returns
        -------
        array of shape (c,)
            The value of each output.
        """
        return sum(t.conjugate(alpha[t.rows]) for t in self.terms)

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """The lower and upper bounds (N, c) of alpha, from the domains of the conjugates."""
        boxes = [t.box for t in self.terms]
        low, high = (namespace(self.Q).concat(ends, axis=0) for ends in zip(*boxes, strict=True))
        return low, high

    @property
    def weight(self) -> Array:
        """The weights w of shape (N, 1)."""
        return self._rowwise(lambda t: t.weight)

    @property
    def target(self) -> Array:
        """The targets b of shape (N, c)."""
        return self._rowwise(lambda t: t.target)

    @cached_property
    def at_zero(self) -> Vector:
        """The objective J(0) of each output."""
        total = self.geometry.summed_at_zero + np.zeros(self.columns)
        for t in self.terms:
            total = total + double(namespace(t.target).sum(t.weight * t.loss.value(0 * t.target, t.target), axis=0))
        return total

    @cached_property
    def rounding(self) -> tuple[float, ...]:
        """For each output the value of J below which it is indistinguishable from zero because of rounding errors."""
        total = np.zeros(self.columns)
        for t in self.terms:
            xp = namespace(t.target)
            units, order = LOST[t.loss.smooth]
            at_zero = xp.sum(t.weight * t.loss.value(xp.zeros_like(t.target), t.target), axis=0)
            # J changes by (units eps)^order J(0) if u changes by units eps
            total += (units * float(xp.finfo(t.target.dtype).eps)) ** order * to_numpy(at_zero)
        return tuple(total.tolist())

    @cached_property
    def quadratic_rows(self) -> Vector:
        """The indices of the functionals with a quadratic loss."""
        return _indices([t for t in self.terms if t.loss.quadratic])

    @cached_property
    def other_rows(self) -> Vector:
        """The indices of the functionals with other losses."""
        return _indices([t for t in self.terms if not t.loss.quadratic])

    def _rowwise(self, values: Callable[[LossBlock], Array]) -> Array:
        parts = [values(t) for t in self.terms]
        if not parts:
            return np.zeros((0, self.columns))
        return namespace(parts[0]).concat(parts, axis=0)


def check_range(terms: Iterable[LossBlock]) -> None:
    """Raise ValueError if J(0) of an output overflows or underflows.

    A J(0) below the smallest normal number is an underflow if the derivative of a smooth loss is not zero.
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


def is_unbounded_below(problem: FiniteProblem, output: int) -> bool:
    """Return whether the objective decreases without end along an unpenalized basis function.

    Then there is no minimizer.  Such a direction is found by a linear program in the coefficients c of the basis, with
    v = Qc and |c_j| <= 1: maximize the sum of s_i v_i over the rows of losses that do not attain their infimum (such as
    the logistic loss) subject to s_i v_i >= 0, where s_i = +1 or -1 is the direction in which the loss does not grow.
    Losses that grow in both directions require v_i = 0.
    """
    Q = double(problem.Q) * problem.size**0.5
    if Q.shape[1] == 0 or all(t.loss.attained for t in problem.terms):
        return False
    # s_i v_i >= 0 with s_i = 1 where the loss falls for u -> infinity, and -1 where it falls for u -> -infinity
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
    zero = np.linalg.qr(fixed, mode="r")  # the same equations in at most r rows
    result = scipy.optimize.linprog(
        -np.mean(down, axis=0),
        A_ub=-above,
        b_ub=np.zeros(len(above)),
        A_eq=zero,
        b_eq=np.zeros(len(zero)),
        bounds=(-1, 1),
    )
    return bool(result.status == 0 and np.max(down @ result.x) > 1e-5)  # linprog has a tolerance of 1e-7


def blocks_of(blocks: Sequence[LossBlock], rows: Vector) -> tuple[LossBlock, ...]:
    """Return the loss blocks of some rows, given by increasing indices."""
    parts = []
    for t in blocks:
        kept = rows[(rows >= t.rows.start) & (rows < t.rows.stop)] - t.rows.start
        target, weight = take_rows(t.target, kept), take_rows(t.weight, kept)
        parts.append(replace(t, rows=slice(0, len(kept)), target=target, weight=weight))
    return consecutive(parts)


def consecutive(terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
    """Return the blocks with consecutive row indices."""
    ends = np.cumsum([0, *(t.rows.stop - t.rows.start for t in terms)])
    return tuple(replace(t, rows=slice(int(a), int(b))) for t, a, b in zip(terms, ends[:-1], ends[1:], strict=True))


def _indices(terms: Sequence[LossBlock]) -> Vector:
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(t.rows.start, t.rows.stop) for t in terms)])


def degrees_of_freedom(Q: Matrix, priors: Vector) -> int:
    """Return N - r without priors, which are functionals of terms whose targets are all zero.

    That is the number of other functionals minus the rank of the basis functions, with values Q (N, r), given those of
    the `priors`, which are indices.
    """
    # N - #priors - (rank Q - rank Q[priors])
    rank, prior_rank = (int(np.linalg.matrix_rank(rows)) if rows.size else 0 for rows in (Q, Q[priors]))
    return len(Q) - len(priors) - rank + prior_rank


def prior_rows(terms: Sequence[LossBlock]) -> Vector:
    """Return the indices of the functionals of terms whose targets are all zero."""
    return _indices([t for t in terms if not np.any(to_numpy(t.target))])
