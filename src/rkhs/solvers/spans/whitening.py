"""Orthonormal functions in a span, as far as rounding tells them apart.

The moments of a span are sums of products of psi_a, each right to a unit of rounding.  In an orthonormal basis
psi R, R'KR = I, that error grows by the inverse of K's smallest eigenvalue: directions in which |f|^2 is below the
rounding of the moments are left out.  They belong to functions that the data cannot tell from zero at that precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

Matrix = np.ndarray[Any, Any]
UNITS = 8.0  # of rounding


@dataclass(frozen=True, eq=False)
class Eigenfunctions:
    """psi V with orthonormal columns V (p, m) and V'KV = diag(values): orthogonal in H, of norms sqrt(values)."""

    V: Matrix
    values: Matrix  # the largest first

    @classmethod
    def of(cls, K: Matrix, constraints: Matrix) -> Eigenfunctions:
        """All of them within constraints V = 0."""
        Z = scipy.linalg.null_space(constraints) if len(constraints) else None
        inner = K if Z is None else Z.T @ K @ Z
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        vectors = np.ascontiguousarray(vectors[:, ::-1])
        return cls(vectors if Z is None else Z @ vectors, values[::-1])

    def kept(self, moments: Matrix, eps: float) -> int:
        """How many of them moments (m, m), weights included, tell from zero, for products right to eps."""
        largest = float(self.values[0])
        floor = UNITS * eps * (len(self.V) ** 0.5 * largest + float(np.linalg.norm(moments)))
        return int(np.count_nonzero(self.values > min(floor, largest / 2)))
