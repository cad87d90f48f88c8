"""Polynomial kernels, and their exact averages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import factorial, inf, perm
from numbers import Real
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, namespace
from rkhs._calculus.atoms import Pairing
from rkhs._calculus.forms import Form, derivative
from rkhs.kernels._base import FormKernel, Kernel


@dataclass(frozen=True)
class Polynomial(FormKernel):
    """The polynomial kernel.

        k(x, y) = (<x, y> + offset)^degree;  offset 0 is the homogeneous kernel

    Its space is finite-dimensional, so every functional is bounded.  Local averages are exact.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Polynomial(degree=2)([[1.0, 2.0]], [[3.0, 1.0]])
    array([[36.]])
    """

    degree: int
    offset: float = 1.0
    blurs = True

    def __post_init__(self) -> None:
        if not (isinstance(self.degree, Real) and self.degree >= 1 and self.degree % 1 == 0):
            raise ValueError(f"Polynomial needs a positive integer degree, got {self.degree!r}.")
        object.__setattr__(self, "degree", int(self.degree))
        if not (isinstance(self.offset, Real) and 0 <= self.offset < inf):
            raise ValueError(f"Polynomial needs an offset >= 0 to be positive definite, got {self.offset!r}.")

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(0, self.radial_derivatives, smooth=True)

    def radial_derivatives(self, q: Array, orders: range) -> dict[int, Array]:
        """p (p-1) .. (p-k+1) (q + c)^(p-k), from the lowest power up; 0 past the degree."""
        xp = namespace(q)
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
    """The linear kernel: linear functions.

        k(x, y) = <x, y>

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
    """base^exponent by multiplication, many times faster than the general power."""
    if exponent == 0:
        return namespace(base).ones_like(base)
    if exponent % 2:
        return base if exponent == 1 else base * _power(base, exponent - 1)
    return _power(base * base, exponent // 2)


def _averaged(pairing: Pairing, degree: int, offset: float) -> Array:
    """E (<x + z, y + w> + c)^p and its derivatives, z ~ N(0, C), w ~ N(0, D).

    It is p! times the coefficient of s^p in E exp(s (<x + z, y + w> + c)) = exp(Q(s)), where

        Q(s) = sum_k s^(2k+1) <y, (CD)^k x> + s^(2k+2)/2 (<x, D (CD)^k x> + <y, (CD)^k C y>)
               + sum_(k>0) s^2k tr (CD)^k / 2k  +  c s

    is quadratic in x and y, so the formula of `forms` holds with phi = exp, in the ring of series.
    """
    left, right = pairing.left, pairing.right
    n = left.dimension
    covariances = [np.zeros((n, n)) if side.blur is None else side.blur for side in (left, right)]
    C, D = (np.diag(blur) if blur.ndim == 1 else blur for blur in covariances)
    x, y = left.points[:, None, :], right.points[:, None, :]
    us, vs = ([side.u(i) for i in range(side.order)] for side in (left, right))
    powers = [np.eye(n)]  # of CD
    while len(powers) <= degree // 2:
        powers.append(powers[-1] @ C @ D)

    def series(odd: Any, even: Any) -> Series:
        """Return coefficients odd(k) at s^(2k+1) and even(k) at s^(2k+2), zero where these are None."""
        either = [(odd, (j - 1) // 2) if j % 2 else (even, j // 2 - 1) for j in range(1, degree + 1)]
        return Series((None, *(None if own is None else own(k) for own, k in either)))

    def cross(p: Array, q: Array) -> Any:
        """p on the left, q on the right: q'(CD)^k p."""
        return lambda k: pairing.between(p @ like(powers[k].T, p), q)

    def on_left(p: Array, q: Array) -> Any:
        return lambda k: pairing.within_left(p @ like(D @ powers[k], p), q)

    def on_right(p: Array, q: Array) -> Any:
        return lambda k: pairing.within_right(p @ like(powers[k] @ C, p), q)

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
    total: Series = derivative(dict.fromkeys(range(len(slopes) + 1), exponent.exp()), slopes, curvatures)
    top = total.coefficients[degree]
    return factorial(degree) * (top if top is not None else like(0.0, left.points))


@dataclass(frozen=True, eq=False)
class Series:
    """c_0 + c_1 s + .. + c_p s^p mod s^(p+1); a coefficient None is zero, and all broadcast."""

    coefficients: tuple[Array | None, ...]

    def __add__(self, other: Series) -> Series:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Series(tuple(_add(a, b) for a, b in pairs))

    def __mul__(self, other: Series) -> Series:
        out: list[Array | None] = [None] * len(self.coefficients)
        for i, a in enumerate(self.coefficients):
            for j, b in enumerate(other.coefficients[: len(out) - i]):
                if a is not None and b is not None:
                    out[i + j] = _add(out[i + j], a * b)
        return Series(tuple(out))

    def exp(self) -> Series:
        """exp of a series without constant term, from (exp c)' = c' exp c."""
        out: list[Array | None] = [1.0] + [None] * (len(self.coefficients) - 1)
        for k in range(1, len(out)):
            for j in range(1, k + 1):
                c, e = self.coefficients[j], out[k - j]
                if c is not None and e is not None:
                    out[k] = _add(out[k], (j / k) * c * e)
        return Series(tuple(out))


def _add(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


@dataclass(frozen=True)
class ConstantKernel(FormKernel):
    """The constant functions as a kernel: an offset that is penalized.

        k(x, y) = 1,  and |c| is the norm of the constant c

    In a sum, `k + Tunable() * ConstantKernel()`, it is an offset that is drawn to zero; one that is not is the basis
    `rkhs.Constant()`.

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
