"""Vectors with few nonzero entries, such as word counts of documents: arrays (.., n) stored as rows of a CSR matrix.

Kernels of the dot product and of the distance need inner products of points and directions only, and these are products
of sparse matrices.  Everything else would need dense vectors and raises an error: nothing is converted silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

TILE = 2**22  # entries of a block of a sparse product before it becomes dense, about 50 MB


@dataclass(frozen=True, eq=False)
class SparseVectors:
    """An array (.., n) whose vectors along the last axis are the rows of a CSR matrix.

    Indexing and reshaping act on the leading axes, in the notation of NumPy.

    Examples
    --------
    >>> X = SparseVectors.of(csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    >>> X.shape, X[:, None, :].shape, X[[1]].shape
    ((2, 3), (2, 1, 3), (1, 3))
    >>> inner_products(X, X)
    array([[ 4.,  0.],
           [ 0., 10.]])
    """

    matrix: Any  # (product of the leading axes, n), in canonical format, without zeros
    shape: tuple[int, ...]
    device: ClassVar[str] = "cpu"
    __array_ufunc__ = None  # NumPy leaves operations with arrays to this class

    @classmethod
    def of(cls, matrix: Any) -> SparseVectors:
        """Return the rows of a SciPy sparse matrix, in canonical format; the matrix is not changed."""
        rows = csr_array(matrix)
        if not rows.has_canonical_format or not np.all(rows.data):
            rows = rows.copy()
            rows.sum_duplicates()
            rows.eliminate_zeros()
        return cls(rows, (int(rows.shape[0]), int(rows.shape[1])))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return self.matrix.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if 0 in self.shape:
            return np.empty(self.shape, dtype=self.dtype if dtype is None else dtype)
        raise TypeError(
            f"The points are sparse, of shape {self.shape}, and this computation needs dense ones: pass X.toarray() if "
            "it fits in memory."
        )

    def __getitem__(self, key: Any) -> SparseVectors:
        lead, keys = self.shape[:-1], key if isinstance(key, tuple) else (key,)
        to_the_end = any(k is Ellipsis for k in keys) or sum(k is not None for k in keys) == self.ndim
        whole = not to_the_end or keys[-1] is Ellipsis or (isinstance(keys[-1], slice) and keys[-1] == slice(None))
        if not whole:
            raise IndexError(f"Sparse vectors of shape {self.shape} are indexed as a whole, not by {key!r}.")
        where = np.arange(prod(lead)).reshape(*lead, 1)[key]  # the last axis stands for the vectors
        rows = where.reshape(-1)
        same = len(rows) == self.matrix.shape[0] and np.array_equal(rows, np.arange(len(rows)))
        return SparseVectors(self.matrix if same else self.matrix[rows], (*where.shape[:-1], self.shape[-1]))

    def reshape(self, shape: tuple[int, ...], order: str = "C") -> SparseVectors:
        """Return the vectors with other leading axes; `order` is there for `numpy.reshape`."""
        lead = np.empty(self.shape[:-1], dtype=bool).reshape(shape[:-1]).shape
        return replace(self, shape=(*lead, self.shape[-1]))

    def astype(self, dtype: Any) -> SparseVectors:
        """Return the vectors in another floating-point type."""
        return self if self.dtype == dtype else replace(self, matrix=self.matrix.astype(dtype))

    def scaled(self, factors: Any) -> SparseVectors:
        """Return the vectors with every coordinate multiplied by its factor (n,)."""
        changed = self.matrix.copy()
        changed.data = changed.data * np.asarray(factors, dtype=self.dtype)[changed.indices]
        return replace(self, matrix=changed)

    def __abs__(self) -> SparseVectors:
        return replace(self, matrix=abs(self.matrix))

    def __mul__(self, other: SparseVectors) -> SparseVectors:
        return self._combined(other, lambda a, b: a.multiply(b))

    def __sub__(self, other: SparseVectors) -> SparseVectors:
        return self._combined(other, lambda a, b: a - b)

    def _combined(self, other: SparseVectors, operation: Any) -> SparseVectors:
        if not isinstance(other, SparseVectors):
            return NotImplemented
        lead = np.broadcast_shapes(self.shape[:-1], other.shape[:-1])
        sides = []
        for side in (self, other):
            rows = np.arange(prod(side.shape[:-1])).reshape(side.shape[:-1])
            sides.append(side.matrix[np.broadcast_to(rows, lead).reshape(-1)])
        return SparseVectors(csr_array(operation(*sides)), (*lead, self.shape[-1]))

    def sum(self, axis: int = -1, **_: Any) -> Any:
        """Return the sums of the entries of each vector, in the shape of the leading axes."""
        if axis not in (-1, self.ndim - 1):
            raise TypeError(f"Sparse vectors of shape {self.shape} have sums along the last axis only, not {axis}.")
        return np.asarray(self.matrix.sum(axis=1), dtype=self.dtype).reshape(self.shape[:-1])

    def frozen(self) -> SparseVectors:
        """Mark the arrays of the matrix as immutable."""
        for array in (self.matrix.data, self.matrix.indices, self.matrix.indptr):
            array.flags.writeable = False
        return self

    def immutable_copy(self) -> SparseVectors:
        """Return the vectors if they are immutable, and otherwise an immutable copy."""
        arrays = (self.matrix.data, self.matrix.indices, self.matrix.indptr)
        if not any(array.flags.writeable for array in arrays):
            return self
        return replace(self, matrix=self.matrix.copy()).frozen()

    def row_bytes(self) -> Iterator[bytes]:
        """Return bytes for each vector that are equal for equal vectors."""
        starts, indices, data = self.matrix.indptr, self.matrix.indices.astype(np.int64), self.matrix.data
        ends = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        return (indices[i:j].tobytes() + data[i:j].tobytes() for i, j in ends)


def inner_products(p: SparseVectors, q: SparseVectors) -> Any:
    """Return <p_i, q_j> for all vectors p_i and q_j as a dense array with the leading axes of p, then those of q."""
    left, right = p.matrix, q.matrix.T.tocsr()
    out = np.empty((left.shape[0], right.shape[1]), dtype=np.result_type(left.dtype, right.dtype))
    step = max(1, TILE // max(1, right.shape[1]))
    for start in range(0, len(out), step):
        out[start : start + step] = (left[start : start + step] @ right).toarray()
    return out.reshape(*p.shape[:-1], *q.shape[:-1])
