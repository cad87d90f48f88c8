"""The 1-jets of functions at points, and the functionals that read them.

A functional of order at most one at x is linear in the jet (f(x), grad f(x)).  `JetPoints` holds the points
that several parts of a family share: it scatters the coefficients of the functionals to coefficients of
jets, A_i = sum_a alpha_ia V_ia, and contracts the jets of f to the functionals, <V_ia, grad f(x_i)>.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from rkhs._backend.arrays import Array, like, namespace, zeros
from rkhs._backend.memory import on_cpu
from rkhs._backend.precision import Products
from rkhs._calculus.atoms import Atoms, LinearMap
from rkhs.functionals.base import Part

ALIGNED = 8  # columns


@dataclass(frozen=True, eq=False)
class Jets:
    """The 1-jets of r functions at t points, or coefficients on them; None for a part that is not needed."""

    values: Array | None  # (t, r)
    gradients: Array | None  # (r, t, n)

    @property
    def count(self) -> int:
        """r."""
        if self.values is not None:
            return int(self.values.shape[1])
        return 0 if self.gradients is None else int(self.gradients.shape[0])

    @property
    def nbytes(self) -> int:
        """How much memory they take, counted as float64."""
        return sum(8 * prod(array.shape) for array in self._arrays if array is not None)

    def emptied(self) -> Jets:
        """Zeros in their place."""
        values, gradients = (None if array is None else zeros(array.shape, array) for array in self._arrays)
        return Jets(values, gradients)

    def add(self, other: Jets) -> None:
        """Add the jets of others, in place."""
        for mine, theirs in zip(self._arrays, other._arrays, strict=True):
            if mine is not None:
                mine += theirs

    @property
    def _arrays(self) -> tuple[Any, Any]:
        return self.values, self.gradients


@dataclass(frozen=True, eq=False)
class JetPoints:
    """One set of points with the parts of a family that read or write jets there."""

    points: Array  # (t, n), centred and mapped
    parts: tuple[Part, ...]
    linear: LinearMap
    products: Products

    @property
    def given(self) -> Array:
        """The points as they were given."""
        return self.parts[0].atoms.points

    @cached_property
    def halves(self) -> Array:
        """|x|^2 / 2, (t,)."""
        return namespace(self.points).sum(self.points * self.points, axis=1) / 2

    @cached_property
    def largest(self) -> float:
        """The largest of the halves."""
        return float(namespace(self.points).max(self.halves)) if self.halves.shape[0] else 0.0

    @cached_property
    def fine(self) -> Any:
        """X as an operand of fine products."""
        return self.products.fine.operand(self.points)

    @cached_property
    def plain(self) -> tuple[Any, Any]:
        """X as operands by rows and by columns."""
        return self.products.operands(self.points)

    @cached_property
    def augmented(self) -> tuple[Any, Any]:
        """[X, 1] as operands by rows and by columns, see `augmented`."""
        return self.products.operands(augmented(self.points, namespace(self.points).ones_like(self.points[:, :1])))

    def scatter(self, v: Array) -> Jets:
        """The coefficients of the jets, from those (size, r) of the functionals."""
        c = A = None
        for part in self.parts:
            own = part.adjoint(v)
            if part.atoms.order == 0:
                c = own if c is None else c + own
            else:
                spread = _spread(part.atoms, own)
                A = spread if A is None else A + spread
        return Jets(c, None if A is None else _mapped(A, self.linear))

    def zeros(self, r: int) -> Jets:
        """Room for the jets that the parts need."""
        t, n = self.points.shape
        orders = {part.atoms.order for part in self.parts}
        values = zeros((t, r), self.points) if 0 in orders else None
        return Jets(values, zeros((r, t, n), self.points) if 1 in orders else None)

    def contract(self, jets: Jets, out: Array) -> None:
        """Add the functionals of f to `out`, from the jets of f."""
        gradients = None if jets.gradients is None else pulled_back(jets.gradients, self.linear)
        for part in self.parts:
            own = jets.values if part.atoms.order == 0 else _contracted(part.atoms, gradients)
            out[part.rows] += part.forward(own)


def augmented(A: Array, column: Array) -> Array:
    """[A, column], on accelerators with zeros up to a multiple of eight columns: tensor cores need aligned rows."""
    xp = namespace(A)
    more = 0 if on_cpu(A) else -(A.shape[-1] + 1) % ALIGNED
    return xp.concat([A, column, zeros((*A.shape[:-1], more), A)], axis=-1)


def by_points(parts: tuple[Part, ...], linear: LinearMap, origin: Array | None, products: Products) -> list[JetPoints]:
    """The parts grouped by the points they share."""
    groups: list[list[Part]] = []
    for part in parts:
        for group in groups:
            if same_points(group[0].atoms.points, part.atoms.points):
                group.append(part)
                break
        else:
            groups.append([part])
    found = []
    for group in groups:
        points = group[0].atoms.points
        centred = Atoms.values(points if origin is None else points - origin)
        here = None if linear is None else like(linear, points)
        found.append(JetPoints(centred.pushed(linear).points, tuple(group), here, products))
    return found


def same_points(one: Array, other: Array) -> bool:
    """Whether two arrays hold the same points in the same order."""
    return one is other or (one.shape == other.shape and bool(namespace(one).all(one == other)))


def _mapped(A: Array, linear: LinearMap) -> Array:
    """Gradient coefficients after the change of input: A'."""
    if linear is None:
        return A
    return A * linear if linear.ndim == 1 else A @ linear.T


def pulled_back(gradients: Array, linear: LinearMap) -> Array:
    """The gradient of f(A x) from that of f at A x."""
    if linear is None:
        return gradients
    return gradients * linear if linear.ndim == 1 else gradients @ linear


def _spread(atoms: Atoms, coefficients: Array) -> Array:
    """A_i = sum_a alpha_ia V_ia: (r, t, n) from (t k, r)."""
    xp = namespace(coefficients)
    t, k, r = atoms.points.shape[0], atoms.per_point, coefficients.shape[1]
    alpha = xp.reshape(coefficients, (t, k, r))
    if not atoms.shared:
        return xp.permute_dims(xp.matrix_transpose(alpha) @ atoms.directions[:, :, 0, :], (1, 0, 2))
    alpha = xp.permute_dims(alpha, (2, 0, 1))
    return xp.asarray(alpha, copy=True) if atoms.gradient else alpha @ atoms.directions[:, 0, :]


def _contracted(atoms: Atoms, gradients: Any) -> Array:
    """<V_ia, g_i>: (t k, r) from (r, t, n)."""
    xp = namespace(gradients)
    t, k, r = atoms.points.shape[0], atoms.per_point, gradients.shape[0]
    if not atoms.shared:
        found = atoms.directions[:, :, 0, :] @ xp.permute_dims(gradients, (1, 2, 0))  # (t, k, r)
    else:
        along = gradients if atoms.gradient else gradients @ atoms.directions[:, 0, :].T  # (r, t, k)
        found = xp.permute_dims(along, (1, 2, 0))
    return xp.reshape(found, (t * k, r))
