"""Finite-dimensional spaces of functions on which atoms have known values: unpenalised bases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, apply_matrix, like, namespace
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.cubature import sharpen


class Space(ABC):
    """The span of finitely many basis functions p_1 .. p_r."""

    @abstractmethod
    def size(self, dimension: int) -> int:
        """The number r of basis functions over R^n."""

    @abstractmethod
    def on(self, atoms: Atoms) -> Array:
        """The value of each atom on each basis function: (atoms, r)."""

    def magnitude(self, atoms: Atoms) -> Array:
        """The same with absolute values all along: by how much the rounding of `on` grows, (atoms, r)."""
        return abs(self.on(atoms))

    def centred(self, points: Matrix) -> Space:
        """The same functions, on a basis that is seen from the middle of the points (t, n).

        A space that knows no coordinates of its own, or was centred before, is returned as it is.
        """
        return self

    def apply(self, functional: Any) -> Array:
        """P_ij = L_i(p_j), in the shape of the family x r."""
        matrix = functional.assemble(self.on)
        return namespace(matrix).reshape(matrix, (*functional.shape, matrix.shape[1]))


@dataclass(frozen=True, eq=False)
class SumOfSpaces(Space):
    """The span of several spaces; a function in two of them stands twice in the basis."""

    spaces: tuple[Space, ...]

    def size(self, dimension: int) -> int:
        return sum(space.size(dimension) for space in self.spaces)

    def on(self, atoms: Atoms) -> Array:
        return namespace(atoms.points).concat([space.on(atoms) for space in self.spaces], axis=1)

    def magnitude(self, atoms: Atoms) -> Array:
        return namespace(atoms.points).concat([space.magnitude(atoms) for space in self.spaces], axis=1)

    def centred(self, points: Matrix) -> SumOfSpaces:
        return SumOfSpaces(tuple(space.centred(points) for space in self.spaces))


@dataclass(frozen=True, eq=False)
class Functions(Space):
    """A basis of your own functions, which are not penalised.

    The span of the user's own functions: X (t, n) -> values (t, r), and -> gradients (t, r, n) where needed.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> waves = rkhs.Functions(np.sin, gradient=lambda X: np.cos(X)[:, :, None])
    >>> rkhs.Gradient(np.array([[0.0]]))(waves)
    array([[[1.]]])
    """

    values: Callable[[Array], Array]
    gradient: Callable[[Array], Array] | None = None

    def __repr__(self) -> str:
        name = getattr(self.values, "__name__", type(self.values).__name__)
        return f"Functions({name}{'' if self.gradient is None else ', with gradient'})"

    def size(self, dimension: int) -> int:
        return int(self.values(np.zeros((1, dimension))).shape[1])

    def on(self, atoms: Atoms) -> Array:
        return self._on(atoms, lambda numbers: numbers)

    def magnitude(self, atoms: Atoms) -> Array:
        return self._on(atoms, abs)

    def _on(self, atoms: Atoms, sized: Callable[[Any], Any]) -> Array:
        """The values of the atoms from `sized` numbers: as they are, or their absolute values."""
        if atoms.blur is not None:
            matrix, sharp = sharpen(atoms)
            return apply_matrix(sized(matrix), self._on(sharp, sized))
        if atoms.order == 0:
            return sized(self._checked(self.values(atoms.points), (int(atoms.points.shape[0]), None), atoms))
        if atoms.order > 1 or self.gradient is None:
            raise ValueError(
                f"A functional takes derivatives of order {atoms.order} of the basis functions, whose "
                f"{'second derivatives are not known' if self.gradient else 'gradient was not given'}: pass "
                "`gradient`, or use rkhs.Polynomials, which has all derivatives."
            )
        t, n = atoms.points.shape
        slopes = self._checked(self.gradient(atoms.points), (int(t), None, int(n)), atoms)  # (t, r, n)
        xp = namespace(slopes)
        along = xp.matrix_transpose(sized(slopes) @ xp.matrix_transpose(sized(atoms.u(0))))  # (t, k, r)
        return xp.reshape(along, (atoms.size, slopes.shape[1]))

    def _checked(self, values: Any, shape: tuple[int | None, ...], atoms: Atoms) -> Array:
        values = like(values, atoms.points)
        fits = len(values.shape) == len(shape) and all(
            want is None or want == got for want, got in zip(shape, values.shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("r" if n is None else str(n) for n in shape)
            raise ValueError(f"The basis functions returned shape {tuple(values.shape)}, expected ({wanted}).")
        return values
