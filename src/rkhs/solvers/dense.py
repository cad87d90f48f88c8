"""Systems small enough for a Gram matrix in memory, in NumPy and float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, like, to_numpy
from rkhs._backend.memory import budget_bytes, free_memory
from rkhs._finite.problem import FiniteProblem, Geometry, Iterate, LossBlock
from rkhs._gram.matrix import GramMatrix, GramOperator

COPIES = 4  # of the Gram matrix that a dense solver may hold: itself, a system of equations, its factor, one to spare
ALONE = 0.5  # of the memory that is free, for a solver that holds one matrix


def fits(rows: int) -> bool:
    """Whether a Gram matrix of so many rows, in NumPy, fits the memory budget."""
    return COPIES * 8 * rows**2 <= budget_bytes(None, np.zeros(0))


def fits_once(rows: int) -> bool:
    """Whether one such matrix, and nothing else of its size, fits half of the memory that is free."""
    return 8 * rows**2 <= ALONE * free_memory(np.zeros(0))


def double(array: Array) -> Matrix:
    """In NumPy and float64."""
    return to_numpy(array).astype(np.float64)


def rows_in_double(terms: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
    """Rows of losses with targets and weights in NumPy and float64."""
    return tuple(replace(t, target=double(t.target), weight=double(t.weight)) for t in terms)


def in_memory(system: FiniteProblem) -> FiniteProblem:
    """The same system, its Gram matrix, basis, targets and weights NumPy arrays in float64.

    The Gram matrix is computed in float64 even for points in float32, so that it is positive semidefinite to that
    precision.
    """
    here = isinstance(system.Q, np.ndarray) and system.Q.dtype == np.float64
    if here and system.exact.stored:
        return system
    return _in_double(system, GramMatrix(system.exact.in_double()))


def in_numpy(system: FiniteProblem) -> FiniteProblem:
    """The same without the matrix: the Gram operator is that of the system."""
    return _in_double(system, system.exact)


def _in_double(system: FiniteProblem, gram: GramOperator) -> FiniteProblem:
    here = isinstance(system.Q, np.ndarray) and system.Q.dtype == np.float64
    Q = system.Q if here else _orthonormal(double(system.Q))
    basis = double(system.geometry.basis_sizes)
    geometry = Geometry(gram, gram, Q, system.definite, lambda: double(system.geometry.sizes), basis)
    return FiniteProblem(geometry, rows_in_double(system.terms), system.outputs)


def _orthonormal(Q: Matrix) -> Matrix:
    """Q, orthonormal in float32, so in float64; rows of zeros stay what they are."""
    factor = np.linalg.cholesky(Q.T @ Q)
    return np.asarray(scipy.linalg.solve_triangular(factor, Q.T, lower=True).T) if Q.shape[1] else Q


def to_memory(inside: FiniteProblem, system: FiniteProblem, iterate: Iterate) -> Iterate:
    """An iterate of a system as one of the same system in memory; Q'a = 0 where the kernel needs that."""
    if inside is system:
        a, basis = iterate.a, iterate.basis
    else:
        a = to_numpy(iterate.a).astype(np.float64)
        basis = inside.Q.T @ to_numpy(system.Q @ iterate.basis)
    return Iterate(inside.inside(a), basis)


def from_memory(inside: FiniteProblem, system: FiniteProblem, iterate: Iterate) -> Iterate:
    """The way back."""
    if inside is system:
        return iterate
    alpha = None if iterate.alpha is None else like(iterate.alpha, system.Q)
    return Iterate(like(iterate.a, system.Q), system.Q.T @ like(inside.Q @ iterate.basis, system.Q), alpha)
