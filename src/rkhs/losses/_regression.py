"""Losses of the residual r = u - b, by the interval that costs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, cast

from rkhs._backend.arrays import Array
from rkhs.losses._base import Loss, positive
from rkhs.losses._interval import IntervalLoss, Quadratic


class HomogeneousLoss(IntervalLoss):
    """A loss whose only lengths are u, b and the settings that `lengths` names: a power of the unit comes out of it."""

    lengths: ClassVar[tuple[str, ...]] = ()

    def in_units(self, unit: float) -> tuple[Loss, float]:
        longer: Any = replace(cast(Any, self), **{name: getattr(self, name) * unit for name in self.lengths})
        return longer, unit**-2 if self.width else 1 / unit


@dataclass(frozen=True)
class Squared(Quadratic, HomogeneousLoss):
    """Squared loss: the fastest, and the one with error bars.

        loss = (u - b)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Squared().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 4.])
    """

    quadratic = True

    def value(self, u: Array, b: Array) -> Array:  # these two as they are: there may be millions
        return (u - b) ** 2

    def gradient(self, u: Array, b: Array) -> Array:
        return 2 * (u - b)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        return (u - b - s / 2) ** 2


@dataclass(frozen=True)
class _Tolerant(HomogeneousLoss):
    """A loss that is zero within epsilon of the target."""

    epsilon: float
    lengths: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        positive(self, "epsilon", or_zero=True)

    def interval(self, b: Array) -> tuple[Array, Array]:
        return b - self.epsilon, b + self.epsilon


@dataclass(frozen=True)
class EpsilonInsensitive(_Tolerant):
    """Absolute loss beyond a tolerance: facts hold within epsilon, a few not at all.

        loss = max(0, |u - b| - epsilon)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.EpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0. , 1.5])
    """


@dataclass(frozen=True)
class Absolute(EpsilonInsensitive):
    """Absolute loss: a few facts may be far off.

        loss = |u - b|

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Absolute().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 2.])
    """

    epsilon: float = field(default=0.0, init=False, repr=False)
    lengths: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(Quadratic, _Tolerant):
    """Squared loss beyond a tolerance.

        loss = max(0, |u - b| - epsilon)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.SquaredEpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0.  , 2.25])
    """


@dataclass(frozen=True)
class Huber(Quadratic, HomogeneousLoss):
    """Squared loss near the target, absolute far from it.

        loss = r^2 for |r| <= delta, delta (2 |r| - delta) beyond;  r = u - b

    It is `Squared` near the target, and everywhere for delta -> infinity, and grows like `Absolute` far from it.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Huber(delta=1.0).value(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.25, 5.  ])
    """

    delta: float
    lengths: ClassVar[tuple[str, ...]] = ("delta",)

    def __post_init__(self) -> None:
        positive(self, "delta")
        object.__setattr__(self, "slopes", (2 * self.delta, 2 * self.delta))


@dataclass(frozen=True)
class Quantile(HomogeneousLoss):
    """Loss whose minimizer is a quantile.

        loss = tau (b - u) below the target, (1 - tau) (u - b) above: its minimizer is the tau-quantile

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
        positive(self, "tau")
        object.__setattr__(self, "slopes", (self.tau, 1 - self.tau))


class _Above(HomogeneousLoss):
    """A loss that is zero above the target."""

    def interval(self, b: Array) -> tuple[Array, Array]:
        return b, b * 0 + inf


@dataclass(frozen=True)
class OneSided(_Above):
    """Loss for inequalities: nothing above the target, linear below.

        loss = max(0, b - u): only what is below the target is penalized

    On derivatives with target 0 it makes f increasing, on second derivatives convex, on values positive.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.OneSided().value(np.array([-1.0, 3.0]), np.array([0.0, 0.0]))
    array([1., 0.])
    """


@dataclass(frozen=True)
class SquaredOneSided(Quadratic, _Above):
    """Loss for inequalities: nothing above the target, squared below.

        loss = max(0, b - u)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredOneSided().value(np.array([-2.0, 3.0]), np.array([0.0, 0.0]))
    array([4., 0.])
    """
