"""Polynomials and the exact value of any atom on them.

A monomial x^a under an atom follows two recursions, derivative and average (Stein's lemma):

    D_u E[x^a]  =  sum_d u_d a_d E[x^(a - e_d)]
    E[x_d x^b]  =  x_d E[x^b] + sum_e C_de b_e E[x^(b - e_e)]          for the blur N(x, C)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from rkhs.backend.arrays import Array, namespace, zeros
from rkhs.calculus.atoms import Atoms, LinearMap
from rkhs.calculus.spaces import Space

Exponents = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Polynomials(Space):
    """The space of polynomials in R^n of at most the given degree (of A x, with a linear map A).

    Its basis is the monomials, by degree: ``1, x_0, x_1, .., x_0^2, x_0 x_1, ..``.  Degree -1 is the
    space {0}.  `L(polynomials)` is the matrix of the functionals on the basis, exact for derivatives
    of any order and for local averages.

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

    def __post_init__(self) -> None:
        if self.degree < -1:
            raise ValueError(f"The degree of polynomials must be at least -1 (the space {{0}}), got {self.degree}.")

    def __repr__(self) -> str:
        return f"Polynomials(degree={self.degree})"

    def size(self, dimension: int) -> int:
        n = dimension if self.linear is None or self.linear.ndim == 1 else self.linear.shape[0]
        return comb(n + self.degree, n) if self.degree >= 0 else 0

    def on(self, atoms: Atoms) -> Array:
        atoms = atoms.pushed(self.linear)
        xp = namespace(atoms.points)
        moments = _Moments(atoms)
        columns = [moments.value(a, atoms.order) for a in exponents(atoms.dimension, self.degree)]
        shape = (atoms.points.shape[0], atoms.per_point)
        columns = [xp.reshape(xp.broadcast_to(c, shape), (atoms.size,)) for c in columns]
        return xp.stack(columns, axis=1) if columns else zeros((atoms.size, 0), atoms.points)


def Constant() -> Polynomials:
    """The constant functions: an offset that is not penalised.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Evaluation([[2.0], [3.0]])(rkhs.Constant())
    array([[1.],
           [1.]])
    """
    return Polynomials(0)


def exponents(dimension: int, degree: int) -> list[Exponents]:
    """The exponents of all monomials of at most the degree, by degree."""
    found = []
    for total in range(degree + 1):
        chosen = combinations_with_replacement(range(dimension), total)
        found += [tuple(features.count(d) for d in range(dimension)) for features in chosen]
    return found


class _Moments:
    """E[x^a] and its directional derivatives at a block of atoms, each computed once."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.zero = atoms.points[:, :1] * 0.0  # (t, 1)
        self.known: dict[tuple[Exponents, int], Array] = {}
        blur = atoms.blur
        self.covariance = None if blur is None else (np.diag(blur) if blur.ndim == 1 else blur)

    def value(self, a: Exponents, order: int) -> Array:
        """D_{u_1} .. D_{u_order} E[x^a], broadcast to (t, k)."""
        if (a, order) not in self.known:
            self.known[a, order] = self._differentiated(a, order) if order else self._average(a)
        return self.known[a, order]

    def _differentiated(self, a: Exponents, order: int) -> Array:
        u = self.atoms.u(order - 1)  # (t or 1, k, n)
        terms = [u[..., d] * power * self.value(_less(a, d), order - 1) for d, power in enumerate(a) if power]
        return sum(terms, start=self.zero)

    def _average(self, a: Exponents) -> Array:
        first = next((d for d, power in enumerate(a) if power), None)
        if first is None:
            return self.zero + 1.0
        b = _less(a, first)
        total = self.atoms.points[:, first : first + 1] * self.value(b, 0)
        if self.covariance is not None:
            for e, power in enumerate(b):
                if power and self.covariance[first, e]:
                    total = total + float(self.covariance[first, e]) * power * self.value(_less(b, e), 0)
        return total


def _less(a: Exponents, d: int) -> Exponents:
    return (*a[:d], a[d] - 1, *a[d + 1 :])
