"""Functionals on a Fourier grid as multipliers of its frequencies, and their normal matrices.

For values or derivatives at points x_i with weights w_i and multipliers m, the normal matrix of complex coefficients is

    sum_i w_i conj(m_j) conj(e_j(x_i)) e_k(x_i) m_k  =  conj(m_j) T_jk m_k,        T_jk = sum_i w_i e_(k-j)(x_i)

with the waves e_j.  T depends on k - j alone: one transform of the weights gives its generator, and a product takes two
FFTs.  The number of points matters only for the transform.  Generators of blocks of data are added up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import pi, prod
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse

from rkhs.extend import Array, Atoms, FiniteSpace, Functional, Matrix, Part, Vector, cores, double, to_numpy
from rkhs.maps._nufft import to_modes, to_points

Grid = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Waves(FiniteSpace):
    """A space of waves whose frequencies are on a grid, in coordinates relative to the center of a box."""

    stored = False
    center: Vector
    extent: Vector
    spacing: Vector
    limits: tuple[int, ...]
    accuracy: float
    transform_error: float

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers 2 m + 1 of frequencies along each axis."""
        return tuple(2 * m + 1 for m in self.limits)

    @property
    @abstractmethod
    def amplitudes(self) -> Grid:
        """The amplitudes of the waves."""

    @abstractmethod
    def parts(self, functional: Functional) -> tuple[Part, ...]:
        """Return the parts of a functional on the function of the grid."""

    @cached_property
    def frequencies(self) -> list[Vector]:
        """The frequencies h_a j along each axis, in cycles."""
        return [h * np.arange(-m, m + 1) for h, m in zip(self.spacing, self.limits, strict=True)]

    def grids(self, tau: Matrix) -> Grid:
        """Return coefficients (p, c) as grids (c, 2 m_1 + 1, ..)."""
        return np.ascontiguousarray(tau.T).reshape(tau.shape[1], *self.shape)

    def columns(self, grids: Grid) -> Matrix:
        """Return grids (c, 2 m_1 + 1, ..) as coefficients (p, c)."""
        return grids.reshape(len(grids), self.size).T

    def phases(self, points: Array) -> Matrix:
        """Return 2 pi h (x - center), (t, d)."""
        return np.ascontiguousarray((double(points) - self.center) * (2 * pi * self.spacing))

    def near(self, points: Array) -> Vector | None:
        """Return which points are at most half of the range of the kernel away from the box; None for all."""
        reach = (1 / self.spacing - self.extent) / 2
        inside = np.all(np.abs(to_numpy(points) - self.center) <= self.extent / 2 + reach, axis=1)
        return None if np.all(inside) else inside

    def multiplier(self, directions: Matrix, blur: Matrix | None) -> Any:
        """Return the multiplier of derivatives along directions (m, d), of averages with a covariance `blur`."""
        axes = np.meshgrid(*self.frequencies, indexing="ij", sparse=True)
        result: Any = 1.0
        for u in directions:
            result = result * (2j * pi * sum((c * w for c, w in zip(u, axes, strict=True) if c), np.zeros(())))
        if blur is not None:
            C = np.diag(blur) if blur.ndim == 1 else blur
            form = sum((C[a, b] * axes[a] * axes[b] for a, b in product(range(len(C)), repeat=2)), np.zeros(()))
            result = result * np.exp(-2 * pi**2 * form)
        return result


