"""The kernel interface: `pair`, the smoothness, the null space, and the tunable parameters.

A kernel k is positive definite (order 0), or conditionally positive definite of order m > 0: a'Ka > 0 for all nonzero
a that annihilate the polynomials of degree below m, the null space.  Kernels are immutable; `+`, `*` and `@` build
sums, products, positive multiples and kernels of transformed inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, as_points, check_number, namespace, same_kind
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.atoms import AllPairs, Atoms, Pairing
from rkhs._core.calculus.forms import Form
from rkhs._core.calculus.function_spaces import FunctionSpace, Polynomials
from rkhs._core.calculus.maps import Map


@dataclass(frozen=True, repr=False)
class Tunable:
    """A placeholder for a positive number that `Problem.tune` learns from the data.

    It may be used wherever a kernel or the weight of a term takes a positive number.

    Parameters
    ----------
    start : float, optional
        The initial value of the search, or one for each feature; by default the best of several values derived from the
        data.
    low : float, optional
        The lower bound; by default derived from the data.
    high : float, optional
        The upper bound; by default derived from the data.
    each : bool, default=False
        Whether each feature has a separate length scale; for length scales only.
    shares : ndarray, optional
        Fixed relative weights that the number multiplies; set by ``Tunable() * weights``.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Tunable() * rkhs.Gaussian(scale=rkhs.Tunable(each=True)) + rkhs.kernels.Linear()
    Tunable() * Gaussian(scale=Tunable(each=True)) + Linear()
    """

    start: float | tuple[float, ...] | None = None
    low: float | None = None
    high: float | None = None
    each: bool = False
    shares: Vector | None = field(default=None, compare=False)

    __array_ufunc__ = None  # NumPy must leave `array * Tunable()` to __rmul__

    def __post_init__(self) -> None:
        several = isinstance(self.start, tuple)
        if several and not self.each:
            raise ValueError(f"Tunable with one start for each feature needs each=True, got start={self.start!r}.")
        for start in self.start if isinstance(self.start, tuple) else ():
            Tunable(start, self.low, self.high)
        given = [n for n in ("low", "start", "high") if getattr(self, n) is not None and not (several and n == "start")]
        for name in given:
            object.__setattr__(self, name, check_number(getattr(self, name), f"{name} of Tunable"))
        values = [getattr(self, name) for name in given]
        if values != sorted(values):
            listed = ", ".join(f"{name}={value:g}" for name, value in zip(given, values, strict=True))
            raise ValueError(f"Tunable needs low <= start <= high, got {listed}.")

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("start", "low", "high") if (value := getattr(self, name)) is not None]
        factor = "" if self.shares is None else f" * {len(self.shares)} weights"
        return f"Tunable({', '.join([*given, 'each=True'] if self.each else given)}){factor}"

    def __mul__(self, shares: Any) -> Tunable:
        """Return weights of known proportions and tunable size."""
        if not isinstance(shares, (np.ndarray, list, tuple)):
            return NotImplemented
        return replace(self, shares=np.asarray(shares, dtype=np.float64).reshape(-1))

    __rmul__ = __mul__


class Kernel(ABC):
    """A symmetric function k(x, y) of two points that computes inner products of representers.

    Kernels are immutable: `k1 + k2`, `k1 * k2`, `2.0 * k` and `k @ A` return new ones.  To add a kernel that is a
    function of the distance or of the dot product, derive from `FormKernel` and write its derivatives in q; for any
    other kernel, implement `pair` and `smoothness`.

    Attributes
    ----------
    positive : tuple of str
        The names of the fields that hold positive parameters, which `Problem.tune` can learn.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.Gaussian() + 2 * rkhs.kernels.Linear(), rkhs.extend.Kernel)
    True
    """

    __array_ufunc__ = None  # NumPy must not broadcast `array * kernel` over the entries
    positive: ClassVar[tuple[str, ...]] = ()
    operations: ClassVar[dict[str, Callable[..., Kernel]]] = {}  # classes behind `+`, `*`, `@`; filled by `_algebra`

    @property
    def order(self) -> int:
        """The order m of conditional positive definiteness; 0 for a positive definite kernel."""
        return 0

    @property
    def blurs(self) -> bool:
        """Whether `pair` accepts blurred atoms (averages over a Gaussian neighborhood)."""
        return False

    @abstractmethod
    def pair(self, pairing: Pairing) -> Array:
        """Return the inner products of the representers of the paired atoms.

        Parameters
        ----------
        pairing : Pairing
            Two lists of atoms, and whether all pairs or corresponding ones are meant.

        Returns
        -------
        array
            The inner products: a matrix for all pairs, a vector for corresponding ones.
        """

    @abstractmethod
    def smoothness(self, dimension: int) -> float:
        """Return the s such that derivatives of order m are bounded functionals in R^n iff m < s.

        Parameters
        ----------
        dimension : int
            The number n of features.

        Returns
        -------
        float
            The smoothness s, possibly infinite.
        """

    def smoother(self, order: int, dimension: int) -> str | None:
        """Suggest a kernel whose derivatives of the given order are bounded; error messages quote it.

        Parameters
        ----------
        order : int
            The order of the derivatives.
        dimension : int
            The number of features.

        Returns
        -------
        str or None
            The suggestion as code, or None if there is none.
        """
        return None

    @property
    def null_space(self) -> FunctionSpace:
        """The functions of norm zero: polynomials of degree below `order`, or {0} for a positive definite kernel."""
        return Polynomials(self.order - 1)

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        """Return the kernel as a weighted sum of kernels that are not sums themselves.

        Returns
        -------
        tuple of (float, Kernel)
            The weights and the kernels.
        """
        return ((1.0, self),)

    def form(self, dimension: int) -> Form | None:
        """Return the kernel as phi(q(A x, A y)) with a quadratic form q, if it has this structure.

        Parameters
        ----------
        dimension : int
            The number of features.

        Returns
        -------
        Form or None
            The form, or None if the kernel is not a function of one.
        """
        return None

    def blurred(self, covariance: Matrix) -> Kernel | None:
        """Return the kernel E k(x + z, y), z ~ N(0, covariance), of a translation-invariant k, if it is known.

        Parameters
        ----------
        covariance : ndarray of shape (n,) or (n, n)
            The variances of independent components, or the covariance matrix.

        Returns
        -------
        Kernel or None
            The averaged kernel, or None if there is no formula for it.
        """
        return None

    def resolved(self, X: Array) -> Kernel:
        """Return the kernel with every ``scale="median"`` replaced by the median distance of the points.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        Kernel
            The kernel with numerical scales.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Gaussian(scale="median").resolved([[0.0], [1.0], [3.0]])
        Gaussian(scale=2.0)
        """
        return self.with_children({place: child.resolved(self.seen(X)) for place, child in self.children().items()})

    def seen(self, X: Array) -> Array:
        """Return the points as the kernels in `children` receive them.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t, m)
            The transformed points; X itself unless the kernel transforms its input.
        """
        return X

    def children(self) -> dict[str, Kernel]:
        """Return the kernels that this one combines.

        Returns
        -------
        dict of str to Kernel
            The kernels by the names of their fields: "kernel", "kernels[0]", ...
        """
        children: dict[str, Kernel] = {}
        names: list[str] = [field.name for field in fields(cast(Any, self))] if is_dataclass(self) else []
        for name in names:
            value = getattr(self, name)
            if isinstance(value, Kernel):
                children[name] = value
            elif isinstance(value, tuple):
                children |= {f"{name}[{i}]": k for i, k in enumerate(value) if isinstance(k, Kernel)}
        return children

    def with_children(self, children: Mapping[str, Kernel]) -> Self:
        """Return a copy of this kernel with some of its `children` replaced.

        Parameters
        ----------
        children : mapping of str to Kernel
            The new kernels, by the keys of `children`; the others stay.

        Returns
        -------
        Kernel
            The copy.
        """
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
        """Return all positive parameters of this kernel and of its `children`, `Tunable` ones included.

        Returns
        -------
        dict of str to float, tuple, str or Tunable
            The values by their paths.

        Examples
        --------
        >>> import rkhs
        >>> (2.0 * rkhs.Gaussian(scale=3.0) + rkhs.Matern(nu=1.5)).parameters()
        {'kernels[0].factor': 2.0, 'kernels[0].kernel.scale': 3.0, 'kernels[1].scale': 1.0}
        """
        values = {name: getattr(self, name) for name in self.positive}
        undeclared = [name for name, value in vars(self).items() if isinstance(value, Tunable) and name not in values]
        if undeclared:
            raise TypeError(
                f"{undeclared[0]} of {type(self).__name__} cannot be Tunable, because the class does not declare it: "
                f"write positive = {(*self.positive, undeclared[0])}, and the derivative as method parameter_tangent."
            )
        for place, child in self.children().items():
            values |= {f"{place}.{name}": value for name, value in child.parameters().items()}
        return values

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """Return a copy of this kernel with some of its parameters replaced.

        Parameters
        ----------
        values : mapping of str to float, tuple or Tunable
            The new values, by the paths that `parameters` returns; the others stay.

        Returns
        -------
        Kernel
            The copy.

        Examples
        --------
        >>> import rkhs
        >>> (2.0 * rkhs.Gaussian()).with_parameters({"kernel.scale": 5.0})
        2.0 * Gaussian(scale=5.0)
        """
        fields_of_self = {name: values[name] for name in self.positive if name in values}
        changed: Self = replace(cast(Any, self), **fields_of_self) if fields_of_self else self
        children: dict[str, Kernel] = {}
        for place, child in self.children().items():
            prefix = place + "."
            nested = {name.removeprefix(prefix): v for name, v in values.items() if name.startswith(prefix)}
            if nested:
                children[place] = child.with_parameters(nested)
        return changed.with_children(children)

    def tangent(self, name: str, feature: int | None = None) -> Kernel:
        """Return the derivative of k with respect to the logarithm of a parameter.

        The derivative is symmetric and as smooth as k, but not positive definite: it can be paired with atoms, but no
        problem can be solved with it.

        Parameters
        ----------
        name : str
            The path of the parameter, one of the keys of `parameters`.
        feature : int, optional
            The feature whose scale to differentiate in, if there is one scale per feature.

        Returns
        -------
        Kernel
            The derivative.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Gaussian(scale=2.0).tangent("scale")([[0.0]], [[2.0]])  # r^2 / s^2 exp(-r^2 / (2 s^2))
        array([[0.60653066]])
        """
        for place, child in self.children().items():
            if name.startswith(place + "."):
                return self.with_child_tangent(place, child.tangent(name.removeprefix(place + "."), feature))
        if name not in self.positive:
            raise ValueError(f"{self!r} has no parameter {name!r}; it has {', '.join(self.parameters()) or 'none'}.")
        return self.parameter_tangent(name, feature)

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        """Return the derivative of k with respect to the logarithm of one of the fields in `positive`.

        A kernel with entries in `positive` implements it; `tangent` calls it and handles the `children`.

        Parameters
        ----------
        name : str
            The name of the field.
        feature : int or None
            The feature whose scale to differentiate in, if there is one scale per feature.

        Returns
        -------
        Kernel
            The derivative.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has a parameter {name!r} but no derivative in it: implement parameter_tangent."
        )

    def with_child_tangent(self, place: str, tangent: Kernel) -> Kernel:
        """Return the derivative of k given the derivative of one of its `children` (the chain rule).

        Parameters
        ----------
        place : str
            The key of the child in `children`.
        tangent : Kernel
            The derivative of that child.

        Returns
        -------
        Kernel
            The derivative of k; by default k with the child replaced, correct where k is linear in the child.
        """
        return self.with_children({place: tangent})

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """Return the matrix of the values k(x_i, y_j).

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (t, n)
            The first points.
        Y : array-like or SciPy sparse matrix of shape (s, n), optional
            The second points; X by default.

        Returns
        -------
        array of shape (t, s)
            The kernel matrix.
        """
        check_known(self)
        X = as_points(X, sparse=True)
        Y = X if Y is None else as_points(Y, "Y", sparse=True)
        X, Y = same_kind(X, Y)
        if isinstance(X, SparseVectors) != isinstance(Y, SparseVectors):
            raise TypeError("One of X and Y is a sparse matrix: pass scipy.sparse.csr_array(X) for both.")
        if isinstance(X, SparseVectors):
            check_sparse(self, X.shape[1])
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features but Y has {Y.shape[1]}; they must have the same number.")
        check_known(self)
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
    """A kernel phi(q) of a quadratic form q; subclasses implement `form` and `smoothness`.

    The form q is the dot product or minus half the squared distance; all derivatives of the kernel follow from
    phi, phi', phi'', ...

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.kernels._base import FormKernel
    >>> isinstance(rkhs.Gaussian(), FormKernel)
    True
    """

    @abstractmethod
    def form(self, dimension: int) -> Form:
        """Return the kernel as phi(q(A x, A y)).

        Parameters
        ----------
        dimension : int
            The number of features.

        Returns
        -------
        Form
            The quadratic form q, the derivatives of phi and the linear map A.
        """

    def pair(self, pairing: Pairing) -> Array:
        return self.form(pairing.left.dimension)(pairing)


def check_sparse(kernel: Kernel, dimension: int) -> None:
    """Raise TypeError if a kernel cannot be computed from inner products of sparse points."""
    for _, summand in kernel.summands():
        form = summand.form(dimension)
        if form is None or (form.linear is not None and form.linear.ndim == 2):
            raise TypeError(
                f"The points are sparse, and {summand!r} needs dense ones: use a kernel of the distance or of the dot "
                "product, such as Gaussian, Matern, Polynomial or Linear, or pass X.toarray()."
            )


def check_known(kernel: Kernel) -> None:
    """Raise ValueError if a parameter of the kernel is still `Tunable`."""
    tunable = [name for name, value in kernel.parameters().items() if isinstance(value, Tunable)]
    if tunable:
        raise ValueError(
            f"{kernel!r} is not known yet: {', '.join(tunable)} {'is' if len(tunable) == 1 else 'are'} left open. Call "
            "problem.tune() to learn the value, or give a number; estimators learn scales of named kernels with "
            'scale="evidence".'
        )
