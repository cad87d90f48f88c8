"""A conditionally positive definite kernel without its polynomials ([W] 6.2).

The polynomials P of the null space are not penalised, so where they separate the data they take over.  Leaving them
out leaves f = sum a_i z_i with P'a = 0: a space S of functions, finite-dimensional here, with inner product a'Ga.  On
it every functional is bounded, and the Gram matrix of their representers in S is

    K = G Z (Z'GZ)^-1 Z'G,         Z an orthonormal basis of {P'a = 0}

positive semi-definite and without a basis: the problem is an ordinary one, with K in the place of G, and coefficients
alpha of it belong to f = sum a_i z_i with a = Z (Z'GZ)^-1 Z'G alpha.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from rkhs.backend.arrays import Array, like, to_numpy
from rkhs.finite.system import System
from rkhs.gram.matrix import GramMatrix


def without_null_space(system: System) -> tuple[System, Array]:
    """The system over S, and the matrix that takes its coefficients to those of the representers."""
    G = to_numpy(system.gram.dense()).astype(np.float64)
    Q = to_numpy(system.Q).astype(np.float64)
    r = Q.shape[1]
    Z = scipy.linalg.qr(Q)[0][:, r:] if r else np.eye(len(G))
    values, vectors = np.linalg.eigh(Z.T @ G @ Z)
    kept = values > np.finfo(np.float64).eps * len(G) * max(values.max(initial=0.0), 0.0)
    root = Z @ (vectors[:, kept] / np.sqrt(values[kept]))  # root root' = Z (Z'GZ)^+ Z'
    image = G @ root
    plain = system.with_matrices(GramMatrix(like(image @ image.T, system.Q)), system.Q[:, :0])
    return plain, like(root @ image.T, system.Q)
