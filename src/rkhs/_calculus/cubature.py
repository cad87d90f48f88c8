"""Gaussian averages as finite sums, for kernels whose averages have no closed form.

    E f(z), z ~ N(0, I_n)   ~   sum_j w_j f(z_j)

| n        | rule                                   | points       | exact for polynomials of degree |
|----------|----------------------------------------|--------------|---------------------------------|
| 1 .. 3   | product of Gauss-Hermite rules         | 15^n or less | 29 (n = 1), 17 (2), 13 (3)      |
| 4 .. 16  | fully symmetric (McNamee and Stenger)  | 2 n^2 + 1    | 5                               |
| 17 ..    | +- sqrt(n) e_i                         | 2 n          | 3                               |

so the local average of width w of a function that varies on the scale s is replaced by an average
over points whose error is of the order (w/s)^(degree + 1) where the function is smooth.  Both sides
of a Gram matrix see the same points, so it stays positive semi-definite for positive weights, and
symmetric always.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import like, namespace
from rkhs._calculus.atoms import Atoms

HERMITE_POINTS = {1: 15, 2: 9, 3: 7}
HIGHEST_OF_DEGREE_5 = 16


def gaussian_rule(n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Points (p, n) and weights (p,) of the rule above for N(0, I_n)."""
    if n in HERMITE_POINTS:
        z, w = np.polynomial.hermite_e.hermegauss(HERMITE_POINTS[n])
        grid = np.array(list(product(z, repeat=n)))
        return grid, np.array([np.prod(c) for c in product(w / w.sum(), repeat=n)])
    axes = np.concatenate([np.eye(n), -np.eye(n)])
    if n > HIGHEST_OF_DEGREE_5:
        return np.sqrt(n) * axes, np.full(2 * n, 1 / (2 * n))
    pairs = np.zeros((2 * n * (n - 1), n))
    signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
    for row, ((i, j), (a, b)) in enumerate(product(combinations(range(n), 2), signs)):
        pairs[row, [i, j]] = a, b
    # From E z_i^2 z_j^2 = 1 and E z_i^4 = 3, with all generators at sqrt(3).
    w_pair, w_axis = 1 / 36, (4 - n) / 18
    w_origin = 1 - 2 * n * w_axis - len(pairs) * w_pair
    weights = np.concatenate([[w_origin], np.full(2 * n, w_axis), np.full(len(pairs), w_pair)])
    return np.sqrt(3) * np.concatenate([np.zeros((1, n)), axes, pairs]), weights


def sharpen(atoms: Atoms) -> tuple[Any, Atoms]:
    """Blurred atoms as weighted sums of sharp ones: (W, sharp atoms) with atoms ~ W @ sharp atoms."""
    if atoms.blur is None or atoms.per_point != 1:
        raise ValueError("Only blurred atoms, one at each point, are replaced by a cubature.")
    covariance = np.diag(atoms.blur) if atoms.blur.ndim == 1 else atoms.blur
    values, vectors = np.linalg.eigh(covariance)
    kept = values > values[-1] * np.finfo(float).eps * len(values)
    z, weights = gaussian_rule(int(kept.sum()))
    steps = z @ (vectors[:, kept] * np.sqrt(values[kept])).T  # (p, n)
    xp = namespace(atoms.points)
    points = xp.reshape(atoms.points[:, None, :] + like(steps, atoms.points), (-1, atoms.dimension))
    directions = atoms.directions
    if not atoms.shared:
        directions = xp.repeat(directions, len(weights), axis=0)
    matrix = scipy.sparse.kron(scipy.sparse.eye_array(atoms.size), weights[None, :], format="csr")
    return matrix, Atoms(points, directions)
