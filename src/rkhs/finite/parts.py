"""Systems made from systems: some of the rows, another origin, another basis of the same functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, like, taken, to_numpy
from rkhs.finite.system import Rows, System
from rkhs.gram.matrix import GramMatrix
from rkhs.losses.shifted import shifted

SEEN = 1e-9  # the size of a basis function on some rows, among functions of size one on all, that counts as zero


def quadratic_rows(system: System) -> np.ndarray[Any, Any]:
    """The indices of the functionals with a squared loss."""
    return _rows(system, quadratic=True)


def other_rows(system: System) -> np.ndarray[Any, Any]:
    """The indices of the others."""
    return _rows(system, quadratic=False)


def _rows(system: System, quadratic: bool) -> np.ndarray[Any, Any]:
    places = [np.arange(t.rows.start, t.rows.stop) for t in system.terms if t.loss.quadratic == quadratic]
    return np.concatenate([np.zeros(0, dtype=int), *places])


def part(system: System, rows: np.ndarray[Any, Any], terms: list[Rows]) -> System:
    """The system of some functionals, which are those of the given terms, with their rows of Q."""
    own, start = [], 0
    for t in terms:
        size = t.rows.stop - t.rows.start
        own.append(replace(t, rows=slice(start, start + size)))
        start += size
    other = replace(system, functionals=system.functionals.take(rows), terms=tuple(own))
    stored = isinstance(system.exact, GramMatrix)
    gram = GramMatrix(system.exact.block(rows, rows)) if stored else other.exact
    return other.with_matrices(gram, taken(system.Q, rows))


def orthonormal(B: Array) -> tuple[Array, Array]:
    """Q (N, k) with orthonormal columns that span those of B (N, r), and the map (r, k) with Q = B map."""
    U, sizes, Vt = np.linalg.svd(to_numpy(B).astype(np.float64), full_matrices=False)
    kept = sizes > SEEN * sizes.max(initial=0.0)
    return like(np.ascontiguousarray(U[:, kept]), B), like(Vt[kept].T / sizes[kept], B)


def with_shift(system: System, shift: Array) -> System:
    """The system with u + shift in place of u in all losses."""
    if not np.any(to_numpy(shift)):
        return system
    return system.with_rows(tuple(replace(t, loss=shifted(t.loss, shift[t.rows])) for t in system.terms))
