"""Kernels without a length scale: polynomials of the dot product, and powers of the distance.

Polynomials average exactly over Gaussian neighborhoods.  Polyharmonic and thin-plate kernels, powers of the distance,
are conditionally positive definite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from math import ceil, factorial, inf, perm
from numbers import Real
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, check_number, like, namespace
from rkhs._core.calculus.atoms import Pairing
from rkhs._core.calculus.forms import Form, derivative
from rkhs.kernels._base import FormKernel, Kernel


@dataclass(frozen=True)
class Polynomial(FormKernel):
    """The polynomial kernel.

        k(x, y) = (<x, y> + offset)^degree

    Its space is finite-dimensional, so every functional is bounded.  Local averages are exact.

    Parameters
    ----------
    degree : int
        The positive degree.
    offset : float, default=1.0
        The nonnegative offset; 0 is the homogeneous kernel.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.Polynomial(degree=2)([[1.0, 2.0]], [[3.0, 1.0]])
    array([[36.]])
    """

    degree: int
    offset: float = 1.0
    blurs = True

    def __post_init__(self) -> None:
        if not (isinstance(self.degree, Real) and self.degree >= 1 and self.degree % 1 == 0):
            raise ValueError(f"Polynomial needs a positive integer degree, got {self.degree!r}.")
        object.__setattr__(self, "degree", int(self.degree))
        check_number(self.offset, "offset of Polynomial", or_zero=True)  # negative ones are not positive definite

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(0, self.radial_derivatives, smooth=True)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """Return phi^(k)(q) = p (p-1) .. (p-k+1) (q + c)^(p-k), from the lowest power up; 0 above the degree."""
        xp = namespace(q)
        # p (p-1) .. (p-k+1) (q + c)^(p-k), each power from the one below
        base = q
        base += self.offset
        phi = {k: xp.zeros_like(q) for k in orders if k > self.degree}
        power = None
        for k in reversed(range(orders[0], min(orders[-1], self.degree) + 1)):
            power = _power(base, self.degree - k) if power is None else power * base
            phi[k] = power * float(perm(self.degree, k)) if k else power
        return phi

    def pair(self, pairing: Pairing) -> Array:
        if pairing.left.blur is None and pairing.right.blur is None:
            return super().pair(pairing)
        return pairing.flat(_averaged(pairing, self.degree, self.offset))


@dataclass(frozen=True)
class Linear(Polynomial):
    """The linear kernel.

        k(x, y) = <x, y>

    It is `Polynomial` with degree 1 and offset 0, which need not be given.

    Parameters
    ----------
    degree : int, default=1
        The degree.
    offset : float, default=0.0
        The offset.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.Linear()([[1.0, 2.0]], [[3.0, 1.0]])
    array([[5.]])
    """

    degree: int = 1
    offset: float = 0.0

    def __repr__(self) -> str:
        return "Linear()"


def _power(base: Array, exponent: int) -> Array:
    """Return base^exponent by multiplication, many times faster than the general power."""
    if exponent == 0:
        return namespace(base).ones_like(base)
    if exponent % 2:
        return base if exponent == 1 else base * _power(base, exponent - 1)
    return _power(base * base, exponent // 2)


def _averaged(pairing: Pairing, degree: int, offset: float) -> Array:
    """Return E (<x + z, y + w> + c)^p and its derivatives, z ~ N(0, C), w ~ N(0, D).

    It is p! times the coefficient of s^p in E exp(s (<x + z, y + w> + c)) = exp(Q(s)), where

        Q(s) = sum_k s^(2k+1) <y, (CD)^k x> + s^(2k+2)/2 (<x, D (CD)^k x> + <y, (CD)^k C y>)
               + sum_(k>0) s^2k tr (CD)^k / 2k  +  c s

    is quadratic in x and y, so that the formula of `rkhs._core.calculus.forms` holds with phi = exp, in the ring of
    truncated power series.
    """
    left, right = pairing.left, pairing.right
    n = left.dimension
    covariances = [np.zeros((n, n)) if side.blur is None else side.blur for side in (left, right)]
    C, D = (np.diag(blur) if blur.ndim == 1 else blur for blur in covariances)
    x, y = left.points[:, None, :], right.points[:, None, :]
    us, vs = ([side.u(i) for i in range(side.order)] for side in (left, right))
    powers = [np.eye(n)]  # powers of CD
    while len(powers) <= degree // 2:
        # (CD)^k, the terms of the Neumann series of (I - s^2 CD)^-1
        powers.append(powers[-1] @ C @ D)

    def series(odd: Any, even: Any) -> Series:
        """Return the series with coefficients odd(k) at s^(2k+1) and even(k) at s^(2k+2); None stands for zeros."""
        indices = ((j, odd, (j - 1) // 2) if j % 2 else (j, even, j // 2 - 1) for j in range(1, degree + 1))
        return Series(degree, {j: coefficient(k) for j, coefficient, k in indices if coefficient is not None})

    def cross(p: Array, q: Array) -> Any:
        """Return k -> q'(CD)^k p for p on the left and q on the right."""
        return lambda k: pairing.between(p @ like(powers[k].T, p), q)

    def on_left(p: Array, q: Array) -> Any:
        return lambda k: pairing.within_left(p @ like(D @ powers[k], p), q)

    def on_right(p: Array, q: Array) -> Any:
        return lambda k: pairing.within_right(p @ like(powers[k] @ C, p), q)

    # Q(s): its odd terms couple x with y, its even ones x with x and y with y
    exponent = series(
        lambda k: cross(x, y)(k) + (offset if k == 0 else 0.0),
        lambda k: (on_left(x, x)(k) + on_right(y, y)(k) + float(np.trace(powers[k + 1])) / (k + 1)) / 2,
    )
    slopes = [series(cross(u, y), on_left(u, x)) for u in us] + [series(cross(x, v), on_right(v, y)) for v in vs]
    m = len(us)
    curvatures = {(i, m + j): series(cross(u, v), None) for i, u in enumerate(us) for j, v in enumerate(vs)}
    for first, vectors, within in ((0, us, on_left), (m, vs, on_right)):
        for i, j in combinations(range(len(vectors)), 2):
            curvatures[first + i, first + j] = series(None, within(vectors[i], vectors[j]))
    # E (<x + z, y + w> + c)^p = p! [s^p] exp Q(s), differentiated in the ring of truncated series
    total: Series = derivative(dict.fromkeys(range(len(slopes) + 1), exponent.exp()), slopes, curvatures)
    top: Any = total.coefficients.get(degree, like(0.0, left.points))
    return factorial(degree) * top


