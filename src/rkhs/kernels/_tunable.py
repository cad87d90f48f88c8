"""Parameters that are left open until `Problem.tune` finds them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from numbers import Real
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector


@dataclass(frozen=True, repr=False)
class Tunable:
    """A placeholder for a positive number that `Problem.tune` learns from the data.

    It may be used wherever a kernel or the weight of a term takes a positive number.

    Parameters
    ----------
    start : float, optional
        The initial value of the search; by default the best of several values derived from the data.
    low : float, optional
        The lower bound; by default derived from the data.
    high : float, optional
        The upper bound; by default derived from the data.
    each : bool, default=False
        Whether each feature has a separate length scale; for length scales only.
    shares : ndarray, optional
        Fixed relative weights that the number multiplies; set by ``Tunable() * weights``.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.Tunable() * rkhs.Gaussian(scale=rkhs.Tunable(each=True)) + rkhs.kernels.Linear()
    Tunable() * Gaussian(scale=Tunable(each=True)) + Linear()
    """

    start: float | None = None
    low: float | None = None
    high: float | None = None
    each: bool = False
    shares: Vector | None = field(default=None, compare=False)

    __array_ufunc__ = None  # NumPy must leave `array * Tunable()` to __rmul__

    def __post_init__(self) -> None:
        given = [name for name in ("low", "start", "high") if getattr(self, name) is not None]
        for name in given:
            value = getattr(self, name)
            if not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf):
                raise ValueError(f"Tunable needs a positive, finite {name}, got {value!r}.")
            object.__setattr__(self, name, float(value))
        values = [getattr(self, name) for name in given]
        if values != sorted(values):
            listed = ", ".join(f"{name}={value:g}" for name, value in zip(given, values, strict=True))
            raise ValueError(f"Tunable needs low <= start <= high, got {listed}.")

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("start", "low", "high") if (value := getattr(self, name)) is not None]
        factor = "" if self.shares is None else f" * {len(self.shares)} weights"
        return f"Tunable({', '.join([*given, 'each=True'] if self.each else given)}){factor}"

    def __mul__(self, shares: Any) -> Tunable:
        """Return weights of known proportions and tunable size."""
        if not isinstance(shares, (np.ndarray, list, tuple)):
            return NotImplemented
        return replace(self, shares=np.asarray(shares, dtype=np.float64).reshape(-1))

    __rmul__ = __mul__
