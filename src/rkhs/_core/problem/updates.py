"""Solve a problem that shares most of its functionals with a solved one, whose coefficients or factor are reused.

The functionals of both problems have keys, which are equal for equal functionals.  For squared losses and a positive
definite kernel, the Cholesky factor of the earlier problem is updated (`_core.linalg.saddle`); other problems are
solved from the earlier coefficients.  In both cases the certificate is computed from scratch, with the kernel, so that
it does not depend on what is reused: if it fails, the problem is solved anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Matrix, Vector, double, indices, to_numpy, zeros
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import Monitor, Steps
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.finite.solution import CONVERGED, Solution
from rkhs._core.linalg.saddle import UpdatableSaddle
from rkhs._core.problem.problem import Problem
from rkhs.solvers._base import FLOP, Estimate, Solver, blocks_in_double, fits
from rkhs.solvers._conjugate_gradients import ConjugateGradients
from rkhs.solvers._direct import Direct

NEAR = 0.1  # relative difference of a diagonal entry from the factorized one up to which refinement corrects it
SHARE = 0.25  # rows that may be removed and added, as a share of all; another factorization is faster for more


@dataclass(frozen=True, eq=False)
class UpdatedFactor(Solver):
    """The solver of a problem with squared losses whose equations are factorized already."""

    saddle: UpdatableSaddle
    order: Vector  # (N,) the functional of each row of the saddle

    def lacks(self, system: FiniteProblem) -> str | None:
        return None

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        b = np.concatenate([t.target for t in blocks_in_double(system.terms)])
        a = np.empty_like(b)
        a[self.order], c = self.saddle.solve(b[self.order], double(system.Q)[self.order])
        a, c = a.astype(system.Q.dtype), c.astype(system.Q.dtype)
        yield from ()  # it has no iterations
        return Iterate(a, c, alpha=a)

    @property
    def factored(self) -> Vector:
        """The diagonal 1 / (2 weight) in the factor."""
        return self.saddle.factored


@dataclass(frozen=True, eq=False)
class Solved:
    """A solution, the keys of its functionals, and the factor of its equations if there is one."""

    solution: Solution
    keys: Vector  # (N,)
    factor: UpdatedFactor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "factor": None}  # it takes the memory of two Gram matrices

    def following(
        self, problem: Problem, keys: Sequence[Vector], method: Any, tol: float, verbose: bool = False
    ) -> Solved:
        """Solve another problem, whose terms have these keys."""
        known = represented_keys(problem, keys)
        factor = self._updated(problem, known, tol) if method == "auto" or isinstance(method, Direct) else None
        if factor is not None:
            solution = problem.solve(factor, tol=tol, verbose=verbose)
            if solution.status == CONVERGED:
                return Solved(solution, known, factor)
        solution = problem.solve(method, tol=tol, verbose=verbose, start=self._start(problem, known))
        return Solved(solution, known)

    def _updated(self, problem: Problem, keys: Vector, tol: float) -> UpdatedFactor | None:
        """Return the factor of a problem, None if it would not pay or does not exist."""
        system = problem.system
        plain = isinstance(system.Q, np.ndarray) and system.definite and problem.null_space == "kept"
        if not (plain and system.quadratic and fits(system)) or len(np.unique(keys)) < len(keys):
            return None
        changed = len(np.setxor1d(keys, self.keys))
        if changed > max(SHARE * len(keys), 1) or not _pays(system, changed, tol):
            return None
        d = 1 / (2 * double(system.weight)[:, 0])
        if self.factor is not None:
            before = self.factor
            _, old, new = np.intersect1d(self.keys[before.order], keys, assume_unique=True, return_indices=True)
            near = np.abs(d[new] / before.factored[old] - 1) <= NEAR
            rows = np.argsort(old[near])
            old, new = old[near][rows], new[near][rows]
            removed = np.delete(np.arange(len(self.keys)), old)
            added = np.delete(np.arange(len(keys)), new)
            if len(removed) + len(added) <= max(SHARE * len(keys), 1):
                order = np.concatenate([new, added])
                saddle = before.saddle.updated(removed, _gram_rows(system, added, order), d[added])
                if saddle is not None:
                    return UpdatedFactor(saddle.with_diagonal(d[order]), order)
        whole = UpdatableSaddle.of(to_numpy(system.exact.in_double()), d)
        return None if whole is None else UpdatedFactor(whole, np.arange(len(d)))

    def _start(self, problem: Problem, keys: Vector) -> Solution:
        """Return the solution as a function of the functionals of another problem."""
        f, represented = self.solution.function, problem.represented
        a = zeros((len(keys), *f.coefficients.shape[1:]), f.coefficients)
        _, old, new = np.intersect1d(self.keys, keys, return_indices=True)
        a[indices(new, a)] = f.coefficients[indices(old, a)]
        function = Function(problem.kernel, represented.functionals, a, f.basis, f.basis_coefficients)
        return replace(self.solution, function=function)


def _pays(system: FiniteProblem, changed: int, tol: float) -> bool:
    """Return whether updates of a factor take less time than the solver that `auto` would choose.

    The first one factorizes, which may take four times as long as that solver.
    """
    estimate = Estimate(system)
    update = 1e-3 + (40e-9 + 4 * FLOP * changed) * system.size**2  # the first number is for copies, measured
    direct, iterative = Direct().cost(estimate), ConjugateGradients().cost(estimate)
    return update < min(direct, iterative) and direct < 4 * iterative


def represented_keys(problem: Problem, keys: Sequence[Vector]) -> Vector:
    """Return the keys of the functionals of all terms that have a positive weight."""
    weights = [to_numpy(term.weights())[:, 0] for term in problem.terms]
    return np.concatenate([key[weight > 0] for key, weight in zip(keys, weights, strict=True)])


def functional_keys(term: int, size: int, points: Vector) -> Vector:
    """Return a 64-bit hash of each functional of a term: of the term, its point and its place among those of the point.

    `points` are the keys of the points; their number must divide that of the functionals, otherwise all keys are zero.

    Examples
    --------
    >>> points = np.array([3, 5], dtype=np.uint64)
    >>> len(np.unique(np.concatenate([functional_keys(0, 2, points), functional_keys(1, 4, points)])))
    6
    """
    each = size // max(len(points), 1)
    if each * len(points) != size:
        return np.zeros(size, dtype=np.uint64)
    place = np.arange(each, dtype=np.uint64) + np.uint64(2**32 * term + 1)
    return (points[:, None] ^ (place * np.uint64(0x9E3779B97F4A7C15))).reshape(-1)  # Fibonacci hashing


def _gram_rows(system: FiniteProblem, rows: Vector, columns: Vector) -> Matrix:
    """Return rows of the Gram matrix in float64; the last columns are the same functionals as the rows."""
    if system.exact.stored:
        block = to_numpy(system.exact.in_double())[np.ix_(rows, columns)]
    else:
        block = to_numpy(system.exact.part(rows, columns).in_double())
    corner = block[:, len(columns) - len(rows) :]
    corner[...] = (corner + corner.T) / 2
    return block
