"""Functions of coordinates of the input: g = f o phi, where f is what a problem of positions phi(x) determines.

A functional L of g is a functional of f by the chain rule (`rkhs._core.calculus.maps`), so that values, derivatives and
integrals of g refer to the columns of x, and not to positions.  `Posterior` carries functionals over in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rkhs._core.backend.arrays import Array
from rkhs._core.calculus.maps import Map
from rkhs._core.finite.function import Function
from rkhs._core.gram.blocks import pushed
from rkhs.exceptions import NotBoundedError
from rkhs.functionals._base import Combination, Functional
from rkhs.functionals._values import Evaluation


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
