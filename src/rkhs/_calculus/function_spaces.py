"""Finite-dimensional spaces of functions on which atoms have known values: unpenalized bases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, apply_matrix, like, namespace, zeros
from rkhs._calculus.atoms import Atoms, LinearMap, mapped, sharpen


class FunctionSpace(ABC):
    """The span of finitely many basis functions p_1 .. p_r."""

    @abstractmethod
    def size(self, dimension: int) -> int:
        """Return the number r of basis functions over R^n."""

    @abstractmethod
    def on(self, atoms: Atoms) -> Array:
        """Return the value of each atom on each basis function: (atoms, r)."""

    def magnitude(self, atoms: Atoms) -> Array:
        """Return the same with absolute values all along: by how much the rounding of `on` grows, (atoms, r)."""
        return abs(self.on(atoms))

    def centered(self, points: Matrix) -> FunctionSpace:
        """Return the same functions, on a basis that is seen from the middle of the points (t, n).

        A space that knows no coordinates of its own, or was centered before, is returned as it is.
        """
        return self

    def apply(self, functional: Any) -> Array:
        """P_ij = L_i(p_j), in the shape of the family x r."""
        matrix = functional.assemble(self.on)
        return namespace(matrix).reshape(matrix, (*functional.shape, matrix.shape[1]))


@dataclass(frozen=True, eq=False)
class SumOfSpaces(FunctionSpace):
    """The span of several spaces; a function in two of them stands twice in the basis."""

    spaces: tuple[FunctionSpace, ...]

    def size(self, dimension: int) -> int:
        return sum(space.size(dimension) for space in self.spaces)

    def on(self, atoms: Atoms) -> Array:
        return namespace(atoms.points).concat([space.on(atoms) for space in self.spaces], axis=1)

    def magnitude(self, atoms: Atoms) -> Array:
        return namespace(atoms.points).concat([space.magnitude(atoms) for space in self.spaces], axis=1)

    def centered(self, points: Matrix) -> SumOfSpaces:
        return SumOfSpaces(tuple(space.centered(points) for space in self.spaces))


@dataclass(frozen=True, eq=False)
class Functions(FunctionSpace):
    """A basis of your own functions, which are not penalized.

    The span of the user's own functions: X (t, n) -> values (t, r), and -> gradients (t, r, n) where needed.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> waves = rkhs.Functions(np.sin, gradient=lambda X: np.cos(X)[:, :, None])
    >>> rkhs.Gradient(np.array([[0.0]]))(waves)
    array([[[1.]]])
    """

    values: Callable[[Array], Array]
    gradient: Callable[[Array], Array] | None = None

    def __repr__(self) -> str:
        name = getattr(self.values, "__name__", type(self.values).__name__)
        return f"Functions({name}{'' if self.gradient is None else ', with gradient'})"

    def size(self, dimension: int) -> int:
        return int(self.values(np.zeros((1, dimension))).shape[1])

    def on(self, atoms: Atoms) -> Array:
        return self._on(atoms, lambda numbers: numbers)

    def magnitude(self, atoms: Atoms) -> Array:
        return self._on(atoms, abs)

    def _on(self, atoms: Atoms, sized: Callable[[Any], Any]) -> Array:
        """Return the values of the atoms from `sized` numbers: as they are, or their absolute values."""
        if atoms.blur is not None:
            matrix, sharp = sharpen(atoms)
            return apply_matrix(sized(matrix), self._on(sharp, sized))
        if atoms.order == 0:
            return sized(self._checked(self.values(atoms.points), (int(atoms.points.shape[0]), None), atoms))
        if atoms.order > 1 or self.gradient is None:
            raise ValueError(
                f"A functional takes derivatives of order {atoms.order} of the basis functions, whose "
                f"{'second derivatives are not known' if self.gradient else 'gradient was not given'}: pass "
                "`gradient`, or use rkhs.Polynomials, which has all derivatives."
            )
        t, n = atoms.points.shape
        slopes = self._checked(self.gradient(atoms.points), (int(t), None, int(n)), atoms)  # (t, r, n)
        xp = namespace(slopes)
        along = xp.matrix_transpose(sized(slopes) @ xp.matrix_transpose(sized(atoms.u(0))))  # (t, k, r)
        return xp.reshape(along, (atoms.size, slopes.shape[1]))

    def _checked(self, values: Any, shape: tuple[int | None, ...], atoms: Atoms) -> Array:
        values = like(values, atoms.points)
        fits = len(values.shape) == len(shape) and all(
            want is None or want == got for want, got in zip(shape, values.shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("r" if n is None else str(n) for n in shape)
            raise ValueError(f"The basis functions returned shape {tuple(values.shape)}, expected ({wanted}).")
        return values


Exponents = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Polynomials(FunctionSpace):
    """A basis of polynomials, which are not penalized.

    The space of polynomials in R^n of at most the given degree (of A x, with a linear map A).

    Its basis is the monomials, by degree: ``1, x_0, x_1, .., x_0^2, x_0 x_1, ..``.  Degree -1 is the
    space {0}.  `L(polynomials)` is the matrix of the functionals on the basis, exact for derivatives
    of any order and for local averages.

    Solved problems have them in the coordinates (x - center) / scale, or (A (x - center)) / scale, in which the points
    of all functionals are within [-1, 1]: the monomials are then those of these coordinates.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[2.0, 3.0]])
    >>> rkhs.Evaluation(X)(rkhs.Polynomials(degree=2))
    array([[1., 2., 3., 4., 6., 9.]])
    >>> rkhs.Derivative(X, axes=[0])(rkhs.Polynomials(degree=2))
    array([[0., 1., 0., 4., 3., 0.]])
    """

    degree: int
    linear: LinearMap = None
    center: Vector | None = None  # (n,)
    scale: Vector | None = None  # one for each feature of x, or of A x

    def __post_init__(self) -> None:
        if self.degree < -1:
            raise ValueError(f"The degree of polynomials must be at least -1 (the space {{0}}), got {self.degree}.")

    def __repr__(self) -> str:
        return f"Polynomials(degree={self.degree}{'' if self.center is None else ', centered'})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polynomials):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        maps = (None if a is None else (a.shape, a.tobytes()) for a in (self.linear, self.center, self.scale))
        return self.degree, *maps

    def size(self, dimension: int) -> int:
        n = dimension if self.linear is None or self.linear.ndim == 1 else self.linear.shape[0]
        return comb(n + self.degree, n) if self.degree >= 0 else 0

    def centered(self, points: Matrix) -> Polynomials:
        """In (x - center) / scale: the median, which a few far points do not move, and the largest distance from it.

        The median is a number of the precision of the points, so that x - center is exact near it, and the scale is a
        power of two, which rounds nothing.
        """
        if self.degree < 1 or self.center is not None or not len(points):
            return self
        center = np.median(points, axis=0)
        seen = mapped(points.astype(np.float64) - center, self.linear)
        spread = np.max(np.abs(seen), axis=0)
        powers = np.clip(np.frexp(spread)[1], -1000, 1000)  # within the exponents of float64
        scale = np.where(spread > 0, np.ldexp(1.0, powers), 1.0)
        return replace(self, center=center.astype(np.float64), scale=scale)

    def on(self, atoms: Atoms) -> Array:
        return self._monomials(atoms, self.linear, absolute=False)

    def magnitude(self, atoms: Atoms) -> Array:
        return self._monomials(atoms, None if self.linear is None else np.abs(self.linear), absolute=True)

    def _monomials(self, atoms: Atoms, linear: LinearMap, absolute: bool) -> Array:
        """Return the atoms on the monomials of A (x - center) / scale, perhaps of absolute values."""
        if self.center is not None:  # near it, differences of floating-point numbers are exact
            atoms = atoms.shifted(like(self.center, atoms.points))
        atoms = atoms.absolute() if absolute else atoms
        atoms = atoms.pushed(linear).pushed(None if self.scale is None else 1 / self.scale)
        xp = namespace(atoms.points)
        known: dict[tuple[Exponents, int], Array] = {}
        monomials = multi_indices(self.degree, range(atoms.dimension), atoms.dimension)
        columns = [_moment(a, atoms.order, atoms, known) for a in monomials]
        shape = (atoms.points.shape[0], atoms.per_point)
        columns = [xp.reshape(xp.broadcast_to(c, shape), (atoms.size,)) for c in columns]
        return xp.stack(columns, axis=1) if columns else zeros((atoms.size, 0), atoms.points)


def Constant() -> Polynomials:
    """The constant functions: an offset that is not penalized.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Evaluation([[2.0], [3.0]])(rkhs.Constant())
    array([[1.],
           [1.]])
    """
    return Polynomials(0)


def multi_indices(degree: int, features: Sequence[int], n: int) -> list[Exponents]:
    """Return all multi-indices over some of n features up to a degree, by degree.

    Examples
    --------
    >>> multi_indices(2, [0, 2], 3)
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (2, 0, 0), (1, 0, 1), (0, 0, 2)]
    """
    chosen = (pick for total in range(degree + 1) for pick in combinations_with_replacement(features, total))
    return [tuple(pick.count(d) for d in range(n)) for pick in chosen]


def _moment(a: Exponents, order: int, atoms: Atoms, known: dict[tuple[Exponents, int], Array]) -> Array:
    """Return D_{u_1} .. D_{u_order} E[x^a] at atoms, broadcast to (t, k), each once, by two recursions (Stein's lemma).

    D_u E[x^a]  =  sum_d u_d a_d E[x^(a - e_d)]
    E[x_d x^b]  =  x_d E[x^b] + sum_e C_de b_e E[x^(b - e_e)]          for the blur N(x, C)
    """
    if (a, order) in known:
        return known[a, order]

    def less(exponents: Exponents, d: int) -> Exponents:
        return (*exponents[:d], exponents[d] - 1, *exponents[d + 1 :])

    total = atoms.points[:, :1] * 0.0  # (t, 1)
    first = next((d for d, power in enumerate(a) if power), None)
    if order:
        u = atoms.u(order - 1)  # (t or 1, k, n)
        terms = [u[..., d] * power * _moment(less(a, d), order - 1, atoms, known) for d, power in enumerate(a) if power]
        total = sum(terms, start=total)
    elif first is None:
        total = total + 1.0
    else:
        b = less(a, first)
        total = atoms.points[:, first : first + 1] * _moment(b, 0, atoms, known)
        if atoms.blur is not None:
            row = np.diag(atoms.blur)[first] if atoms.blur.ndim == 1 else atoms.blur[first]
            for e, power in enumerate(b):
                if power and row[e]:
                    total = total + float(row[e]) * power * _moment(less(b, e), 0, atoms, known)
    known[a, order] = total
    return total
