"""Finite-dimensional spaces of unpenalized functions, on which all atoms can be evaluated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, apply_matrix, like, namespace, zeros
from rkhs._core.calculus.atoms import Atoms, LinearMap, mapped, sharpen


class FunctionSpace(ABC):
    """The span of finitely many basis functions p_1 .. p_r, which a problem does not penalize.

    Subclasses define `size` and `on`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> class Logarithm(rkhs.extend.FunctionSpace):
    ...     def size(self, dimension):
    ...         return 1
    ...
    ...     def on(self, atoms):  # values only
    ...         return np.log(atoms.points)
    >>> rkhs.Evaluation([[1.0]])(Logarithm())
    array([[0.]])
    """

    @abstractmethod
    def size(self, dimension: int) -> int:
        """Return the number r of basis functions.

        Parameters
        ----------
        dimension : int
            The dimension n of the input.

        Returns
        -------
        int
            The number of basis functions.
        """

    @abstractmethod
    def on(self, atoms: Atoms) -> Array:
        """Apply atoms to the basis functions.

        Parameters
        ----------
        atoms : Atoms
            The atoms.

        Returns
        -------
        array of shape (atoms, r)
            The value of each atom on each basis function.
        """

    @property
    def polynomial_degree(self) -> int | None:
        """The largest degree if all functions of the space are polynomials, -1 for the space {0}; None for others."""
        return None

    def magnitude(self, atoms: Atoms) -> Array:
        """Return the sum of the absolute values of the terms in `on`, which bounds its rounding error.

        Parameters
        ----------
        atoms : Atoms
            The atoms.

        Returns
        -------
        array of shape (atoms, r)
            The magnitudes; the rounding error of `on` is of the order of these times the machine epsilon.
        """
        return abs(self.on(atoms))

    def centered(self, points: Matrix) -> FunctionSpace:
        """Return the same space with a basis in coordinates that are centered on the points.

        Parameters
        ----------
        points : ndarray of shape (t, n)
            The points.

        Returns
        -------
        FunctionSpace
            The space itself if its basis does not depend on coordinates, or is centered already.
        """
        return self

    def apply(self, functional: Any) -> Array:
        """Apply a family of functionals to the basis functions.

        Parameters
        ----------
        functional : Functional
            The functionals L_i.

        Returns
        -------
        array of shape functional.shape + (r,)
            The values L_i(p_j).
        """
        matrix = functional.assemble(self.on)
        return namespace(matrix).reshape(matrix, (*functional.shape, matrix.shape[1]))


@dataclass(frozen=True, eq=False)
class SumOfSpaces(FunctionSpace):
    """The sum of several spaces; a function that belongs to two of them appears twice in the basis."""

    spaces: tuple[FunctionSpace, ...]

    @property
    def polynomial_degree(self) -> int | None:
        degrees = [space.polynomial_degree for space in self.spaces]
        return None if None in degrees else max(degree for degree in degrees if degree is not None)

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
    """A basis of arbitrary functions p_1 .. p_r, which are not penalized.

    Parameters
    ----------
    values : callable
        A function that maps points of shape (t, n) to the values of the basis functions, of shape (t, r).
    gradient : callable, optional
        A function that maps points of shape (t, n) to the gradients of the basis functions, of shape (t, r, n).
        Functionals with first derivatives need it.

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
        return self._on(atoms, lambda factor: factor)

    def magnitude(self, atoms: Atoms) -> Array:
        return self._on(atoms, abs)

    def _on(self, atoms: Atoms, transform: Callable[[Any], Any]) -> Array:
        """Return the values of the atoms with `transform` (the identity or `abs`) applied to all factors."""
        if atoms.blur is not None:
            matrix, sharp = sharpen(atoms)
            return apply_matrix(transform(matrix), self._on(sharp, transform))
        if atoms.order == 0:
            return transform(self._checked(self.values(atoms.points), (int(atoms.points.shape[0]), None), atoms))
        if atoms.order > 1 or self.gradient is None:
            raise ValueError(
                f"A functional takes derivatives of order {atoms.order} of the basis functions, whose "
                f"{'second derivatives are not known' if self.gradient else 'gradient was not given'}: pass "
                "`gradient`, or use rkhs.Polynomials, which has all derivatives."
            )
        t, n = atoms.points.shape
        slopes = self._checked(self.gradient(atoms.points), (int(t), None, int(n)), atoms)  # (t, r, n)
        xp = namespace(slopes)
        along = xp.matrix_transpose(transform(slopes) @ xp.matrix_transpose(transform(atoms.u(0))))  # (t, k, r)
        return xp.reshape(along, (atoms.size, slopes.shape[1]))

    def _checked(self, values: Any, shape: tuple[int | None, ...], atoms: Atoms) -> Array:
        values = like(values, atoms.points)
        fits = len(values.shape) == len(shape) and all(
            want is None or want == got for want, got in zip(shape, values.shape, strict=True)
        )
        if not fits:
            expected = ", ".join("r" if n is None else str(n) for n in shape)
            raise ValueError(f"The basis functions returned shape {tuple(values.shape)}, expected ({expected}).")
        return values