@dataclass(frozen=True, eq=False)
class Channels:
    """Atoms as multipliers: the atom k at point i is sum_q coefficient_ikq multiplier_q.

    With directions that all points share there is one multiplier for each atom of a point, and no coefficients.
    """

    space: Waves
    points: Array
    multipliers: list[Any]
    coefficients: Matrix | None  # (t, k, q)

    @classmethod
    def of(cls, space: Waves, atoms: Atoms) -> Channels:
        """Return the channels of atoms."""
        directions, d = double(atoms.directions), atoms.dimension
        if atoms.shared:
            return cls(space, atoms.points, [space.multiplier(u, atoms.blur) for u in directions], None)
        axes = sorted({tuple(sorted(index)) for index in product(range(d), repeat=atoms.order)})
        coefficients = np.zeros((*directions.shape[:2], len(axes)))
        for index in product(range(d), repeat=atoms.order):
            factors = np.prod([directions[:, :, j, a] for j, a in enumerate(index)], axis=0)
            coefficients[:, :, axes.index(tuple(sorted(index)))] += factors
        units = np.eye(d)
        return cls(space, atoms.points, [space.multiplier(units[list(a)], atoms.blur) for a in axes], coefficients)

    @property
    def per_point(self) -> int:
        """The number of atoms at each point."""
        return len(self.multipliers) if self.coefficients is None else self.coefficients.shape[1]

    @cached_property
    def _phases(self) -> tuple[Matrix, Vector | None]:
        near = self.space.near(self.points)
        phases = self.space.phases(self.points)
        return (phases if near is None else phases[near]), near

    def values(self, coefficients: Grid) -> Vector:
        """Return the values (t k,) of the atoms from the complex coefficients of a real function."""
        (phases, near), error = self._phases, self.space.transform_error
        result = np.zeros((self.points.shape[0], len(self.multipliers)))
        inside: Any = slice(None) if near is None else near
        for q in range(0, len(self.multipliers), 2):  # two real functions in one complex transform
            joined = self.multipliers[q] * coefficients
            if q + 1 < len(self.multipliers):
                joined = joined + 1j * (self.multipliers[q + 1] * coefficients)
            values = to_points(joined, phases, error)
            result[inside, q] = values.real
            if q + 1 < len(self.multipliers):
                result[inside, q + 1] = values.imag
        if self.coefficients is not None:
            result = np.einsum("tkq,tq->tk", self.coefficients, result)
        return result.reshape(-1)

    def sums(self, weights: Vector) -> Grid:
        """Return the complex coefficients of sum_i weight_i atom_i for weights (t k,); the adjoint of `values`."""
        (phases, near), error, shape = self._phases, self.space.transform_error, self.space.shape
        table = weights.reshape(self.points.shape[0], self.per_point)
        if self.coefficients is not None:
            table = np.einsum("tkq,tk->tq", self.coefficients, table)
        table = table if near is None else table[near]
        total: Any = np.zeros(shape, dtype=np.complex128)
        for q in range(0, len(self.multipliers), 2):
            if q + 1 == len(self.multipliers):
                total += np.conj(self.multipliers[q]) * to_modes(table[:, q], phases, shape, error)
                continue
            joined = to_modes(table[:, q] + 1j * table[:, q + 1], phases, shape, error)
            mirrored = np.conj(joined[tuple(slice(None, None, -1) for _ in shape)])
            total += np.conj(self.multipliers[q]) * (joined + mirrored) / 2
            total += np.conj(self.multipliers[q + 1]) * (joined - mirrored) / 2j
        return total


@dataclass(frozen=True, eq=False)
class ToeplitzSums:
    """The normal matrix sum over q, s of conj(m_q) T_qs m_s of a family at points; `+` adds two blocks of data.

    The generators of T are transforms of the weights, with indices up to 2 m.
    """

    multipliers: list[Any]
    generators: dict[tuple[int, int], Grid]  # for pairs of channels q <= s

    @classmethod
    def of(cls, space: Waves, functional: Functional, weight: Vector, known: list[Any]) -> ToeplitzSums | None:
        """Return the sums for weights (N,); None if the family combines different points.

        `known` collects pairs of points and the generators of their unit weights, which several families may share.
        """
        channels = _pointwise(space, functional)
        if channels is None:
            return None
        shape, error = tuple(4 * m + 1 for m in space.limits), space.transform_error
        phases = space.phases(channels.points)
        table, count = weight.reshape(channels.points.shape[0], -1), len(channels.multipliers)
        if channels.coefficients is not None:
            # T_qs has the weights sum_k w_ik c_ikq c_iks of all atoms k at the point i
            pairs = {
                (q, s): np.sum(table * channels.coefficients[:, :, q] * channels.coefficients[:, :, s], axis=1)
                for q in range(count)
                for s in range(q, count)
            }
            return cls(channels.multipliers, {k: to_modes(w, phases, shape, error) for k, w in pairs.items()})
        if np.all(table == table.flat[0]):
            same_points = (g for points, g in known if np.array_equal(points, channels.points))
            generator = next(same_points, None)
            if generator is None:
                generator = to_modes(np.ones(len(phases)), phases, shape, error)
                known.append((channels.points, generator))
            # equal weights: T = w sum_i e_(k-j)(x_i)
            scaled = table.flat[0] * generator
            return cls(channels.multipliers, {(q, q): scaled for q in range(count)})
        # channels with equal weights share a generator
        first = [next(s for s in range(q + 1) if np.array_equal(table[:, s], table[:, q])) for q in range(count)]
        generators = {s: to_modes(table[:, s], phases, shape, error) for s in set(first)}
        return cls(channels.multipliers, {(q, q): generators[s] for q, s in enumerate(first)})

    def __add__(self, other: ToeplitzSums) -> ToeplitzSums:
        return replace(self, generators={k: self.generators[k] + other.generators[k] for k in self.generators})


