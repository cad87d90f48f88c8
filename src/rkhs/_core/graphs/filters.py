"""Functions of a sparse Laplacian: by Chebyshev polynomials, or by the eigendecomposition for small graphs.

The kernel of the nodes is  phi(L),  phi(s) = 1 / (1 + (s / cutoff)^power),  the inverse of the precision matrix
I + (L / cutoff)^power.  A polynomial of degree m in L takes m sparse products for a block of columns, needs no
preconditioner, and the same sequence  T_0 V, T_1 V, ..  of Chebyshev polynomials serves any number of cutoffs.  Since
2 T_j T_k = T_(j+k) + T_|j-k|, half of the products suffice for traces:

    v'T_2k v = 2 |T_k v|^2 - |v|^2,        v'T_(2k+1) v = 2 (T_k v)'(T_(k+1) v) - v'T_1 v

(Weisse, Wellein, Alvermann and Fehske, The kernel polynomial method, 2006).  The degree grows as
1 / sqrt(cutoff) and with the logarithm of the accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from rkhs._core.backend.arrays import Array, Vector, like, namespace, sparse_like, take_rows, zeros
from rkhs._core.backend.memory import cores, single_blas
from rkhs._core.limits import limits
from rkhs._core.progress import report_progress

ACCURACY = 1e-12  # largest error of the polynomial; the filter's largest value is 1, and its mean may be 1e-4


@dataclass(frozen=True)
class Filter:
    """The function phi(s) = 1 / (1 + (s / cutoff)^power) of the eigenvalues of a Laplacian, and its polynomial."""

    power: int
    cutoff: float
    accuracy: float = ACCURACY

    def __call__(self, s: Vector) -> Vector:
        return 1 / (1 + (np.asarray(s) / self.cutoff) ** self.power)

    @cached_property
    def coefficients(self) -> Vector:
        """Return the Chebyshev coefficients of phi on [0, 2] whose sum differs from phi by at most `accuracy`."""
        count = 64
        while count <= limits().filter_degree:
            # the Chebyshev nodes of [0, 2]: s_k = 1 + cos(pi (k + 1/2) / count) = 2 cos^2(pi (k + 1/2) / 2 count)
            s = 2 * np.cos(np.pi * (np.arange(count) + 0.5) / (2 * count)) ** 2  # accurate near zero
            # phi(s) = sum_j c_j T_j(s - 1), c_j = (2 - delta_j0) / count sum_k phi(s_k) cos(pi j (k + 1/2) / count)
            series = scipy.fft.dct(self(s), type=2) / count
            series[0] /= 2
            # |sum_(j>m) c_j T_j| <= sum_(j>m) |c_j|
            tails = np.cumsum(np.abs(series[::-1]))[::-1]
            floor = count * np.finfo(float).eps / 16  # the rounding of the transform
            kept = int(np.sum(tails > max(self.accuracy, floor)))
            if kept < count // 2:
                return np.asarray(series[: max(kept, 1)])
            count *= 2
        raise ValueError(
            f"{self!r} needs a polynomial of degree above {limits().filter_degree}: use a larger cutoff or accuracy."
        )


class ChebyshevFilters:
    """Filters of a sparse normalized Laplacian by polynomials.

    The nodes are reordered so that neighbors are near each other in memory (reverse Cuthill-McKee), which halves the
    time of products.
    """

    def __init__(self, laplacian: csr_array) -> None:
        self.order = np.asarray(reverse_cuthill_mckee(laplacian, symmetric_mode=True)).astype(np.intp)
        reordered = laplacian[self.order][:, self.order]
        self.matrix = csr_array(reordered - scipy.sparse.eye_array(len(self.order)))  # eigenvalues in [-1, 1]

    def apply(self, filter: Filter, V: Array) -> Array:
        """Return phi(L) V for a block of columns V (t, r)."""
        out, coefficients = zeros(V.shape, V), filter.coefficients
        for k, (c, T) in enumerate(zip(coefficients, self._sequence(take_rows(V, self.order)), strict=False)):
            # phi(L) V = sum_j c_j T_j(L - I) V
            out += float(c) * T
            report_progress((k + 1) / len(coefficients))
        return take_rows(out, np.argsort(self.order))

    def inner_products(self, filters: Sequence[Filter], B: csr_array, array: Array) -> list[Array]:
        """Return B phi(L) B' (r, r) for each filter and a sparse matrix B (r, t), like `array`."""
        reordered = csr_array(B[:, self.order])
        rows, length = sparse_like(reordered, array), max(len(filter.coefficients) for filter in filters)
        sums = [zeros((B.shape[0], B.shape[0]), array) for _ in filters]
        for k, T in zip(range(length), self._sequence(like(reordered.T.toarray(), array)), strict=False):
            product = rows @ T
            for total, filter in zip(sums, filters, strict=True):
                if k < len(filter.coefficients):
                    total += float(filter.coefficients[k]) * product
            report_progress((k + 1) / length)
        return sums

    def mean_diagonals(self, filters: Sequence[Filter], array: Array) -> list[float]:
        """Return the mean diagonal entry of phi(L) for each filter, from products with arrays like `array`.

        It is estimated by 64 random vectors of signs (Hutchinson 1990), with a relative error of about
        sqrt(2 / (64 d)) for d degrees of freedom tr phi(L).
        """
        probes = like(np.sign(np.random.default_rng(0).standard_normal((len(self.order), 64))), array)
        size = 64 * len(self.order)
        degree = max(len(filter.coefficients) for filter in filters) - 1
        moments, before = np.zeros(degree + 2), None  # moments of the sum over all probes
        for k, T in zip(range((degree + 1) // 2 + 1), self._sequence(probes), strict=False):
            # v'T_2k v = 2 |T_k v|^2 - |v|^2
            moments[2 * k] = 2 * _inner(T, T) - size
            if before is not None:
                # v'T_(2k-1) v = 2 (T_(k-1) v)'(T_k v) - v'T_1 v
                product = _inner(before, T)
                moments[2 * k - 1] = 2 * product - (moments[1] if k > 1 else product)
            before = T
            report_progress(2 * k / (degree + 1))
        # tr phi(L) ~ mean over the signs v of v'phi(L)v = sum_j c_j v'T_j v
        return [float(f.coefficients @ moments[: len(f.coefficients)]) / size for f in filters]

    def _sequence(self, V: Array) -> Iterator[Array]:
        """Yield T_0(A) V, T_1(A) V, .. for A = L - I; an array is overwritten when the next but one is computed."""
        threads = cores(V) if isinstance(V, np.ndarray) and V.size > limits().shared_entries else 1
        edges = np.linspace(0, len(self.order), threads + 1).astype(int)
        slices = [slice(*pair) for pair in pairwise(edges)]
        blocks = [sparse_like(self.matrix[rows], V) for rows in slices]
        with ThreadPoolExecutor(threads) as pool:

            def product(now: Array, before: Array, factor: float) -> Array:
                """Return factor * A @ now - before, written to `before`."""

                def part(rows: slice, block: Any) -> None:
                    # T_(k+1) V = 2 A T_k V - T_(k-1) V, with A = L - I
                    before[rows] = factor * (block @ now) - before[rows]

                list((pool.map if threads > 1 else map)(part, slices, blocks))
                return before

            before = namespace(V).asarray(V, copy=True)
            yield before
            now = product(before, zeros(V.shape, V), 1.0)
            while True:
                yield now
                before, now = now, product(now, before, 2.0)


class SpectralFilters:
    """Filters of the Laplacian of a small graph by its eigendecomposition."""

    def __init__(self, laplacian: csr_array) -> None:
        with single_blas():  # threads gain little at this size, and on a busy computer take much longer
            eigenvalues, self.vectors = scipy.linalg.eigh(laplacian.toarray(), driver="evd", overwrite_a=True)
        self.eigenvalues = np.clip(eigenvalues, 0.0, 2.0)

    def apply(self, filter: Filter, V: Array) -> Array:
        """Return phi(L) V for a block of columns V (t, r)."""
        # phi(L) V = U phi(eigenvalues) U'V
        U = like(self.vectors, V)
        return U @ (like(filter(self.eigenvalues), V)[:, None] * (U.T @ V))

    def inner_products(self, filters: Sequence[Filter], B: csr_array, array: Array) -> list[Array]:
        """Return B phi(L) B' (r, r) for each filter and a sparse matrix B (r, t), like `array`."""
        along = like(B @ self.vectors, array)
        return [(along * like(filter(self.eigenvalues), along)) @ along.T for filter in filters]

    def mean_diagonals(self, filters: Sequence[Filter], array: Array) -> list[float]:
        """Return the mean diagonal entry of phi(L) for each filter."""
        return [float(np.mean(filter(self.eigenvalues))) for filter in filters]


def _inner(left: Array, right: Array) -> float:
    """Return the sum of the products of the entries of two arrays."""
    return float(namespace(left).vecdot(left.reshape(-1), right.reshape(-1)))
