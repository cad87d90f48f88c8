"""Combinations of the gradients of many problems, in the place of all of them."""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy

LEFT = 0.5  # share of the tolerance to which a gap is to fall by what is multiplied of its gradient
SHARE = 0.7  # of the gradients, beyond which all are multiplied, for then each has its own certificate


def combinations(G: Array, gaps: Matrix, tol: float) -> Array | None:
    """As few combinations of gradients (N, b) as bring all gaps to the tolerance; None if these are most of them.

    A gap falls about as far as the share of its gradient that is not among the combinations.
    """
    if G.shape[1] < 2 or not np.all(np.isfinite(gaps)):
        return None
    xp = namespace(G)
    weight = like(np.sqrt(gaps), G) / xp.clip(xp.linalg.vector_norm(G, axis=0), 1e-300, None)
    weighted = G * weight
    values, vectors = np.linalg.eigh(to_numpy(weighted.T @ weighted).astype(np.float64))
    caught = np.cumsum((vectors**2 * values)[:, ::-1], axis=1)  # of each gap, by so many combinations
    count = 1 + int(np.argmax(np.all(gaps[:, None] - caught <= LEFT * tol, axis=0)))
    if not np.all(gaps - caught[:, count - 1] <= LEFT * tol) or count > SHARE * len(gaps):
        return None
    return weighted @ like(vectors[:, ::-1][:, :count], G)