def _pointwise(space: Waves, functional: Functional) -> Channels | None:
    """Return the channels of a family whose functionals depend on one point each; None for other families."""
    merged: Channels | None = None
    for part in space.parts(functional):
        row = _repeated_row(part)
        if row is None or part.start or part.size != functional.size:
            return None
        channels = Channels.of(space, part.atoms)
        if part.matrix is not None:
            if channels.coefficients is not None:
                return None
            joined = sum((c * m for c, m in zip(row, channels.multipliers, strict=True)), np.zeros(()))
            channels = replace(channels, multipliers=[joined])
        elif part.weight != 1.0:
            channels = replace(channels, multipliers=[part.weight * m for m in channels.multipliers])
        if merged is None:
            merged = channels
            continue
        if channels.coefficients is not None or merged.coefficients is not None:
            return None
        if len(channels.multipliers) != len(merged.multipliers) or not np.array_equal(channels.points, merged.points):
            return None
        pairs = zip(merged.multipliers, channels.multipliers, strict=True)
        merged = replace(merged, multipliers=[a + b for a, b in pairs])
    if merged is not None and merged.coefficients is not None and merged.coefficients.shape[2] > 3:
        return None  # derivatives of order two and above along directions that differ: too many pairs
    if merged is not None and space.near(merged.points) is not None:
        return None
    return merged


def _repeated_row(part: Part) -> Vector | None:
    """Return the row r of a part whose matrix is the Kronecker product of an identity and r, or an identity."""
    if part.matrix is None:
        return np.ones(part.atoms.per_point)
    k, W = part.atoms.per_point, part.matrix
    if not scipy.sparse.issparse(W) or W.shape[0] * k != W.shape[1] or W.nnz != W.shape[1]:
        return None
    W = scipy.sparse.csr_array(W)
    rows = W.data.reshape(-1, k)
    same = np.array_equal(W.indices, np.arange(W.shape[1])) and np.all(rows == rows[:1])
    return part.weight * rows[0] if same and len(rows) else None


