"""Conjugate gradients on blocks: saddle points by products alone.

    K a + Q c = b,    Q'a = 0,         K = G + diag(d)

Each column is a problem of its own; they share the products with K, which cost little more for several columns than
for one.  The preconditioner solves the same equations with an M near K in its place, so that all directions satisfy the
constraint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, identity, inner, like, namespace, taken, to_numpy, zeros

ROWS = 2**14  # of F at a time


class BlockCG:
    """The state of conjugate gradients on several columns, and its steps.

    `a` (N, k) satisfies Q'a = 0, and `residual` is b - K a - Q c for a `basis` c (r, k) that keeps it small: what of it
    were in the span of Q would drown the rest.
    """

    def __init__(self, product: Callable[[Array], Array], precondition: Preconditioner) -> None:
        self.product, self.precondition = product, precondition

    def begin(self, a: Array, residual: Array) -> None:
        """Start from a with the residual b - K a."""
        xp = namespace(a)
        self.a = xp.asarray(a, copy=True)
        self.basis, self.residual, self.direction = self.precondition(residual)
        self.size = inner(self.direction, self.residual, axis=0)

    def step(self, columns: Any) -> None:
        """One more direction for the given columns (an index), one product for all of them; all in place."""
        p, size = self.direction[:, columns], self.size[columns]
        image = self.product(p)
        length = _ratio(size, inner(p, image, axis=0))
        self.a[:, columns] += length * p
        c, r, z = self.precondition(self.residual[:, columns] - length * image)
        self.basis[:, columns] += c
        self.residual[:, columns] = r
        new = inner(z, r, axis=0)
        self.direction[:, columns] = z + _ratio(new, size) * p
        self.size[columns] = new


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """M a + Q c = r, Q'a = 0 for M = diag(m) + F F'; where m is infinite, a = r / m."""

    inverse: Array  # 1 / m, (N, 1)
    F: Array  # (N, p)
    core: Array  # (I + F' diag(1/m) F)^-1: M^-1 = diag(1/m) - diag(1/m) F core F' diag(1/m) (Woodbury)
    Q: Array
    inner: Array  # (Q'M^-1 Q)^-1 Q'M^-1, (r, N)
    onto: Array  # the same with the diagonal of M, (r, N)

    @classmethod
    def of(cls, inverse: Array, F: Array, Q: Array) -> Preconditioner:
        """From 1/m (N, 1), F (N, p) and Q (N, r) with orthonormal columns."""
        xp = namespace(F)
        S = identity(xp.astype(F[:0], xp.float64))
        for start in range(0, int(F.shape[0]), ROWS):
            some, finite = F[start : start + ROWS], inverse[start : start + ROWS]
            seen = np.flatnonzero(to_numpy(finite[:, 0]) > 0)
            if 2 * len(seen) < int(finite.shape[0]):  # where most rows cost nothing, a copy of the others pays
                some, finite = taken(some, seen), taken(finite, seen)
            S = S + xp.astype(some.T @ (finite * some), xp.float64)
        root = xp.linalg.inv(xp.linalg.cholesky(S)) if F.shape[1] else S
        found = cls(inverse, F, xp.astype(root.T @ root, F.dtype), Q, Q.T, Q.T)
        if not Q.shape[1]:
            return found
        diagonal = inverse / (1 + inverse * row_squares(F))
        return replace(found, inner=_left_inverse(Q, found._solve(inverse * Q)), onto=_left_inverse(Q, diagonal * Q))

    def __call__(self, r: Array) -> tuple[Array, Array, Array]:
        """c, r - Qc = M a, and a."""
        c = self.inner @ r
        r = r - self.Q @ c
        a = self._solve(self.inverse * r)
        return c, r, a - self.onto.T @ (self.Q.T @ a)  # to rounding, whatever was lost in the difference

    def solve(self, v: Array) -> Array:
        """a of the right-hand side m v, which need not be finite."""
        a = self._solve(v)
        return a - self.inner.T @ (self.Q.T @ a)

    def _solve(self, v: Array) -> Array:
        """M^-1 (m v)."""
        return v - self.inverse * (self.F @ (self.core @ (self.F.T @ v)))


def row_squares(F: Array) -> Array:
    """Return the diagonal of FF', (N, 1), without a copy of F."""
    found = zeros((int(F.shape[0]), 1), F)
    for start in range(0, int(F.shape[0]), ROWS):
        some = F[start : start + ROWS]
        found[start : start + ROWS, 0] = inner(some, some)
    return found


