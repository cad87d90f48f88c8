"""Covariances given squared terms, for many weights at once, of functionals too many for their Gram matrix.

Given functionals q that are observed with the weights f w, D = diag(sqrt(2w)), G' = D G_qq D and B' = D G_qM,
functionals M have the covariance

    G~ = G_MM - B'_M' (G' + I/f)^-1 B'

By block Lanczos: for V, an orthonormal basis of span{B', G'B', G'^2 B', ..}, and T = V'G'V,

    G~ ~ G_MM - (B'_M'V) (T + I/f)^-1 V'B'

for all f at once.  An entry of column l is wrong by at most sqrt(f G_MM) |r_l|, where r_l = B'_l - (G' + I/f) V y_l is
the residual: since G~ >= 0, (G' + I/f)^(-1/2) B'_m is no longer than sqrt(G_mm).  All columns share one space, so that
three blocks or four are enough where a column alone takes dozens of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np
import scipy.linalg

import rkhs
from papers.experiment import Array


def conditional_kernels(
    kernel: rkhs.extend.Kernel,
    term: rkhs.Term,
    factors: Sequence[float],
    M: rkhs.extend.Functional,
    columns: Array,
    tol: float,
) -> list[Array]:
    """Return the covariance (m, k) of M and M.take(columns) given a squared term, for each factor on its weights.

    Entries are right to `tol` times the largest variance of M before anything was observed.  Products are in the
    precision of the points of the term.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0]])
    >>> slopes = rkhs.Term(rkhs.Gradient(X), rkhs.Squared())
    >>> (flat,) = conditional_kernels(rkhs.Gaussian(1.0), slopes, [1e4], rkhs.Evaluation(X), np.arange(2), 1e-3)
    >>> flat.round(2)  # f is nearly the same at both points, since it is flat at both ends of the way between them
    array([[0.63, 0.61],
           [0.61, 0.63]])
    """
    q = term.functional
    own, D = M.like(q.prototype), np.sqrt(2 * np.asarray(term.weights()))
    both = rkhs.gram(kernel, rkhs.stack([own, q]), q)
    both = both.dense() if q.size <= M.size else both
    B = D * np.asarray(rkhs.gram(kernel, q, own.take(columns)).dense())

    def product(V: Array) -> Array:
        image = np.array(both @ (D * V).astype(q.prototype.dtype))
        image[M.size :] *= D
        return image

    plain = np.asarray(rkhs.gram(kernel, M, M.take(columns)).dense())
    largest = float(np.max(np.asarray(rkhs.gram(kernel, M).diagonal())))
    space = KrylovSpace(product, B)
    while True:
        space.grow()
        try:
            solutions = [space.solution(factor) for factor in factors]
            wrong = max((f / largest) ** 0.5 * space.residual(y) for f, y in zip(factors, solutions, strict=True))
        except np.linalg.LinAlgError:  # T is not even positive definite
            wrong = inf
        if wrong <= tol:
            return [plain - space.values @ y for y in solutions]
        if len(space.T) >= len(B) or wrong == inf:
            raise RuntimeError(
                f"Rounding leaves an error of up to {wrong:.1g} in the kernel, asked for {tol:g}: give float64 points, "
                "a larger tol or smaller weights."
            )


class KrylovSpace:
    """span{B, G B, ..}, grown by a block at a time; vectors in single, sums of their products in double precision.

    Parameters
    ----------
    product : V (N, k) -> [B_M'V; G V], (m + N, k)
    B : (N, p)
    """

    def __init__(self, product: Callable[[Array], Array], B: Array) -> None:
        self.product, self.B = product, B
        self.blocks: list[Array] = []  # V
        self.T, self.right = np.zeros((0, 0)), np.zeros((0, B.shape[1]))  # V'G V, V'B
        self.values = np.zeros((0, 0))  # B_M'V
        self._next, self._lengths = B, _inner(B, B)

    def grow(self) -> None:
        """Add one more block, with one product for each of its columns, 64 at a time."""
        V = _orthonormal(self._next, self._lengths)
        pieces = [np.ascontiguousarray(V[:, k : k + 64]) for k in range(0, V.shape[1], 64)]
        image = np.concatenate([self.product(piece) for piece in pieces], axis=1)
        count = len(image) - len(V)
        values, W = image[:count].astype(np.float64), image[count:]
        self.blocks.append(V)
        known = np.concatenate([block.T @ W for block in self.blocks]).astype(np.float64)
        old = len(self.T)
        self.T = np.block([[self.T, known[:old]], [known[:old].T, (known[old:] + known[old:].T) / 2]])
        self.right = np.concatenate([self.right, _inner(V, self.B)])
        self.values = values if not old else np.concatenate([self.values, values], axis=1)
        ends = np.cumsum([block.shape[1] for block in self.blocks])[:-1]
        for block, own in zip(self.blocks, np.split(known, ends), strict=True):
            W = W - block @ own.astype(W.dtype)
        self._next, self._lengths = W, _inner(W, W)

    def solution(self, factor: float) -> Array:
        """Return y with (T + I/factor) y = V'B."""
        return np.asarray(scipy.linalg.solve(self.T + np.eye(len(self.T)) / factor, self.right, assume_a="pos"))

    def residual(self, y: Array) -> float:
        """Return the largest |r_l|: G V leaves the space by its last block alone."""
        last = y[-self.blocks[-1].shape[1] :]
        return float(np.sqrt(np.max(np.sum(last * (self._lengths @ last), axis=0)).clip(min=0)))


def _orthonormal(W: Array, lengths: Array) -> Array:
    """Return an orthonormal basis of the columns of W, whose inner products are `lengths`; twice against rounding."""
    V = W
    for S in (lengths, None):
        squares, Q = np.linalg.eigh(_inner(V, V) if S is None else S)
        kept = squares > 1e-10 * squares[-1]  # of the largest squared length: below, a direction is rounding
        V = V @ (Q[:, kept] / np.sqrt(squares[kept])).astype(W.dtype)
    return V


def _inner(A: Array, C: Array) -> Array:
    """Return A'C, some rows in double precision at a time."""
    pieces = [slice(start, start + 8192) for start in range(0, len(A), 8192)]
    return np.asarray(sum(A[p].astype(np.float64).T @ C[p].astype(np.float64) for p in pieces))
