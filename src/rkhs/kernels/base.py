"""What a kernel is: `pair`, and what it knows of itself.

A kernel k is positive definite (order 0), or conditionally so of order m > 0: a'Ka > 0 for the a that
vanish on the polynomials of degree below m, its null space.  It is a frozen value; `+`, `*` and `@`
build sums, products, positive multiples and linear changes of input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, as_points, namespace, same_kind
from rkhs.calculus.atoms import Atoms
from rkhs.calculus.forms import Form
from rkhs.calculus.pairing import AllPairs, Pairing
from rkhs.calculus.polynomials import Polynomials
from rkhs.calculus.spaces import Space


class Kernel(ABC):
    """A symmetric function k(x, y) on R^n with the inner products of its representers.

    A new kernel that is a function of the distance or of the dot product writes a `ladder` and
    derives from `FormKernel`; any other writes `pair`.
    """

    __array_ufunc__ = None  # so that `array * kernel` is not taken entry by entry

    @property
    def order(self) -> int:
        """The m such that k is conditionally positive definite of order m; 0 for a positive definite kernel."""
        return 0

    @property
    def blurs(self) -> bool:
        """Whether `pair` takes blurred atoms."""
        return False

    @abstractmethod
    def pair(self, pairing: Pairing) -> Array:
        """The inner products of the representers of the paired atoms, flat."""

    @abstractmethod
    def smoothness(self, dimension: int) -> float:
        """The s such that derivatives of order m are bounded functionals in R^n iff m < s."""

    def smoother(self, order: int, dimension: int) -> str | None:
        """A kernel of the family that bounds derivatives of this order, as text; None if there is none."""
        return None

    @property
    def null_space(self) -> Space:
        """The polynomials that the norm does not see: {0} for a positive definite kernel."""
        return Polynomials(self.order - 1)

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        """The kernel as a weighted sum of kernels that are not sums themselves."""
        return ((1.0, self),)

    def form(self, dimension: int) -> Form | None:
        """The kernel as phi(q(A x, A y)), where it is that."""
        return None

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel | None:
        """The kernel E k(x + z, y), z ~ N(0, covariance), of a translation-invariant k, if known."""
        return None

    def resolved(self, X: Array) -> Kernel:
        """The kernel with every ``scale="median"`` replaced by the median distance of the points."""
        return self

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """The matrix k(x_i, y_j) of values, (t, s)."""
        X = as_points(X)
        Y = X if Y is None else as_points(Y, "Y")
        X, Y = same_kind(X, Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}: they must agree.")
        return namespace(X).asarray(self.pair(AllPairs(Atoms.values(X), Atoms.values(Y))), copy=True)

    def __add__(self, other: Kernel) -> Kernel:
        from rkhs.kernels.algebra import Sum

        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float) -> Kernel:
        from rkhs.kernels.algebra import Multiple, Product

        if isinstance(other, Kernel):
            return Product((self, other))
        return Multiple(float(other), self) if isinstance(other, Real) else NotImplemented

    def __rmul__(self, factor: float) -> Kernel:
        return self * factor

    def __matmul__(self, matrix: Any) -> Kernel:
        from rkhs.kernels.algebra import Pullback

        return Pullback(self, matrix)


class FormKernel(Kernel):
    """A kernel phi(q) of a quadratic form: all it needs is the form."""

    @abstractmethod
    def form(self, dimension: int) -> Form:
        """The kernel as phi(q(A x, A y))."""

    def pair(self, pairing: Pairing) -> Array:
        return self.form(pairing.dimension)(pairing)