@dataclass(frozen=True, eq=False)
class Series:
    """A power series c_0 + c_1 s + .. + c_p s^p mod s^(p+1).

    Coefficients that are missing are zero; the others are arrays that broadcast against each other.
    """

    degree: int  # p
    coefficients: dict[int, Array]

    def __add__(self, other: Series) -> Series:
        return self._sum([*self.coefficients.items(), *other.coefficients.items()])

    def __mul__(self, other: Series) -> Series:
        pairs = product(self.coefficients.items(), other.coefficients.items())
        return self._sum((i + j, a * b) for (i, a), (j, b) in pairs if i + j <= self.degree)

    def _sum(self, terms: Iterable[tuple[int, Array]]) -> Series:
        """Return the sum of terms a s^k, given as pairs (k, a)."""
        out: dict[int, Array] = {}
        for k, a in terms:
            out[k] = out[k] + a if k in out else a
        return Series(self.degree, out)

    def exp(self) -> Series:
        """Return the exponential of a series c without constant term, from (exp c)' = c' exp c."""
        out: dict[int, Array] = {0: 1.0}
        for k in range(1, self.degree + 1):
            # k e_k = sum_j j c_j e_(k-j)
            parts = [(j / k) * c * out[k - j] for j, c in self.coefficients.items() if k - j in out]
            if parts:
                out[k] = sum(parts)
        return Series(self.degree, out)


@dataclass(frozen=True)
class ConstantKernel(FormKernel):
    """The kernel of constant functions: a penalized offset.

        k(x, y) = 1,  so that |c| is the norm of the constant c

    In a sum, ``k + Tunable() * ConstantKernel()`` adds an offset that shrinks towards zero; for an offset without
    penalty use the basis `rkhs.Constant()`.

    Examples
    --------
    >>> import rkhs
    >>> (rkhs.kernels.Linear() + 4.0 * rkhs.kernels.ConstantKernel())([[1.0]], [[2.0], [0.0]])
    array([[6., 4.]])
    """

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(0, self.radial_derivatives, smooth=True)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        return {k: namespace(q).full_like(q, float(k == 0)) for k in orders}

    def blurred(self, covariance: Matrix) -> Kernel:
        return self


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
        check_number(self.power, "power of Polyharmonic")

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
        # s = r^2; phi = +-s^b, or +-s^b log(s) / 2
        s = xp.clip(q, tiny ** (1 / max(1.0, last - b)), None)
        log: Array = xp.log(s) if even or b % 0.5 else None
        power = xp.exp((b - last) * log) if b % 0.5 else _half_power(s, round(2 * (b - last)))
        sign = -1.0 if self.order % 2 else 1.0
        phi = {}
        for k in reversed(orders):
            slope, constant = (0.5, 0.0) if even else (0.0, 1.0)  # of d^k/ds^k phi = s^(b-k) (slope log s + constant)
            for i in range(k):
                # d/ds of s^(b-i) (slope log s + constant)
                slope, constant = (b - i) * slope, (b - i) * constant + slope
            factor = sign * (-2.0) ** k
            phi[k] = power * (factor * constant) if slope == 0 else power * (factor * slope * log + factor * constant)
            if k > orders[0]:
                power = power * s
        return phi


def _half_power(s: Array, twice: int) -> Array:
    """Return s^(twice/2) by square roots and products, many times faster than the general power."""
    if twice < 0:
        return 1 / _half_power(s, -twice)
    if twice % 2 == 0:
        return _power(s, twice // 2)
    root = namespace(s).sqrt(s)
    return root if twice == 1 else root * _power(s, twice // 2)


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
    >>> rkhs.kernels.ThinPlate(order=2)([[0.0, 0.0]], [[0.0, 2.0]]).round(6)
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
