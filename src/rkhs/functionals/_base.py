"""Families of linear functionals: a vector space with atoms (values and derivatives at points) as its normal form.

A family is a sum of parts, each a linear map of a block of atoms:

    L  =  sum over parts of  weight * W @ atoms,   added to the rows start, start + 1, ...

where W is the identity if it is None.  Operations on a family act on its parts.
The functions at the end group functionals by the points that they depend on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from numbers import Real
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj, is_torch_array

from rkhs._core.backend.arrays import (
    Array,
    Vector,
    apply_matrix,
    as_array,
    as_points,
    compose,
    immutable_copy,
    like,
    row_keys,
    same_kind,
    to_numpy,
    unique_rows,
    zeros,
)
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.calculus.function_spaces import FunctionSpace, Polynomials


@dataclass(frozen=True, eq=False)
class Part:
    """One summand ``weight * matrix @ atoms`` of a family of functionals.

    Parameters
    ----------
    atoms : Atoms
        Values or derivatives at points.
    start : int, default=0
        The first row of the family to which the part adds.
    weight : float, default=1.0
        The factor.
    matrix : array or sparse array of shape (m, atoms.size), optional
        The linear map W; the identity by default.

    Attributes
    ----------
    size : int
        The number of rows of the family to which the part adds.
    rows : slice
        These rows.

    Examples
    --------
    >>> import rkhs
    >>> (2.0 * rkhs.Evaluation([[0.0], [1.0]])).parts[0].as_matrix().toarray()
    array([[2., 0.],
           [0., 2.]])
    """

    atoms: Atoms
    start: int = 0
    weight: float = 1.0
    matrix: Any = None
    size: int = field(init=False)
    rows: slice = field(init=False)

    def __post_init__(self) -> None:
        size = self.atoms.size if self.matrix is None else int(self.matrix.shape[0])
        vars(self).update(size=size, rows=slice(self.start, self.start + size))

    def forward(self, values: Array) -> Array:
        """Return this part of L(f), given the values of the atoms on f.

        Parameters
        ----------
        values : array of shape (atoms, ...)
            The values of the atoms.

        Returns
        -------
        array of shape (size, ...)
            weight * matrix @ values.
        """
        mapped = values if self.matrix is None else apply_matrix(self.matrix, values)
        return mapped if self.weight == 1.0 else self.weight * mapped

    def adjoint(self, coefficients: Array) -> Array:
        """Return the coefficients of the atoms, given those of the family.

        Parameters
        ----------
        coefficients : array of shape (rows of the family, ...)
            The coefficients of the functionals.

        Returns
        -------
        array of shape (atoms, ...)
            weight * matrix.T @ coefficients[rows].
        """
        restricted = coefficients[self.rows]
        mapped = restricted if self.matrix is None else apply_matrix(self.matrix.T, restricted)
        return mapped if self.weight == 1.0 else self.weight * mapped

    def like(self, array: Array) -> Part:
        """Return the part in the namespace and dtype and on the device of an array; sparse matrices stay SciPy's.

        Parameters
        ----------
        array : array
            The array to imitate.

        Returns
        -------
        Part
            The converted part.
        """
        dense = self.matrix is not None and not scipy.sparse.issparse(self.matrix)
        return replace(self, atoms=self.atoms.like(array), matrix=like(self.matrix, array) if dense else self.matrix)

    def as_matrix(self) -> Any:
        """Return weight * matrix explicitly, as a sparse array for the identity.

        Returns
        -------
        array or sparse array of shape (size, atoms.size)
            The matrix.
        """
        if self.matrix is None:
            return self.weight * scipy.sparse.eye_array(self.atoms.size, format="csr")
        return self.matrix if self.weight == 1.0 else self.weight * self.matrix


class Functional(ABC):
    """A family of linear functionals f -> L(f) of a given shape, flattened in C order.

    A subclass defines `shape`, `parts` and `__repr__`; the algebra (`+`, `-`, `*`, `/`, `W @ L`), `L(f)` and the Gram
    operator follow.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> L = rkhs.Evaluation([[1.0]]) - 2 * rkhs.Evaluation([[0.0]])
    >>> isinstance(L, rkhs.extend.Functional), L.shape
    (True, (1,))
    """

    __array_ufunc__ = None  # NumPy must leave `array @ functional` to __rmatmul__

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of L(f)."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The family as a sum of linear maps of atoms."""

    @property
    def size(self) -> int:
        """The number of functionals."""
        return prod(self.shape)

    @property
    def dimension(self) -> int:
        """The dimension n of the points."""
        return self.parts[0].atoms.dimension

    @property
    def order(self) -> int:
        """The highest order of the derivatives in the family."""
        return max(part.atoms.order for part in self.parts)

    @property
    def prototype(self) -> Array:
        """Points of the family, none if they are sparse; they carry its namespace, dtype and device."""
        points = self.parts[0].atoms.points
        return np.empty((0, self.dimension), dtype=points.dtype) if isinstance(points, SparseVectors) else points

    @property
    def sparse(self) -> bool:
        """Whether the points are sparse."""
        return isinstance(self.parts[0].atoms.points, SparseVectors)

    def like(self, array: Array) -> Functional:
        """Return the family in the namespace and dtype and on the device of an array.

        Parameters
        ----------
        array : array
            The array to imitate.

        Returns
        -------
        Functional
            The converted family.
        """
        return Combination(self.shape, tuple(part.like(array) for part in self.parts), repr(self))

    def __call__(self, f: Any) -> Array:
        """Return L(f), the functionals applied to a function of an RKHS or to a space of polynomials.

        Parameters
        ----------
        f : Function or FunctionSpace
            The function, or a finite-dimensional space whose basis functions are taken one by one.

        Returns
        -------
        array
            The values, of the shape of the family; one more axis for the basis functions of a space.
        """
        apply = getattr(f, "apply", None)
        if apply is None:
            raise TypeError(
                f"{self!r} applies to an rkhs.results.Function or rkhs.Polynomials, got {type(f).__name__}."
            )
        return apply(self)

    def assemble(self, values: Callable[[Atoms], Array]) -> Array:
        """Return the values of the functionals, given a function that returns the values of atoms.

        Parameters
        ----------
        values : callable
            A function that maps Atoms to an array of shape (atoms, r).

        Returns
        -------
        array of shape (size, r)
            The values of the functionals.
        """
        total = None
        for part in self.parts:
            block = part.forward(values(part.atoms))
            if total is None:
                total = zeros((self.size, block.shape[1]), block)
            total[part.rows] += block
        return total

    def absolute(self) -> Functional:
        """Return the family with |weight| and |W| in its parts, which bounds magnitudes without cancellation.

        Returns
        -------
        Functional
            The family of absolute values.
        """
        parts = (
            replace(p, weight=abs(p.weight), matrix=None if p.matrix is None else abs(p.matrix)) for p in self.parts
        )
        return Combination(self.shape, tuple(parts), f"|{self!r}|")

    def take(self, rows: Any) -> Functional:
        """Return a subset of the functionals.

        Parameters
        ----------
        rows : slice, int or array-like of shape (m,)
            Flat indices or a boolean mask.

        Returns
        -------
        Functional
            The selected functionals, a flat family.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Evaluation([[0.0], [1.0], [2.0]]).take([0, 2])
        2 of Evaluation(3 points in R^1)
        """
        index = flat_indices(rows, self.size)
        parts = take_parts(self.parts, index)
        if not parts:  # an empty family still needs a part, which holds the dimension and the dtype
            parts = (replace(self.parts[0], atoms=self.parts[0].atoms.take(index[:0]), start=0, matrix=None),)
        return Combination((len(index),), parts, f"{len(index)} of {self!r}")

    def group_starts(self) -> Vector:
        """Return the flat indices at which the functionals of each point begin; tiles are best cut there.

        Returns
        -------
        ndarray of int
            The indices.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> rkhs.Gradient(np.zeros((3, 5))).group_starts()
        array([ 0,  5, 10])
        """
        begins = np.ones(self.size, dtype=bool)
        for part in self.parts:
            if part.matrix is None:
                begins[part.rows] &= np.arange(part.size) % max(part.atoms.per_point, 1) == 0
        return np.flatnonzero(begins)

    def __add__(self, other: Functional) -> Functional:
        return _sum(self, other, 1.0)

    def __sub__(self, other: Functional) -> Functional:
        return _sum(self, other, -1.0)

    def __neg__(self) -> Functional:
        return -1.0 * self

    def __mul__(self, factor: Any) -> Functional:
        """Return a * L for a number a, or an array with one coefficient per functional or per row of the family.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> rows = np.array([1.0, -2.0]) * rkhs.Gradient(np.zeros((2, 3)))
        >>> rows(rkhs.Polynomials(degree=1))[:, 0, 1]  # of the coordinate x_0
        array([ 1., -2.])
        """
        if not isinstance(factor, Real):
            if not (is_array_api_obj(factor) or isinstance(factor, list | tuple)):
                return NotImplemented
            factors = to_numpy(as_array(factor, "The coefficients of a family"))
            if factors.shape != self.shape[: factors.ndim]:
                raise ValueError(
                    f"Coefficients of shape {factors.shape} do not match {self!r} of shape {self.shape}: give one for "
                    f"each functional, or one for each of its {self.shape[0]} rows."
                )
            rows = np.repeat(factors.reshape(-1), self.size // max(factors.size, 1))
            parts = (scipy.sparse.diags_array(rows, format="csr") @ self).parts
            return Combination(self.shape, parts, f"({self.shape[0]} coefficients) * {_in_brackets(self)}")
        if not isfinite(float(factor)):
            raise ValueError(f"A multiple of {self!r} needs a finite factor, got {factor!r}.")
        parts = tuple(replace(part, weight=float(factor) * part.weight) for part in self.parts)
        return Combination(self.shape, parts, f"{factor!r} * {_in_brackets(self)}")

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Functional:
        return self * (1.0 / divisor)

    def __rmatmul__(self, matrix: Any) -> Functional:
        """Return W @ L: linear combinations of the flat family, by a dense or SciPy sparse matrix."""
        if scipy.sparse.issparse(matrix):
            W = matrix.tocsr().astype(to_numpy(self.prototype[:0]).dtype)
            if not np.all(np.isfinite(W.data)):
                raise ValueError("W contains NaN or infinity.")
        else:
            W = as_array(matrix, "W")
            if not (isinstance(W, np.ndarray) or is_torch_array(self.prototype)):
                raise TypeError(f"W is a tensor, but {self!r} holds NumPy arrays: convert one of them.")
            W = immutable_copy(like(W, self.prototype))
        if len(W.shape) != 2 or W.shape[1] != self.size:
            raise ValueError(f"W has shape {tuple(W.shape)}; W @ {self!r} needs shape (any, {self.size}).")
        parts = []
        for part in self.parts:
            columns = W[:, part.rows]
            if part.matrix is not None:
                columns = compose(columns, part.matrix)
            parts.append(Part(part.atoms, 0, part.weight, columns))
        return Combination((W.shape[0],), tuple(parts), f"({W.shape[0]} x {W.shape[1]} matrix) @ {_in_brackets(self)}")


@dataclass(frozen=True, eq=False, repr=False)
class AtPoints(Functional):
    """A family at the rows of X: one functional per row, unless a subclass overrides `shape`."""

    X: Array
    takes_sparse: ClassVar[bool] = False  # whether X may be a SciPy sparse matrix

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", immutable_copy(as_points(self.X, sparse=self.takes_sparse)))

    def __repr__(self) -> str:
        t, n = self.X.shape
        points = f"{t} point{'' if t == 1 else 's'} in R^{n}"
        return f"{type(self).__name__}({', '.join([points, *self.details])})"

    @property
    def details(self) -> list[str]:
        """The entries of the representation after the number and the dimension of the points."""
        return []

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]),)


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Functional):
    """A family given by its parts, as the algebra of families returns it."""

    shape: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    description: str = ""

    def __repr__(self) -> str:
        return self.description


