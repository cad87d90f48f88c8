"""What can be claimed of a function everywhere on a box, and of which functions it can be proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.polynomials import Polynomials
from rkhs._calculus.spaces import SumOfSpaces
from rkhs._finite.function import Function
from rkhs.functionals.base import Combination, Functional, Part
from rkhs.kernels.algebra import Multiple, Pullback, Sum
from rkhs.kernels.base import Kernel
from rkhs.problem.taylor import axis_factors


@dataclass(frozen=True)
class Claim:
    """What f is said to do everywhere on a box.

        sign * D_axes f >= bound            a slope for one axis, a second derivative for two, a value for none
        sign * Hessian of f in `jointly`    has no eigenvalue below zero: f is convex (concave) in all these features

    Eigenvalues are compared in units of the kernel's scales (`Lower.units`), which do not change their signs.
    """

    name: str
    axes: tuple[int, ...] = ()
    sign: float = 1.0
    bound: float = 0.0
    jointly: tuple[int, ...] = ()

    @property
    def order(self) -> int:
        """Of the derivatives."""
        return 2 if self.jointly else len(self.axes)

    @property
    def entries(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The axes of each entry of the matrix whose eigenvalues are claimed to be at least the bound."""
        if not self.jointly:
            return ((self.axes,),)
        return tuple(tuple((j, k) for k in self.jointly) for j in self.jointly)

    def at(self, X: Matrix, directions: Matrix | None = None) -> Functional:
        """sign * D_axes at the rows of X, (t,); for Hessians sign * D_v D_v, v the rows of `directions` (t, n)."""
        n = X.shape[1]
        if self.jointly:
            assert directions is not None, "a Hessian is looked at along directions"
            atoms = Atoms(X, np.repeat(directions[:, None, None, :], 2, axis=2))
        else:
            atoms = Atoms(X, np.eye(n)[list(self.axes)].reshape(1, -1, n))
        return self.sign * Combination((len(X),), (Part(atoms),), self.name)


def acting(kernel: Kernel, claim: Claim, n: int) -> tuple[Kernel | None, tuple[int, ...]]:
    """The summands of a kernel that have a say in a claim, and the features that those depend on.

    A derivative sees the summands that depend on all its features, a Hessian those that depend on one of them.
    """
    parts, active = [], set()
    for weight, summand in kernel.summands():
        own = depends_on(summand, n)
        if own & set(claim.jointly) if claim.jointly else set(claim.axes) <= own:
            parts.append(Multiple(weight, summand))
            active |= own
    if not parts:
        return None, ()
    return (Sum(tuple(parts)) if len(parts) > 1 else parts[0]), tuple(sorted(active))


def depends_on(kernel: Kernel, n: int) -> set[int]:
    """The features that a kernel depends on."""
    if isinstance(kernel, Pullback):
        used = np.any(kernel.linear != 0, axis=0) if kernel.linear.ndim == 2 else kernel.linear != 0
        return set(np.flatnonzero(used).tolist())
    return set(range(n))


def degree_of(f: Any) -> int | None:
    """The degree of the polynomials in the basis of f, -1 without them; None for other functions."""
    spaces: Any = f.basis.spaces if isinstance(f.basis, SumOfSpaces) else [f.basis or Polynomials(-1)]
    return max(space.degree for space in spaces) if all(isinstance(space, Polynomials) for space in spaces) else None


def check_provable(claim: Claim, f: Any, n: int) -> None:
    """Refuse functions whose derivatives have no bound from their norm."""
    if not isinstance(f, Function) or f.outputs is not None:
        raise ValueError("Shapes are proved for functions of one output that are sums of representers.")
    degree = degree_of(f)
    radial = all(axis_factors(kernel, n) is not None for _, kernel in f.kernel.summands())
    if f.kernel.order or degree is None or degree > 2 or not radial:
        basis = "" if degree is not None and degree <= 2 else f" with {f.basis!r}"
        raise ValueError(
            f"A proof needs a kernel of x - y with a scale for each feature, or a sum of such ones, and no basis but "
            f"polynomials of degree two: {f.kernel!r}{basis} is none."
        )
    needed = max(claim.order + 2, degree + 1)  # Taylor's polynomial has all of the basis
    if not needed < f.kernel.smoothness(n):
        remedy = f.kernel.smoother(needed, n) or "rkhs.Gaussian()"
        raise ValueError(
            f"That {claim.name} everywhere is proved by derivatives of order {needed}, which {f.kernel!r} does not "
            f"bound: use {remedy}."
        )
