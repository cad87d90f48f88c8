"""Monotone features: f rises or falls with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rkhs.backend.arrays import Array, as_points
from rkhs.functionals import Functional, stack
from rkhs.functionals.derivatives import Derivative
from rkhs.invariances.base import Invariance
from rkhs.losses import OneSided


def Monotone(features: Mapping[int, int], weight: float = 1.0, on: str = "all") -> Invariance:
    """loss = max(0, -s_a df/dx_a (x_i)): f increases in feature a where s_a = +1, decreases where s_a = -1.

    Parameters
    ----------
    features : the number of each feature and its sign, +1 or -1
    weight, on : as in `Invariance`

    Examples
    --------
    >>> from rkhs.invariances import Monotone
    >>> Monotone({0: +1, 3: -1})
    Invariance(functional=Slopes(features=(0, 3), signs=(1, -1)), weight=1.0, loss=OneSided(), on='all', target=0.0)
    """
    if not features or any(sign not in (1, -1) for sign in features.values()):
        raise ValueError(f"Monotone needs a sign, +1 or -1, for each feature, such as {{0: +1}}, got {features!r}.")
    slopes = Slopes(tuple(int(a) for a in features), tuple(int(s) for s in features.values()))
    return Invariance(slopes, weight=weight, loss=OneSided(), on=on)


@dataclass(frozen=True)
class Slopes:
    """L_ia(f) = s_a df/dx_a (x_i) for some features a."""

    features: tuple[int, ...]
    signs: tuple[int, ...]

    def __call__(self, X: Array) -> Functional:
        """The signed partial derivatives at each row: flat, feature by feature."""
        points: Any = as_points(X)
        pairs = zip(self.features, self.signs, strict=True)
        return stack([float(sign) * Derivative(points, axes=[feature]) for feature, sign in pairs])
