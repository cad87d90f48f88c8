"""Functionals observed with Gaussian noise, and what they determine (theory, section 4).

For functionals q with squared losses of weights w, d = 1/(2w), and U the values on q of those basis functions that q
sees, made orthonormal, everything that the quadratic terms say is in the solutions of

    S [a; c] = [b; e],        S = [G_qq + diag(d), U; U', 0]

Basis functions that vanish on all of q are not determined by them.  Conditionally positive definite kernels need
nothing else: S is regular, because G_qq is positive definite on {U'a = 0}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rkhs._backend.arrays import Array, like, to_numpy
from rkhs._finite.problem import FiniteProblem
from rkhs._linalg.cg import IterativeSaddle
from rkhs._linalg.saddle import Saddle
from rkhs._progress import tick
from rkhs.solvers.dense import double, fits, in_memory
from rkhs.solvers.preconditioning import preconditioner

COLUMNS = 64  # right-hand sides that are solved together, between two ticks: half a second with 5,000 rows
SEEN = 1e-9  # the size of a basis function on some rows, among functions of size one on all, that counts as zero


@dataclass(frozen=True, eq=False)
class Observed:
    """The functionals q, as a system of their own, whose Q are the rows of the whole system's."""

    system: FiniteProblem
    tol: float  # of the solutions, where S is not factorised

    @classmethod
    def of(cls, system: FiniteProblem, tol: float) -> Observed:
        """The quadratic terms of a system."""
        given = system.part(system.quadratic_rows, [t for t in system.terms if t.loss.quadratic])
        if not factorable(given):
            return cls(given, tol)
        inside = in_memory(given)  # but with those rows of Q, which are orthonormal with all others only
        return cls(replace(inside, geometry=replace(inside.geometry, Q=double(given.Q))), tol)

    @cached_property
    def d(self) -> Array:
        """1/(2w), (q, 1)."""
        return 1 / (2 * self.system.weight)

    @cached_property
    def target(self) -> Array:
        """(q, c)."""
        return self.system.target

    @cached_property
    def split(self) -> tuple[Array, Array, Array]:
        """U (q, k), and from its coefficients, and those of what q does not see, to Q's: (r, k) and (r, r - k)."""
        Q = to_numpy(self.system.Q).astype(np.float64)
        q, r = Q.shape
        U, sizes, Vt = np.linalg.svd(np.concatenate([Q, np.zeros((max(r - q, 0), r))]), full_matrices=False)
        k = int(np.sum(sizes > SEEN))
        parts = U[:q, :k], Vt[:k].T / sizes[:k], Vt[k:].T
        U, seen, unseen = (like(np.ascontiguousarray(matrix), self.system.Q) for matrix in parts)
        return U, seen, unseen

    def solve(self, b: Array, e: Array) -> tuple[Array, Array, Array]:
        """a, c and residual with S [a; c] = [b - residual; e], for columns b (q, k) and e."""
        if isinstance(self._solver, Saddle):
            found = []
            for start in range(0, max(b.shape[1], 1), COLUMNS):
                tick(start / max(b.shape[1], 1))
                some = slice(start, start + COLUMNS)
                found.append(self._solver.solve(b[:, some], e[:, some]))
            a, c = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
            return a, c, np.zeros_like(a)
        return self._solver.solve(b, e)

    @cached_property
    def _solver(self) -> Saddle | IterativeSaddle:
        U, given = self.split[0], self.system
        if given.gram.stored:
            return Saddle(to_numpy(given.gram.dense()), to_numpy(self.d)[:, 0], to_numpy(U))

        def product(v: Array) -> Array:
            return given.gram @ v + self.d * v

        seen = replace(given.geometry, Q=U)
        return IterativeSaddle(product, preconditioner(seen, self.d), self.d, self.tol)


def factorable(system: FiniteProblem) -> bool:
    """Whether the Gram matrix of a system is to be stored and factorised, for many right-hand sides."""
    return system.gram.stored or fits(system.size)
