"""Conditioning on quadratic terms: their equations, and the conditional covariance of other functionals.

For functionals q with squared losses of weights w, d = 1/(2w), and U an orthonormal basis of the values on q of the
basis functions, everything that the quadratic terms determine is in the solutions of

    S [a; c] = [b; e],        S = [G_qq + diag(d), U; U', 0]

Basis functions that vanish on all of q are not determined.  Conditionally positive definite kernels need nothing else:
S is regular, because G_qq is positive definite on {U'a = 0}.  The *conditioned* Gram matrix of other functionals M is

    G~_MM = G_MM - [G_Mq, B_M] S^-1 [G_qM; B_M']

where B_M are the values on M of the basis functions that q determines.  It is the posterior covariance of a Gaussian
process with a flat prior on the basis and observations with noise of variance 1/(2w); its diagonal is the predictive
variance.

If q is too large for a factorization of S, a variance is that given the nearest functionals, those with the largest
correlation (Vecchia 1988; Stein, Chi and Welty 2004).  It is an upper bound, since conditioning on more functionals
cannot increase a variance, and takes a small factorization instead of an iteration with products of G_qq.  The part
that the other functionals explain is estimated from a sample of the functionals (`share_left`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, double, like, namespace, same_device, to_numpy, zeros
from rkhs._core.backend.memory import budget_bytes, map_in_threads
from rkhs._core.finite.basis import UNDETERMINED, check_determined, largest_entries, on_basis
from rkhs._core.finite.monitor import FACTOR, Monitor, Stopped
from rkhs._core.finite.problem import FiniteProblem, LossBlock, degrees_of_freedom, prior_rows
from rkhs._core.finite.representers import RepresenterTerms, as_representer_terms
from rkhs._core.finite.solution import Covariance, Posterior, Solution
from rkhs._core.gram.operator import Gram, gram
from rkhs._core.limits import limits
from rkhs._core.linalg.cg import IterativeSaddle
from rkhs._core.linalg.saddle import Saddle
from rkhs._core.progress import report_progress
from rkhs.exceptions import NotInTimeError
from rkhs.functionals._base import Functional, stack
from rkhs.solvers._base import fits, in_memory
from rkhs.solvers._preconditioning import preconditioner

TARGETS = 64  # variances between two progress ticks
COLUMNS = 1024  # functionals whose inner products with those of the problem are computed at once
PUSHED = 8192  # functionals of a table of variances, with which those of the problem are pushed forward again


@dataclass(frozen=True, eq=False)
class ConditioningEquations:
    """The quadratic terms of a finite problem, as a problem of their own, and the equations S.

    Its Q are rows of the Q of the whole problem, and orthonormal only together with the others.
    """

    system: FiniteProblem
    tol: float  # relative accuracy of the solutions if S is not factorized
    smallest: float = UNDETERMINED  # norm on q of basis functions of norm one that q determines

    @classmethod
    def of(cls, system: FiniteProblem, tol: float, smallest: float = UNDETERMINED) -> ConditioningEquations:
        part = system.part(system.quadratic_rows, [t for t in system.terms if t.loss.quadratic])
        if not factorable(part):
            return cls(part, tol, smallest)
        inside = in_memory(part)
        return cls(inside.with_geometry(Q=double(part.Q)), tol, smallest)

    @cached_property
    def split(self) -> tuple[Array, Array, Array]:
        """U (q, k), and the maps (r, k) and (r, r - k) from determined and undetermined coefficients to those of Q."""
        Q = double(self.system.Q)
        q, r = Q.shape
        U, sizes, Vt = np.linalg.svd(np.concatenate([Q, np.zeros((max(r - q, 0), r))]), full_matrices=False)
        k = int(np.sum(sizes > self.smallest))
        parts = U[:q, :k], Vt[:k].T / sizes[:k], Vt[k:].T
        U, seen, unseen = (like(np.ascontiguousarray(matrix), self.system.Q) for matrix in parts)
        return U, seen, unseen

    def solve(self, b: Array, e: Array, columns: int = 64) -> tuple[Array, Array, Array]:
        """Return a, c and the residual with S [a; c] = [b - residual; e], for right-hand sides b (q, k) and e.

        With a factor of S, `columns` right-hand sides are solved between two progress ticks, half a second
        for 5,000 rows.
        """
        if isinstance(self._solver, Saddle):
            solutions = []
            for start in range(0, max(b.shape[1], 1), columns):
                report_progress(start / max(b.shape[1], 1))
                batch = slice(start, start + columns)
                solutions.append(self._solver.solve(b[:, batch], e[:, batch]))
            a, c = (np.concatenate(parts, axis=1) for parts in zip(*solutions, strict=True))
            return a, c, np.zeros_like(a)
        return self._solver.solve(b, e)

    def quadratic_forms(self, b: Array, e: Array) -> Array:
        """Return [b; e]' S^-1 [b; e] (k,) of right-hand sides."""
        if isinstance(self._solver, Saddle):
            return self._solver.quadratic_forms(b, e)
        a, c, residual = self._solver.solve(b, e)
        xp = namespace(a)
        # x'S^-1 x ~ (x + residual)'y for y ~ S^-1 x, with an error of the second order
        return xp.vecdot(b + residual, a, axis=0) + xp.vecdot(e, c, axis=0)

    @cached_property
    def _solver(self) -> Saddle | IterativeSaddle:
        U, part, d = self.split[0], self.system, 1 / (2 * self.system.weight)
        if part.gram.stored:
            return Saddle(part.gram.matrix, to_numpy(d)[:, 0], to_numpy(U))
        geometry = replace(part.geometry, Q=U)
        return IterativeSaddle(lambda v: part.gram @ v + d * v, preconditioner(geometry, d), d, self.tol)


