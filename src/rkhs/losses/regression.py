"""Losses of the residual u - b."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs.backend.arrays import Array, namespace
from rkhs.losses.base import Loss


@dataclass(frozen=True)
class Squared(Loss):
    """loss = (u - b)^2.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Squared().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 4.])
    """

    smooth = True
    quadratic = True

    def value(self, u: Array, b: Array) -> Array:
        return (u - b) ** 2

    def gradient(self, u: Array, b: Array) -> Array:
        return 2 * (u - b)

    def curvature(self, u: Array, b: Array) -> Array:
        return namespace(u).zeros_like(u + b) + 2

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return (u + 2 * step * b) / (1 + 2 * step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b + s**2 / 4

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - inf, b * 0 + inf


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """loss = max(0, |u - b| - epsilon).

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.EpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0. , 1.5])
    """

    epsilon: float

    def __post_init__(self) -> None:
        _nonnegative(self, "epsilon", self.epsilon)

    def value(self, u: Array, b: Array) -> Array:
        return _plus(abs(u - b) - self.epsilon)

    def gradient(self, u: Array, b: Array) -> Array:
        xp = namespace(u)
        return xp.where(abs(u - b) > self.epsilon, xp.sign(u - b), xp.zeros_like(u - b))

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        r = u - b
        return u - namespace(u).sign(r) * _at_most(_plus(abs(r) - self.epsilon), step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b + self.epsilon * abs(s)

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - 1, b * 0 + 1


@dataclass(frozen=True)
class Absolute(EpsilonInsensitive):
    """loss = |u - b|.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Absolute().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 2.])
    """

    epsilon: float = 0.0

    def __repr__(self) -> str:
        return "Absolute()"


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Loss):
    """loss = max(0, |u - b| - epsilon)^2.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredEpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0.  , 2.25])
    """

    epsilon: float
    smooth = True

    def __post_init__(self) -> None:
        _nonnegative(self, "epsilon", self.epsilon)

    def value(self, u: Array, b: Array) -> Array:
        return _plus(abs(u - b) - self.epsilon) ** 2

    def gradient(self, u: Array, b: Array) -> Array:
        return 2 * namespace(u).sign(u - b) * _plus(abs(u - b) - self.epsilon)

    def curvature(self, u: Array, b: Array) -> Array:
        return 2.0 * _indicator(abs(u - b) > self.epsilon, u - b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        r = u - b
        return u - namespace(u).sign(r) * _plus(abs(r) - self.epsilon) * (2 * step / (1 + 2 * step))

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b + self.epsilon * abs(s) + s**2 / 4

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - inf, b * 0 + inf


@dataclass(frozen=True)
class Huber(Loss):
    """loss = r^2 for |r| <= delta, delta (2 |r| - delta) beyond;  r = u - b.

    It is `Squared` near the target and grows like `Absolute` far from it.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Huber(delta=1.0).value(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.25, 5.  ])
    """

    delta: float
    smooth = True

    def __post_init__(self) -> None:
        _positive(self, "delta", self.delta)

    def value(self, u: Array, b: Array) -> Array:
        near = _at_most(abs(u - b), self.delta)
        return near * (2 * abs(u - b) - near)

    def gradient(self, u: Array, b: Array) -> Array:
        return 2 * namespace(u).clip(u - b, -self.delta, self.delta)

    def curvature(self, u: Array, b: Array) -> Array:
        return 2.0 * _indicator(abs(u - b) <= self.delta, u - b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        r = u - b
        shift = _at_most(abs(r) * (2 * step / (1 + 2 * step)), 2 * step * self.delta)
        return u - namespace(u).sign(r) * shift

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b + s**2 / 4

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - 2 * self.delta, b * 0 + 2 * self.delta


@dataclass(frozen=True)
class Quantile(Loss):
    """loss = tau (b - u) below the target, (1 - tau) (u - b) above: its minimiser is the tau-quantile.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Quantile(tau=0.9).value(np.array([0.0, 2.0]), np.array([1.0, 1.0])).round(2)
    array([0.9, 0.1])
    """

    tau: float

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ValueError(f"{type(self).__name__} needs 0 < tau < 1, got {self.tau!r}.")

    def value(self, u: Array, b: Array) -> Array:
        return self.tau * _plus(b - u) + (1 - self.tau) * _plus(u - b)

    def gradient(self, u: Array, b: Array) -> Array:
        return (1 - self.tau) * _indicator(u > b, u - b) - self.tau * _indicator(u < b, u - b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        r = u - b
        return u + _at_most(_plus(-r), self.tau * step) - _at_most(_plus(r), (1 - self.tau) * step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - self.tau, b * 0 + (1 - self.tau)


@dataclass(frozen=True)
class OneSided(Loss):
    """loss = max(0, b - u): only what is below the target is penalised.

    On derivatives with target 0 it makes f increasing, on second derivatives convex, on values positive.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.OneSided().value(np.array([-1.0, 3.0]), np.array([0.0, 0.0]))
    array([1., 0.])
    """

    def value(self, u: Array, b: Array) -> Array:
        return _plus(b - u)

    def gradient(self, u: Array, b: Array) -> Array:
        return -_indicator(u < b, u - b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return u + _at_most(_plus(b - u), step)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - 1, b * 0


@dataclass(frozen=True)
class SquaredOneSided(Loss):
    """loss = max(0, b - u)^2.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredOneSided().value(np.array([-2.0, 3.0]), np.array([0.0, 0.0]))
    array([4., 0.])
    """

    smooth = True

    def value(self, u: Array, b: Array) -> Array:
        return _plus(b - u) ** 2

    def gradient(self, u: Array, b: Array) -> Array:
        return -2 * _plus(b - u)

    def curvature(self, u: Array, b: Array) -> Array:
        return 2.0 * _indicator(u < b, u - b)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        return u + _plus(b - u) * (2 * step / (1 + 2 * step))

    def _conjugate(self, s: Array, b: Array) -> Array:
        return s * b + s**2 / 4

    def domain(self, b: Array) -> tuple[Array, Array]:
        return b * 0 - inf, b * 0


def _plus(r: Array) -> Array:
    """max(0, r)."""
    return namespace(r).clip(r, 0, None)


def _at_most(r: Array, bound: Any) -> Array:
    """min(r, bound), for a number or an array."""
    xp = namespace(r)
    return xp.minimum(r, bound + xp.zeros_like(r))


def _indicator(condition: Array, like: Array) -> Array:
    """1 where the condition holds, else 0."""
    xp = namespace(like)
    return xp.astype(condition, like.dtype)


def _nonnegative(loss: Loss, name: str, value: float) -> None:
    if not (value >= 0 and value < inf):
        raise ValueError(f"{type(loss).__name__} needs {name} >= 0, got {value!r}.")


def _positive(loss: Loss, name: str, value: float) -> None:
    if not (value > 0 and value < inf):
        raise ValueError(f"{type(loss).__name__} needs {name} > 0, got {value!r}.")
