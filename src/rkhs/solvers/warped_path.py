"""The warped kernel for many weights at once, where functionals are too many for their Gram matrix.

With functionals q observed with the weights f w, D = diag(sqrt(2w)), G' = D G_qq D and B' = D G_qM,

    G~ = G_MM - B'_M' (G' + I/f)^-1 B'

by block Lanczos: for V, an orthonormal basis of span{B', G'B', G'^2 B', ..}, and T = V'G'V,

    G~ ~ G_MM - (B'_M'V) (T + I/f)^-1 V'B'

for all f at once.  An entry of column l is wrong by at most sqrt(f G_MM) |r_l|, where r_l = B'_l - (G' + I/f) V y_l is
what the equations lack: since G~ >= 0, (G' + I/f)^(-1/2) B'_m is no longer than sqrt(G_mm).  All columns share one
space, so that three blocks or four are enough where a column alone takes dozens of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix, like, to_numpy
from rkhs._finite.representers import represented_by
from rkhs._gram import gram
from rkhs.functionals.base import Functional, stack
from rkhs.solvers.base import fits
from rkhs.solvers.warped import SEEN

COLUMNS = 64  # of a product at a time
ROWS = 8192  # that are multiplied in double precision at a time
LOST = 1e-10  # of the largest squared length, below which a direction is rounding


def warped_path(
    problem: Any, factors: Sequence[float], M: Functional, columns: Any = slice(None), tol: float = 1e-3
) -> list[Matrix]:
    """What squared terms leave of a kernel, for many weights of these terms at once.

    For each factor on the weights of its quadratic terms, the covariance (m, k) of M and M.take(columns) given them.

    That of `WarpedGram`, for problems whose quadratic terms see no basis function.  Entries are right to `tol` times
    the largest variance of M before anything was observed.  Products are in the precision of the problem's points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> slopes = rkhs.Term(rkhs.Gradient(X), rkhs.Squared())
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=1.0), [slopes])
    >>> (flat,) = rkhs.solvers.warped_path.warped_path(problem, [1e4], rkhs.Evaluation(X))
    >>> flat.round(2)  # f is nearly the same at both points, since the way between them is flat at both ends
    array([[0.63, 0.61],
           [0.61, 0.63]])
    """
    represented = represented_by(problem, "warped_path")
    system, kernel, rows = represented.system, represented.kernel, represented.system.quadratic_rows
    if represented.dropped or not system.definite or np.any(np.abs(to_numpy(system.Q)[rows]) > SEEN):
        raise ValueError(
            "warped_path is for Squared terms that see no basis function: use rkhs.solvers.warped.WarpedGram."
        )
    q = represented.functionals.take(rows)
    own = M.like(q.prototype)
    D = np.sqrt(2 * np.concatenate([to_numpy(t.weight) for t in system.terms if t.loss.quadratic]))
    both: Any = gram(kernel, stack([own, q]), q)
    if q.size <= M.size and fits(M.size + q.size):
        both = both.dense()
    B = D * to_numpy(gram(kernel, q, own.take(columns)).dense())

    def product(V: Matrix) -> Matrix:
        image = to_numpy(both @ like(D * V, q.prototype))
        image[M.size :] *= D
        return image

    plain = to_numpy(gram(kernel, M, M.take(columns)).dense())
    largest = float(np.max(to_numpy(gram(kernel, M).diagonal())))
    space = Krylov(product, B)
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


class Krylov:
    """span{B, G B, ..}, grown by a block at a time; vectors in single, sums of their products in double precision.

    Parameters
    ----------
    product : V (N, k) -> [B_M'V; G V], (m + N, k)
    B : (N, p)
    """

    def __init__(self, product: Callable[[Matrix], Matrix], B: Matrix) -> None:
        self.product, self.B = product, B
        self.blocks: list[Matrix] = []  # V
        self.T, self.right = np.zeros((0, 0)), np.zeros((0, B.shape[1]))  # V'G V, V'B
        self.values = np.zeros((0, 0))  # B_M'V
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

    def solution(self, factor: float) -> Matrix:
        """y with (T + I/factor) y = V'B."""
        return np.asarray(scipy.linalg.solve(self.T + np.eye(len(self.T)) / factor, self.right, assume_a="pos"))

    def residual(self, y: Matrix) -> float:
        """The largest |r_l|: G V leaves the space by its last block alone."""
        last = y[-self.blocks[-1].shape[1] :]
        return float(np.sqrt(np.max(np.sum(last * (self._lengths @ last), axis=0)).clip(min=0)))


def _ends(blocks: list[Matrix]) -> Matrix:
    return np.cumsum([block.shape[1] for block in blocks])[:-1]


def _orthonormal(W: Matrix, lengths: Matrix) -> Matrix:
    """An orthonormal basis of the columns of W, whose inner products are `lengths`; twice, for rounding's sake."""
    V = W
    for S in (lengths, None):
        squares, Q = np.linalg.eigh(_inner(V, V) if S is None else S)
        kept = squares > LOST * squares[-1]
        V = V @ (Q[:, kept] / np.sqrt(squares[kept])).astype(W.dtype)
    return V


def _inner(A: Matrix, C: Matrix) -> Matrix:
    """A'C."""
    pieces = [slice(start, start + ROWS) for start in range(0, len(A), ROWS)]
    return np.asarray(sum(A[p].astype(np.float64).T @ C[p].astype(np.float64) for p in pieces))