def factorable(system: FiniteProblem) -> bool:
    """Return whether the Gram matrix is stored or small enough to be stored and factorized."""
    return system.gram.stored or fits(system)


@dataclass(frozen=True, eq=False)
class ConditionedGram:
    """The covariance of any functionals, given the squared terms of a problem.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e6)
    >>> conditioned = ConditionedGram.of(rkhs.Problem(rkhs.Gaussian(scale=1.0), [term]))
    >>> conditioned.variance(rkhs.Evaluation([[0.0], [0.5], [9.0]])).round(3)
    array([0.  , 0.03, 1.  ])
    """

    represented: RepresenterTerms
    quadratic: ConditioningEquations
    monitor: Monitor

    @classmethod
    def of(
        cls,
        problem: Any,
        tol: float = 1e-8,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> ConditionedGram:
        """Condition on the quadratic terms of a `Problem`, or of its `represented`.

        Parameters
        ----------
        problem : Problem or RepresenterTerms
            The problem.
        tol : float, default=1e-8
            The relative accuracy of conjugate gradients, which are used if there are too many terms to factorize.
        time_limit : float, optional
            The seconds for all later computations with the result; then a TimeoutError is raised.
        verbose : bool, default=False
            Whether to print progress to standard error.

        Returns
        -------
        ConditionedGram
            The conditional covariance.
        """
        represented = as_representer_terms(problem, "ConditionedGram")
        if not any(t.loss.quadratic for t in represented.rows):
            raise ValueError("No term has a Squared loss, so there is no variance: add a term with a Squared loss.")
        if represented.dropped:
            raise ValueError(f"The null space of {represented.kernel!r} was dropped; variances need it in the basis.")
        monitor = Monitor(tol, time_limit, verbose=verbose)
        with _in_time(monitor, represented.functionals):
            quadratic = ConditioningEquations.of(monitor.monitored(represented.system), tol)
        return cls(represented, quadratic, monitor)

    @property
    def outputs(self) -> int | None:
        """The number of outputs; None for a scalar function."""
        return self.represented.outputs

    @property
    def degrees_of_freedom(self) -> int:
        """The degrees of freedom N - r, without terms whose targets are all zero."""
        return degrees_of_freedom(double(self.represented.basis.Q), prior_rows(self.represented.rows))

    def covariance(self, L: Functional, M: Functional | None = None) -> Array:
        """Return the conditioned Gram matrix G~_LM, (l, m); that of L, (l, l), without M."""
        if M is not None:
            return self._between(L, M)
        table = ConditionedTable(self, L).matrix()
        return (table + table.T) / 2

    def _between(self, L: Functional, M: Functional) -> Array:
        """Return G~_LM = G_LM - [G_Lq, B_L] S^-1 [G_qM; B_M'], with G_Lq by products, so that L may be large."""
        prototype, L, M = L.prototype, self._converted(L), self._converted(M)
        B_L, B_M = self._determined(L), self._determined(M)
        q, kernel = self._squared.functionals, self.represented.kernel
        columns = [zeros((L.size, 0), B_L)]
        for piece in _pieces(M, COLUMNS):
            with _in_time(self.monitor, M):
                self.monitor.check()
                a, c = self._solved(self._like_equations(gram(kernel, q, M.take(piece)).dense()), B_M[piece].T)
                prior = self._like_equations(gram(kernel, L, M.take(piece)).dense())
                columns.append(prior - self._like_equations(gram(kernel, L, q) @ like(a, q.prototype)) - B_L @ c)
        return like(namespace(B_L).concat(columns, axis=1), prototype)

    def _solved(self, cross: Array, B: Array) -> tuple[Array, Array]:
        """Return a and c with S [a; c] = [cross; B]."""
        a, c, residual = self.quadratic.solve(cross, B)
        if bool(namespace(residual).any(residual != 0)):  # of conjugate gradients: a correction squares the error
            corrections = self.quadratic.solve(residual, 0 * B)
            a, c = a + corrections[0], c + corrections[1]
        return a, c

    def _determined(self, M: Functional) -> Array:
        """Return the values B_M (m, k) of the basis functions that q determines; M must not depend on others."""
        check_determined(self._undetermined(M), M)
        return self._on_basis(M) @ self.quadratic.split[1]

    def variance(self, M: Functional) -> Array:
        """Return the diagonal of G~_MM, (m,); infinite if M depends on an undetermined basis function."""
        prototype, M = M.prototype, self._converted(M)
        if self._by_nearest:
            with _in_time(self.monitor, M):
                return like(self.share_left * variance_given_nearest(self._squared, M), prototype)
        rows = budget_bytes(None, M.prototype) // (8 * self._squared.functionals.size)
        tables = (ConditionedTable(self, M.take(piece)) for piece in _pieces(M, max(COLUMNS, min(rows, PUSHED))))
        variances = [zeros((0,), M.prototype), *(table.diagonal() for table in tables)]
        return like(namespace(M.prototype).concat(variances), prototype)

    def left_out_variance(self, rows: Matrix) -> Matrix:
        """Return the variances (m,) of targets, noise included, given all others: 1 / P_ii for rows i and P = S^-1.

        With the coefficients a of the minimizer, a_i / P_ii is the leave-one-out residual of row i.
        """
        given = self._squared
        if self._by_nearest:
            noise = 1 / (2 * np.concatenate([double(t.weight)[:, 0] for t in given.rows])[rows])
            return self.share_left * variance_given_nearest(given, given.functionals.take(rows), rows) + noise
        columns = np.zeros((given.functionals.size, len(rows)))
        columns[rows, np.arange(len(rows))] = 1.0
        none = np.zeros((self.quadratic.split[0].shape[1], len(rows)))
        return 1 / to_numpy(self.quadratic.quadratic_forms(*map(self._like_equations, (columns, none))))

    @property
    def rounding(self) -> float:
        """The relative error of a variance, a difference of the prior variance and what the functionals explain."""
        return self.quadratic.system.size * float(np.finfo(to_numpy(self.quadratic.system.Q[:0]).dtype).eps)

    @property
    def _by_nearest(self) -> bool:
        """Whether variances are given the nearest functionals: S is too large, and correlations are defined."""
        large = self.quadratic.system.size > limits().sampled_rows and not factorable(self.quadratic.system)
        return large and not self.represented.kernel.order

    @cached_property
    def _squared(self) -> RepresenterTerms:
        """The problem of the functionals with squared losses."""
        rows = self.represented.system.quadratic_rows
        return self.represented if len(rows) == self.represented.functionals.size else self.represented.part(rows)

    @cached_property
    def share_left(self) -> float:
        """The share of the variance given the nearest functionals that is left given all of them.

        It is that of a problem of a sample of the functionals, which can be factorized.
        """
        given = self._squared
        order = np.random.default_rng(0).permutation(given.functionals.size)
        sample, others = np.split(order, [int(limits().sampled_rows)])
        part, targets = given.part(np.sort(sample)), given.functionals.take(others[:TARGETS])
        exact = double(ConditionedGram.of(part).variance(targets))
        return float(np.sum(exact) / np.sum(variance_given_nearest(part, targets)))

    def _converted(self, M: Functional) -> Functional:
        """Return M with arrays of the namespace and on the device of the representers."""
        prototype = self.represented.functionals.prototype
        return M if same_device(M.prototype, prototype) else M.like(prototype)

    def _like_equations(self, values: Array) -> Array:
        """Return the values as arrays of the kind in which the equations are solved."""
        Q = self.quadratic.system.Q
        return like(to_numpy(values), Q) if isinstance(Q, np.ndarray) else like(values, Q)

    def _on_basis(self, M: Functional) -> Array:
        """Return the values (m, r) on M of the functions whose values on the problem are the columns of Q."""
        basis = self.represented.basis
        return self._like_equations(on_basis(M, basis.space)) @ self._like_equations(basis.back)

    def _undetermined(self, M: Functional) -> Matrix:
        """Return whether each functional of M depends on a basis function that q does not determine, (m,)."""
        basis = self.represented.basis
        P, on_problem = (self._like_equations(on_basis(L, basis.space)) for L in (M, self.represented.functionals))
        in_span = self._on_basis(M) @ (self._like_equations(basis.Q).T @ on_problem)
        undetermined = self._on_basis(M) @ self.quadratic.split[2]
        # P - in_span: basis functions that vanish on all functionals of the problem
        missing = np.concatenate([to_numpy(P - in_span), to_numpy(undetermined)], axis=1)
        given = (M.prototype, self.represented.functionals.prototype)
        rounding = 64 * max(float(np.finfo(to_numpy(array[:0]).dtype).eps) for array in given)  # of P and of Q
        return largest_entries(missing) > max(UNDETERMINED, rounding) * largest_entries(to_numpy(P))


@dataclass(frozen=True, eq=False)
class ConditionedTable:
    """The conditioned Gram matrix of functionals that are pushed forward once, with G_qL in memory."""

    given: ConditionedGram
    L: Functional

    @cached_property
    def _prior(self) -> Gram:
        """The Gram matrix of L and of L and q, whose functionals are pushed forward when it is first used."""
        L, q = self.given._converted(self.L), self.given._squared.functionals
        whole = gram(self.given.represented.kernel, stack([L, q]))
        _ = whole.blocks
        return whole.part(slice(0, L.size), slice(None))

    @cached_property
    def _cross(self) -> Array:
        """G_Lq."""
        return self.given._like_equations(self._prior.part(slice(None), slice(self.L.size, None)).dense())

    @cached_property
    def _on_basis(self) -> Array:
        return self.given._on_basis(self.given._converted(self.L)) @ self.given.quadratic.split[1]

    @cached_property
    def _undetermined(self) -> Matrix:
        return self.given._undetermined(self.given._converted(self.L))

    def diagonal(self) -> Array:
        """Return the variances (l,); infinite if a functional depends on an undetermined basis function.

        A variance below the rounding error of the difference that it is, N eps k(x, x), is this error: rounding acts on
        the equations as noise of this variance would.
        """
        given, parts = self.given, []
        with _in_time(given.monitor, self.L):
            given.monitor.check()
            prior = given._like_equations(self._prior.part(slice(None), slice(0, self.L.size)).diagonal())
            for start in range(0, self.L.size, COLUMNS):
                piece = slice(start, start + COLUMNS)
                parts.append(given.quadratic.quadratic_forms(self._cross[piece].T, self._on_basis[piece].T))
        explained = to_numpy(namespace(prior).concat(parts))
        prior = to_numpy(prior)
        least = given.rounding * np.maximum(np.abs(prior), np.abs(explained))
        # diag(G_MM) - diag([G_Mq, B_M] S^-1 [G_qM; B_M'])
        variances = np.maximum(prior - explained, least)
        return like(np.where(self._undetermined, inf, variances), self.L.prototype)

    def matrix(self) -> Array:
        """Return the whole matrix (l, l)."""
        given, cross, B = self.given, self._cross, self._on_basis
        check_determined(self._undetermined, self.L)
        with _in_time(given.monitor, self.L):
            given.monitor.check()
            a, c = given._solved(cross.T, B.T)
            prior = given._like_equations(self._prior.part(slice(None), slice(0, self.L.size)).dense())
        return like(prior - cross @ a - B @ c, self.L.prototype)


def _pieces(M: Functional, most: int) -> Iterator[slice]:
    """Yield slices of about `most` functionals, cut where the functionals of a point begin."""
    starts = M.group_starts()
    cuts = starts[np.unique(starts // most, return_index=True)[1]]  # the first start in each interval of this length
    for start, stop in pairwise([*cuts.tolist(), M.size]):
        yield slice(start, stop)


def variance_given_nearest(represented: RepresenterTerms, M: Functional, left_out: Matrix | None = None) -> Matrix:
    """Return the variances (m,) of M given the nearest functionals of a problem with squared losses.

    Each functional of M has its own.  With `left_out` (m,), the functional of the problem with this index is not used.
    """
    kernel, M = represented.kernel, M.like(np.zeros(0))
    q = represented.functionals.like(np.zeros(0))
    d = np.concatenate([1 / (2 * double(t.weight)[:, 0]) for t in represented.rows])
    B, B_M = (on_basis(L, represented.basis.space) for L in (q, M))
    size = np.sqrt(double(gram(kernel, q).diagonal()) + d)
    variances, prior = np.empty(M.size), double(gram(kernel, M).diagonal())
    count = min(limits().nearest, q.size - 1)
    for start in range(0, M.size, TARGETS):
        report_progress(start / M.size)
        targets = range(start, min(start + TARGETS, M.size))
        cross = to_numpy(gram(kernel, q, M.take(list(targets))).dense())
        nearness = np.abs(cross) / size[:, None]
        if left_out is not None:
            nearness[left_out[start : targets.stop], np.arange(len(targets))] = -inf

        def variance(j: int, cross: Matrix = cross, nearness: Matrix = nearness, start: int = start) -> float:
            near = np.argpartition(-nearness[:, j - start], count)[:count]
            saddle = Saddle(to_numpy(gram(kernel, q.take(near)).in_double()), d[near], B[near])
            return float(prior[j] - saddle.quadratic_forms(cross[near, j - start][:, None], B_M[j][:, None])[0])

        variances[start : targets.stop] = list(map_in_threads(variance, targets))
    return np.clip(variances, 0, None)


@contextmanager
def _in_time(monitor: Monitor, M: Functional) -> Iterator[None]:
    """Run the block within the time limit of a monitor; raise TimeoutError if it is exceeded."""
    try:
        with monitor.showing(FACTOR):
            yield
    except Stopped as stop:
        raise NotInTimeError(f"The variances of {M!r} could not be computed in time: {stop}.") from None
    finally:
        monitor.close()


@dataclass(frozen=True, eq=False)
class PosteriorSource:
    """The data from which the posterior of a solution is computed on demand."""

    given: Any  # the problem, or its covariance in a subspace

    @classmethod
    def of(cls, represented: RepresenterTerms, rows: tuple[LossBlock, ...]) -> PosteriorSource | None:
        """Return the source for a problem with the given loss blocks; None if it has no Gaussian posterior.

        Rows of weight zero, which folds leave out, are dropped when the posterior is computed.
        """
        if represented.dropped or not all(t.loss.quadratic for t in rows):
            return None
        return cls(replace(represented, rows=rows, precision=None))

    def __getstate__(self) -> dict[str, Any]:
        return {"given": replace(self.given)}  # without cached properties

    @cached_property
    def spread(self) -> Covariance:
        """The posterior covariance of f, in units of tau^2."""
        if not isinstance(self.given, RepresenterTerms):
            return self.given
        kept = np.concatenate([np.flatnonzero(to_numpy(t.weight)[:, 0] > 0) + t.rows.start for t in self.given.rows])
        every = len(kept) == self.given.functionals.size
        return ConditionedGram.of(self.given if every else self.given.part(kept))

    def posterior(self, solution: Solution) -> Posterior:
        """Return the posterior with the solution as its mean, and tau from the minimum of J for each output."""
        spread = self.spread
        free = spread.degrees_of_freedom
        if free < 1:
            raise ValueError(
                "There are no more functionals than basis functions: add functionals, or take a smaller basis."
            )
        tau: Matrix = np.sqrt(2 * np.clip(solution.certificate.primal, 0, None) / free)
        return Posterior(solution.function, spread, float(tau[0]) if spread.outputs is None else tau)
