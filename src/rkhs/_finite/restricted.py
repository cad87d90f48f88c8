"""A conditionally positive definite kernel without its polynomials (Walder and Chapelle 2007, 6.2).

The polynomials P of the null space are not penalised, so where they separate the data they take over.  Leaving them
out leaves f = sum a_i z_i with P'a = 0: a space S of functions, finite-dimensional here, with inner product a'Ga.  On
it every functional is bounded, and the Gram matrix of their representers in S is

    K = G Z (Z'GZ)^-1 Z'G,         Z an orthonormal basis of {P'a = 0}

positive semi-definite and without a basis: the problem is an ordinary one, with K in the place of G, and coefficients
alpha of it belong to f = sum a_i z_i with a = Z (Z'GZ)^-1 Z'G alpha.  Neither needs Z.  With Q an orthonormal basis
of the columns of P and the saddle point  GW + QT = GQ, Q'W = 0,  which costs one Cholesky factorisation,

    K = G - Q T Q',                a = alpha - (Q - W) Q'alpha
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs._backend.arrays import Array, like, to_numpy
from rkhs._finite.problem import FiniteProblem
from rkhs._linalg.saddle import Saddle


@dataclass(frozen=True, eq=False)
class Restriction:
    """alpha -> a = alpha - (Q - W) Q'alpha, from the coefficients of representers in S to those of the z_i."""

    Q: Array
    excess: Array  # Q - W

    def __matmul__(self, alpha: Array) -> Array:
        return alpha - self.excess @ (self.Q.T @ alpha)


def without_null_space(system: FiniteProblem) -> tuple[FiniteProblem, Restriction]:
    """The system over S, and the map from its coefficients to those of the representers."""
    G = system.exact.in_double()
    Q = to_numpy(system.Q).astype(np.float64)
    W, T = Saddle(G, np.zeros(len(G)), Q).solve(G @ Q)
    K = G - Q @ ((T + T.T) / 2) @ Q.T
    plain = FiniteProblem.stored(like(K, system.Q), system.Q[:, :0], system.terms, system.outputs)
    return plain, Restriction(system.Q, like(Q - W, system.Q))
