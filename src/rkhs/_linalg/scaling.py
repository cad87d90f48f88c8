"""Scaling a symmetric matrix so that the largest entry of each row is about one, and its inverse root after that."""

from __future__ import annotations

import numpy as np

from rkhs._backend.arrays import Matrix

PASSES = 12  # each halves the logarithm of what is left
ROWS = 2**22  # entries that are looked at together


def equilibrate(G: Matrix, d: Matrix) -> Matrix:
    """s > 0 with max_j s_i |G + diag(d)|_ij s_j between 1/2 and 2 (Ruiz's iteration; rows of zeros are left alone).

    A positive definite matrix is done at once: with its diagonal scaled to one no entry is larger.
    """
    diagonal = np.diag(G) + d
    s = 1 / np.sqrt(diagonal) if np.all(diagonal > 0) else np.ones(len(d))
    for _ in range(PASSES):
        sizes = _largest(G, diagonal, s)
        if np.all((sizes >= 0.5) & (sizes <= 2)):
            break
        s = s / np.sqrt(sizes)
    return s


def inverse_root(M: Matrix, least: float) -> Matrix:
    """R (n, k) with R'MR = I, so that RR' inverts M on its range, for a positive semidefinite M.

    Columns go from small eigenvalues to large ones, those of M with ones on its diagonal; where they are below `least`,
    directions are left out.

    Examples
    --------
    >>> import numpy as np
    >>> R = inverse_root(np.array([[4.0, 0.0], [0.0, 0.0]]), least=1e-10)
    >>> R @ R.T
    array([[0.25, 0.  ],
           [0.  , 0.  ]])
    """
    scale = 1 / np.sqrt(np.clip(np.diag(M), 1e-300, None))
    values, vectors = np.linalg.eigh(scale[:, None] * M * scale)
    kept = values > least
    return np.asarray(scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept])))


def _largest(G: Matrix, diagonal: Matrix, s: Matrix) -> Matrix:
    """The largest entry of each scaled row, 1 where there is none."""
    sizes = np.abs(diagonal) * s**2
    tall = max(1, ROWS // max(len(s), 1))
    for start in range(0, len(s), tall):
        rows = slice(start, start + tall)
        block = np.abs(G[rows]) * s
        block[np.arange(len(block)), np.arange(start, start + len(block))] = 0.0
        sizes[rows] = np.maximum(sizes[rows], s[rows] * block.max(axis=1, initial=0.0))
    return np.where(sizes > 0, sizes, 1.0)
