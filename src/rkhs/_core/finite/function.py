"""Functions in an RKHS plus a basis: finite sums of representers, or of the functions of a finite-dimensional space.

Functions of coordinates of the input are g = f o phi, where f is what a problem of positions phi(x) determines.  A
functional L of g is a functional of f by the chain rule (`_core.calculus.maps`), so that values, derivatives and
integrals of g refer to the columns of x, and not to positions.  `Posterior` carries functionals over in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import (
    Array,
    as_array,
    immutable_copy,
    like,
    moved,
    namespace,
    same_device,
    take_rows,
    to_numpy,
)
from rkhs._core.calculus.function_spaces import FunctionSpace, SumOfSpaces
from rkhs._core.calculus.maps import Map
from rkhs._core.gram import gram
from rkhs._core.gram.blocks import pushed
from rkhs.exceptions import NotBoundedError
from rkhs.functionals._base import Combination, Functional, stack
from rkhs.functionals._values import Evaluation
from rkhs.kernels._base import Kernel
from rkhs.spaces._base import FiniteSpace


@dataclass(frozen=True, eq=False)
class Function:
    """A function in an RKHS, to which all bounded functionals can be applied.

        f = sum_i a_i z_i + sum_j c_j p_j

    with the representers z_i of a family of functionals and basis functions p_j.  `f(X)` evaluates it, and `L(f)`
    applies a functional: L(f) = sum_i a_i <z_L, z_i> + sum_j c_j L(p_j).  Coefficients of shape (size, outputs) define
    a function with several outputs.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the RKHS.
    functionals : Functional
        The functionals whose representers are z_i.
    coefficients : array-like of shape (size,) or (size, outputs)
        The coefficients a_i.
    basis : FunctionSpace, optional
        The basis functions p_j.
    basis_coefficients : array-like of shape (r,) or (r, outputs), optional
        The coefficients c_j; required with `basis`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [2.0])
    >>> f(np.array([[0.0], [1.0]])).round(4)
    array([2.    , 1.2131])
    >>> rkhs.Gradient(np.array([[1.0]]))(f).round(4)
    array([[-1.2131]])
    """

    kernel: Kernel
    functionals: Functional
    coefficients: Array
    basis: FunctionSpace | None = None
    basis_coefficients: Array | None = None

    def __post_init__(self) -> None:
        L = self.functionals
        coefficients = immutable_copy(like(as_array(self.coefficients, "coefficients"), L.prototype))
        shape = tuple(coefficients.shape)
        if shape == L.shape:
            coefficients = namespace(coefficients).reshape(coefficients, (L.size,))
        elif shape[:1] != (L.size,) or len(shape) > 2:
            raise ValueError(f"coefficients have shape {shape}, and {L!r} needs {L.shape} or ({L.size}, outputs).")
        object.__setattr__(self, "coefficients", coefficients)
        if (self.basis is None) != (self.basis_coefficients is None):
            raise ValueError("basis and basis_coefficients must be given together.")
        if self.basis_coefficients is not None:
            basis_coefficients = immutable_copy(like(self.basis_coefficients, coefficients))
            if tuple(basis_coefficients.shape[1:]) != tuple(coefficients.shape[1:]):
                raise ValueError(
                    f"coefficients of shape {tuple(coefficients.shape)} and basis_coefficients of shape "
                    f"{tuple(basis_coefficients.shape)} disagree on the number of outputs."
                )
            object.__setattr__(self, "basis_coefficients", basis_coefficients)

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a scalar function."""
        return int(self.coefficients.shape[1]) if self.coefficients.ndim == 2 else None

    @property
    def active(self) -> int:
        """The number of representers with a nonzero coefficient in some output."""
        return int(_largest(self.coefficients).astype(bool).sum())

    def __call__(self, X: Array) -> Array:
        """Return the values of f at points.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t,) or (t, outputs)
            The values.
        """
        return self.apply(Evaluation(X))

    def apply(self, functional: Functional) -> Array:
        """Apply a family of functionals to f; the computation is on the device of f.

        Parameters
        ----------
        functional : Functional
            The functionals L.

        Returns
        -------
        array of shape L.shape or L.shape + (outputs,)
            The values L(f), of the array library and on the device of L.
        """
        given = functional.prototype
        if not same_device(given, self.functionals.prototype):
            functional = functional.like(self.functionals.prototype)
        values = gram(self.kernel, functional, self.functionals) @ self.coefficients
        if self.basis is not None:
            values = values + like(functional.assemble(self.basis.on), values) @ like(self.basis_coefficients, values)
        return moved(namespace(values).reshape(values, (*functional.shape, *values.shape[1:])), given)

    def inner(self, other: Function) -> Any:
        """Return the inner product <f, g> in the RKHS, which ignores the basis functions.

        Parameters
        ----------
        other : Function
            The function g, with the same kernel.

        Returns
        -------
        float or array of shape (outputs,)
            The inner product of each output.
        """
        self._same_space(other)
        values = gram(self.kernel, self.functionals, other.functionals) @ other.coefficients
        products = namespace(values).vecdot(values, self.coefficients, axis=0)
        return float(products) if self.outputs is None else products

    def norm(self) -> Any:
        """Return the norm sqrt(<f, f>) in the RKHS, which ignores the basis functions.

        Returns
        -------
        float or array of shape (outputs,)
            The norm of each output.
        """
        return _root(self.inner(self))

    def compress(self, tol: float = 0.0) -> Function:
        """Drop the representers whose coefficients are zero or small.

        Parameters
        ----------
        tol : float, default=0.0
            The size, relative to the largest coefficient, up to which a coefficient is dropped.

        Returns
        -------
        Function
            The function without these representers.
        """
        sizes = _largest(self.coefficients)
        kept = np.flatnonzero(sizes > tol * sizes.max(initial=0.0))
        return replace(self, functionals=self.functionals.take(kept), coefficients=take_rows(self.coefficients, kept))

    def output(self, which: int) -> Function:
        """Return one output of a function with several outputs.

        Parameters
        ----------
        which : int
            The index of the output.

        Returns
        -------
        Function
            The scalar function.
        """
        basis = None if self.basis_coefficients is None else self.basis_coefficients[:, which]
        return replace(self, coefficients=self.coefficients[:, which], basis_coefficients=basis)

    def __add__(self, other: Function) -> Function:
        self._same_space(other)
        xp = namespace(self.coefficients)
        basis = self.basis or other.basis
        parts = [f.basis_coefficients for f in (self, other) if f.basis_coefficients is not None]
        if self.basis is not None and other.basis is not None and self.basis != other.basis:
            basis, parts = SumOfSpaces((self.basis, other.basis)), [xp.concat(parts)]
        return Function(
            self.kernel,
            stack([self.functionals, other.functionals]),
            xp.concat([self.coefficients, other.coefficients]),
            basis,
            sum(parts[1:], start=parts[0]) if parts else None,
        )

    def __mul__(self, factor: float) -> Function:
        basis = None if self.basis_coefficients is None else float(factor) * self.basis_coefficients
        return replace(self, coefficients=float(factor) * self.coefficients, basis_coefficients=basis)

    __rmul__ = __mul__

    def __neg__(self) -> Function:
        return -1.0 * self

    def __sub__(self, other: Function) -> Function:
        return self + -other

    def _same_space(self, other: Function) -> None:
        if not isinstance(other, Function) or self.kernel != other.kernel:
            space = repr(other.kernel) if isinstance(other, Function) else f"a {type(other).__name__}"
            raise ValueError(f"The functions are in different spaces, of {self.kernel!r} and of {space}.")


