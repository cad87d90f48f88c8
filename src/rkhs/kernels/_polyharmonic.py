"""Polyharmonic and thin-plate kernels: conditionally positive definite, without a length scale."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, prod
from numbers import Real

from rkhs._backend.arrays import Array, namespace
from rkhs._calculus.forms import Form
from rkhs.kernels._base import FormKernel


@dataclass(frozen=True)
class Polyharmonic(FormKernel):
    """The polyharmonic kernel: a power of the distance, without a length scale: other units only scale its norm.

        k(x, y) = +-r^power, or +-r^power log r for an even power;  r = |x - y|

    The sign makes it conditionally positive definite in every dimension: of order ceil(power / 2), or power/2 + 1 for
    an even power.  Power 2 is the r^2 log r of thin-plate splines.  Derivatives of order m are bounded functionals iff
    2m < power.  If the null space of an even power is dropped from a problem, its functions depend on the units of the
    points by polynomials of degree below power / 2, unless these are in the basis.

    Parameters
    ----------
    power : float
        The positive power of the distance.

    Examples
    --------
    >>> import rkhs
    >>> k = rkhs.kernels.Polyharmonic(power=2)
    >>> k.order, k.null_space
    (2, Polynomials(degree=1))
    """

    power: float

    def __post_init__(self) -> None:
        if not (isinstance(self.power, Real) and 0 < self.power < inf):
            raise ValueError(f"Polyharmonic needs a positive power, got {self.power!r}.")

    @property
    def order(self) -> int:
        return int(self.power) // 2 + 1 if self.power % 2 == 0 else ceil(self.power / 2)

    def smoothness(self, dimension: int) -> float:
        return self.power / 2

    def smoother(self, order: int, dimension: int) -> str:
        return f"Polyharmonic(power={2 * order + 1})"

    def form(self, dimension: int) -> Form:
        return Form(1, self.radial_derivatives, smooth=False)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return phi^(k)(q) for the orders k.

        In s = r^2 = -2q, d/dq = -2 d/ds; phi is s^b with b = power/2, or s^b log(s)/2.  A floor on s keeps derivatives
        that are singular at 0 finite; the derivatives of q that multiply them vanish there faster.
        """
        xp = namespace(q)
        b, last, even = self.power / 2, orders[-1], self.power % 2 == 0
        tiny = 2.0**16 * float(xp.finfo(q.dtype).smallest_normal)
        q *= -2
        s = xp.clip(q, tiny ** (1 / max(1.0, last - b)), None)
        log: Array = xp.log(s) if even or b % 0.5 else None
        power = xp.exp((b - last) * log) if b % 0.5 else _half_power(s, round(2 * (b - last)))
        sign = -1.0 if self.order % 2 else 1.0
        if not even:
            phi = {last: power * (sign * (-2.0) ** last * prod(b - i for i in range(last)))}
            for k in reversed(orders[:-1]):
                phi[k] = phi[k + 1] * s
                phi[k] *= -0.5 / (b - k)
            return phi
        phi = {}
        for k in reversed(orders):
            slope, constant = 1.0, 0.0  # d^k/ds^k (s^b log s) = s^(b-k) (slope log s + constant)
            for i in range(k):
                slope, constant = (b - i) * slope, (b - i) * constant + slope
            phi[k] = log * (sign * (-2.0) ** k * slope / 2)
            phi[k] += sign * (-2.0) ** k * constant / 2
            phi[k] *= power
            if k > orders[0]:
                power = power * s
        return phi


def _half_power(s: Array, twice: int) -> Array:
    """Return s^(twice/2) by square roots and products, many times faster than the general power."""
    xp = namespace(s)
    if twice < 0:
        return 1 / _half_power(s, -twice)
    if twice % 2:
        root = xp.sqrt(s)
        return root if twice == 1 else root * _half_power(s, twice - 1)
    if twice <= 2:
        return s if twice else xp.ones_like(s)
    return s * _half_power(s, twice - 2)


@dataclass(frozen=True)
class ThinPlate(FormKernel):
    """The thin-plate spline kernel, without a length scale: other units only scale its norm.

        k(x, y) = +-r^(2m-d), or +-r^(2m-d) log r for even d, of order m in R^d, d < 2m;  r = |x - y|

    The integral of all squared m-th derivatives is its squared norm times a constant, which is 12 for m = 2 and d = 1,
    and 8 pi for m = 2 and d = 2 or 3.  The kernel is conditionally positive definite of order m, and its null space is
    the polynomials of degree below m.  In higher dimensions use `Polyharmonic`, which has another
    norm but whose order does not grow with the dimension.

    Parameters
    ----------
    order : int, default=2
        The order m of the derivatives in the norm; 2 is the bending energy.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.ThinPlate(order=2)([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
    array([[2.772589]])
    """

    order: int = 2

    def __post_init__(self) -> None:
        if not (isinstance(self.order, Real) and self.order >= 1 and self.order % 1 == 0):
            raise ValueError(f"ThinPlate needs a positive integer order, got {self.order!r}.")
        object.__setattr__(self, "order", int(self.order))

    def smoothness(self, dimension: int) -> float:
        return self.in_dimension(dimension).power / 2

    def smoother(self, order: int, dimension: int) -> str:
        return f"ThinPlate(order={order + dimension // 2 + 1})"

    def in_dimension(self, dimension: int) -> Polyharmonic:
        """Return the polyharmonic kernel of power 2m - d, which is the same function of x and y.

        Parameters
        ----------
        dimension : int
            The number d of features.

        Returns
        -------
        Polyharmonic
            The kernel.
        """
        if 2 * self.order <= dimension:
            raise ValueError(
                f"{self!r} does not exist in R^{dimension}: it needs 2 * order > {dimension}. "
                f"Use ThinPlate(order={dimension // 2 + 1}), or Polyharmonic(power=2), which exists in every dimension."
            )
        return Polyharmonic(power=2 * self.order - dimension)

    def form(self, dimension: int) -> Form:
        return self.in_dimension(dimension).form(dimension)
