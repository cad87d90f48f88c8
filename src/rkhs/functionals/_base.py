"""Families of linear functionals: a vector space, with atoms as its normal form.

A family is a sum of parts, each a linear map of a block of atoms:

    L  =  sum over parts of  weight * W @ atoms,   written to the rows start, start + 1, ..

(W = identity when it is None).  Everything that is done to a family is done to its parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj, is_torch_array

from rkhs._backend.arrays import (
    Array,
    Vector,
    apply_matrix,
    as_array,
    as_points,
    compose,
    like,
    owned,
    same_kind,
    to_numpy,
    zeros,
)
from rkhs._calculus.atoms import Atoms


@dataclass(frozen=True, eq=False)
class Part:
    """weight * matrix @ atoms, on the rows from `start` of a family."""

    atoms: Atoms
    start: int = 0
    weight: float = 1.0
    matrix: Any = None
    size: int = field(init=False)
    rows: slice = field(init=False)  # of the family, to which this part adds

    def __post_init__(self) -> None:
        size = self.atoms.size if self.matrix is None else int(self.matrix.shape[0])
        vars(self).update(size=size, rows=slice(self.start, self.start + size))

    def forward(self, values: Array) -> Array:
        """Return the part of L(f) from the values (atoms, ..) of the atoms on f."""
        mapped = values if self.matrix is None else apply_matrix(self.matrix, values)
        return mapped if self.weight == 1.0 else self.weight * mapped

    def adjoint(self, coefficients: Array) -> Array:
        """Return the coefficients of the atoms from the coefficients (rows of the family, ..) of L."""
        own = coefficients[self.rows]
        mapped = own if self.matrix is None else apply_matrix(self.matrix.T, own)
        return mapped if self.weight == 1.0 else self.weight * mapped

    def like(self, array: Array) -> Part:
        """Return the same part in the namespace, dtype and on the device of an array; sparse matrices stay SciPy's."""
        dense = self.matrix is not None and not scipy.sparse.issparse(self.matrix)
        return replace(self, atoms=self.atoms.like(array), matrix=like(self.matrix, array) if dense else self.matrix)

    def as_matrix(self) -> Any:
        """weight * matrix, also for the identity."""
        if self.matrix is None:
            return self.weight * scipy.sparse.eye_array(self.atoms.size, format="csr")
        return self.matrix if self.weight == 1.0 else self.weight * self.matrix


class Functional(ABC):
    """A family of linear functionals f -> L(f), of the given shape; flat in C order.

    A new family defines `shape`, `parts` and `__repr__`; the algebra, `L(f)` and the Gram operator follow.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> L = rkhs.Evaluation([[1.0]]) - 2 * rkhs.Evaluation([[0.0]])
    >>> isinstance(L, rkhs.extend.Functional), L.shape
    (True, (1,))
    """

    __array_ufunc__ = None  # so that `array @ functional` comes to us

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of L(f)."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The normal form."""

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def dimension(self) -> int:
        """The dimension n of the points."""
        return self.parts[0].atoms.dimension

    @property
    def order(self) -> int:
        """The highest order of derivative in the family."""
        return max(part.atoms.order for part in self.parts)

    @property
    def prototype(self) -> Array:
        """Some points of the family, which carry its namespace, dtype and device."""
        return self.parts[0].atoms.points

    def like(self, array: Array) -> Functional:
        """Return the same family in the namespace, dtype and on the device of an array."""
        return Combination(self.shape, tuple(part.like(array) for part in self.parts), repr(self))

    def __call__(self, f: Any) -> Array:
        """L(f): the functionals applied to a function of an RKHS or to a space of polynomials."""
        apply = getattr(f, "apply", None)
        if apply is None:
            raise TypeError(f"{self!r} applies to an rkhs.Function or rkhs.Polynomials, not to {type(f).__name__}.")
        return apply(self)

    def assemble(self, values: Callable[[Atoms], Array]) -> Array:
        """(size, r) from a function that gives the (atoms, r) values of a block of atoms."""
        total = None
        for part in self.parts:
            block = part.forward(values(part.atoms))
            if total is None:
                total = zeros((self.size, block.shape[1]), block)
            total[part.rows] += block
        return total

    def absolute(self) -> Functional:
        """Return the same family with |weight| and |W|: what it makes of magnitudes, no two of which cancel."""
        parts = (
            replace(p, weight=abs(p.weight), matrix=None if p.matrix is None else abs(p.matrix)) for p in self.parts
        )
        return Combination(self.shape, tuple(parts), f"|{self!r}|")

    def take(self, rows: Any) -> Functional:
        """Return the functionals of the given flat indices (integers, a slice or a mask)."""
        if not isinstance(rows, slice | int):  # also tensors and empty lists
            rows = to_numpy(rows)
            if rows.ndim > 1:
                raise IndexError(
                    f"Functionals are taken by flat indices, an array of one axis, got shape {rows.shape}."
                )
            rows = rows if rows.size else rows.astype(np.intp)
        index = np.atleast_1d(np.arange(self.size)[rows])
        parts = [piece for part in self.parts if (piece := _taken(part, index)) is not None]
        if not parts:  # no functional at all, of the first part's kind
            parts = [replace(self.parts[0], atoms=self.parts[0].atoms.take(index[:0]), start=0, matrix=None)]
        return Combination((len(index),), tuple(parts), f"{len(index)} of {self!r}")

    def firsts(self) -> Vector:
        """Return the flat indices at which the functionals of a point begin, which are best taken together.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> rkhs.Gradient(np.zeros((3, 5))).firsts()
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
        """a * L for a number a, or an array of them: one for each functional, or for each row of the family.

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
            given = to_numpy(as_array(factor, "The coefficients of a family"))
            if given.shape != self.shape[: given.ndim]:
                raise ValueError(
                    f"Coefficients of shape {given.shape} do not go with {self!r} of shape {self.shape}: give one for "
                    f"each functional, or one for each of its {self.shape[0]} rows."
                )
            rows = np.repeat(given.reshape(-1), self.size // max(given.size, 1))
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
        """W @ L: linear combinations of the (flat) family, by a dense or SciPy sparse matrix."""
        if scipy.sparse.issparse(matrix):
            W = matrix.tocsr().astype(to_numpy(self.prototype[:0]).dtype)
            if not np.all(np.isfinite(W.data)):
                raise ValueError("W contains NaN or infinity.")
        else:
            W = as_array(matrix, "W")
            if not (isinstance(W, np.ndarray) or is_torch_array(self.prototype)):
                raise TypeError(f"W is a tensor, but {self!r} is on NumPy arrays: convert one of them.")
            W = owned(like(W, self.prototype))
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
    """A family at the rows of X: one functional at each, unless a subclass says another shape."""

    X: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", owned(as_points(self.X)))

    def __repr__(self) -> str:
        t, n = self.X.shape
        points = f"{t} point{'' if t == 1 else 's'} in R^{n}"
        return f"{type(self).__name__}({', '.join([points, *self.details])})"

    @property
    def details(self) -> list[str]:
        """What the representation says besides the number and the dimension of the points."""
        return []

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]),)


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Functional):
    """A family given by its parts: what the algebra of families returns."""

    shape: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    description: str = ""

    def __repr__(self) -> str:
        return self.description