@dataclass(frozen=True, eq=False)
class Fit:
    """The c that leaves least of a residual, and how much: min over c of 1/2 |r - Qc|^2 in the norm of diag(1/d).

    For a with Q'a = 0 and r = b - K a, that is the duality gap of a as a solution of the least-squares problem whose
    equations these are, and bounds 1/2 |a - a*|^2 in the norm of K.
    """

    d: Array  # (N, 1)
    Q: Array  # (N, r)
    left: Array  # (r, N), the weighted pseudo-inverse

    @classmethod
    def of(cls, d: Array, Q: Array) -> Fit:
        xp = namespace(Q)
        if Q.shape[1] == 0:
            return cls(d, Q, Q.T)
        root = 1 / d**0.5
        U, R = xp.linalg.qr(root * Q)
        return cls(d, Q, xp.linalg.solve(R, (root * U).T))

    def __call__(self, r: Array) -> tuple[Array, Array]:
        """c (r, k) and r - Qc (N, k)."""
        c = self.left @ r
        return c, r - self.Q @ c

    def gap(self, rest: Array) -> Array:
        """1/2 |rest|^2 in the norm of diag(1/d), (k,)."""
        return namespace(rest).sum(rest**2 / self.d, axis=0) / 2


def _left_inverse(Q: Array, MQ: Array) -> Array:
    """(Q'MQ)^-1 (MQ)'."""
    return like(np.linalg.pinv(to_numpy(Q.T @ MQ).astype(np.float64), hermitian=True), Q) @ MQ.T


def _ratio(top: Array, bottom: Array) -> Array:
    """top / bottom, 0 where the bottom is not positive: a column that has converged stays where it is."""
    xp = namespace(top)
    positive = bottom > 0
    return xp.where(positive, top / xp.where(positive, bottom, xp.ones_like(bottom)), xp.zeros_like(top))


class IterativeSaddle:
    """K a + Q c = b, Q'a = e by conjugate gradients, for any number of right-hand sides, some at a time.

    A column is done when the gap of `Fit` is at most `tol` times the energy 1/2 a'Ka that was found, or is nothing but
    the rounding of b.
    """

    def __init__(
        self,
        product: Callable[[Array], Array],
        precondition: Preconditioner,
        d: Array,
        tol: float,
        together: int = 32,
    ) -> None:
        self.product, self.precondition, self.tol = product, precondition, tol
        self.fit, self.together = Fit.of(d, precondition.Q), together

    def solve(self, b: Array, e: Array) -> tuple[Array, Array, Array]:
        """a (N, k), c (r, k) and the residual b - K a - Q c (N, k); Q must have orthonormal columns here."""
        xp = namespace(b)
        pieces = [slice(k, k + self.together) for k in range(0, b.shape[1], self.together)]
        solved = [self._solve(b[:, piece], e[:, piece]) for piece in pieces]
        a, c, residual = (xp.concat([part[i] for part in solved], axis=1) for i in range(3))
        return a, c, residual

    def _solve(self, b: Array, e: Array) -> tuple[Array, Array, Array]:
        xp = namespace(b)
        particular = self.precondition.Q @ e
        if bool(xp.any(e != 0)):
            b = b - self.product(particular)
        cg = BlockCG(self.product, self.precondition)
        cg.begin(xp.zeros_like(b), b)
        lost = self.fit.gap(b) * (4 * float(xp.finfo(b.dtype).eps)) ** 2  # units by which a zero residual may differ
        for _ in range(10_000):  # steps, at most
            c, rest = self.fit(cg.residual)
            energy = inner(cg.a, b + rest, axis=0) / 2
            columns = np.flatnonzero(to_numpy(self.fit.gap(rest) > self.tol * energy + lost))
            if len(columns) == 0:
                break
            cg.step(columns)
        c, rest = self.fit(cg.residual)
        return particular + cg.a, cg.basis + c, rest
