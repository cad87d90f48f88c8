"""Losses of the margin m = b u, for classes b in {-1, +1}: margins of 1 and more cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rkhs._backend.arrays import Array, namespace
from rkhs.losses.base import positive
from rkhs.losses.interval import IntervalLoss
from rkhs.losses.regression import SQUARED


@dataclass(frozen=True)
class Hinge(IntervalLoss):
    """Hinge loss, for classes: that of the support vector machine.

        loss = max(0, 1 - b u)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Hinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([1.5, 0. ])
    """

    classification = True

    def interval(self, b: Array) -> tuple[Array, Array]:
        return _right_side(b)


@dataclass(frozen=True)
class SquaredHinge(IntervalLoss):
    """Squared hinge loss, for classes: smooth, so faster than the hinge.

        loss = max(0, 1 - b u)^2

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SquaredHinge().value(np.array([0.5, 3.0]), np.array([-1.0, 1.0]))
    array([2.25, 0.  ])
    """

    classification = True
    smooth = True
    width = SQUARED

    def interval(self, b: Array) -> tuple[Array, Array]:
        return _right_side(b)

    def slopes(self) -> tuple[float, float]:
        return inf, inf


@dataclass(frozen=True)
class SmoothedHinge(IntervalLoss):
    """Hinge loss with its corner rounded, for classes.

        loss = (1 - m)^2 / (2 width) for margins m = b u between 1 - width and 1, linear below, 0 above

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.SmoothedHinge(width=1.0).value(np.array([0.5, 3.0, -1.0]), np.array([1.0, 1.0, 1.0]))
    array([0.125, 0.   , 1.5  ])
    """

    width: float
    classification = True
    smooth = True

    def __post_init__(self) -> None:
        positive(self, "width")

    def interval(self, b: Array) -> tuple[Array, Array]:
        return _right_side(b)


def _right_side(b: Array) -> tuple[Array, Array]:
    """[1, infinity) for the class +1, (-infinity, -1] for -1."""
    xp = namespace(b)
    far = xp.full_like(b, inf)
    return xp.where(b > 0, b, -far), xp.where(b > 0, far, b)
