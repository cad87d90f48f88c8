"""What a kernel is: `pair`, and what it knows of itself.

A kernel k is positive definite (order 0), or conditionally so of order m > 0: a'Ka > 0 for the a that
vanish on the polynomials of degree below m, its null space.  It is a frozen value; `+`, `*` and `@`
build sums, products, positive multiples and linear changes of input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import inf
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, as_points, namespace, same_kind
from rkhs._calculus.atoms import AllPairs, Atoms, Pairing
from rkhs._calculus.forms import Form
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials
from rkhs._calculus.maps import Map


class Kernel(ABC):
    """A kernel: a symmetric function k(x, y) of two points, with the inner products of its representers.

    A new kernel that is a function of the distance or of the dot product writes its derivatives in q and
    derives from `FormKernel`; any other writes `pair`.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.Gaussian() + 2 * rkhs.kernels.Linear(), rkhs.extend.Kernel)
    True
    """

    __array_ufunc__ = None  # so that `array * kernel` is not taken entry by entry
    positive: ClassVar[tuple[str, ...]] = ()  # the fields that are positive numbers, which may be learned
    operations: ClassVar[dict[str, Callable[..., Kernel]]] = {}  # what `+`, `*` and `@` build, entered by `algebra`

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
        """Return the inner products of the representers of the paired atoms, flat."""

    @abstractmethod
    def smoothness(self, dimension: int) -> float:
        """Return the s such that derivatives of order m are bounded functionals in R^n iff m < s."""

    def smoother(self, order: int, dimension: int) -> str | None:
        """Return a kernel of the family that bounds derivatives of this order, as text; None if there is none."""
        return None

    @property
    def null_space(self) -> FunctionSpace:
        """The polynomials that the norm does not see: {0} for a positive definite kernel."""
        return Polynomials(self.order - 1)

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        """Return the kernel as a weighted sum of kernels that are not sums themselves."""
        return ((1.0, self),)

    def form(self, dimension: int) -> Form | None:
        """Return the kernel as phi(q(A x, A y)), where it is that."""
        return None

    def blurred(self, covariance: Matrix) -> Kernel | None:
        """Return the kernel E k(x + z, y), z ~ N(0, covariance), of a translation-invariant k, if known."""
        return None

    def resolved(self, X: Array) -> Kernel:
        """Return the kernel with every ``scale="median"`` replaced by the median distance of the points."""
        return self.with_children({place: child.resolved(self.seen(X)) for place, child in self.children().items()})

    def seen(self, X: Array) -> Array:
        """Return the points as those see them that this kernel is made of."""
        return X

    def children(self) -> dict[str, Kernel]:
        """Return the kernels that this one is made of, by the names of its fields: "kernel", "kernels[0]", .."""
        found: dict[str, Kernel] = {}
        names: list[str] = [field.name for field in fields(cast(Any, self))] if is_dataclass(self) else []
        for name in names:
            value = getattr(self, name)
            if isinstance(value, Kernel):
                found[name] = value
            elif isinstance(value, tuple):
                found |= {f"{name}[{i}]": k for i, k in enumerate(value) if isinstance(k, Kernel)}
        return found

    def with_children(self, children: Mapping[str, Kernel]) -> Self:
        """Return the same kernel made of other kernels, by the names of `children`; those not named stay."""
        changed: dict[str, Any] = {}
        for place, child in children.items():
            name, bracket, index = place.partition("[")
            if bracket:
                siblings = list(changed.get(name, getattr(self, name)))
                siblings[int(index[:-1])] = child
                changed[name] = tuple(siblings)
            else:
                changed[name] = child
        return replace(cast(Any, self), **changed) if changed else self

    def parameters(self) -> dict[str, Any]:
        """Return all positive numbers of this kernel and of those that it is made of, open ones included.

        Examples
        --------
        >>> import rkhs
        >>> (2.0 * rkhs.Gaussian(scale=3.0) + rkhs.Matern(nu=1.5)).parameters()
        {'kernels[0].factor': 2.0, 'kernels[0].kernel.scale': 3.0, 'kernels[1].scale': 1.0}
        """
        found = {name: getattr(self, name) for name in self.positive}
        for place, child in self.children().items():
            found |= {f"{place}.{name}": value for name, value in child.parameters().items()}
        return found

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return the same kernel with other numbers, by the names that `parameters` gives them."""
        own = {name: values[name] for name in self.positive if name in values}
        changed: Self = replace(cast(Any, self), **own) if own else self
        inner: dict[str, Kernel] = {}
        for place, child in self.children().items():
            theirs = {name.removeprefix(place + "."): v for name, v in values.items() if name.startswith(place + ".")}
            if theirs:
                inner[place] = child.with_parameters(theirs)
        return changed.with_children(inner)

    def tangent(self, name: str, feature: int | None = None) -> Kernel:
        """Return the derivative of k in the logarithm of a parameter; of one feature's, where it has one for each.

        It is symmetric and as smooth as k, but not positive definite: it can be paired with atoms, not solved with.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Gaussian(scale=2.0).tangent("scale")([[0.0]], [[2.0]])  # r^2 / s^2 exp(-r^2 / (2 s^2))
        array([[0.60653066]])
        """
        for place, child in self.children().items():
            if name.startswith(place + "."):
                return self.along(place, child.tangent(name.removeprefix(place + "."), feature))
        if name not in self.positive:
            raise ValueError(f"{self!r} has no parameter {name!r}: it has {', '.join(self.parameters()) or 'none'}.")
        return self.own_tangent(name, feature)

    def own_tangent(self, name: str, feature: int | None) -> Kernel:
        """Return the derivative in the logarithm of one of its own parameters."""
        raise NotImplementedError(f"{type(self).__name__} has a parameter {name!r} and does not say how it follows it.")

    def along(self, place: str, tangent: Kernel) -> Kernel:
        """Return the derivative of k where that of one of its `children` is given: k with it in that child's place."""
        return self.with_children({place: tangent})

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """Return the matrix k(x_i, y_j) of values, (t, s)."""
        check_known(self)
        X = as_points(X)
        Y = X if Y is None else as_points(Y, "Y")
        X, Y = same_kind(X, Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}: they must agree.")
        return namespace(X).asarray(self.pair(AllPairs(Atoms.values(X), Atoms.values(Y))), copy=True)

    def __add__(self, other: Kernel) -> Kernel:
        return self.operations["sum"]((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | float | Tunable) -> Kernel:
        if isinstance(other, Kernel):
            return self.operations["product"]((self, other))
        return self.operations["multiple"](other, self) if isinstance(other, (Real, Tunable)) else NotImplemented

    __rmul__ = __mul__

    def __matmul__(self, change: Any) -> Kernel:
        return self.operations["composition" if isinstance(change, Map) else "pullback"](self, change)


class FormKernel(Kernel):
    """A kernel phi(q) of a quadratic form: all it needs is the form."""

    @abstractmethod
    def form(self, dimension: int) -> Form:
        """Return the kernel as phi(q(A x, A y))."""

    def pair(self, pairing: Pairing) -> Array:
        return self.form(pairing.left.dimension)(pairing)


def check_known(kernel: Kernel) -> None:
    """Refuse a kernel with settings that are left open."""
    left = [name for name, value in kernel.parameters().items() if isinstance(value, Tunable)]
    if left:
        raise ValueError(
            f"{kernel!r} is not known yet: {', '.join(left)} {'is' if len(left) == 1 else 'are'} left open. Let "
            "problem.tune() find what is open, or give numbers."
        )


@dataclass(frozen=True, repr=False)
class Tunable:
    """A positive number that is not known yet and that `Problem.tune` is to find.

    It may stand wherever a kernel or the weight of a term takes a positive number.

    Parameters
    ----------
    start, low, high : float, optional
        Where the search begins, and its bounds.  What is not given is taken from the data; the start is then the best
        of several.
    each : bool
        Of a length scale, whether each feature has one of its own.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Tunable() * rkhs.Gaussian(scale=rkhs.Tunable(each=True)) + rkhs.kernels.Linear()
    Tunable() * Gaussian(scale=Tunable(each=True)) + Linear()
    """

    start: float | None = None
    low: float | None = None
    high: float | None = None
    each: bool = False
    shares: Vector | None = field(default=None, compare=False)  # what it is multiplied with, in a term

    __array_ufunc__ = None  # so that `array * Tunable()` comes to us

    def __post_init__(self) -> None:
        given = [name for name in ("low", "start", "high") if getattr(self, name) is not None]
        for name in given:
            value = getattr(self, name)
            if not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf):
                raise ValueError(f"Tunable needs a positive, finite {name}, got {value!r}.")
            object.__setattr__(self, name, float(value))
        values = [getattr(self, name) for name in given]
        if values != sorted(values):
            told = ", ".join(f"{name}={value:g}" for name, value in zip(given, values, strict=True))
            raise ValueError(f"Tunable needs low <= start <= high, got {told}.")

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("start", "low", "high") if (value := getattr(self, name)) is not None]
        factor = "" if self.shares is None else f" * {len(self.shares)} weights"
        return f"Tunable({', '.join([*given, 'each=True'] if self.each else given)}){factor}"

    def __mul__(self, shares: Any) -> Tunable:
        """`Tunable() * weights`: weights of which only the size is open."""
        if not isinstance(shares, (np.ndarray, list, tuple)):
            return NotImplemented
        return replace(self, shares=np.asarray(shares, dtype=np.float64).reshape(-1))

    __rmul__ = __mul__
