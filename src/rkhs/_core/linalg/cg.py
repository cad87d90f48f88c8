"""Conjugate gradients for saddle point systems with several right-hand sides.

    K a + Q c = b,    Q'a = 0,         K = G + diag(d)

The columns are independent iterations that share the products with K, which cost little more for several columns than
for one.  The preconditioner solves the same equations with an approximation M of K, so that all search directions
satisfy the constraint (projected conjugate gradients: Gould, Hribar and Nocedal 2001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, double, identity, inner, like, namespace, take_rows, to_numpy, zeros

ROWS = 2**14  # rows of F per block, which bounds the memory of temporary arrays


class BlockCG:
    """The state of conjugate gradients on k columns.

    `a` (N, k) satisfies Q'a = 0.  `residual` is b - K a - Q c for a `basis` c (r, k) that keeps it small: otherwise the
    component in the span of Q would dominate it, and the rest would be lost in rounding.
    """

    def __init__(self, product: Callable[[Array], Array], precondition: Preconditioner) -> None:
        self.product, self.precondition = product, precondition

    def begin(self, a: Array, residual: Array) -> None:
        """Start from a, given its residual b - K a."""
        xp = namespace(a)
        self.a = xp.asarray(a, copy=True)
        self.basis, self.residual, self.direction = self.precondition(residual)
        self.size = inner(self.direction, self.residual, axis=0)

    def step(self, columns: Any) -> None:
        """Perform one iteration for the given columns (an index) in place, with one product for all of them."""
        # one step of preconditioned conjugate gradients (Hestenes and Stiefel 1952), with z = M^-1 r:
        p, size = self.direction[:, columns], self.size[columns]
        image = self.product(p)
        # alpha = r'z / p'Kp
        length = _ratio(size, inner(p, image, axis=0))
        # a <- a + alpha p
        self.a[:, columns] += length * p
        # r <- r - alpha K p, without its component in the span of Q, which goes into c
        c, r, z = self.precondition(self.residual[:, columns] - length * image)
        self.basis[:, columns] += c
        self.residual[:, columns] = r
        new = inner(z, r, axis=0)
        # p <- z + beta p,  beta = r_new'z_new / r'z
        self.direction[:, columns] = z + _ratio(new, size) * p
        self.size[columns] = new


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """Solve M a + Q c = r, Q'a = 0 for M = diag(m) + F F'; rows with infinite m have a = r / m = 0."""

    inverse: Array  # 1 / m, (N, 1)
    F: Array  # (N, p)
    core: Array  # (I + F' diag(1/m) F)^-1: M^-1 = diag(1/m) - diag(1/m) F core F' diag(1/m) (Woodbury)
    Q: Array
    inner: Array  # (Q'M^-1 Q)^-1 Q'M^-1, (r, N)
    onto: Array  # the same with the diagonal of M, (r, N)

    @classmethod
    def of(cls, inverse: Array, F: Array, Q: Array) -> Preconditioner:
        """Return the preconditioner for 1/m (N, 1), F (N, p) and Q (N, r) with orthonormal columns."""
        xp = namespace(F)
        S = identity(xp.astype(F[:0], xp.float64))
        for start in range(0, int(F.shape[0]), ROWS):
            block, weight = F[start : start + ROWS], inverse[start : start + ROWS]
            nonzero = np.flatnonzero(to_numpy(weight[:, 0]) > 0)
            if 2 * len(nonzero) < int(weight.shape[0]):  # a copy of the nonzero rows is cheaper than their product
                block, weight = take_rows(block, nonzero), take_rows(weight, nonzero)
            # S = I + F' diag(1/m) F, in float64, block by block
            S = S + xp.astype(block.T @ (weight * block), xp.float64)
        root = xp.linalg.inv(xp.linalg.cholesky(S)) if F.shape[1] else S
        result = cls(inverse, F, xp.astype(root.T @ root, F.dtype), Q, Q.T, Q.T)
        if not Q.shape[1]:
            return result
        # 1 / (m + |F_i|^2), the inverse of the diagonal of M
        diagonal = inverse / (1 + inverse * row_squares(F))
        return replace(result, inner=_left_inverse(Q, result._solve(inverse * Q)), onto=_left_inverse(Q, diagonal * Q))

    def __call__(self, r: Array) -> tuple[Array, Array, Array]:
        """Return c, r - Q c = M a, and a."""
        # c = (Q'M^-1 Q)^-1 Q'M^-1 r, so that a = M^-1 (r - Q c) satisfies Q'a = 0
        c = self.inner @ r
        r = r - self.Q @ c
        a = self._solve(self.inverse * r)
        return c, r, a - self.onto.T @ (self.Q.T @ a)  # restores Q'a = 0, which cancellation violates

    def solve(self, v: Array) -> Array:
        """Return a for the right-hand side m v, where m need not be finite."""
        a = self._solve(v)
        return a - self.inner.T @ (self.Q.T @ a)

    def _solve(self, v: Array) -> Array:
        """Return M^-1 (m v)."""
        return v - self.inverse * (self.F @ (self.core @ (self.F.T @ v)))


def row_squares(F: Array) -> Array:
    """Return the diagonal of FF', (N, 1), without a copy of F."""
    squares = zeros((int(F.shape[0]), 1), F)
    for start in range(0, int(F.shape[0]), ROWS):
        block = F[start : start + ROWS]
        squares[start : start + ROWS, 0] = inner(block, block)
    return squares


