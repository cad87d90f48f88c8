"""What quadratic terms determine, and the covariance that they leave (theory, section 4).

For functionals q with squared losses of weights w, d = 1/(2w), and U the values on q of those basis functions that q
sees, made orthonormal, everything that the quadratic terms determine is in the solutions of

    S [a; c] = [b; e],        S = [G_qq + diag(d), U; U', 0]

Basis functions that vanish on all of q are not determined by them.  Conditionally positive definite kernels need
nothing else: S is regular, because G_qq is positive definite on {U'a = 0}.  The *warped* Gram matrix of other
functionals M is

    G~_MM = G_MM - [G_Mq, B_M] S^-1 [G_qM; B_M']

where B_M are the values on M of the basis functions that q sees.  It is the posterior covariance of a Gaussian process
with a flat prior on the basis that was observed with noise of variance 1/(2w); its diagonal is the predictive variance.

*In a subspace* the process splits into its part there, with independent standard normal coefficients tau on orthonormal
functions psi R, and a part that is independent of it.  Given the terms, (c, tau) has the covariance
(S + diag(0, I))^-1 (`_projected`), flat in the basis functions at first; so a functional M has the variance

    k_MM - |e|^2  +  E (S + diag(0, I))^-1 E',        e = M(psi R),  E = [M(p), e]

The first difference is what M has outside of the subspace.  Where the functionals of all terms are among the landmarks
the terms say nothing about it, and the sum is the variance above.  Else they would, and the sum leaves that out: it is
the variance of the best Gaussian approximation whose part outside of the subspace is as it was before any data.  For
features, which stand for k themselves, nothing is outside.  Conditionally positive definite kernels have k_MM - |e|^2
after an a with the polynomials of M was taken from it: the variance of M - sum_b a_b L_b, for the landmarks L, instead
of that of M, which is not defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from rkhs._backend.arrays import Array, Matrix, in_one_place, like, namespace, to_numpy, zeros
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.problem import FiniteProblem
from rkhs._finite.representers import RepresenterProblem, represented_by
from rkhs._gram.operator import gram
from rkhs._linalg.cg import IterativeSaddle
from rkhs._linalg.saddle import Saddle
from rkhs._progress import tick
from rkhs._spaces import DenseSpace, LandmarkSpace
from rkhs.functionals._base import Functional
from rkhs.solvers._base import double, fits, in_memory
from rkhs.solvers._preconditioning import preconditioner
from rkhs.solvers._projected import ProjectedProblem
from rkhs.solvers._reduced import Curvature

if TYPE_CHECKING:
    from rkhs._problem.problem import Problem

SEEN = 1e-9  # the size of a basis function on some rows, among functions of size one on all, that counts as zero


@dataclass(frozen=True, eq=False)
class QuadraticTerms:
    """The quadratic terms of a finite problem, as a problem of their own, and the equations S that they satisfy.

    Its Q are the rows of the whole problem's, which are orthonormal with all others only.
    """

    system: FiniteProblem
    tol: float  # of the solutions, where S is not factorized

    @classmethod
    def of(cls, system: FiniteProblem, tol: float) -> QuadraticTerms:
        given = system.part(system.quadratic_rows, [t for t in system.terms if t.loss.quadratic])
        if not factorable(given):
            return cls(given, tol)
        inside = in_memory(given)
        return cls(inside.with_geometry(Q=double(given.Q)), tol)

    @cached_property
    def split(self) -> tuple[Array, Array, Array]:
        """U (q, k), and the maps from its coefficients, and from those of what q does not see, to coefficients of Q.

        The maps are (r, k) and (r, r - k).
        """
        Q = double(self.system.Q)
        q, r = Q.shape
        U, sizes, Vt = np.linalg.svd(np.concatenate([Q, np.zeros((max(r - q, 0), r))]), full_matrices=False)
        k = int(np.sum(sizes > SEEN))
        parts = U[:q, :k], Vt[:k].T / sizes[:k], Vt[k:].T
        U, seen, unseen = (like(np.ascontiguousarray(matrix), self.system.Q) for matrix in parts)
        return U, seen, unseen

    def solve(self, b: Array, e: Array, columns: int = 64) -> tuple[Array, Array, Array]:
        """Return a, c and the residual with S [a; c] = [b - residual; e], for right-hand sides b (q, k) and e.

        With a factor of S so many columns are solved together between two ticks: half a second with 5,000 rows.
        """
        if isinstance(self._solver, Saddle):
            found = []
            for start in range(0, max(b.shape[1], 1), columns):
                tick(start / max(b.shape[1], 1))
                some = slice(start, start + columns)
                found.append(self._solver.solve(b[:, some], e[:, some]))
            a, c = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
            return a, c, np.zeros_like(a)
        return self._solver.solve(b, e)

    @cached_property
    def _solver(self) -> Saddle | IterativeSaddle:
        U, given, d = self.split[0], self.system, 1 / (2 * self.system.weight)
        if given.gram.stored:
            return Saddle(to_numpy(given.gram.dense()), to_numpy(d)[:, 0], to_numpy(U))
        seen = replace(given.geometry, Q=U)
        return IterativeSaddle(lambda v: given.gram @ v + d * v, preconditioner(seen, d), d, self.tol)


def factorable(system: FiniteProblem) -> bool:
    """Return whether the Gram matrix of a problem is to be stored and factorized, for many right-hand sides."""
    return system.gram.stored or fits(system.size)


def _refuse_infinite(undetermined: Matrix, M: Functional) -> None:
    if np.any(undetermined):
        raise ValueError(
            f"{M!r} sees a basis function that no Squared term determines, so its variance is infinite: "
            "add such a term, or leave the basis out."
        )


@dataclass(frozen=True, eq=False)
class ConditionedGram:
    """What squared terms leave of a kernel: the covariance of any functionals given the squared terms of a problem.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e6)
    >>> warped = ConditionedGram.of(rkhs.Problem(rkhs.Gaussian(scale=1.0), [term]))
    >>> warped.variance(rkhs.Evaluation([[0.0], [0.5], [9.0]])).round(3)
    array([0.  , 0.03, 1.  ])
    """

    represented: RepresenterProblem
    observed: QuadraticTerms
    monitor: Monitor

    @classmethod
    def of(
        cls,
        problem: Problem | RepresenterProblem,
        tol: float = 1e-8,
        time_limit: float | None = None,
        verbose: bool = False,
    ) -> ConditionedGram:
        """Condition on the quadratic terms of a `Problem`, or of its `represented`.

        Parameters
        ----------
        tol : the relative accuracy of conjugate gradients, where there are too many terms for a factorization
        time_limit : seconds for everything that is asked of the result, after which a TimeoutError is raised
        verbose : whether to print progress to standard error
        """
        represented = represented_by(problem, "ConditionedGram")
        if not any(t.loss.quadratic for t in represented.rows):
            raise ValueError("No term has a Squared loss: there is nothing that could determine a variance.")
        if represented.dropped:
            raise ValueError(f"The null space of {represented.kernel!r} was dropped: variances are known with it only.")
        monitor = Monitor(tol, time_limit, verbose=verbose)
        with _in_time(monitor, represented.functionals):
            observed = QuadraticTerms.of(monitor.watching(represented.system), tol)
        return cls(represented, observed, monitor)

    def covariance(self, M: Functional) -> Array:
        """Return G~_MM, (m, m)."""
        home, M = M.prototype, self._beside(M)
        _refuse_infinite(self._undetermined(M), M)
        B = self._on_basis(M) @ self.observed.split[1]
        xp = namespace(B)
        own, solutions, known = [], [], []
        for piece, cross, a, c, residual in self._solutions(M, B):
            own.append(self._here(gram(self.represented.kernel, M, M.take(piece)).dense()) - B @ c)
            solutions.append(a)
            known.append(cross + residual)
        table = xp.concat(own, axis=1) - xp.concat(solutions, axis=1).T @ xp.concat(known, axis=1)
        return like((table + table.T) / 2, home)

    def variance(self, M: Functional) -> Array:
        """Return the diagonal of G~_MM, (m,): infinite where M sees a basis function that no quadratic term does."""
        home, M = M.prototype, self._beside(M)
        B = self._on_basis(M) @ self.observed.split[1]
        xp = namespace(B)
        found = [zeros((0,), B)]
        for piece, cross, a, c, residual in self._solutions(M, B):
            known = xp.vecdot(cross + residual, a, axis=0) + xp.sum(B[piece] * c.T, axis=1)
            found.append(self._here(gram(self.represented.kernel, M.take(piece)).diagonal()) - known)
        variance = to_numpy(xp.clip(xp.concat(found), 0, None))
        return like(np.where(self._undetermined(M), inf, variance), home)

    def _beside(self, M: Functional) -> Functional:
        """Return M with arrays of the kind, and on the device, of the representers."""
        there = self.represented.functionals.prototype
        return M if in_one_place(M.prototype, there) else M.like(there)

    def _solutions(
        self, M: Functional, B: Array, columns: int = 1024
    ) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
        """Yield some columns at a time: which, G_qM, and the solution a, c, residual for [G_qM; B_M']."""
        q = self.represented.functionals.take(self.represented.system.quadratic_rows)
        for start in range(0, M.size, columns):
            piece = slice(start, min(start + columns, M.size))
            with _in_time(self.monitor, M):
                self.monitor.check()
                cross = self._here(gram(self.represented.kernel, q, M.take(piece)).dense())
                solution = self.observed.solve(cross, B[piece].T)
            yield piece, cross, *solution

    def _here(self, values: Array) -> Array:
        """Return the values as arrays of the kind in which the equations are solved."""
        Q = self.observed.system.Q
        return like(to_numpy(values), Q) if isinstance(Q, np.ndarray) else like(values, Q)

    def _on_basis(self, M: Functional) -> Array:
        """Return the values (m, r) on M of the functions whose values on the problem are the columns of Q."""
        basis = self.represented.basis
        return self._here(on_basis(M, basis.space)) @ self._here(basis.back)

    def _undetermined(self, M: Functional) -> Matrix:
        """Return whether M sees a basis function that q does not see, (m,)."""
        basis = self.represented.basis
        P, every = (self._here(on_basis(L, basis.space)) for L in (M, self.represented.functionals))
        known = self._on_basis(M) @ (self._here(basis.Q).T @ every)
        elsewhere = self._on_basis(M) @ self.observed.split[2]
        left = np.concatenate([to_numpy(P - known), to_numpy(elsewhere)], axis=1)  # P - known: seen by no functional
        rounding = 64 * float(np.finfo(to_numpy(M.prototype[:0]).dtype).eps)  # of the points of M
        return _largest(left) > max(SEEN, rounding) * _largest(to_numpy(P))


@contextmanager
def _in_time(monitor: Monitor, M: Functional) -> Iterator[None]:
    """Work within the time limit of a monitor."""
    try:
        with monitor.showing(FACTOR):
            yield
    except Stopped as stop:
        raise TimeoutError(f"The variances of {M!r} are not known yet: {stop}.") from None
    finally:
        monitor.close()


def _largest(rows: Matrix) -> Matrix:
    return np.max(np.abs(rows), axis=1, initial=0.0)


@dataclass(frozen=True, eq=False)
class SubspaceCovariance:
    """The covariance of any functionals, given the quadratic terms of a problem on a subspace.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs._finite.features import FeatureBlocks
    >>> X = np.array([[0.0], [1.0]])
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e6)
    >>> space = LandmarkSpace(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X))
    >>> covariance = SubspaceCovariance.of(ProjectedProblem(FeatureBlocks.of(space, None, [term], None)))
    >>> covariance.variance(rkhs.Evaluation([[0.0], [0.5], [9.0]])).round(3)
    array([0.  , 0.03, 1.  ])
    """

    space: DenseSpace
    basis: FunctionSpace | None
    R: Matrix  # (p, m), from coefficients of orthonormal functions to those of the psi
    curvature: Curvature
    degrees_of_freedom: int
    outputs: int | None

    @classmethod
    def of(cls, problem: ProjectedProblem) -> SubspaceCovariance:
        """Return the covariance from a problem all of whose losses are squared."""
        assert problem.quadratic, "a loss is not squared"
        features, weighted = problem.features, problem.weighted()
        R = problem.functions.map[:, : weighted.resolved - problem.rank]
        return cls(features.space, features.basis, R, weighted.curvature, problem.free, features.outputs)

    def variance(self, M: Functional) -> Array:
        """Return the variances (m,), infinite where M sees a basis function that no term does."""
        found = [np.zeros(0)]
        for piece in map(M.take, self.space.tiles(M.size)):
            psi, A, left, E, undetermined = self._rows(piece)
            variance = self.curvature.variance(E)
            if isinstance(self.space, LandmarkSpace):
                outside = double(gram(self.space.kernel, piece).diagonal()) - np.sum((psi + left) * A, axis=1)
                variance += np.clip(outside - np.sum((left @ self.R) ** 2, axis=1), 0, None)
            found.append(np.where(undetermined, inf, variance))
        return like(np.concatenate(found), M.prototype)

    def within(self, M: Functional) -> Matrix:
        """Return the part (m,) of the variances that is in the subspace."""
        found = [self.curvature.variance(self._rows(piece)[3]) for piece in map(M.take, self.space.tiles(M.size))]
        return np.concatenate([np.zeros(0), *found])

    def covariance(self, M: Functional) -> Array:
        """Return the covariances, (m, m)."""
        psi, A, left, E, undetermined = self._rows(M)
        _refuse_infinite(undetermined, M)
        found = self.curvature.covariance(E)
        if isinstance(self.space, LandmarkSpace):
            e = left @ self.R
            found += double(gram(self.space.kernel, M).dense()) - left @ A.T - A @ psi.T - e @ e.T
        return like((found + found.T) / 2, M.prototype)

    def _rows(self, M: Functional) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
        """Return psi (m, p) on M, the a (m, p) above, psi on M - sum_b a_b L_b, E, and whether E is undetermined."""
        psi, (A, missed) = to_numpy(self.space.rows(M)), self.space.annihilated(M)
        P = on_basis(M, self.basis)
        E = np.concatenate([P, psi @ self.R], axis=1)
        undetermined = missed | (_largest(P @ self.curvature.unseen) > SEEN * _largest(P))
        left = psi - A @ self.space.gram if len(self.space.constraints) else psi
        return psi, A, left, E, undetermined
