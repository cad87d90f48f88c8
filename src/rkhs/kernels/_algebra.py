"""Kernels built from kernels: sums, products, positive multiples, linear and nonlinear changes of the input."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, as_array, as_points, check_number, to_numpy
from rkhs._core.calculus.atoms import Atoms, Pairing, compose_maps, mapped, push_covariance
from rkhs._core.calculus.forms import Form
from rkhs._core.calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces
from rkhs._core.calculus.maps import Map
from rkhs.kernels._base import Kernel, Tunable


class _Combination(Kernel):
    """Base class of sums and products, which are as smooth as their roughest part."""

    kernels: tuple[Kernel, ...]

    def smoothness(self, dimension: int) -> float:
        return min(k.smoothness(dimension) for k in self.kernels)

    def smoother(self, order: int, dimension: int) -> str | None:
        rough = [k for k in self.kernels if k.smoothness(dimension) <= order]
        remedies = [f"{k.smoother(order, dimension)} in place of {k!r}" for k in rough]
        return " and ".join(remedies)


@dataclass(frozen=True)
class Sum(_Combination):
    """The sum of kernels; write ``k1 + k2``.

        k(x, y) = k_1(x, y) + k_2(x, y) + ...

    Parameters
    ----------
    kernels : tuple of Kernel
        The summands; nested sums are flattened.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Gaussian(scale=1.0) + 0.1 * rkhs.kernels.Linear()
    Gaussian(scale=1.0) + 0.1 * Linear()
    """

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        flat = [part for k in self.kernels for part in (k.kernels if isinstance(k, Sum) else (k,))]
        object.__setattr__(self, "kernels", tuple(flat))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))

    @property
    def order(self) -> int:
        return max(k.order for k in self.kernels)

    @property
    def null_space(self) -> FunctionSpace:
        """The span of the null spaces of the summands."""
        spaces = [k.null_space for k in self.kernels if k.order]
        if all(isinstance(space, Polynomials) and space.linear is None for space in spaces):
            return Polynomials(self.order - 1)
        return SumOfSpaces(tuple(spaces))

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple(part for k in self.kernels for part in k.summands())

    def pair(self, pairing: Pairing) -> Array:
        return sum(k.pair(pairing) for k in self.kernels)

    def with_child_tangent(self, place: str, tangent: Kernel) -> Kernel:
        return tangent


@dataclass(frozen=True)
class Product(_Combination):
    """The product of positive definite kernels; write ``k1 * k2``.

        k(x, y) = k_1(x, y) k_2(x, y) ...

    Parameters
    ----------
    kernels : tuple of Kernel
        The factors.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Gaussian(scale=1.0) * rkhs.kernels.Polynomial(degree=2)
    Gaussian(scale=1.0) * Polynomial(degree=2, offset=1.0)
    """

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        for k in self.kernels:
            check_definite(k, "Product")

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self.kernels)

    def pair(self, pairing: Pairing) -> Array:
        """Return the inner products by Leibniz's rule: each direction differentiates one of the factors."""
        first, *rest = self.kernels
        if not rest:
            return first.pair(pairing)
        others = Product(tuple(rest))
        total = None
        # D_w (k_1 k_2) = sum over subsets S of the directions of D_S k_1 D_(w - S) k_2
        for left, other_left in splits(pairing.left.order):
            for right, other_right in splits(pairing.right.order):
                term = first.pair(pairing.restricted(left, right))
                term = term * others.pair(pairing.restricted(other_left, other_right))
                total = term if total is None else total + term
        return total


class _Transformed(Kernel):
    """Base class of kernels that transform one other kernel, their field `kernel`, or its input."""

    kernel: Kernel

    def image(self, dimension: int) -> int:
        """Return the dimension of the points that `kernel` receives."""
        return dimension

    @property
    def order(self) -> int:
        return self.kernel.order

    def smoothness(self, dimension: int) -> float:
        return self.kernel.smoothness(self.image(dimension))

    def smoother(self, order: int, dimension: int) -> str | None:
        return self.kernel.smoother(order, self.image(dimension))


