"""Functions of an RKHS, as finite sums of representers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rkhs.backend.arrays import Array, as_array, like, namespace
from rkhs.functionals.base import Functional, stack
from rkhs.functionals.evaluation import Evaluation
from rkhs.gram import gram
from rkhs.kernels.base import Kernel


@dataclass(frozen=True, eq=False)
class Function:
    """f = sum_i a_i z_i, with z_i the representer of the i-th functional of a family.

    `f(X)` evaluates it and `L(f)` applies any bounded functional to it: L(f) = sum_i a_i <z_L, z_i>.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> f = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [2.0])
    >>> f(np.array([[0.0], [1.0]])).round(4)
    array([2.    , 1.2131])
    >>> rkhs.Gradient(np.array([[1.0]]))(f).round(4)
    array([[-1.2131]])
    """

    kernel: Kernel
    functionals: Functional
    coefficients: Array

    def __post_init__(self) -> None:
        coefficients = like(as_array(self.coefficients, "coefficients"), self.functionals.prototype)
        if tuple(coefficients.shape) not in (self.functionals.shape, (self.functionals.size,)):
            raise ValueError(
                f"coefficients have shape {tuple(coefficients.shape)}, and {self.functionals!r} needs "
                f"{self.functionals.shape} or ({self.functionals.size},)."
            )
        flat = namespace(coefficients).reshape(coefficients, (self.functionals.size,))
        object.__setattr__(self, "coefficients", flat)

    def __call__(self, X: Array) -> Array:
        """f(x) at the rows of X."""
        return self.apply(Evaluation(X))

    def apply(self, functional: Functional) -> Array:
        """L(f), in the shape of L."""
        values = gram(self.kernel, functional, self.functionals) @ self.coefficients
        return namespace(values).reshape(values, functional.shape)

    def inner(self, other: Function) -> float:
        """<f, g>."""
        if self.kernel != other.kernel:
            raise ValueError(f"The functions live in different spaces, of {self.kernel!r} and of {other.kernel!r}.")
        values = gram(self.kernel, self.functionals, other.functionals) @ other.coefficients
        return float(namespace(values).vecdot(values, self.coefficients))

    def norm(self) -> float:
        """sqrt(<f, f>)."""
        return max(self.inner(self), 0.0) ** 0.5

    def __add__(self, other: Function) -> Function:
        if self.kernel != other.kernel:
            raise ValueError(f"The functions live in different spaces, of {self.kernel!r} and of {other.kernel!r}.")
        xp = namespace(self.coefficients)
        together = xp.concat([self.coefficients, other.coefficients])
        return Function(self.kernel, stack([self.functionals, other.functionals]), together)

    def __mul__(self, factor: Any) -> Function:
        return Function(self.kernel, self.functionals, float(factor) * self.coefficients)

    __rmul__ = __mul__

    def __neg__(self) -> Function:
        return -1.0 * self

    def __sub__(self, other: Function) -> Function:
        return self + -other
