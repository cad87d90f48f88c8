"""A matrix near G + D that is easy to invert: what a few functionals span of G, and the diagonal of the rest.

With some of the functionals (landmarks) as columns C of G, and A the block of G where they meet (Nystroem),

    G  is near  F F' + diag(G - F F'),      F = C A^-1/2,

and conjugate gradients with M = D + F F' + diag(G - F F') have left what landmarks do not span (Frangella, Tropp and
Udell, Randomized Nystroem preconditioning, 2023).  Landmarks are drawn with chances in proportion to G_ii / D_ii, a
bound of their leverage: the strongest alone are much alike.

How many pay: F takes 4 N p^2 operations, and iterations fall about as 1/p, so the least time is where F takes about
half as long as all iterations, of which a good preconditioner leaves some thirty.
"""

from __future__ import annotations

from math import inf, sqrt
from time import perf_counter
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, taken, to_numpy, zeros
from rkhs.finite.system import Geometry
from rkhs.gram.base import GramOperator
from rkhs.linalg.cg import ROWS, Preconditioner, row_squares
from rkhs.solvers.costs import FLOP

LEFT = 1e-9  # of a diagonal entry of G, the least that landmarks are taken to leave: G - FF' cancels beyond
FEWEST = 100  # landmarks
PRODUCTS = 15  # whose time landmarks may take: half of thirty
SETUP = 0.2  # of the time that there is, for landmarks
FEW, WORK = 8, 3.0  # columns whose time is taken, and what is done with them beside computing them, in units of that
JITTER = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # of the trace of A, what rounding may need for Cholesky's factorisation


def preconditioner(geometry: Geometry, d: Array, landmarks: int | None = None, seconds: float = inf) -> Preconditioner:
    """M = diag(d) + the part of G that landmarks span + the diagonal of the rest of G; diag(d) without landmarks.

    Where G is positive definite on {Q'a = 0} only, (I - QQ') G (I - QQ') takes its place.  There are fewer landmarks
    where their columns would take more than a `SETUP` of the seconds that there are.
    """
    xp, gram, Q = namespace(d), geometry.gram, geometry.Q
    count = landmark_count(geometry, landmarks)
    if count <= 0:
        return Preconditioner.of(d, d[:, :0], Q)
    diagonal = gram.diagonal()[:, None]
    image = middle = None
    if not geometry.definite:
        image = gram @ Q
        middle = Q.T @ image
        diagonal = diagonal + xp.sum(Q * (Q @ middle - 2 * image), axis=1, keepdims=True)
    diagonal = xp.clip(diagonal, 0, None)
    chosen = drawn(to_numpy(diagonal / d)[:, 0], count)
    if seconds < inf:
        kept = np.random.default_rng(0).permutation(count)[: _affordable(gram, chosen, SETUP * seconds)]
        chosen = chosen[np.sort(kept)]

    def columns(rows: Any) -> Array:
        """C, or some of its rows."""
        block = gram.block(rows, chosen)
        if image is None:
            return block
        QR, TR = taken(Q, chosen), taken(image, chosen)
        return block - Q[rows] @ (TR - QR @ middle).T - image[rows] @ QR.T

    root = xp.astype(_inverse_root(xp.astype(columns(chosen), xp.float64)), d.dtype)
    F = zeros((int(d.shape[0]), int(root.shape[1])), d)
    for start in range(0, int(d.shape[0]), ROWS):  # C itself is never held
        rows = slice(start, start + ROWS)
        F[rows] = columns(rows) @ root
    left = xp.maximum(diagonal - row_squares(F), LEFT * diagonal)
    return Preconditioner.of(d + left, F, Q)


def landmark_count(geometry: Geometry, landmarks: int | None) -> int:
    """How many landmarks: so many, or by default what pays, as memory and the size of the problem allow."""
    gram = geometry.gram
    size = gram.shape[0]
    if landmarks is None:
        landmarks = max(FEWEST, int(sqrt(PRODUCTS * gram.core_seconds / (4 * FLOP * max(size, 1)))))
    return min(landmarks, int(gram.budget // (8 * max(size, 1))), size // 4)


def drawn(strength: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Different indices, drawn with chances in proportion to their strength."""
    strength = strength.astype(np.float64) + 1e-12 * (strength.max() or 1.0)
    chosen = np.random.default_rng(0).choice(len(strength), count, replace=False, p=strength / strength.sum())
    return np.sort(chosen)


def _inverse_root(A: Array) -> Array:
    """R with RR' = A^-1, of a matrix that is positive semidefinite up to rounding, moved away from zero a little."""
    xp = namespace(A)
    unit = like(np.eye(int(A.shape[0])), A) * float(xp.linalg.trace(A))
    for share in JITTER:
        try:
            return xp.linalg.inv(xp.linalg.cholesky(A + share * unit)).T
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's own LinAlgError is a RuntimeError
            continue
    return zeros((int(A.shape[0]), 0), A)  # which is no matrix of inner products: go without


def _affordable(gram: GramOperator, rows: np.ndarray[Any, Any], seconds: float) -> int:
    """How many columns can be computed and worked with in so many seconds, by the time that a few take."""
    start = perf_counter()
    gram.block(slice(None), rows[:FEW])
    each = WORK * (perf_counter() - start) / FEW
    return max(FEW, min(len(rows), int(seconds / each)))
