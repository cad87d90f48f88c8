"""Where a function f = sum_i a_i z_i has its representers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.function import Function


@dataclass(frozen=True, eq=False)
class Active:
    """The points whose representers f uses: those of values with their coefficients, those of slopes as vectors.

    With several outputs a coefficient is the largest over them.
    """

    values: Vector  # (v, n)
    coefficients: Vector  # (v,)
    slopes: Vector  # (s, n)
    vectors: Vector  # (s, n): sum over the directions u at a point of coefficient times u

    @classmethod
    def of(cls, f: Function, share: float = 1e-3) -> Active:
        """The representers whose size is more than a share of the largest of their kind."""
        dimension = f.functionals.dimension
        found: dict[int, list[tuple[Vector, Vector]]] = {0: [], 1: []}
        table = to_numpy(f.coefficients)
        table = table if table.ndim == 2 else table[:, None]
        for part in f.functionals.parts:
            atoms = part.atoms
            if atoms.order > 1:
                continue
            own = to_numpy(part.adjoint(table)).reshape(len(atoms.points), atoms.per_point, -1)
            points = to_numpy(atoms.points)
            if atoms.order == 0:
                found[0].append((points, own[:, 0]))
                continue
            directions = np.broadcast_to(to_numpy(atoms.u(0)), (len(points), atoms.per_point, dimension))
            found[1].append((points, np.einsum("tkc,tkn->tcn", own, directions)))
        values, sizes = _largest(found[0], share, dimension)
        slopes, vectors = _largest(found[1], share, dimension)
        return cls(values, sizes[:, 0] if len(sizes) else np.zeros(0), slopes, vectors)


def _largest(found: list[tuple[Vector, Vector]], share: float, dimension: int) -> tuple[Vector, Vector]:
    """The points and their largest coefficient (or vector) over the outputs, where that is more than a share."""
    if not found:
        return np.zeros((0, dimension)), np.zeros((0, dimension))
    points = np.concatenate([p for p, _ in found])
    own = np.concatenate([c.reshape(len(p), c.shape[1], -1) for p, c in found])  # (t, outputs, 1 or n)
    sizes = np.linalg.norm(own, axis=2)
    best = own[np.arange(len(own)), sizes.argmax(axis=1)]
    kept = sizes.max(axis=1) > share * sizes.max(initial=0.0)
    return points[kept], best[kept]