class Normal:
    """The normal matrix E'WE of families with sums, whose products are computed by FFTs.

    A product with a Toeplitz matrix is a convolution of coefficients: the FFT of a product of real functions, on a grid
    of at least 4 m + 1 points along each axis, so that it does not wrap around.  Only the coefficients with j_d >= 0
    are stored.
    """

    def __init__(self, space: Waves, sums: Sequence[ToeplitzSums]) -> None:
        self.space, self.sums = space, sums
        self.lengths = tuple(scipy.fft.next_fast_len(4 * m + 1, real=True) for m in space.limits)
        fields = {id(g): self._field(g) for one in sums for g in one.generators.values()}  # families may share one
        self.fields = [{pair: fields[id(g)] for pair, g in one.generators.items()} for one in sums]
        half = (..., slice(space.limits[-1], None))
        full = [[np.broadcast_to(m, space.shape) for m in one.multipliers] for one in sums]
        self.multipliers = [[np.ascontiguousarray(m[half]) for m in one] for one in full]

    @cached_property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-len(self.space.limits), 0))

    def _corners(self, limits: Sequence[int]) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Return pairs of slices, of arrays with the frequency zero in the middle and in the layout of FFTs."""
        pairs = []
        *leading, last = limits
        for signs in product((False, True), repeat=len(leading)):
            middle = [slice(0, m) if negative else slice(m, None) for m, negative in zip(leading, signs, strict=True)]
            ends = [
                slice(n - m, n) if negative else slice(0, m + 1)
                for m, n, negative in zip(leading, self.lengths, signs, strict=False)
            ]
            pairs.append(((..., *middle, slice(None)), (..., *ends, slice(0, last + 1))))
        return pairs

    def _function(self, half: Grid, limits: Sequence[int]) -> Grid:
        """Return the values of real functions on the grid of points, from their coefficients with j_d >= 0."""
        *lengths, final = self.lengths
        padded = np.zeros((*half.shape[: -len(self.space.limits)], *lengths, final // 2 + 1), dtype=np.complex128)
        # sum_j c_j exp(2 pi i <j, l> / n) at all l, with c_-j = conj(c_j): one inverse FFT of reals
        for middle, ends in self._corners(limits):
            padded[ends] = half[middle]
        workers = cores(np.zeros(0))
        return scipy.fft.irfftn(padded, s=self.lengths, axes=self._axes, workers=workers, overwrite_x=True)

    def _coefficients(self, function: Grid) -> Grid:
        """Return the coefficients with 0 <= j_d <= m_d and |j_a| <= m_a of real functions."""
        limits = self.space.limits
        padded = scipy.fft.rfftn(function, axes=self._axes, workers=cores(np.zeros(0)), overwrite_x=True)
        half = np.empty((*function.shape[: -len(limits)], *self.space.shape[:-1], limits[-1] + 1), dtype=np.complex128)
        for middle, ends in self._corners(limits):
            half[middle] = padded[ends]
        return half

    def _field(self, generator: Grid) -> Grid:
        """Return the real function by which functions are multiplied."""
        limits = [2 * m for m in self.space.limits]
        return prod(self.lengths) * self._function(generator[..., limits[-1] :], limits)

    def __matmul__(self, tau: Matrix) -> Matrix:
        space = self.space
        return space.columns(self.on_grids(space.grids(tau)))

    def on_grids(self, tau: Grid) -> Grid:
        """Return the product with grids (c, 2 m_1 + 1, ..)."""
        space, m = self.space, self.space.limits[-1]
        mirror: Any = (..., *(slice(None, None, -1) for _ in space.limits))
        right, left = tau[..., m:], tau[mirror][..., m:]
        amplitudes = space.amplitudes[..., m:]
        coefficients = np.empty(right.shape, dtype=np.complex128)
        # c = D ((tau + tau_-) - i (tau - tau_-)) / 2
        coefficients.real = 0.5 * amplitudes * (right + left)
        coefficients.imag = -0.5 * amplitudes * (right - left)
        # sum_qs conj(m_q) T_qs m_s c: FFTs of n >= 4 m + 1 points diagonalize the circulant matrix that contains T
        # (Chan and Ng 1996, Conjugate gradient methods for Toeplitz systems)
        total = np.zeros_like(coefficients)
        for multipliers, fields in zip(self.multipliers, self.fields, strict=True):
            functions = [self._function(multiplier * coefficients, space.limits) for multiplier in multipliers]
            mixed = any(q != s for q, s in fields)
            for q, multiplier in enumerate(multipliers):
                pairs = [(s, fields[min(q, s), max(q, s)]) for s in range(len(functions)) if mixed or s == q]
                image = sum((field * functions[s] for s, field in pairs[1:]), pairs[0][1] * functions[pairs[0][0]])
                total += np.conj(multiplier) * self._coefficients(image)
        total *= amplitudes
        # tau = D (Re c - Im c), at j and at -j
        result = np.empty_like(tau)
        result[..., m:] = total.real - total.imag
        result[mirror][..., m:] = total.real + total.imag  # also at j_d = 0, where both are the same
        return result

    @cached_property
    def diagonal(self) -> Vector:
        """An approximation (p,) of the diagonal of the Toeplitz part, by which iterations are preconditioned."""
        total: Any = np.zeros(self.space.shape)
        for one in self.sums:
            middle = tuple(2 * m for m in self.space.limits)
            for (q, s), generator in one.generators.items():
                if q == s:
                    total = total + abs(one.multipliers[q]) ** 2 * float(generator[middle].real)
        return np.asarray(self.space.amplitudes**2 * total).ravel()

    def leading(self, count: int) -> Vector:
        """Return the indices of at most `count` frequencies with the largest diagonal, with -j for every j."""
        size = np.maximum(self.diagonal, self.diagonal[::-1])
        return np.arange(len(size)) if len(size) <= count else np.flatnonzero(size > np.partition(size, -count)[-count])

    def block(self, indices: Vector) -> Matrix:
        """Return the block of the Toeplitz part on some frequencies: indices of flattened grids, with -j for every j.

        Complex coefficients are c = D ((1 - i) tau + (1 + i) tau_-) / 2, and Hartley coefficients D (Re - Im).
        """
        space = self.space
        j = np.stack(np.unravel_index(indices, space.shape), axis=1)
        mirror = np.searchsorted(indices, space.size - 1 - indices)
        lags = tuple(np.subtract.outer(j[:, a], j[:, a]) + 2 * m for a, m in enumerate(space.limits))
        D = space.amplitudes.ravel()[indices]
        total = np.zeros((len(indices), len(indices)), dtype=np.complex128)
        for one in self.sums:
            multipliers = [np.broadcast_to(m, space.shape).ravel()[indices] for m in one.multipliers]
            for (q, s), generator in one.generators.items():
                # T_jk is the generator at j - k
                T = generator[lags]
                total += np.conj(multipliers[q])[:, None] * T * multipliers[s]
                if q != s:
                    total += np.conj(multipliers[s])[:, None] * T * multipliers[q]
        total *= D
        total = (1 - 1j) / 2 * total + (1 + 1j) / 2 * total[:, mirror]
        result: Matrix = D[:, None] * (total.real - total.imag)
        return (result + result.T) / 2
