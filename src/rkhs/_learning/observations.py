"""Observations of functionals with Gaussian noise, and the hyperparameters of their distribution.

The functionals of a Gaussian process with covariance k, observed with noise of variance 1/(2w), have the covariance

    S = G + diag(1/(2w))

The evidence and leave-one-out residuals follow from the saddle-point equations [S, Q; Q', 0], where Q has the values of
the basis functions, orthonormalized.  Their solution is a = P b with P = Z (Z'SZ)^-1 Z', where Z is an orthonormal
basis of {Q'a = 0}.

A hyperparameter is named by its attribute path from the problem: "kernel.scale", "kernel.kernels[0].factor",
"kernel.scale[2]" (of the third feature), "terms[1].weight".  All derivatives are in the logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Protocol

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Matrix, double, to_numpy, unique_rows
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import Basis
from rkhs._finite.problem import degrees_of_freedom
from rkhs._finite.representers import RepresenterTerms
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._gram.operator import gram
from rkhs._gram.sensitivity import sensitivity
from rkhs._linalg.saddle import Saddle
from rkhs._progress import subtask
from rkhs._spaces.base import Approximation, FiniteSpace
from rkhs.functionals._base import Functional, point_groups, repeats
from rkhs.kernels._base import Kernel


class ConvexProblem(Protocol):
    """What the functions of this folder need of an `rkhs.Problem`."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def terms(self) -> Sequence[Term]: ...
    @property
    def basis(self) -> FunctionSpace | None: ...
    @property
    def null_space(self) -> str: ...
    @property
    def approximation(self) -> Approximation | None: ...
    @property
    def represented(self) -> RepresenterTerms: ...
    @property
    def space(self) -> FiniteSpace | None:
        """The space of the approximation; None if f is sought in the whole RKHS."""

    @property
    def full_basis(self) -> FunctionSpace | None:
        """The basis with the null space of the kernel."""

    def solve(self, *, tol: float) -> Solution: ...


@dataclass(frozen=True)
class Hyperparameter:
    """A positive number to tune: a parameter of the kernel, perhaps for one feature, or the weight of a term."""

    parameter: str | None = None  # of the kernel; None for the weight of a term
    feature: int | None = None  # None if the parameter is the same for all features
    term: int | None = None
    start: float = 1.0  # where a search begins
    low: float = 0.0
    high: float = inf
    given: bool = False  # whether the user has chosen the start

    @property
    def name(self) -> str:
        if self.parameter is None:
            return f"terms[{self.term}].weight"
        return f"kernel.{self.parameter}{'' if self.feature is None else f'[{self.feature}]'}"


@dataclass(frozen=True, eq=False)
class Observations:
    """The observed functionals of a problem with their targets and weights, in NumPy and float64."""

    functionals: Functional
    basis: Basis
    target: Matrix  # b, (N, c)
    weight: Matrix  # (N,)
    term: Matrix  # (N,) the index of the term of each functional

    @classmethod
    def of(cls, represented: RepresenterTerms) -> Observations:
        """Return the observations of a problem with positive weights."""
        functionals = represented.functionals.like(np.zeros(0))
        basis = represented.basis
        if functionals is not represented.functionals:
            basis = Basis.of(functionals, basis.space)
        rows = represented.rows
        term = np.concatenate([np.full(t.rows.stop - t.rows.start, k) for k, t in enumerate(rows)])
        target = np.concatenate([double(t.target) for t in rows])
        weight = np.concatenate([double(t.weight)[:, 0] for t in rows])
        return cls(functionals, basis, target, weight, term)

    @property
    def Q(self) -> Matrix:
        return np.asarray(self.basis.Q)

    @property
    def size(self) -> int:
        return len(self.target)

    @cached_property
    def point_labels(self) -> Matrix:
        """Labels (N,) that are equal for functionals at the same point.

        If a term repeats a functional at a point, the repetitions have different labels, so that repeated measurements
        are left out one by one.
        """
        labels = np.stack([point_groups(self.functionals), repeats(self.functionals, self.term)], axis=1)
        return unique_rows(labels)[2]

    @cached_property
    def prior_rows(self) -> Matrix:
        """The indices of the functionals of terms whose targets are all zero, which are priors and not data."""
        data = np.unique(self.term[np.any(self.target != 0, axis=1)])
        return np.flatnonzero(~np.isin(self.term, data))

    @cached_property
    def degrees_of_freedom(self) -> int:
        """N - r without the priors: the number of targets minus the rank of the basis given the priors."""
        return degrees_of_freedom(self.Q, self.prior_rows)

    @cached_property
    def informative(self) -> Matrix:
        """The indices of the outputs that the basis does not explain up to rounding."""
        residual = np.abs(self.target - self.Q @ (self.Q.T @ self.target)).max(axis=0)
        return np.flatnonzero(residual > 256 * np.finfo(np.float64).eps * np.abs(self.target).max(axis=0))

    def take(self, rows: Matrix) -> Observations:
        """Return a subset of the observations."""
        functionals = self.functionals.take(rows)
        basis = Basis.of(functionals, self.basis.space)
        return Observations(functionals, basis, self.target[rows], self.weight[rows], self.term[rows])

    def sample(self, most: int, random: np.random.Generator) -> Observations:
        """Return all observations at points that are drawn at random, with at most `most` functionals in total."""
        if self.size <= most:
            return self
        labels, counts = np.unique(self.point_labels, return_counts=True)
        order = random.permutation(len(labels))
        kept = order[np.cumsum(counts[order]) <= most]
        return self.take(np.flatnonzero(np.isin(self.point_labels, labels[kept if len(kept) else order[:1]])))

    def equations(self, kernel: Kernel, weight: Matrix) -> tuple[Matrix, Saddle]:
        """Return G and the factorized saddle-point equations for a kernel and weights (N,)."""
        with subtask(0, 2):
            G = gram(kernel, self.functionals).in_double()
        with subtask(1, 2):
            return G, Saddle(G, 1 / (2 * weight), self.Q)

    def gradient(self, kernel: Kernel, weight: Matrix, B: Matrix, hyperparameters: Sequence[Hyperparameter]) -> Matrix:
        """Return sum_ij B_ij dS_ij / dlog(h) for each hyperparameter h."""
        keys = [(h.parameter, h.feature) for h in hyperparameters if h.parameter is not None]
        derivatives = sensitivity(kernel, self.functionals, self.functionals, B, keys) if keys else {}
        return in_order(hyperparameters, derivatives, -np.diag(B) / (2 * weight), self.term)


