"""Kernels of pushed inputs: k(x, y) = sum_i w_i k_i(A_i x, B_i y), where A_i and B_i do more than linear maps do.

What they are is said by `pushes`: numbers w_i, kernels k_i, and what becomes of atoms on either side.  `gram` pushes
whole families once, and then has the kernel k_i and its fast products; `pair` does the same with atoms at hand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from rkhs._backend.arrays import Array, as_points, as_real, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.maps import Circles, Map
from rkhs._calculus.pairing import Pairing
from rkhs.kernels.base import Kernel
from rkhs.kernels.gaussian import Gaussian


class Push(Protocol):
    """What becomes of atoms: one or several that are to be added up.  A `linear` one takes blurred atoms too."""

    linear: ClassVar[bool]

    def __call__(self, atoms: Atoms) -> tuple[Atoms, ...]: ...


class PushedKernel(Kernel):
    """A kernel that says what it makes of atoms: its field `kernel` sees what comes of them."""

    kernel: Kernel

    @abstractmethod
    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        """Numbers w_i and what becomes of atoms on the left and on the right; None for nothing.

        Where both are one object, a family with itself stays one.
        """

    def pair(self, pairing: Pairing) -> Array:
        total: Any = None
        for weight, on_left, on_right in self.pushes():
            lefts = (pairing.left,) if on_left is None else on_left(pairing.left)
            rights = (pairing.right,) if on_right is None else on_right(pairing.right)
            for left in lefts:
                for right in rights:
                    found = weight * self.kernel.pair(type(pairing)(left, right))
                    total = found if total is None else total + found
        return total

    def _check_definite(self) -> None:
        if self.kernel.order:
            raise ValueError(
                f"{type(self).__name__} needs a positive definite kernel, and {self.kernel!r} is one only "
                f"conditionally (of order {self.kernel.order}): use a kernel such as Gaussian or Matern."
            )


@dataclass(frozen=True)
class Composition(PushedKernel):
    """A kernel of features of the input, made by a smooth map phi with its Jacobian; also ``kernel @ phi``.

        k(x, y) = k_1(phi(x), phi(y))

    Functionals are pushed forward by the chain rule (`rkhs._calculus.maps`), so that slopes of f are exact.

    Parameters
    ----------
    kernel : a positive definite kernel
    map : `rkhs.kernels.Features(function, gradient)`, `rkhs.kernels.InverseDistances()`, or a map of your own

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> radius = rkhs.kernels.Features(lambda X: np.sum(X**2, axis=1)[:, None], gradient=lambda X: 2 * X[:, None, :])
    >>> k = rkhs.Gaussian(scale=1.0) @ radius
    >>> k([[3.0, 4.0]], [[5.0, 0.0]])  # of one radius
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

    def smoothness(self, dimension: int) -> float:
        return min(self.kernel.smoothness(self.map.image(dimension)), self.map.orders + 1.0)

    def smoother(self, order: int, dimension: int) -> str | None:
        if order > self.map.orders:
            return None
        inner = self.kernel.smoother(order, self.map.image(dimension))
        return None if inner is None else f"{inner} @ {self.map!r}"

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        pushed = _Sharp(self.map)
        yield 1.0, pushed, pushed

    def along(self, place: str, tangent: Kernel) -> Kernel:
        return Composition(tangent, self.map)

    def seen(self, X: Array) -> Array:
        return self.map.values(as_points(X))

    def resolved(self, X: Array) -> Kernel:
        return Composition(self.kernel.resolved(self.seen(X)), self.map)


@dataclass(frozen=True, eq=False)
class _Sharp:
    """Push by a map that is not linear: of a blurred atom it would have to know more."""

    map: Map
    linear: ClassVar[bool] = False

    def __call__(self, atoms: Atoms) -> tuple[Atoms, ...]:
        assert atoms.blur is None, "blurs are resolved before: see `blocks`"
        return self.map.pushed(atoms)


def Periodic(period: Any, scale: Any = 1.0) -> Composition:
    """Smooth functions that repeat themselves, such as those of the hour or of an angle.

        k(x, y) = exp(-d^2 / (2 scale^2)),  d^2 = sum_j (period_j / pi)^2 sin(pi (x_j - y_j) / period_j)^2

    Every function of its space has the period in each feature; near each other, points are as far apart as they are.
    It is the Gaussian kernel of points on circles.  With l = 2 pi scale / period it is MacKay's
    exp(-2 sin(pi d / period)^2 / l^2).

    Parameters
    ----------
    period : a positive number, or one for each feature
    scale : as of `Gaussian`

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Periodic(period=24.0, scale=3.0)([[1.0]], [[1.0], [25.0], [13.0]]).round(4)
    array([[1.    , 1.    , 0.0391]])
    """
    given = to_numpy(as_real(period, "period"))
    if given.ndim > 1 or given.size == 0 or not bool(((given > 0) & (given < float("inf"))).all()):
        raise ValueError(f"A period is positive, a number or one for each feature, got {period!r}.")
    return Composition(Gaussian(scale), Circles(tuple(map(float, given.reshape(-1).tolist()))))
