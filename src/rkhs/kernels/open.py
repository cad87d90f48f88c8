"""Settings that are left open: positive numbers that `Problem.tune` finds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True, repr=False)
class Open:
    """A positive number that is not known yet; made by `learn`."""

    start: float | None = None
    low: float | None = None
    high: float | None = None
    each: bool = False
    shares: np.ndarray[Any, Any] | None = field(default=None, compare=False)  # what it is multiplied with, in a term

    __array_ufunc__ = None  # so that `array * learn()` comes to us

    def __post_init__(self) -> None:
        given = [name for name in ("low", "start", "high") if getattr(self, name) is not None]
        for name in given:
            value = getattr(self, name)
            if not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf):
                raise ValueError(f"learn needs a positive, finite {name}, got {value!r}.")
            object.__setattr__(self, name, float(value))
        values = [getattr(self, name) for name in given]
        if values != sorted(values):
            told = ", ".join(f"{name}={value:g}" for name, value in zip(given, values, strict=True))
            raise ValueError(f"learn needs low <= start <= high, got {told}.")

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("start", "low", "high") if (value := getattr(self, name)) is not None]
        factor = "" if self.shares is None else f" * {len(self.shares)} weights"
        return f"learn({', '.join([*given, 'each=True'] if self.each else given)}){factor}"

    def __mul__(self, shares: Any) -> Open:
        """`learn() * weights`: weights of which only the size is open."""
        if not isinstance(shares, (np.ndarray, list, tuple)):
            return NotImplemented
        return replace(self, shares=np.asarray(shares, dtype=np.float64).reshape(-1))

    __rmul__ = __mul__


def learn(start: float | None = None, low: float | None = None, high: float | None = None, each: bool = False) -> Open:
    """A setting that `Problem.tune` is to find, wherever a positive number may stand.

    Parameters
    ----------
    start, low, high : where the search begins, and its bounds; taken from the data where they are not given: a start is
        then the best of several
    each : of a `scale`, whether each feature has its own

    Examples
    --------
    >>> import rkhs
    >>> rkhs.learn() * rkhs.Gaussian(scale=rkhs.learn(each=True)) + rkhs.Linear()
    learn() * Gaussian(scale=learn(each=True)) + Linear()
    """
    return Open(start, low, high, each)
