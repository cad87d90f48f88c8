"""Group functionals by the points that they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, Vector, row_keys, to_numpy, unique_rows
from rkhs._backend.sparse import SparseVectors
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials
from rkhs.functionals._base import Functional, Part


def point_groups(family: Functional) -> Vector:
    """Return group numbers (N,): functionals of the same point, or of the same set of points, share a number.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> point_groups(rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X), rkhs.Difference(X[:1], X[1:])]))
    array([0, 1, 0, 1, 2])
    """
    if family.sparse:
        points = [row_keys(part.atoms.points)[:, None] for part in family.parts]
    else:
        points = [to_numpy(part.atoms.points) for part in family.parts]
    number = unique_rows(np.concatenate(points))[2]
    ends = np.cumsum([len(array) for array in points])
    points_of_row: list[set[int]] = [set() for _ in range(family.size)]
    for part, of_point in zip(family.parts, np.split(number, ends[:-1]), strict=True):
        of_atom = np.repeat(of_point, part.atoms.per_point)
        if part.matrix is None:
            for row, point in enumerate(of_atom.tolist(), start=part.start):
                points_of_row[row].add(point)
            continue
        matrix = part.matrix if scipy.sparse.issparse(part.matrix) else to_numpy(part.matrix)
        rows, atoms = matrix.nonzero()
        for row, point in zip((rows + part.start).tolist(), of_atom[atoms].tolist(), strict=True):
            points_of_row[row].add(point)
    groups: dict[frozenset[int], int] = {}
    return np.array([groups.setdefault(frozenset(point_set), len(groups)) for point_set in points_of_row], dtype=int)


def repeats(family: Functional, group: Vector) -> Vector:
    """Return for each functional how many earlier ones of the same `group` (N,) equal it: (N,), 0 for the first.

    Only atoms are compared: combinations of several atoms count as different.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0], [0.0]])
    >>> repeats(rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]), np.repeat([0, 1], 3))
    array([0, 0, 1, 0, 0, 1])
    """
    counts = np.zeros(family.size, dtype=int)
    seen: dict[tuple[Any, ...], int] = {}
    for part in family.parts:
        if part.matrix is not None:
            continue
        atoms = part.atoms
        points, directions = _row_numbers(atoms.points), _row_numbers(atoms.directions)
        directions = np.broadcast_to(directions, (len(points), atoms.per_point, atoms.order, directions.shape[-1]))
        blur = b"" if atoms.blur is None else atoms.blur.tobytes()
        for k in range(atoms.size):
            i, a = divmod(k, atoms.per_point)
            row = part.start + k
            key = (group[row], atoms.order, blur, points[i].tobytes(), directions[i, a].tobytes())
            counts[row] = seen.get(key, 0)
            seen[key] = counts[row] + 1
    return counts


def _row_numbers(vectors: Array) -> Vector:
    """Return vectors in NumPy, or a hash of each in place of its coordinates if they are sparse."""
    if not isinstance(vectors, SparseVectors):
        return to_numpy(vectors)
    return row_keys(vectors).reshape(*vectors.shape[:-1], 1)


@overload
def centered(space: FunctionSpace, families: Sequence[Functional]) -> FunctionSpace: ...
@overload
def centered(space: FunctionSpace | None, families: Sequence[Functional]) -> FunctionSpace | None: ...
def centered(space: FunctionSpace | None, families: Sequence[Functional]) -> FunctionSpace | None:
    """Return the same space of functions with a basis that is centered and scaled at the points of the families.

    See `FunctionSpace.centered`.

    Examples
    --------
    >>> import rkhs
    >>> X = [[1.7e9], [1.7e9 + 1], [1.7e9 + 3]]
    >>> rkhs.Evaluation(X)(centered(rkhs.Polynomials(2), [rkhs.Evaluation(X)]))
    array([[ 1.    , -0.25  ,  0.0625],
           [ 1.    ,  0.    ,  0.    ],
           [ 1.    ,  0.5   ,  0.25  ]])
    """
    if space is None or not families or (isinstance(space, Polynomials) and space.degree < 1):
        return space
    arrays = {id(part.atoms.points): part.atoms.points for family in families for part in family.parts}
    return space.centered(np.concatenate([to_numpy(a[:: max(1, int(a.shape[0]) // 4096)]) for a in arrays.values()]))


def pointwise(family: Functional) -> Part | None:
    """Return the only part of a multiple of `Evaluation` or of `Gradient`, or None for any other family.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.zeros((3, 2))
    >>> pointwise(2.0 * rkhs.Gradient(X)).weight, pointwise(rkhs.Laplacian(X))
    (2.0, None)
    """
    if len(family.parts) != 1:
        return None
    (part,) = family.parts
    if part.matrix is not None or part.atoms.blur is not None:
        return None
    values = part.atoms.order == 0 and part.atoms.per_point == 1
    return part if values or part.atoms.gradient else None
