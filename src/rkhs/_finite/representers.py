"""Reduction of a problem to finitely many coefficients by the representer theorem, and conversion back to functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, double, like, namespace, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials
from rkhs._finite.basis import Basis, joined
from rkhs._finite.function import Function
from rkhs._finite.problem import FiniteProblem, Geometry, Iterate, LossBlock
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._gram.matrix import GramMatrix
from rkhs._gram.operator import has_graph, magnitudes
from rkhs._linalg.saddle import Saddle
from rkhs.functionals._base import Functional, stack
from rkhs.kernels._base import Kernel


@dataclass(frozen=True, eq=False)
class RepresenterProblem:
    """The functionals of all terms, whose representers span the solution together with the basis, and their losses.

    Functionals of weight zero are omitted.  The basis includes the null space of the kernel, unless that is `dropped`
    (Walder and Chapelle 2007, 6.2).
    """

    kernel: Kernel
    functionals: Functional
    basis: Basis
    rows: tuple[LossBlock, ...]
    outputs: int | None
    precision: str | None = None
    dropped: bool = False

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        terms: Sequence[Term],
        basis: FunctionSpace | None,
        place: Array = None,
        precision: str | None = None,
        dropped: bool = False,
    ) -> RepresenterProblem:
        """Reduce a problem; arrays are converted to the namespace, dtype and device of the array `place` if given."""
        outputs = outputs_of(terms)
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
            rows.append(LossBlock(slice(start, start + family.size), term.loss, wide, weight))
            start += family.size
        together = stack(families)
        values = Basis.of(together, basis if dropped else joined(basis, kernel.null_space))
        return cls(kernel, together, values, tuple(rows), outputs, precision, dropped)

    @property
    def system(self) -> FiniteProblem:
        return self._finite[0]

    @cached_property
    def _finite(self) -> tuple[FiniteProblem, Restriction | None]:
        """The finite problem, and the map from its coefficients to those of the representers (None: the identity)."""
        exact: Any = gram(self.kernel, self.functionals)
        if has_graph(self.kernel):
            exact = exact.stored_if_small()
        fast = (
            exact
            if self.precision is None or exact.stored
            else gram(self.kernel, self.functionals, precision=self.precision)
        )
        definite, basis = self.kernel.order == 0, self.basis
        if self.dropped:
            basis = Basis.of(self.functionals, joined(None, self.kernel.null_space))
        geometry = Geometry(fast, exact, basis.Q, definite, lambda: self._magnitudes, basis.sizes)
        system = FiniteProblem(geometry, self.rows, self.outputs)
        return without_null_space(system, self.basis) if self.dropped else (system, None)

    def hidden(self, system: FiniteProblem) -> int:
        """Return `Basis.hidden` on the rows of a finite problem that have a positive weight."""
        space = self.basis.space
        if space is None or (isinstance(space, Polynomials) and space.degree == 0):
            return 0
        rows = np.flatnonzero(to_numpy(system.weight).max(axis=1, initial=0.0) > 0)
        key = rows.tobytes()  # cached, because the cells of a grid share their folds
        if key not in self._hidden:
            whole = len(rows) == self.functionals.size
            functionals = self.functionals if whole else self.functionals.take(rows)
            basis = self.basis if whole else Basis.of(functionals, space)
            self._hidden[key] = basis.hidden(functionals)
        return self._hidden[key]

    @cached_property
    def _hidden(self) -> dict[bytes, int]:
        return {}

    @cached_property
    def _magnitudes(self) -> Array:
        return magnitudes(self.kernel, self.functionals)

    def function(self, iterate: Iterate) -> Function:
        """Return the function with the coefficients of an iterate."""
        a = iterate.a if self._finite[1] is None else self._finite[1] @ iterate.a

        def flat(columns: Array) -> Array:
            return columns if self.outputs is not None else columns[:, 0]

        if self.basis.space is None:
            return Function(self.kernel, self.functionals, flat(a))
        coefficients = like(self.basis.back, a) @ iterate.basis
        return Function(self.kernel, self.functionals, flat(a), self.basis.space, flat(coefficients))

    def iterate(self, f: Function) -> Iterate:
        """Return the coefficients of a function that is a solution of a problem with the same functionals."""
        if f.functionals.shape != self.functionals.shape:
            raise ValueError(
                f"start has {f.functionals.size} representers and this problem {self.functionals.size}: "
                "a warm start needs a solution of a problem with the same functionals."
            )
        a = f.coefficients if f.coefficients.ndim == 2 else f.coefficients[:, None]
        basis = self.system.start().basis
        if f.basis is not None and f.basis_coefficients is not None:
            c = f.basis_coefficients if f.basis_coefficients.ndim == 2 else f.basis_coefficients[:, None]
            basis = self.basis.Q.T @ like(self.functionals.assemble(f.basis.on) @ c, a)
        return Iterate(a, basis)


def block_in_double(term: Term, outputs: int | None) -> LossBlock:
    """Return the loss of a term with its targets (n, c) and weights (n, 1) as NumPy arrays in float64."""
    target = double(term.target).reshape(term.size, -1)
    weight = double(term.weights())
    return LossBlock(slice(0, term.size), term.loss, np.broadcast_to(target, (term.size, outputs or 1)), weight)


def outputs_of(terms: Sequence[Term]) -> int | None:
    """Return the common number of outputs of the terms, or None if no target has an axis of outputs."""
    counts = {term.outputs for term in terms if term.outputs is not None}
    if len(counts) > 1:
        raise ValueError(f"The terms disagree on the number of outputs: {sorted(counts)}.")
    return counts.pop() if counts else None


def as_representer_problem(problem: Any, caller: str) -> RepresenterProblem:
    """Return the `RepresenterProblem` of a `Problem`, or the argument if it is one; raise for approximations."""
    if getattr(problem, "approximation", None) is not None:
        raise ValueError(
            f"{caller} is about the whole space, and the problem has approximation={problem.approximation!r}: omit the "
            "approximation, or use solution.posterior."
        )
    represented = getattr(problem, "represented", problem)
    if not isinstance(represented, RepresenterProblem):
        raise TypeError(f"{caller} needs an rkhs.Problem, got {problem!r}.")
    return represented


@dataclass(frozen=True, eq=False)
class Restriction:
    """The map alpha -> a = alpha - (Q - W) Q'alpha from coefficients of representers in S to those of the z_i."""

    Q: Array
    excess: Array  # Q - W

    def __matmul__(self, alpha: Array) -> Array:
        return alpha - self.excess @ (self.Q.T @ alpha)


