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

*In a subspace* the process splits into its part there, with independent standard normal coefficients tau of orthonormal
functions psi R, and an independent part.  Given the terms, (c, tau) has the covariance (S + diag(0, I))^-1
(`_projected`), with a flat prior on the basis functions; so a functional M has the variance

    k_MM - |e|^2  +  E (S + diag(0, I))^-1 E',        e = M(psi R),  E = [M(p), e]

The first difference is the variance of M outside the subspace.  If the functionals of all terms are among the
landmarks, the terms carry no information about it, and the sum is the variance above.  Otherwise they do, and the sum
neglects it: it is the variance of the best Gaussian approximation that keeps the prior outside the subspace.  For
random features, which define the kernel themselves, nothing is outside.  For conditionally positive definite kernels
k_MM - |e|^2 is the variance of M - sum_b a_b L_b, with landmarks L and coefficients a that reproduce the polynomials of
M; the variance of M itself is not defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from rkhs._backend.arrays import Array, Matrix, double, like, namespace, same_device, to_numpy, zeros
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.problem import FiniteProblem
from rkhs._finite.representers import RepresenterProblem, as_representer_problem
from rkhs._gram.operator import gram
from rkhs._linalg.cg import IterativeSaddle
from rkhs._linalg.saddle import Saddle
from rkhs._progress import report_progress
from rkhs._spaces import DenseSpace, LandmarkSpace
from rkhs.functionals._base import Functional
from rkhs.solvers._base import fits, in_memory
from rkhs.solvers._preconditioning import preconditioner
from rkhs.solvers._reduced import Curvature

if TYPE_CHECKING:
    from rkhs._problem.problem import Problem

RANK_TOL = 1e-9  # basis functions of norm one on all rows count as zero on a subset below this norm


@dataclass(frozen=True, eq=False)
class QuadraticTerms:
    """The quadratic terms of a finite problem, as a problem of their own, and the equations S.

    Its Q are rows of the Q of the whole problem, and orthonormal only together with the others.
    """

    system: FiniteProblem
    tol: float  # relative accuracy of the solutions if S is not factorized

    @classmethod
    def of(cls, system: FiniteProblem, tol: float) -> QuadraticTerms:
        part = system.part(system.quadratic_rows, [t for t in system.terms if t.loss.quadratic])
        if not factorable(part):
            return cls(part, tol)
        inside = in_memory(part)
        return cls(inside.with_geometry(Q=double(part.Q)), tol)

    @cached_property
    def split(self) -> tuple[Array, Array, Array]:
        """U (q, k), and the maps (r, k) and (r, r - k) from determined and undetermined coefficients to those of Q."""
        Q = double(self.system.Q)
        q, r = Q.shape
        U, sizes, Vt = np.linalg.svd(np.concatenate([Q, np.zeros((max(r - q, 0), r))]), full_matrices=False)
        k = int(np.sum(sizes > RANK_TOL))
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

    @cached_property
    def _solver(self) -> Saddle | IterativeSaddle:
        U, part, d = self.split[0], self.system, 1 / (2 * self.system.weight)
        if part.gram.stored:
            return Saddle(to_numpy(part.gram.dense()), to_numpy(d)[:, 0], to_numpy(U))
        geometry = replace(part.geometry, Q=U)
        return IterativeSaddle(lambda v: part.gram @ v + d * v, preconditioner(geometry, d), d, self.tol)


def factorable(system: FiniteProblem) -> bool:
    """Return whether the Gram matrix is stored or small enough to be stored and factorized."""
    return system.gram.stored or fits(system.size)


