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

from dataclasses import dataclass
from math import inf, sqrt
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, identity, namespace, taken, to_numpy, zeros
from rkhs._finite.problem import Geometry
from rkhs._gram.matrix import GramOperator
from rkhs._linalg.cg import ROWS, Preconditioner, row_squares
from rkhs.solvers._costs import FLOP

PRODUCTS = 15  # whose time landmarks may take: half of thirty
PLAIN = 12  # iterations without landmarks, where these cost more


@dataclass(frozen=True, eq=False)
class Nystroem:
    """G is near FF' + diag(left)."""

    F: Array  # (N, p)
    left: Array  # (N, 1)
    Q: Array

    @classmethod
    def of(cls, geometry: Geometry, strength: Array, count: int, seconds: float = inf) -> Nystroem:
        """From so many landmarks, drawn with chances in proportion to G_ii strength_i; strength (N, 1).

        Where G is positive definite on {Q'a = 0} only, (I - QQ') G (I - QQ') takes its place.  There are fewer
        landmarks where their columns would take more than a fifth of the seconds that there are.
        """
        xp, gram, Q = namespace(strength), geometry.gram, geometry.Q
        if count <= 0:
            return cls(strength[:, :0], xp.zeros_like(strength), Q)
        diagonal = gram.diagonal()[:, None]
        image = middle = None
        if not geometry.definite:
            image = gram @ Q
            middle = Q.T @ image
            diagonal = diagonal + xp.sum(Q * (Q @ middle - 2 * image), axis=1, keepdims=True)
        diagonal = xp.clip(diagonal, 0, None)
        chosen = drawn(to_numpy(diagonal * strength)[:, 0], count)
        if seconds < inf:
            kept = np.random.default_rng(0).permutation(count)[: _affordable(gram, chosen, 0.2 * seconds)]
            chosen = chosen[np.sort(kept)]

        def columns(rows: Any) -> Array:
            """C, or some of its rows."""
            block = gram.block(rows, chosen)
            if image is None:
                return block
            QR, TR = taken(Q, chosen), taken(image, chosen)
            return block - Q[rows] @ (TR - QR @ middle).T - image[rows] @ QR.T

        root = xp.astype(_inverse_root(xp.astype(columns(chosen), xp.float64)), strength.dtype)
        F = zeros((int(strength.shape[0]), int(root.shape[1])), strength)
        for start in range(0, int(strength.shape[0]), ROWS):  # C itself is never held
            rows = slice(start, start + ROWS)
            F[rows] = columns(rows) @ root
        # G - FF' cancels where landmarks leave less than 1e-9 of a diagonal entry.
        return cls(F, xp.maximum(diagonal - row_squares(F), 1e-9 * diagonal), Q)

    def with_diagonal(self, inverse: Array) -> Preconditioner:
        """The inverse of FF' + diag(left) + D, for 1/D (N, 1), whose squares have to be numbers."""
        xp = namespace(inverse)
        inverse = xp.clip(inverse, None, float(xp.finfo(inverse.dtype).max) ** 0.5)
        return Preconditioner.of(inverse / (1 + inverse * self.left), self.F, self.Q)


def preconditioner(geometry: Geometry, d: Array, landmarks: int | None = None, seconds: float = inf) -> Preconditioner:
    """M = diag(d) + the part of G that landmarks span + the diagonal of the rest of G; diag(d) without landmarks."""
    return Nystroem.of(geometry, 1 / d, landmark_count(geometry, landmarks), seconds).with_diagonal(1 / d)


def check_landmarks(name: str, count: int | None) -> None:
    """Refuse what is no number of landmarks."""
    if count is not None and (not isinstance(count, Integral) or isinstance(count, bool) or count < 0):
        raise ValueError(f"{name} needs a number of landmarks, 0 or more, or None, got {count!r}.")


def landmark_count(geometry: Geometry, landmarks: int | None, products: float = 4.0) -> int:
    """How many landmarks: so many, or by default what pays, as memory and the size of the problem allow.

    That takes `products` times N p^2 operations.
    """
    gram = geometry.gram
    size = gram.shape[0]
    if landmarks is None:
        landmarks = max(100, int(sqrt(PRODUCTS * gram.core_seconds / (products * FLOP * max(size, 1)))))
    return min(landmarks, int(gram.budget // (8 * max(size, 1))), size // 4)


def iterations_before(geometry: Geometry, count: int) -> int:
    """Return how many iterations to try without landmarks, which may do, and cost less than this many landmarks.

    An entry of a column takes 1e-7 s.
    """
    return PLAIN if PLAIN * geometry.gram.core_seconds < 1e-7 * geometry.gram.shape[0] * count else 0


def drawn(strength: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Different indices, drawn with chances in proportion to their strength."""
    strength = strength.astype(np.float64) + 1e-12 * (strength.max() or 1.0)
    chosen = np.random.default_rng(0).choice(len(strength), count, replace=False, p=strength / strength.sum())
    return np.sort(chosen)


def _inverse_root(A: Array) -> Array:
    """R with RR' = A^-1, of a matrix that is positive semidefinite up to rounding, moved away from zero a little."""
    xp = namespace(A)
    unit = float(xp.linalg.trace(A)) * identity(A)
    for share in (1e-12, 1e-10, 1e-8, 1e-6, 1e-4):  # of the trace, what rounding may need
        try:
            return xp.linalg.inv(xp.linalg.cholesky(A + share * unit)).T
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's own LinAlgError is a RuntimeError
            continue
    return zeros((int(A.shape[0]), 0), A)  # which is no matrix of inner products: go without


def _affordable(gram: GramOperator, rows: np.ndarray[Any, Any], seconds: float) -> int:
    """How many columns can be computed and worked with in so many seconds, by the time that a few take."""
    few = 8
    start = perf_counter()
    gram.block(slice(None), rows[:few])
    each = 3 * (perf_counter() - start) / few  # two thirds of the time is what is done with them
    return max(few, min(len(rows), int(seconds / each)))
