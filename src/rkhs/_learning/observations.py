"""Functionals observed with Gaussian noise, and the hyperparameters of their distribution.

The functionals of a Gaussian process with covariance k, observed with noise of variance 1/(2w), have the covariance

    S = G + diag(1/(2w))

Evidence and leave-one-out follow from the saddle-point equations [S, Q; Q', 0], whose Q are the orthonormal values of
the basis functions: their solution is a = P b with P = Z (Z'SZ)^-1 Z', Z an orthonormal basis of {Q'a = 0}.

A hyperparameter is named by what stands after `problem.`: "kernel.scale", "kernel.kernels[0].factor",
"kernel.scale[2]" (of the third feature), "terms[1].weight".  All derivatives are in their logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.basis import Basis
from rkhs._finite.representers import RepresenterProblem
from rkhs._gram.operator import gram
from rkhs._gram.sensitivity import sensitivity
from rkhs._linalg.saddle import Saddle
from rkhs._progress import subtask
from rkhs.functionals._base import Functional
from rkhs.functionals._points import places, repeats
from rkhs.kernels._base import Kernel
from rkhs.solvers._base import double

if TYPE_CHECKING:
    from rkhs._problem.problem import Problem


@dataclass(frozen=True)
class Hyperparameter:
    """A positive number: a parameter of the kernel (of one feature, if each has its own), or the weight of a term.

    A search begins at `start` and stays between `low` and `high`; `given` says that the user has chosen the start.
    """

    parameter: str | None = None
    feature: int | None = None
    term: int | None = None
    start: float = 1.0
    low: float = 0.0
    high: float = inf
    given: bool = False

    @property
    def name(self) -> str:
        if self.parameter is None:
            return f"terms[{self.term}].weight"
        return f"kernel.{self.parameter}{'' if self.feature is None else f'[{self.feature}]'}"


@dataclass(frozen=True, eq=False)
class Observations:
    """Functionals, the values of the basis on them, targets b (N, c) and weights (N,), in NumPy and float64."""

    functionals: Functional
    basis: Basis
    target: Matrix
    weight: Matrix
    term: Matrix  # (N,), the index of the term of each functional

    @classmethod
    def of(cls, represented: RepresenterProblem) -> Observations:
        """Collect the observations of a problem; those of weight zero are left out."""
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
    def places(self) -> Matrix:
        """Labels (N,), equal for all functionals at a point; a functional that its term repeats there has its own.

        So repeated measurements are left out one by one, as those at neighboring points are.
        """
        both = np.stack([places(self.functionals), repeats(self.functionals, self.term)], axis=1)
        return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def known(self) -> Matrix:
        """The rows of terms whose targets are all zero: prior knowledge, not data."""
        data = np.unique(self.term[np.any(self.target != 0, axis=1)])
        return np.flatnonzero(~np.isin(self.term, data))

    @cached_property
    def degrees_of_freedom(self) -> int:
        """N - r: the number of targets that neither the basis nor prior knowledge explains by itself."""
        whole, known = (np.linalg.matrix_rank(Q) if Q.size else 0 for Q in (self.Q, self.Q[self.known]))
        return self.size - len(self.known) - int(whole) + int(known)

    @cached_property
    def informative(self) -> Matrix:
        """The outputs (c,) of which the basis leaves more than rounding: only these depend on hyperparameters."""
        left = np.abs(self.target - self.Q @ (self.Q.T @ self.target)).max(axis=0)
        return np.flatnonzero(left > 256 * np.finfo(np.float64).eps * np.abs(self.target).max(axis=0))

    def take(self, rows: Matrix) -> Observations:
        """Return some of the observations."""
        functionals = self.functionals.take(rows)
        basis = Basis.of(functionals, self.basis.space)
        return Observations(functionals, basis, self.target[rows], self.weight[rows], self.term[rows])

    def sample(self, most: int, random: np.random.Generator) -> Observations:
        """Return all that was observed at some points, drawn at random, with at most `most` functionals."""
        if self.size <= most:
            return self
        points, counts = np.unique(self.places, return_counts=True)
        order = random.permutation(len(points))
        kept = order[np.cumsum(counts[order]) <= most]
        return self.take(np.flatnonzero(np.isin(self.places, points[kept if len(kept) else order[:1]])))

    def equations(self, kernel: Kernel, weight: Matrix) -> tuple[Matrix, Saddle]:
        """Return G and the factorized equations for a kernel and weights."""
        with subtask(0, 2):
            G = gram(kernel, self.functionals).in_double()
        with subtask(1, 2):
            return G, Saddle(G, 1 / (2 * weight), self.Q)

    def gradient(self, kernel: Kernel, weight: Matrix, B: Matrix, hyperparameters: Sequence[Hyperparameter]) -> Matrix:
        """Return sum_ij B_ij dS_ij / dlog of each hyperparameter."""
        own = [(h.parameter, h.feature) for h in hyperparameters if h.parameter is not None]
        found = sensitivity(kernel, self.functionals, self.functionals, B, own) if own else {}
        return gathered(hyperparameters, found, -np.diag(B) / (2 * weight), self.term)


def gathered(
    hyperparameters: Sequence[Hyperparameter],
    of_kernel: Mapping[tuple[str, int | None], float],
    of_weight: Matrix,
    term: Matrix,
) -> Matrix:
    """Return derivatives in the order of the hyperparameters, from those of the kernel and of the weights (N,)."""
    return np.array(
        [
            float(of_weight[term == h.term].sum()) if h.parameter is None else of_kernel[h.parameter, h.feature]
            for h in hyperparameters
        ]
    )


def check_null_space(problem: Problem, what: str) -> None:
    """Refuse a null space that is dropped."""
    if problem.null_space == "dropped":
        raise ValueError(f'{what} is known with the null space of {problem.kernel!r}: use null_space="kept".')


def check_squared(problem: Problem, what: str) -> None:
    """Refuse losses that are not squared, and a null space that is dropped."""
    others = [term.loss for term in problem.terms if not term.loss.quadratic]
    if others:
        raise ValueError(
            f"{what} needs all losses to be Squared, and one is {others[0]!r}: choose its settings by "
            "problem.grid(.., held_out=..), which compares solutions on what they have not seen."
        )
    check_null_space(problem, what)
