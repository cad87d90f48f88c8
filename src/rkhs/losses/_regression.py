"""Losses of the residual r = u - b, as interval losses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, cast

from rkhs._backend.arrays import Array
from rkhs.losses._base import Loss, positive
from rkhs.losses._interval import IntervalLoss, Quadratic


class HomogeneousLoss(IntervalLoss):
    """A loss that scales with a power of the unit of u, b and the parameters named in `lengths`."""

    lengths: ClassVar[tuple[str, ...]] = ()

    def in_units(self, unit: float) -> tuple[Loss, float]:
        scaled: Any = replace(cast(Any, self), **{name: getattr(self, name) * unit for name in self.lengths})
        return scaled, unit**-2 if self.width else 1 / unit


@dataclass(frozen=True)
class Squared(Quadratic, HomogeneousLoss):
    """The squared loss: the fastest to minimize, and the only one with posterior variances.

        loss = (u - b)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Squared().value(np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 4.])
    """

    quadratic = True

    # Direct formulas are faster than those of `IntervalLoss`, which matters for millions of functionals.
    def value(self, u: Array, b: Array) -> Array:
        return (u - b) ** 2

    def gradient(self, u: Array, b: Array) -> Array:
        return 2 * (u - b)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        return (u - b - s / 2) ** 2


@dataclass(frozen=True)
class _EpsilonLoss(HomogeneousLoss):
    """A loss that is zero within epsilon of the target."""

    epsilon: float
    lengths: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        positive(self, "epsilon", or_zero=True)

    def interval(self, b: Array) -> tuple[Array, Array]:
        return b - self.epsilon, b + self.epsilon


@dataclass(frozen=True)
class EpsilonInsensitive(_EpsilonLoss):
    """The epsilon-insensitive loss of support vector regression.

        loss = max(0, |u - b| - epsilon)

    Deviations up to epsilon have no loss, and outliers have little influence.

    Parameters
    ----------
    epsilon : float
        The nonnegative tolerance.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.EpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0. , 1.5])
    """


@dataclass(frozen=True)
class Absolute(EpsilonInsensitive):
    """The absolute loss, which is robust to outliers.

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
class SquaredEpsilonInsensitive(Quadratic, _EpsilonLoss):
    """The squared epsilon-insensitive loss.

        loss = max(0, |u - b| - epsilon)^2

    Parameters
    ----------
    epsilon : float
        The nonnegative tolerance.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.SquaredEpsilonInsensitive(epsilon=0.5).value(np.array([0.0, 3.0]), np.array([0.1, 1.0]))
    array([0.  , 2.25])
    """


@dataclass(frozen=True)
class Huber(Quadratic, HomogeneousLoss):
    """The Huber loss: squared near the target, linear far from it.

        loss = r^2 for |r| <= delta, delta (2 |r| - delta) beyond;  r = u - b

    It is `Squared` in the limit of large delta and grows like `Absolute` far from the target.

    Parameters
    ----------
    delta : float
        The positive residual at which the loss becomes linear.

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
    """The quantile (pinball) loss, whose minimizer is the tau-quantile.

        loss = tau (b - u) below the target, (1 - tau) (u - b) above

    Parameters
    ----------
    tau : float
        The level of the quantile, between 0 and 1.

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


class _LowerBoundLoss(HomogeneousLoss):
    """A loss that is zero above the target."""

    def interval(self, b: Array) -> tuple[Array, Array]:
        return b, b * 0 + inf


@dataclass(frozen=True)
class OneSided(_LowerBoundLoss):
    """The linear penalty of an inequality u >= b.

        loss = max(0, b - u)

    With target 0 it makes f increasing if applied to derivatives, convex if applied to second derivatives, and
    positive if applied to values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.OneSided().value(np.array([-1.0, 3.0]), np.array([0.0, 0.0]))
    array([1., 0.])
    """


@dataclass(frozen=True)
class SquaredOneSided(Quadratic, _LowerBoundLoss):
    """The squared penalty of an inequality u >= b.

        loss = max(0, b - u)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredOneSided().value(np.array([-2.0, 3.0]), np.array([0.0, 0.0]))
    array([4., 0.])
    """
