"""The warped kernel: the space that is left after some functionals were observed (theory, section 4).

With the equations S of the observed functionals q (`observed`), the Gram matrix of other functionals M in what they
leave undetermined is

    G~_MM = G_MM - [G_Mq, B_M] S^-1 [G_qM; B_M']

where B_M are the values on M of the basis functions that q sees.  It is the posterior covariance of a Gaussian process
with a flat prior on the basis that was observed with noise of variance 1/(2w); its diagonal is the predictive variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, like, namespace, to_numpy, zeros
from rkhs._finite.basis import on_basis
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.representers import RepresenterProblem, represented_by
from rkhs._gram import gram
from rkhs.functionals.base import Functional
from rkhs.solvers.observed import SEEN, Observed

COLUMNS = 1024  # of G_qM that are stored at a time
ROUNDED = 64  # units of rounding of the points, by which a basis function that is seen may seem not to be


@contextmanager
def _in_time(monitor: Monitor, M: Functional) -> Iterator[None]:
    """Work within the time limit."""
    try:
        with monitor.showing(FACTOR):
            yield
    except Stopped as stop:
        raise TimeoutError(f"The variances of {M!r} are not known yet: {stop}.") from None
    finally:
        monitor.close()


@dataclass(frozen=True, eq=False)
class WarpedGram:
    """What squared terms leave of a kernel: the covariance of any functionals given them.

    The covariance of any functionals given the quadratic terms of a problem.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e6)
    >>> warped = WarpedGram.of(rkhs.Problem(rkhs.Gaussian(scale=1.0), [term]))
    >>> warped.variance(rkhs.Evaluation([[0.0], [0.5], [9.0]])).round(3)
    array([0.  , 0.03, 1.  ])
    """

    represented: RepresenterProblem
    observed: Observed
    monitor: Monitor

    @classmethod
    def of(
        cls, problem: Any, tol: float = 1e-8, time_limit: float | None = None, verbose: bool | None = None
    ) -> WarpedGram:
        """Given the quadratic terms of a `Problem`, or of its `represented`.

        `tol` is the relative accuracy where there are too many to be exact.

        A time limit, in seconds for all that is asked for, ends in a TimeoutError: half a variance is none.  Ctrl-C is
        raised; progress is shown on a terminal after two seconds, where `verbose` does not say otherwise.
        """
        represented = represented_by(problem, "WarpedGram")
        if not any(t.loss.quadratic for t in represented.rows):
            raise ValueError("No term has a Squared loss: there is nothing that could determine a variance.")
        if represented.dropped:
            raise ValueError(f"The null space of {represented.kernel!r} was dropped: variances are known with it only.")
        monitor = Monitor(tol, time_limit, verbose=verbose)
        with _in_time(monitor, represented.functionals):
            observed = Observed.of(monitor.watching(represented.system), tol)
        return cls(represented, observed, monitor)

    def covariance(self, M: Functional) -> Array:
        """G~_MM, (m, m)."""
        if np.any(self._unseen(M)):
            raise ValueError(
                f"{M!r} sees a basis function that no Squared term determines, so its variance is infinite: "
                "add such a term, or leave the basis out."
            )
        B = self._on_basis(M) @ self.observed.split[1]
        xp = namespace(B)
        own, solutions, known = [], [], []
        for piece, cross, a, c, residual in self._solutions(M, B):
            own.append(self._here(gram(self.represented.kernel, M, M.take(piece)).dense()) - B @ c)
            solutions.append(a)
            known.append(cross + residual)
        table = xp.concat(own, axis=1) - xp.concat(solutions, axis=1).T @ xp.concat(known, axis=1)
        return like((table + table.T) / 2, M.prototype)

    def variance(self, M: Functional) -> Array:
        """The diagonal of G~_MM, (m,): infinite where M sees a basis function that no quadratic term does."""
        B = self._on_basis(M) @ self.observed.split[1]
        xp = namespace(B)
        found = [zeros((0,), B)]
        for piece, cross, a, c, residual in self._solutions(M, B):
            known = xp.vecdot(cross + residual, a, axis=0) + xp.sum(B[piece] * c.T, axis=1)
            found.append(self._here(gram(self.represented.kernel, M.take(piece)).diagonal()) - known)
        variance = to_numpy(xp.clip(xp.concat(found), 0, None))
        return like(np.where(self._unseen(M), inf, variance), M.prototype)

    def _solutions(self, M: Functional, B: Array) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
        """Some columns at a time: which, G_qM, and the solution a, c, residual for [G_qM; B_M']."""
        q = self.represented.functionals.take(self.represented.system.quadratic_rows)
        for start in range(0, M.size, COLUMNS):
            piece = slice(start, min(start + COLUMNS, M.size))
            with _in_time(self.monitor, M):
                self.monitor.check()
                cross = self._here(gram(self.represented.kernel, q, M.take(piece)).dense())
                solution = self.observed.solve(cross, B[piece].T)
            yield piece, cross, *solution

    def _here(self, values: Array) -> Array:
        """The values as arrays of the kind in which the equations are solved."""
        Q = self.observed.system.Q
        return like(to_numpy(values), Q) if isinstance(Q, np.ndarray) else like(values, Q)

    def _on_basis(self, M: Functional) -> Array:
        """The values (m, r) on M of the functions whose values on the system are the columns of Q."""
        basis = self.represented.basis
        if basis.space is None:
            return self._here(np.zeros((M.size, 0)))
        return self._here(on_basis(M, basis.space)) @ self._here(basis.back)

    def _unseen(self, M: Functional) -> np.ndarray[Any, Any]:
        """Whether M sees a basis function that q does not see, (m,)."""
        basis = self.represented.basis
        if basis.space is None:
            return np.zeros(M.size, dtype=bool)
        P, all_of_it = (self._here(on_basis(L, basis.space)) for L in (M, self.represented.functionals))
        known = self._on_basis(M) @ (self._here(basis.Q).T @ all_of_it)
        elsewhere = self._on_basis(M) @ self.observed.split[2]
        left = np.concatenate([to_numpy(P - known), to_numpy(elsewhere)], axis=1)  # P - known: seen by no functional
        resolved = max(SEEN, ROUNDED * float(np.finfo(to_numpy(M.prototype[:0]).dtype).eps))
        return np.max(np.abs(left), axis=1, initial=0.0) > resolved * np.max(np.abs(to_numpy(P)), axis=1, initial=0.0)