def without_null_space(system: FiniteProblem, kept: Basis) -> tuple[FiniteProblem, Restriction]:
    """Drop the null space of a conditionally positive definite kernel (Walder and Chapelle 2007, 6.2).

    Its polynomials are not penalized: if they separate the data, the minimizer ignores the kernel.  Without them
    f = sum a_i z_i with P'a = 0, a finite-dimensional space S of functions with inner product a'Ga.  Every functional
    is bounded on S, and the Gram matrix of the representers in S is

        K = G Z (Z'GZ)^-1 Z'G,         Z an orthonormal basis of {P'a = 0}

    which is positive semidefinite.  So the problem is an ordinary one with K instead of G and the basis `kept` instead
    of P, and its coefficients alpha define f = sum a_i z_i with a = Z (Z'GZ)^-1 Z'G alpha.  Neither needs Z: with an
    orthonormal basis Q of the columns of P and the saddle point system  GW + QT = GQ, Q'W = 0,  which takes one
    factorization,

        K = G - Q T Q',                a = alpha - (Q - W) Q'alpha
    """
    G = system.exact.in_double()
    Q = double(system.Q)
    W, T = Saddle(G, np.zeros(len(G)), Q).solve(G @ Q)
    K = G - Q @ ((T + T.T) / 2) @ Q.T
    stored = GramMatrix(like(K, system.Q))
    plain = FiniteProblem(Geometry(stored, stored, kept.Q, of_basis=kept.sizes), system.terms, system.outputs)
    return plain, Restriction(system.Q, like(Q - W, system.Q))