def _check_determined(undetermined: Matrix, M: Functional) -> None:
    if np.any(undetermined):
        raise ValueError(
            f"{M!r} depends on a basis function that no Squared term determines, so its variance is infinite: "
            "add such a term, or omit the basis."
        )


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

    represented: RepresenterProblem
    quadratic: QuadraticTerms
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
        problem : Problem or RepresenterProblem
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
        represented = as_representer_problem(problem, "ConditionedGram")
        if not any(t.loss.quadratic for t in represented.rows):
            raise ValueError("No term has a Squared loss, so there is no variance: add a term with a Squared loss.")
        if represented.dropped:
            raise ValueError(f"The null space of {represented.kernel!r} was dropped; variances need it in the basis.")
        monitor = Monitor(tol, time_limit, verbose=verbose)
        with _in_time(monitor, represented.functionals):
            quadratic = QuadraticTerms.of(monitor.monitored(represented.system), tol)
        return cls(represented, quadratic, monitor)

    def covariance(self, M: Functional) -> Array:
        """Return the conditioned Gram matrix G~_MM, (m, m)."""
        prototype, M = M.prototype, self._converted(M)
        _check_determined(self._undetermined(M), M)
        B = self._on_basis(M) @ self.quadratic.split[1]
        xp = namespace(B)
        prior, solutions, crosses = [], [], []
        for piece, cross, a, c, residual in self._solutions(M, B):
            prior.append(self._like_equations(gram(self.represented.kernel, M, M.take(piece)).dense()) - B @ c)
            solutions.append(a)
            crosses.append(cross + residual)
        table = xp.concat(prior, axis=1) - xp.concat(solutions, axis=1).T @ xp.concat(crosses, axis=1)
        return like((table + table.T) / 2, prototype)

    def variance(self, M: Functional) -> Array:
        """Return the diagonal of G~_MM, (m,); infinite if M depends on an undetermined basis function."""
        prototype, M = M.prototype, self._converted(M)
        B = self._on_basis(M) @ self.quadratic.split[1]
        xp = namespace(B)
        variances = [zeros((0,), B)]
        for piece, cross, a, c, residual in self._solutions(M, B):
            explained = xp.vecdot(cross + residual, a, axis=0) + xp.sum(B[piece] * c.T, axis=1)
            prior = self._like_equations(gram(self.represented.kernel, M.take(piece)).diagonal())
            variances.append(prior - explained)
        variance = to_numpy(xp.clip(xp.concat(variances), 0, None))
        return like(np.where(self._undetermined(M), inf, variance), prototype)

    def _converted(self, M: Functional) -> Functional:
        """Return M with arrays of the namespace and on the device of the representers."""
        prototype = self.represented.functionals.prototype
        return M if same_device(M.prototype, prototype) else M.like(prototype)

    def _solutions(
        self, M: Functional, B: Array, columns: int = 1024
    ) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
        """Yield batches of columns: their slice, G_qM, and the solution a, c, residual for [G_qM; B_M']."""
        q = self.represented.functionals.take(self.represented.system.quadratic_rows)
        for start in range(0, M.size, columns):
            piece = slice(start, min(start + columns, M.size))
            with _in_time(self.monitor, M):
                self.monitor.check()
                cross = self._like_equations(gram(self.represented.kernel, q, M.take(piece)).dense())
                solution = self.quadratic.solve(cross, B[piece].T)
            yield piece, cross, *solution

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
        return _largest(missing) > max(RANK_TOL, rounding) * _largest(to_numpy(P))


@contextmanager
def _in_time(monitor: Monitor, M: Functional) -> Iterator[None]:
    """Run the block within the time limit of a monitor; raise TimeoutError if it is exceeded."""
    try:
        with monitor.showing(FACTOR):
            yield
    except Stopped as stop:
        raise TimeoutError(f"The variances of {M!r} could not be computed in time: {stop}.") from None
    finally:
        monitor.close()


def _largest(rows: Matrix) -> Matrix:
    return np.max(np.abs(rows), axis=1, initial=0.0)


@dataclass(frozen=True, eq=False)
class SubspaceCovariance:
    """The covariance of any functionals, given the quadratic terms of a problem on a subspace."""

    space: DenseSpace
    basis: FunctionSpace | None
    R: Matrix  # (p, m), from coefficients of orthonormal functions to those of the psi
    curvature: Curvature
    degrees_of_freedom: int
    outputs: int | None

    def variance(self, M: Functional) -> Array:
        """Return the variances (m,), infinite where M depends on a basis function that no term determines."""
        variances = [np.zeros(0)]
        for piece in map(M.take, self.space.tiles(M.size)):
            psi, A, left, E, undetermined = self._rows(piece)
            variance = self.curvature.variance(E)
            if isinstance(self.space, LandmarkSpace):
                outside = double(gram(self.space.kernel, piece).diagonal()) - np.sum((psi + left) * A, axis=1)
                variance += np.clip(outside - np.sum((left @ self.R) ** 2, axis=1), 0, None)
            variances.append(np.where(undetermined, inf, variance))
            report_progress(sum(map(len, variances)) / M.size)
        return like(np.concatenate(variances), M.prototype)

    def within(self, M: Functional) -> Matrix:
        """Return the part (m,) of the variances that is inside the subspace."""
        parts = [self.curvature.variance(self._rows(piece)[3]) for piece in map(M.take, self.space.tiles(M.size))]
        return np.concatenate([np.zeros(0), *parts])

    def covariance(self, M: Functional) -> Array:
        """Return the covariances, (m, m)."""
        psi, A, left, E, undetermined = self._rows(M)
        _check_determined(undetermined, M)
        covariance = self.curvature.covariance(E)
        if isinstance(self.space, LandmarkSpace):
            e = left @ self.R
            covariance += double(gram(self.space.kernel, M).dense()) - left @ A.T - A @ psi.T - e @ e.T
        return like((covariance + covariance.T) / 2, M.prototype)

    def _rows(self, M: Functional) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
        """Return psi (m, p) on M, the coefficients a (m, p), psi on M - sum_b a_b L_b, E, and undetermined rows."""
        psi, (A, missed) = to_numpy(self.space.rows(M)), self.space.annihilated(M)
        P = on_basis(M, self.basis)
        E = np.concatenate([P, psi @ self.R], axis=1)
        undetermined = missed | (_largest(P @ self.curvature.unseen) > RANK_TOL * _largest(P))
        left = psi - A @ self.space.gram if len(self.space.constraints) else psi
        return psi, A, left, E, undetermined