Exponents = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Polynomials(FunctionSpace):
    """A basis of polynomials, which are not penalized.

    The basis consists of all monomials in R^n up to a degree, ordered by degree: ``1, x_0, x_1, .., x_0^2, x_0 x_1,
    ..``.  `L(polynomials)` is the matrix of the functionals L on the basis, exact for derivatives of any order and for
    local averages.

    Solved problems use the coordinates A (x - center) / scale, in which the points of all functionals lie within
    [-1, 1], and the monomials in these coordinates.

    Parameters
    ----------
    degree : int
        The maximal degree; -1 for the space {0}.
    linear : ndarray of shape (n,) or (m, n), optional
        A linear map A of the input: one factor per feature, or a matrix.
    center : ndarray of shape (n,), optional
        The origin of the coordinates.
    scale : ndarray of shape (m,), optional
        The unit of each coordinate.

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
    center: Vector | None = None
    scale: Vector | None = None

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
    def polynomial_degree(self) -> int:
        return self.degree

    @property
    def _key(self) -> tuple[object, ...]:
        maps = (None if a is None else (a.shape, a.tobytes()) for a in (self.linear, self.center, self.scale))
        return self.degree, *maps

    def size(self, dimension: int) -> int:
        n = dimension if self.linear is None or self.linear.ndim == 1 else self.linear.shape[0]
        return comb(n + self.degree, n) if self.degree >= 0 else 0

    def centered(self, points: Matrix) -> Polynomials:
        """Return the polynomials in coordinates that are centered on the points.

        The center is the median, which is robust to outliers and has the precision of the points, so that x - center is
        exact near it.  The scale is the largest distance from it, rounded up to a power of two, so that the division
        is exact.

        Parameters
        ----------
        points : ndarray of shape (t, n)
            The points.

        Returns
        -------
        Polynomials
            The same space with another basis.
        """
        if self.degree < 1 or self.center is not None or not len(points):
            return self
        # Monomials in A (x - center) / scale, which lie within [-1, 1]
        center = np.median(points, axis=0)
        spread = np.max(np.abs(mapped(points.astype(np.float64) - center, self.linear)), axis=0)
        powers = np.clip(np.frexp(spread)[1], -1000, 1000)  # within the range of exponents of float64
        scale = np.where(spread > 0, np.ldexp(1.0, powers), 1.0)
        return replace(self, center=center.astype(np.float64), scale=scale)

    def on(self, atoms: Atoms) -> Array:
        return self._monomials(atoms, self.linear, absolute=False)

    def magnitude(self, atoms: Atoms) -> Array:
        return self._monomials(atoms, None if self.linear is None else np.abs(self.linear), absolute=True)

    def _monomials(self, atoms: Atoms, linear: LinearMap, absolute: bool) -> Array:
        """Apply the atoms, or their absolute values, to the monomials in A (x - center) / scale."""
        if self.degree == 0:  # also at sparse points
            return zeros((atoms.size, 1), atoms.points) + float(atoms.order == 0)
        if self.center is not None:
            atoms = atoms.shifted(like(self.center, atoms.points))
        atoms = atoms.absolute() if absolute else atoms
        atoms = atoms.pushed(linear).pushed(None if self.scale is None else 1 / self.scale)
        xp = namespace(atoms.points)
        known: dict[tuple[Exponents, int], Array] = {}
        monomials = multi_indices(self.degree, range(atoms.dimension), atoms.dimension)
        columns = [moment(a, atoms.order, atoms, known) for a in monomials]
        shape = (atoms.points.shape[0], atoms.per_point)
        columns = [xp.reshape(xp.broadcast_to(c, shape), (atoms.size,)) for c in columns]
        return xp.stack(columns, axis=1) if columns else zeros((atoms.size, 0), atoms.points)


@dataclass(frozen=True)
class Offsets(FunctionSpace):
    """A constant for each output: the span of the coordinates of e at points (x, e).

    Parameters
    ----------
    dimension : int
        The number n of features.
    outputs : int
        The number m of outputs, as for `rkhs.kernels.components`.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.functionals.Components([[5.0]], 2)(rkhs.extend.Offsets(1, 2))
    array([[[1., 0.],
            [0., 1.]]])
    """

    dimension: int
    outputs: int

    def size(self, dimension: int) -> int:
        return self.outputs

    def on(self, atoms: Atoms) -> Array:
        linear = Polynomials(1, linear=np.eye(self.dimension + self.outputs)[self.dimension :])  # 1, e_1 .. e_m
        return linear.on(atoms)[:, 1:]


def Constant() -> Polynomials:
    """Return the space of constant functions: an intercept that is not penalized.

    Returns
    -------
    Polynomials
        The polynomials of degree 0.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Evaluation([[2.0], [3.0]])(rkhs.Constant())
    array([[1.],
           [1.]])
    """
    return Polynomials(0)


def multi_indices(degree: int, features: Sequence[int], n: int) -> list[Exponents]:
    """Return all multi-indices in n features up to a degree that are supported on a subset of the features.

    Those of all features are the exponents of `Polynomials`, in the order of its coefficients.

    Parameters
    ----------
    degree : int
        The largest sum of the entries.
    features : sequence of int
        The features whose entries may be positive.
    n : int
        The number of features.

    Returns
    -------
    list of tuple of int
        The multi-indices, by degree.

    Examples
    --------
    >>> from rkhs.extend import multi_indices
    >>> multi_indices(2, [0, 2], 3)
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (2, 0, 0), (1, 0, 1), (0, 0, 2)]
    """
    chosen = (pick for total in range(degree + 1) for pick in combinations_with_replacement(features, total))
    return [tuple(pick.count(d) for d in range(n)) for pick in chosen]


def moment(a: Exponents, order: int, atoms: Atoms, known: dict[tuple[Exponents, int], Array]) -> Array:
    """Return D_{u_1} .. D_{u_order} E[x^a] at the atoms, in a shape that broadcasts to (t, k).

    The numbers may also be integers modulo a prime.  Two recursions, the second one by Stein's lemma for the blur
    N(x, C), with results cached in `known`:

    D_u E[x^a]  =  sum_d u_d a_d E[x^(a - e_d)]
    E[x_d x^b]  =  x_d E[x^b] + sum_e C_de b_e E[x^(b - e_e)]
    """
    if (a, order) in known:
        return known[a, order]

    def less(exponents: Exponents, d: int) -> Exponents:
        return (*exponents[:d], exponents[d] - 1, *exponents[d + 1 :])

    total = atoms.points[:, :1] * 0  # (t, 1)
    first = next((d for d, power in enumerate(a) if power), None)
    if order:
        # D_u E[x^a] = sum_d u_d a_d E[x^(a - e_d)]
        u = atoms.u(order - 1)  # (t or 1, k, n)
        terms = [u[..., d] * power * moment(less(a, d), order - 1, atoms, known) for d, power in enumerate(a) if power]
        total = sum(terms, start=total)
    elif first is None:
        total = total + 1
    else:
        # E[x_d x^b] = x_d E[x^b] + sum_e C_de b_e E[x^(b - e_e)], by Stein's lemma E[z_d g] = sum_e C_de E[dg/dz_e]
        b = less(a, first)
        total = atoms.points[:, first : first + 1] * moment(b, 0, atoms, known)
        if atoms.blur is not None:
            row = np.diag(atoms.blur)[first] if atoms.blur.ndim == 1 else atoms.blur[first]
            for e, power in enumerate(b):
                if power and row[e]:
                    total = total + row[e].item() * power * moment(less(b, e), 0, atoms, known)
    known[a, order] = total
    return total
