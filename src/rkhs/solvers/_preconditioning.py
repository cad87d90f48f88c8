"""Nystroem preconditioners: the part of G that a few functionals span, plus the diagonal of the rest.

With some of the functionals (landmarks) as columns C of G, and A the block of G where they meet,

    G  is approximated by  F F' + diag(G - F F'),      F = C A^-1/2,

and conjugate gradients with M = D + F F' + diag(G - F F') have to resolve only what landmarks do not span (Frangella,
Tropp and Udell, Randomized Nystroem preconditioning, 2023).  Landmarks are drawn with probabilities proportional to
G_ii / D_ii, a bound of their leverage; the largest ones alone would be redundant.

The optimal number p: F takes 4 N p^2 operations, and the number of iterations falls about as 1/p, so the total time is
least where F takes about half as long as all iterations, of which a good preconditioner leaves about thirty.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from time import perf_counter
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, check_count, identity, namespace, take_rows, to_numpy, zeros
from rkhs._core.finite.representers import GramGeometry
from rkhs._core.gram.matrix import GramOperator
from rkhs._core.linalg.cg import ROWS, Preconditioner, row_squares
from rkhs.solvers._base import FLOP

PRODUCTS = 15  # the preconditioner may take as long as this many Gram products: half of about thirty iterations
SPANNED = 100  # functionals of `spanned`: products with their columns take less time than those with tiles
PLAIN = 12  # iterations without landmarks, if they are cheaper than the landmarks


@dataclass(frozen=True, eq=False)
class Nystroem:
    """The approximation FF' + diag(left) of G."""

    F: Array  # (N, p)
    left: Array  # (N, 1)
    Q: Array

    @classmethod
    def of(cls, geometry: GramGeometry, strength: Array, count: int, seconds: float = inf) -> Nystroem:
        """Compute the approximation from `count` landmarks, drawn with probabilities proportional to G_ii strength_i.

        `strength` has shape (N, 1).  If G is positive definite only on {Q'a = 0}, then (I - QQ') G (I - QQ')
        is approximated.
        The number of landmarks is reduced if their columns would take more than a fifth of `seconds`.
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
            """Return some rows of C."""
            block = gram.block(rows, chosen)
            if image is None:
                return block
            # columns of (I - QQ') G (I - QQ') = G - QQ'G - GQQ' + Q (Q'GQ) Q'
            QR, TR = take_rows(Q, chosen), take_rows(image, chosen)
            return block - Q[rows] @ (TR - QR @ middle).T - image[rows] @ QR.T

        F = columns(slice(None))
        # F = C A^-1/2
        root = xp.astype(_inverse_root(xp.astype(take_rows(F, chosen), xp.float64)), strength.dtype)
        if not root.shape[1]:
            return cls(F[:, :0], diagonal, Q)
        for start in range(0, int(F.shape[0]), ROWS):  # C and F share their memory
            F[start : start + ROWS] = F[start : start + ROWS] @ root
        # The difference G - FF' is inaccurate below 1e-9 of a diagonal entry.
        return cls(F, xp.maximum(diagonal - row_squares(F), 1e-9 * diagonal), Q)

    def with_diagonal(self, inverse: Array) -> Preconditioner:
        """Return the inverse of FF' + diag(left) + D, given 1/D (N, 1), clipped so that its square is finite."""
        xp = namespace(inverse)
        inverse = xp.clip(inverse, None, float(xp.finfo(inverse.dtype).max) ** 0.5)
        # FF' + diag(left + d),    1 / (d + left) = (1/d) / (1 + left / d)
        return Preconditioner.of(inverse / (1 + inverse * self.left), self.F, self.Q)


def preconditioner(
    geometry: GramGeometry, d: Array, landmarks: int | None = None, seconds: float = inf
) -> Preconditioner:
    """Return M = diag(d) + the part of G that landmarks span + the diagonal of the rest; diag(d) without landmarks."""
    return Nystroem.of(geometry, 1 / d, landmark_count(geometry, landmarks), seconds).with_diagonal(1 / d)


def spanned(geometry: GramGeometry) -> Array:
    """Return F (N, p) in float64, such that FF' is the part of G that a few functionals span.

    The entries of a smooth kernel with long length scales are nearly equal: rounded to float32 they would lose what
    matters, and those of G - FF' do not.  A matrix that is only conditionally positive definite has no such part.
    """
    size = geometry.size
    ones = np.ones((size, 1))
    return Nystroem.of(geometry, ones, min(SPANNED, size // 4) if geometry.definite else 0).F


def check_landmarks(name: str, count: int | None) -> None:
    """Validate the number of landmarks."""
    if count is not None:
        check_count(count, f"landmarks of {name} (unless it is None)", 0)


def landmark_count(geometry: GramGeometry, landmarks: int | None, products: float = 4.0) -> int:
    """Return the number of landmarks: as given, else the cost-optimal one, within memory and the size of the problem.

    The cost is taken as `products` times N p^2 operations.
    """
    gram = geometry.gram
    size = gram.shape[0]
    if landmarks is None:
        # products N p^2 FLOP = PRODUCTS seconds of a product
        landmarks = max(100, int(sqrt(PRODUCTS * gram.core_seconds / (products * FLOP * max(size, 1)))))
    return min(landmarks, int(gram.budget // (8 * max(size, 1))), size // 4)


def iterations_before(geometry: GramGeometry, count: int) -> int:
    """Return the number of iterations to try first without landmarks: PLAIN if they are cheaper than `count` landmarks.

    An entry of a column takes 1e-7 s.
    """
    return PLAIN if PLAIN * geometry.gram.core_seconds < 1e-7 * geometry.gram.shape[0] * count else 0


def drawn(strength: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """Draw distinct indices with probabilities proportional to their strength."""
    strength = strength.astype(np.float64) + 1e-12 * (strength.max() or 1.0)
    chosen = np.random.default_rng(0).choice(len(strength), count, replace=False, p=strength / strength.sum())
    return np.sort(chosen)


def _inverse_root(A: Array) -> Array:
    """Return R with RR' = A^-1, for A positive semidefinite up to rounding, plus a small multiple of the identity."""
    xp = namespace(A)
    unit = float(xp.linalg.trace(A)) * identity(A)
    for share in (1e-12, 1e-10, 1e-8, 1e-6, 1e-4):  # the smallest ridge that makes A numerically definite
        try:
            return xp.linalg.inv(xp.linalg.cholesky(A + share * unit)).T
        except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's LinAlgError is a RuntimeError
            continue
    return zeros((int(A.shape[0]), 0), A)  # A is not positive semidefinite: use no landmarks


def _affordable(gram: GramOperator, rows: np.ndarray[Any, Any], seconds: float) -> int:
    """Return how many columns can be computed and used within `seconds`, by timing a few."""
    few = 8
    start = perf_counter()
    gram.block(slice(None), rows[:few])
    per_column = 3 * (perf_counter() - start) / few  # their use takes about twice as long as their computation
    return max(few, min(len(rows), int(seconds / per_column)))
