"""The kernel of machines that know f to be flat at all points, where slopes are too many for their Gram matrix.

    K~ = K - B_X' (G + I/(2 nu))^-1 B        G (N, N) of all slopes, B (N, p) and B_X (N, t) theirs with the values

by block Lanczos: for V, an orthonormal basis of span{B, G B, G^2 B, ..}, and T = V'G V,

    K~ ~ K - (B_X'V) (T + I/(2 nu))^-1 V'B

for all nu at once.  Column l is wrong by at most |r_l| sqrt(2 nu), where r_l = B_l - (G + I/(2 nu)) V y_l is what the
equations lack: since K~ >= 0, (G + I/(2 nu))^(-1/2) B_x is no longer than sqrt(k(x, x)) = 1.  All columns share one
space, so that three blocks or four are enough where a column alone takes dozens of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.functionals import Evaluation, Gradient, stack
from rkhs.gram import gram
from rkhs.kernels import Gaussian

Array = np.ndarray[Any, Any]
TOL = 1e-2  # on the bound; entries of K~ were wrong by a hundredth of it where they were compared
COLUMNS = 64  # of a product at a time
ROWS = 8192  # that are multiplied in double precision at a time
LOST = 1e-10  # of the largest squared length, below which a direction is rounding


def flat_kernels(X: Array, at: Array, scale: float, nus: Sequence[float]) -> list[Array]:
    """For each nu the columns (t, p) at the points `at` of the Gaussian kernel that knows all slopes to be small.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0]])
    >>> (flat,) = flat_kernels(X, np.array([0, 1]), scale=1.0, nus=[1e4])
    >>> flat.round(2)  # f is nearly the same at both points, since the way between them is flat at both ends
    array([[0.63, 0.61],
           [0.61, 0.63]])
    """
    kernel, points = Gaussian(scale), X.astype(np.float32)
    K = np.asarray(gram(kernel, Evaluation(X), Evaluation(X[at])).dense())
    B = gram(kernel, Gradient(points), Evaluation(points[at])).dense()
    both = gram(kernel, stack([Evaluation(points), Gradient(points)]), Gradient(points))
    space = Krylov(lambda V: both @ V, B)
    while True:
        space.grow()
        solutions = [space.solution(nu) for nu in nus]
        bound = max(float(np.sqrt(2 * nu)) * space.residual(y) for nu, y in zip(nus, solutions, strict=True))
        if bound <= TOL:
            return [K - space.values @ y for y in solutions]
        if len(space.T) >= len(B):
            raise RuntimeError(
                f"Rounding leaves an error of up to {bound:.1g} in the kernel: nu = {max(nus):g} is too large."
            )


class Krylov:
    """span{B, G B, ..}, grown by a block at a time; vectors in single, sums of their products in double precision.

    Parameters
    ----------
    product : V (N, k) -> [B_X'V; G V], (t + N, k)
    B : (N, p)
    """

    def __init__(self, product: Callable[[Array], Array], B: Array) -> None:
        self.product, self.B = product, B
        self.blocks: list[Array] = []  # V
        self.T, self.right = np.zeros((0, 0)), np.zeros((0, B.shape[1]))  # V'G V, V'B
        self.values = np.zeros((0, 0))  # B_X'V
        self._next, self._lengths = B, _inner(B, B)

    def grow(self) -> None:
        """Take one more block, with one product for each of its columns."""
        V = _orthonormal(self._next, self._lengths)
        images = [self.product(np.ascontiguousarray(V[:, k : k + COLUMNS])) for k in range(0, V.shape[1], COLUMNS)]
        image = np.concatenate(images, axis=1)
        count = len(image) - len(V)
        values, W = image[:count].astype(np.float64), image[count:]
        self.blocks.append(V)
        known = np.concatenate([block.T @ W for block in self.blocks]).astype(np.float64)
        old = len(self.T)
        self.T = np.block([[self.T, known[:old]], [known[:old].T, (known[old:] + known[old:].T) / 2]])
        self.right = np.concatenate([self.right, _inner(V, self.B)])
        self.values = values if not old else np.concatenate([self.values, values], axis=1)
        for block, own in zip(self.blocks, np.split(known, _ends(self.blocks)), strict=True):
            W = W - block @ own.astype(W.dtype)
        self._next, self._lengths = W, _inner(W, W)

    def solution(self, nu: float) -> Array:
        """y with (T + I/(2 nu)) y = V'B."""
        return np.asarray(scipy.linalg.solve(self.T + np.eye(len(self.T)) / (2 * nu), self.right, assume_a="pos"))

    def residual(self, y: Array) -> float:
        """The largest |r_l|: G V leaves the space by its last block alone."""
        last = y[-self.blocks[-1].shape[1] :]
        return float(np.sqrt(np.max(np.sum(last * (self._lengths @ last), axis=0)).clip(min=0)))


def _ends(blocks: list[Array]) -> Array:
    return np.cumsum([block.shape[1] for block in blocks])[:-1]


def _orthonormal(W: Array, lengths: Array) -> Array:
    """An orthonormal basis of the columns of W, whose inner products are `lengths`; twice, for rounding's sake."""
    V = W
    for S in (lengths, None):
        squares, Q = np.linalg.eigh(_inner(V, V) if S is None else S)
        kept = squares > LOST * squares[-1]
        V = V @ (Q[:, kept] / np.sqrt(squares[kept])).astype(W.dtype)
    return V


def _inner(A: Array, C: Array) -> Array:
    """A'C."""
    pieces = [slice(start, start + ROWS) for start in range(0, len(A), ROWS)]
    return np.asarray(sum(A[p].astype(np.float64).T @ C[p].astype(np.float64) for p in pieces))
