"""Systems small enough for a Gram matrix in memory, in NumPy and float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.backend.memory import budget_bytes
from rkhs.finite.system import Iterate, System
from rkhs.gram.matrix import GramMatrix

COPIES = 4  # of the Gram matrix that a dense solver may hold: itself, a system of equations, its factor, one to spare

Matrix = np.ndarray[Any, Any]


def fits(system: System, rows: int) -> bool:
    """Whether the Gram matrix of so many of the system's rows fits the memory budget."""
    return COPIES * 8 * rows**2 <= budget_bytes(None, system.functionals.prototype)


def double(array: Array) -> Matrix:
    """In NumPy and float64."""
    return to_numpy(array).astype(np.float64)


def in_memory(system: System) -> System:
    """The same system, its Gram matrix, basis, targets and weights NumPy arrays in float64.

    The Gram matrix is computed in float64 even for points in float32, so that it is positive semidefinite to that
    precision.
    """
    if isinstance(system.gram, GramMatrix) and isinstance(system.Q, np.ndarray) and system.Q.dtype == np.float64:
        return system
    family = system.functionals
    xp = namespace(family.prototype)
    exact = system
    if family.prototype.dtype != xp.float64 and not isinstance(system.gram, GramMatrix):
        exact = replace(system, functionals=family.like(xp.astype(family.prototype[:0], xp.float64)))
    rows = tuple(replace(t, target=double(t.target), weight=double(t.weight)) for t in system.terms)
    Q, back = system._basis if system.space is None else exact._basis
    small = system.with_rows(rows, system.outputs)
    matrix = GramMatrix(double(exact.gram.dense()))
    small.__dict__.update(gram=matrix, exact=matrix, _basis=(double(Q), back))
    return small


def to_memory(inside: System, system: System, iterate: Iterate) -> Iterate:
    """An iterate of a system as one of the same system in memory; Q'a = 0 where the kernel needs that."""
    if inside is system:
        a, basis = iterate.a, iterate.basis
    else:
        a = to_numpy(iterate.a).astype(np.float64)
        basis = inside.Q.T @ to_numpy(system.Q @ iterate.basis)
    return Iterate(in_the_space(inside, a), basis)


def from_memory(inside: System, system: System, iterate: Iterate) -> Iterate:
    """The way back."""
    if inside is system:
        return iterate
    alpha = None if iterate.alpha is None else like(iterate.alpha, system.Q)
    return Iterate(like(iterate.a, system.Q), system.Q.T @ like(inside.Q @ iterate.basis, system.Q), alpha)


def in_the_space(system: System, a: Array) -> Array:
    """a, or the part of it on {Q'a = 0} for kernels whose norm is one only there; twice, for rounding."""
    for _ in range(2 if system.kernel.order else 0):
        a = a - system.Q @ (system.Q.T @ a)
    return a
