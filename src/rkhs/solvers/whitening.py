"""Orthonormal functions in a span, as far as rounding tells them apart.

The moments of a span are sums of products of psi_a, each right to a unit of rounding.  In an orthonormal basis
psi R, R'KR = I, that error grows by the inverse of K's smallest eigenvalue: directions in which |f|^2 is below the
rounding of the moments are left out.  They belong to functions that the data cannot tell from zero at that precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

Matrix = np.ndarray[Any, Any]
UNITS = 8.0  # of rounding


def whitened(K: Matrix, constraints: Matrix, moments: Matrix) -> Matrix:
    """R (p, m) with R'KR = I and constraints R = 0, for moments (p, p), weights included."""
    Z = scipy.linalg.null_space(constraints) if len(constraints) else None
    inner = K if Z is None else Z.T @ K @ Z
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    eps = float(np.finfo(np.float64).eps)
    floor = UNITS * eps * (len(K) ** 0.5 * float(values[-1]) + float(np.linalg.norm(moments)))
    kept = values > min(floor, float(values[-1]) / 2)
    R = vectors[:, kept] / np.sqrt(values[kept])
    return R if Z is None else Z @ R