@dataclass(frozen=True)
class Multiple(_Transformed):
    """A positive multiple of a kernel; write ``2 * k``.

        k(x, y) = factor * k_1(x, y)

    Parameters
    ----------
    factor : float or Tunable
        The positive factor.
    kernel : Kernel
        The kernel k_1.

    Examples
    --------
    >>> import rkhs
    >>> (2 * rkhs.Gaussian())([[0.0]])
    array([[2.]])
    """

    factor: Any  # float or Tunable
    kernel: Kernel
    positive: ClassVar[tuple[str, ...]] = ("factor",)

    def __post_init__(self) -> None:
        if isinstance(self.factor, Tunable):
            return
        object.__setattr__(self, "factor", check_number(self.factor, "The factor of a kernel"))

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Sum) else repr(self.kernel)
        return f"{self.factor!r} * {inner}"

    @property
    def null_space(self) -> FunctionSpace:
        return self.kernel.null_space

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple((self.factor * weight, k) for weight, k in self.kernel.summands())

    def pair(self, pairing: Pairing) -> Array:
        return self.factor * self.kernel.pair(pairing)

    def parameter_tangent(self, name: str, feature: int | None) -> Kernel:
        return self


@dataclass(frozen=True, eq=False)
class LinearTransform(_Transformed):
    """A kernel of linearly transformed points; write ``k @ A``.

        k(x, y) = k_1(A x, A y)

    Parameters
    ----------
    kernel : Kernel
        The kernel k_1.
    linear : array-like of shape (m, n) or (n,)
        The matrix A, or one factor per feature.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> k = rkhs.kernels.ThinPlate(order=2) @ np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # two features of three
    >>> k(np.array([[0.0, 0.0, 5.0], [0.0, 2.0, 7.0]]))[0, 1].round(6)
    np.float64(2.772589)
    """

    kernel: Kernel
    linear: Matrix

    def __post_init__(self) -> None:
        linear = np.array(to_numpy(as_array(self.linear, "A")), dtype=np.float64)  # a copy, made read-only
        if linear.ndim not in (1, 2) or linear.size == 0:
            raise ValueError(
                f"A linear change of input is a finite matrix (m, n) or a vector (n,), got shape {linear.shape}."
            )
        linear.flags.writeable = False
        object.__setattr__(self, "linear", linear)

    def __repr__(self) -> str:
        rows = f"{self.linear.shape[0]} x " if self.linear.ndim == 2 else "diagonal "
        return f"{self.kernel!r} @ ({rows}{self.linear.shape[-1]} matrix)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LinearTransform):
            return NotImplemented
        return self.kernel == other.kernel and np.array_equal(self.linear, other.linear)

    def __hash__(self) -> int:
        return hash((self.kernel, self.linear.shape, self.linear.tobytes()))

    @property
    def blurs(self) -> bool:
        return self.kernel.blurs

    @property
    def null_space(self) -> FunctionSpace:
        return Polynomials(self.order - 1, self.linear)

    def image(self, dimension: int) -> int:
        return dimension if self.linear.ndim == 1 else int(self.linear.shape[0])

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple((weight, LinearTransform(k, self.linear)) for weight, k in self.kernel.summands())

    def form(self, dimension: int) -> Form | None:
        inner = self.kernel.form(self.image(dimension))
        return None if inner is None else replace(inner, linear=compose_maps(inner.linear, self.linear))

    def pair(self, pairing: Pairing) -> Array:
        form = self.form(pairing.left.dimension)
        if form is not None and form.rho:  # radial forms map differences, which stay accurate far from the origin
            return form(pairing)
        return self.kernel.pair(pairing.pushed(self.linear))

    def blurred(self, covariance: Matrix) -> Kernel | None:
        # A (x + z) with z ~ N(0, C) is A x + z', z' ~ N(0, ACA')
        inner = self.kernel.blurred(push_covariance(self.linear, covariance))
        return None if inner is None else LinearTransform(inner, self.linear)

    def seen(self, X: Array) -> Array:
        return mapped(as_points(X), self.linear)


def additive(kernel: Any, n: int) -> Sum:
    """Return the kernel of functions that are sums of functions of one feature each.

        k(x, y) = sum_j k_j(x_j, y_j)

    The effect of a feature on such a function does not depend on the others, so that its shape can be proved feature
    by feature.

    Parameters
    ----------
    kernel : Kernel or list of Kernel
        The kernel of one feature for all of them, or a list of n.
    n : int
        The number of features.

    Returns
    -------
    Sum
        The additive kernel.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.additive(rkhs.Gaussian(scale=1.0), 2)([[0.0, 0.0]], [[0.0, 9.0]]).round(3)
    array([[1.]])
    """
    kernels = [kernel] * n if isinstance(kernel, Kernel) else list(kernel)
    if len(kernels) != n:
        raise ValueError(f"An additive kernel of {n} features needs one kernel per feature, got {len(kernels)}.")
    return Sum(tuple(LinearTransform(k, np.eye(n)[[j]]) for j, k in enumerate(kernels)))