def _root(squares: Any) -> Any:
    """Return the square roots of squared norms, which rounding can make negative."""
    return max(squares, 0.0) ** 0.5 if isinstance(squares, float) else namespace(squares).clip(squares, 0, None) ** 0.5


def inner(f: Function, g: Function) -> Any:
    """Return the inner product of two functions in the same RKHS, which ignores their basis functions.

    Parameters
    ----------
    f, g : Function
        The functions, with the same kernel.

    Returns
    -------
    float or array of shape (outputs,)
        The inner product <f, g> of each output.

    Examples
    --------
    >>> import rkhs
    >>> f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [2.0])
    >>> rkhs.inner(f, f)
    4.0
    """
    return f.inner(g)


def _largest(coefficients: Array) -> np.ndarray[Any, Any]:
    """Return the largest absolute coefficient of each representer over the outputs."""
    sizes = np.abs(to_numpy(coefficients))
    return sizes if sizes.ndim == 1 else sizes.max(axis=1, initial=0.0)


@dataclass(frozen=True, eq=False)
class FeatureFunction:
    """A function in the span of features, such as random Fourier features, and basis functions.

        f = sum_a tau_a psi_a + sum_j c_j p_j

    It has the interface of `Function`: `f(X)`, `L(f)`, `f.inner(g)`, `f.norm()`.

    Parameters
    ----------
    features : FiniteSpace
        The features psi_a.
    coefficients : array of shape (p,) or (p, outputs)
        The coefficients tau_a.
    basis : FunctionSpace, optional
        The basis functions p_j.
    basis_coefficients : array of shape (r,) or (r, outputs), optional
        The coefficients c_j.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e4)
    >>> features = rkhs.FourierFeatures(100)
    >>> f = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term], approximation=features).solve().function
    >>> rkhs.Derivative(np.array([[0.5]]), axes=[0])(f).round(0)
    array([-6.])
    """

    features: FiniteSpace
    coefficients: Array
    basis: FunctionSpace | None = None
    basis_coefficients: Array | None = None

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a scalar function."""
        return int(self.coefficients.shape[1]) if self.coefficients.ndim == 2 else None

    def __call__(self, X: Array) -> Array:
        """Return the values (t,) or (t, outputs) of f at the rows of X."""
        return self.apply(Evaluation(X))

    def apply(self, functional: Functional) -> Array:
        """Return L(f) in the shape of L, with a last axis for several outputs, and on the device of L."""
        given, functional = functional.prototype, self.features.on_device(functional)
        values = self.features.apply(functional, self.coefficients)
        if self.basis is not None:
            values = values + like(functional.assemble(self.basis.on), values) @ like(self.basis_coefficients, values)
        return moved(namespace(values).reshape(values, (*functional.shape, *values.shape[1:])), given)

    def inner(self, other: FeatureFunction) -> Any:
        """Return the inner product of each output with that of a function of the same features."""
        if getattr(other, "features", None) is not self.features:
            raise ValueError(f"The functions are in different spaces: {type(other).__name__} has other features.")
        products = np.sum(to_numpy(self.coefficients) * (self.features.gram @ to_numpy(other.coefficients)), axis=0)
        return float(products) if self.outputs is None else like(products, self.coefficients)

    def norm(self) -> Any:
        """Return the norm of each output in the RKHS, which ignores the basis functions."""
        return _root(self.inner(self))

    def output(self, which: int) -> FeatureFunction:
        """Return one output of a function with several outputs."""
        basis = None if self.basis_coefficients is None else self.basis_coefficients[:, which]
        return replace(self, coefficients=self.coefficients[:, which], basis_coefficients=basis)


def function_in(
    space: FiniteSpace, tau: Array, basis: FunctionSpace | None, coefficients: Array | None
) -> Function | FeatureFunction:
    """Return the function with coefficients tau (p,) or (p, outputs) in the functions of a space."""
    if space.representers is not None:
        return Function(space.kernel, space.representers, tau, basis, coefficients)
    return FeatureFunction(space, tau, basis, coefficients)


def pushed_forward(L: Functional, phi: Map) -> Functional:
    """Return the functionals M with M(f) = L(f o phi); averages over Gaussian weights become cubature."""
    if L.order > phi.orders:
        raise NotBoundedError(
            f"{L!r} takes derivatives of order {L.order}, and {phi!r} has derivatives up to order {phi.orders}: use a "
            "Difference of values."
        )
    return Combination(L.shape, pushed(L.parts, phi.pushed, False), repr(L))


@dataclass(frozen=True, eq=False)
class Pullback:
    """The function g = f o phi of the columns of the input, with the interface of `rkhs.results.Function`.

    Parameters
    ----------
    function : Function
        The function f of positions.
    map : Map
        The map phi from rows to positions.
    """

    function: Function
    map: Map

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a scalar function."""
        return self.function.outputs

    def __call__(self, X: Array) -> Array:
        """Return the values (t,) or (t, outputs) of g at the rows of X."""
        return self.apply(Evaluation(X))

    def apply(self, functional: Functional) -> Array:
        """Return L(g) for a family L."""
        return self.function.apply(pushed_forward(functional, self.map))

    def inner(self, other: Pullback) -> Any:
        """Return the inner product with another function of the same coordinates, in the RKHS of k(phi(x), phi(y))."""
        if getattr(other, "map", None) != self.map:
            raise ValueError(f"The functions are in different spaces: one is a function of {self.map!r}.")
        return self.function.inner(other.function)

    def norm(self) -> Any:
        """Return the norm of each output in the RKHS of k(phi(x), phi(y)), which ignores the basis functions."""
        return self.function.norm()

    def output(self, which: int) -> Pullback:
        """Return one output of a function with several outputs."""
        return replace(self, function=self.function.output(which))