@dataclass(frozen=True, eq=False)
class BasisFit:
    """The weighted least-squares fit of a residual by the columns of Q: min over c of 1/2 |r - Qc|^2_{diag(1/d)}.

    For a with Q'a = 0 and r = b - K a the minimum is the duality gap of a in the least-squares problem whose optimality
    conditions the saddle point system states, and it bounds 1/2 |a - a*|^2 in the norm of K.
    """

    d: Array  # (N, 1)
    Q: Array  # (N, r)
    left: Array  # (r, N), the weighted pseudo-inverse

    @classmethod
    def of(cls, d: Array, Q: Array) -> BasisFit:
        xp = namespace(Q)
        if Q.shape[1] == 0:
            return cls(d, Q, Q.T)
        # min over c of |D^-1/2 (r - Qc)|: c = R^+ U' D^-1/2 r for D^-1/2 Q = UR
        root = 1 / d**0.5
        U, R = xp.linalg.qr(root * Q)
        return cls(d, Q, xp.linalg.pinv(R) @ (root * U).T)  # weights can make columns of Q dependent

    def __call__(self, r: Array) -> tuple[Array, Array]:
        """Return c (r, k) and r - Qc (N, k)."""
        c = self.left @ r
        return c, r - self.Q @ c

    def gap(self, rest: Array) -> Array:
        """Return 1/2 |rest|^2 in the norm of diag(1/d), (k,)."""
        return namespace(rest).sum(rest**2 / self.d, axis=0) / 2


def _left_inverse(Q: Array, MQ: Array) -> Array:
    """Return (Q'MQ)^-1 (MQ)'."""
    return like(np.linalg.pinv(double(Q.T @ MQ), hermitian=True), Q) @ MQ.T


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Return the quotient, or 0 if the denominator is not positive, so that converged columns do not change."""
    xp = namespace(numerator)
    positive = denominator > 0
    safe = xp.where(positive, denominator, xp.ones_like(denominator))
    return xp.where(positive, numerator / safe, xp.zeros_like(numerator))


class IterativeSaddle:
    """Solve K a + Q c = b, Q'a = e by conjugate gradients, for any number of right-hand sides in batches.

    A column has converged if the gap of `BasisFit` is at most `tol` times the energy 1/2 a'Ka, or at the level of the
    rounding errors of b.
    """

    def __init__(
        self, product: Callable[[Array], Array], precondition: Preconditioner, d: Array, tol: float, together: int = 32
    ) -> None:
        self.product, self.precondition, self.tol = product, precondition, tol
        self.fit, self.together = BasisFit.of(d, precondition.Q), together

    def solve(self, b: Array, e: Array) -> tuple[Array, Array, Array]:
        """Return a (N, k), c (r, k) and the residual b - K a - Q c (N, k); Q must have orthonormal columns."""
        xp = namespace(b)
        pieces = [slice(k, k + self.together) for k in range(0, b.shape[1], self.together)]
        solved = [self._solve(b[:, piece], e[:, piece]) for piece in pieces]
        a, c, residual = (xp.concat([part[i] for part in solved], axis=1) for i in range(3))
        return a, c, residual

    def _solve(self, b: Array, e: Array) -> tuple[Array, Array, Array]:
        xp = namespace(b)
        # a = Q e + a_0 with Q'a_0 = 0, and K a_0 + Q c = b - K Q e
        particular = self.precondition.Q @ e
        if bool(xp.any(e != 0)):
            b = b - self.product(particular)
        cg = BlockCG(self.product, self.precondition)
        cg.begin(xp.zeros_like(b), b)
        rounding = self.fit.gap(b) * (4 * float(xp.finfo(b.dtype).eps)) ** 2  # residuals are accurate to 4 eps |b|
        for _ in range(10_000):  # the iteration limit
            c, rest = self.fit(cg.residual)
            energy = inner(cg.a, b + rest, axis=0) / 2
            columns = np.flatnonzero(to_numpy(self.fit.gap(rest) > self.tol * energy + rounding))
            if len(columns) == 0:
                break
            cg.step(columns)
        c, rest = self.fit(cg.residual)
        return particular + cg.a, cg.basis + c, rest