def check_definite(kernel: Kernel, of: str) -> None:
    """Raise ValueError if a kernel from which another one, `of`, is built is only conditionally positive definite."""
    if kernel.order:
        raise ValueError(
            f"{of} needs a positive definite kernel, but {kernel!r} is only conditionally positive definite (of order "
            f"{kernel.order}): use a sum, or a kernel such as Gaussian or Matern."
        )


def splits(count: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield all ways to distribute the directions 0..count-1 among two factors."""
    for size in range(count + 1):
        for chosen in combinations(range(count), size):
            yield chosen, tuple(i for i in range(count) if i not in chosen)


Push = Callable[[Atoms], tuple[Atoms, ...]]  # the push-forward of atoms: a sum of one or several lists of atoms


class PushedKernel(_Transformed):
    """A kernel that pushes atoms forward and pairs the images with its field `kernel`.

    Functions of such a kernel are f(x) = sum over terms of g(phi(x)), with g in the space of `kernel`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, rkhs
    >>> @dataclass(frozen=True)
    ... class Even(rkhs.extend.PushedKernel):  # the even functions: k(x, y) / 2 + k(x, -y) / 2
    ...     kernel: rkhs.extend.Kernel
    ...
    ...     def pushes(self):
    ...         yield 0.5, None, None
    ...         yield 0.5, None, lambda atoms: (atoms.pushed(-np.ones(1)),)
    >>> round(Even(rkhs.Gaussian())([[1.0]], [[-1.0]]).item(), 2)
    0.57
    """

    takes_blur: ClassVar[bool] = False  # whether blurred atoms can be pushed forward

    @abstractmethod
    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        """Yield terms (weight, push-forward on the left, push-forward on the right); None is the identity.

        Return the same object for both sides where they agree, so that the pairing of a family with itself stays
        symmetric.
        """

    def pair(self, pairing: Pairing) -> Array:
        total: Any = None
        for weight, on_left, on_right in self.pushes():
            lefts = (pairing.left,) if on_left is None else on_left(pairing.left)
            rights = (pairing.right,) if on_right is None else on_right(pairing.right)
            for left in lefts:
                for right in rights:
                    # k(x, y) = sum weight k_1(a, b) over the images a of x and b of y
                    term = weight * self.kernel.pair(type(pairing)(left, right))
                    total = term if total is None else total + term
        return total

    def _check_definite(self) -> None:
        check_definite(self.kernel, type(self).__name__)


@dataclass(frozen=True)
class Composition(PushedKernel):
    """A kernel of features of the input; write ``k @ phi``.

        k(x, y) = k_1(phi(x), phi(y))

    for a smooth map phi with known Jacobian.  Functionals are pushed forward by the chain rule
    (`rkhs._core.calculus.maps`), so that derivatives of f are exact.

    Parameters
    ----------
    kernel : Kernel
        The positive definite kernel k_1.
    map : Map
        The map phi: `rkhs.kernels.Features`, `rkhs.kernels.InverseDistances`, or a subclass of `Map`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> radius = rkhs.kernels.Features(lambda X: np.sum(X**2, axis=1)[:, None], gradient=lambda X: 2 * X[:, None, :])
    >>> k = rkhs.Gaussian(scale=1.0) @ radius
    >>> k([[3.0, 4.0]], [[5.0, 0.0]])  # points of equal radius
    array([[1.]])
    """

    kernel: Kernel
    map: Map

    def __post_init__(self) -> None:
        if not isinstance(self.map, Map):
            raise TypeError(
                f"Composition needs a map, such as rkhs.kernels.Features(function, gradient), got {self.map!r}."
            )
        self._check_definite()

    def __repr__(self) -> str:
        return f"{self.kernel!r} @ {self.map!r}"

    def image(self, dimension: int) -> int:
        return self.map.image(dimension)

    def smoothness(self, dimension: int) -> float:
        return min(super().smoothness(dimension), self.map.orders + 1.0)

    def smoother(self, order: int, dimension: int) -> str | None:
        inner = super().smoother(order, dimension) if order <= self.map.orders else None
        return None if inner is None else f"{inner} @ {self.map!r}"

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        push = self.map.pushed
        yield 1.0, push, push

    def seen(self, X: Array) -> Array:
        return self.map.values(as_points(X))


Kernel.operations.update(sum=Sum, product=Product, multiple=Multiple, pullback=LinearTransform, composition=Composition)