def in_order(
    hyperparameters: Sequence[Hyperparameter],
    of_kernel: Mapping[tuple[str, int | None], float],
    of_weight: Matrix,
    term: Matrix,
) -> Matrix:
    """Return the derivatives in the order of the hyperparameters, from those in kernel parameters and weights (N,)."""
    return np.array(
        [
            float(of_weight[term == h.term].sum()) if h.parameter is None else of_kernel[h.parameter, h.feature]
            for h in hyperparameters
        ]
    )


def check_null_space(problem: ConvexProblem, what: str) -> None:
    """Raise an error if the null space of the kernel is dropped."""
    if problem.null_space == "dropped":
        raise ValueError(f'{what} is known with the null space of {problem.kernel!r}: use null_space="kept".')


def check_squared(problem: ConvexProblem, what: str) -> None:
    """Raise an error if a loss is not squared, or if the null space of the kernel is dropped."""
    others = [term.loss for term in problem.terms if not term.loss.quadratic]
    if others:
        raise ValueError(
            f"{what} needs all losses to be Squared, and one is {others[0]!r}: choose hyperparameters by "
            "problem.grid(.., held_out=..), which evaluates solutions on held-out data."
        )
    check_null_space(problem, what)


CLUSTERS = 10  # neighborhoods of a spatial sample


def spatial_sample(terms: Sequence[Term], most: int, random: np.random.Generator) -> list[Term]:
    """Return terms with about `most` functionals in total: half at random points, half in a few neighborhoods.

    Points drawn at random from many are far apart, and do not distinguish noise from variation over short distances.
    """
    total = sum(term.size for term in terms)
    if total <= most:
        return list(terms)
    largest = max(terms, key=lambda term: term.size)
    candidates = _first_points(largest)
    seeds = random.choice(candidates, min(CLUSTERS, len(candidates)), replace=False)
    sampled = []
    for term in terms:
        points, share = _first_points(term), most * term.size / total
        each = term.size // len(points)
        count = min(max(int(share / each), 2), len(points))
        rows = [random.choice(len(points), count - count // 2, replace=False)]
        near = max(1, count // 2 // CLUSTERS)
        rows += [np.argpartition(np.sum((points - x) ** 2, axis=1), near - 1)[:near] for x in seeds]
        index = (np.unique(np.concatenate(rows))[:, None] * each + np.arange(each)).ravel()
        weight = term.weight if isinstance(term.weight, float) else term.weight[index]
        sampled.append(Term(term.functional.take(index), term.loss, to_numpy(term.target)[index], weight))
    return sampled


def _first_points(term: Term) -> Matrix:
    """Return points (t, d), each the first one of as many consecutive functionals, such as those of a gradient."""
    parts = term.functional.parts
    points = to_numpy(parts[0].atoms.points)
    if term.size % len(points) == 0 and all(part.size == term.size for part in parts):
        return np.asarray(points)
    first = np.zeros((term.size, points.shape[1]))
    for part in reversed(parts):  # means over several points and stacks: the first point of each functional
        columns = np.arange(part.size)
        if part.matrix is not None:
            W = scipy.sparse.csr_array(part.matrix)
            columns = np.append(W.indices, 0)[W.indptr[:-1]]
        first[part.rows] = to_numpy(part.atoms.points)[columns // part.atoms.per_point]
    return first