def stack(functionals: Sequence[Functional]) -> Functional:
    """One flat family from several: their functionals one after the other.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.zeros((5, 3))
    >>> rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]).shape
    (20,)
    """
    families = list(functionals)
    if not families:
        raise ValueError("There is nothing to stack: pass at least one family of functionals.")
    if len(families) == 1 and isinstance(families[0], Functional) and len(families[0].shape) == 1:
        return families[0]
    parts, start = [], 0
    for family in families:
        _agree(families[0], family)
        parts += [replace(part, start=part.start + start) for part in family.parts]
        start += family.size
    return Combination((start,), in_one_dtype(parts), f"stack([{', '.join(map(repr, families))}])")


def in_one_dtype(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts in the widest floating-point type among them."""
    widest = same_kind(*(part.atoms.points[:0] for part in parts))[0]
    return tuple(part if part.atoms.points.dtype == widest.dtype else part.like(widest) for part in parts)


def _agree(one: Functional, other: Functional) -> None:
    if not isinstance(other, Functional):
        raise TypeError(f"{one!r} combines with families of functionals, not with {type(other).__name__}.")
    if one.dimension != other.dimension:
        raise ValueError(f"{one!r} and {other!r} live on spaces of different dimension.")


def _sum(one: Functional, other: Functional, sign: float) -> Functional:
    _agree(one, other)
    if one.shape != other.shape:
        raise ValueError(f"{one!r} has shape {one.shape} and {other!r} has shape {other.shape}: they cannot be added.")
    theirs = tuple(replace(part, weight=sign * part.weight) for part in other.parts)
    right = _in_brackets(other) if sign < 0 else repr(other)
    return Combination(one.shape, in_one_dtype(one.parts + theirs), f"{one!r} {'+' if sign > 0 else '-'} {right}")


def _in_brackets(family: Functional) -> str:
    text = repr(family)
    return f"({text})" if " + " in text or " - " in text else text


def _taken(part: Part, index: Vector) -> Part | None:
    """Return the part of the rows `index` of a family, with no atom that they do not need."""
    inside = np.flatnonzero((index >= part.start) & (index < part.start + part.size))
    if inside.size == 0:
        return None
    own = index[inside] - part.start
    contiguous = bool(inside[-1] - inside[0] + 1 == inside.size)
    if part.matrix is None and contiguous:
        return replace(part, atoms=part.atoms.gathered(own), start=int(inside[0]))
    rows = scipy.sparse.csr_array((np.ones(own.size), (inside, np.arange(own.size))), shape=(len(index), own.size))
    if part.matrix is None:
        return replace(part, atoms=part.atoms.gathered(own), start=0, matrix=rows)
    if scipy.sparse.issparse(part.matrix):
        chosen = part.matrix[own]
        needed = np.unique(chosen.indices)
        return replace(part, atoms=part.atoms.gathered(needed), start=0, matrix=rows @ chosen[:, needed])
    chosen = zeros((len(index), part.atoms.size), part.matrix)
    chosen[inside] = part.matrix[own]
    return replace(part, start=0, matrix=chosen)