def stack(functionals: Sequence[Functional]) -> Functional:
    """Return one flat family: the functionals of several families, concatenated.

    Parameters
    ----------
    functionals : sequence of Functional
        The families, on points of the same dimension.

    Returns
    -------
    Functional
        The concatenated family.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.zeros((5, 3))
    >>> rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]).shape
    (20,)
    """
    families = list(functionals)
    if not families:
        raise ValueError("stack needs at least one family of functionals, got an empty sequence.")
    if len(families) == 1 and isinstance(families[0], Functional) and len(families[0].shape) == 1:
        return families[0]
    parts, start = [], 0
    for family in families:
        _check_compatible(families[0], family)
        parts += [replace(part, start=part.start + start) for part in family.parts]
        start += family.size
    return Combination((start,), in_one_dtype(parts), f"stack([{', '.join(map(repr, families))}])")


def in_one_dtype(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts converted to the widest floating-point type among them."""
    widest = same_kind(*(part.atoms.points[:0] for part in parts))[0]
    return tuple(part if part.atoms.points.dtype == widest.dtype else part.like(widest) for part in parts)


def _check_compatible(L: Functional, M: Functional) -> None:
    if not isinstance(M, Functional):
        raise TypeError(f"{L!r} combines with families of functionals, not with {type(M).__name__}.")
    if L.dimension != M.dimension:
        raise ValueError(f"{L!r} and {M!r} live on spaces of different dimension.")
    check_same_storage(L, M)


def check_same_storage(L: Functional, M: Functional) -> None:
    """Raise TypeError if the points of one family are sparse and those of the other are dense."""
    if L.sparse != M.sparse:
        raise TypeError(f"One of {L!r} and {M!r} has sparse points: pass scipy.sparse.csr_array(X) for both.")


def _sum(L: Functional, M: Functional, sign: float) -> Functional:
    """Return L + M or L - M."""
    _check_compatible(L, M)
    if L.shape != M.shape:
        raise ValueError(f"{L!r} has shape {L.shape} and {M!r} has shape {M.shape}: they cannot be added.")
    signed = tuple(replace(part, weight=sign * part.weight) for part in M.parts)
    right = _in_brackets(M) if sign < 0 else repr(M)
    return Combination(L.shape, in_one_dtype(L.parts + signed), f"{L!r} {'+' if sign > 0 else '-'} {right}")


def _in_brackets(family: Functional) -> str:
    text = repr(family)
    return f"({text})" if " + " in text or " - " in text else text


def flat_indices(rows: Any, size: int) -> Vector:
    """Return the indices of a slice, an integer, or an array of indices or booleans, of a family of a size."""
    if not isinstance(rows, slice | int):  # arrays, tensors and lists, empty ones included
        rows = to_numpy(rows)
        if rows.ndim > 1:
            raise IndexError(f"take needs a one-dimensional array of flat indices, got shape {rows.shape}.")
        rows = rows if rows.size else rows.astype(np.intp)
    return np.atleast_1d(np.arange(size)[rows])


def take_parts(parts: Sequence[Part], index: Vector) -> tuple[Part, ...]:
    """Return the parts of the subset of a family with the given flat indices."""
    return tuple(piece for part in parts if (piece := _take_part(part, index)) is not None)


def _take_part(part: Part, index: Vector) -> Part | None:
    """Return the part restricted to the rows `index` of the family, without the atoms that they do not use."""
    inside = np.flatnonzero((index >= part.start) & (index < part.start + part.size))
    if inside.size == 0:
        return None
    local = index[inside] - part.start
    contiguous = bool(inside[-1] - inside[0] + 1 == inside.size)
    if contiguous and np.array_equal(local, np.arange(part.size)):
        return replace(part, start=int(inside[0]))
    if part.matrix is None and contiguous:
        return replace(part, atoms=part.atoms.gathered(local), start=int(inside[0]))
    rows = scipy.sparse.csr_array((np.ones(local.size), (inside, np.arange(local.size))), (len(index), local.size))
    if part.matrix is None:
        return replace(part, atoms=part.atoms.gathered(local), start=0, matrix=rows)
    if scipy.sparse.issparse(part.matrix):
        chosen = part.matrix[local]
        needed = np.unique(chosen.indices)
        return replace(part, atoms=part.atoms.gathered(needed), start=0, matrix=rows @ chosen[:, needed])
    chosen = zeros((len(index), part.atoms.size), part.matrix)
    chosen[inside] = part.matrix[local]
    return replace(part, start=0, matrix=chosen)


def point_groups(family: Functional) -> Vector:
    """Return group numbers (N,): functionals of the same point, or of the same set of points, share a number.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> point_groups(rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X), rkhs.Difference(X[:1], X[1:])]))
    array([0, 1, 0, 1, 2])
    """
    points = [_row_numbers(part.atoms.points) for part in family.parts]
    number = unique_rows(np.concatenate(points))[2]
    ends = np.cumsum([len(array) for array in points])
    points_of_row: list[set[int]] = [set() for _ in range(family.size)]
    for part, of_point in zip(family.parts, np.split(number, ends[:-1]), strict=True):
        of_atom = np.repeat(of_point, part.atoms.per_point)
        rows = atoms = np.arange(part.atoms.size)
        if part.matrix is not None:
            rows, atoms = (part.matrix if scipy.sparse.issparse(part.matrix) else to_numpy(part.matrix)).nonzero()
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


Space = TypeVar("Space", FunctionSpace, FunctionSpace | None)


def centered(space: Space, families: Sequence[Functional]) -> Space:
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
    >>> pointwise(2.0 * rkhs.Gradient(X)).weight, pointwise(rkhs.functionals.Laplacian(X))
    (2.0, None)
    """
    if len(family.parts) != 1:
        return None
    (part,) = family.parts
    if part.matrix is not None or part.atoms.blur is not None:
        return None
    values = part.atoms.order == 0 and part.atoms.per_point == 1
    return part if values or part.atoms.gradient else None
