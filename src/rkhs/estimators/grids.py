"""The grids of the cross-validated machines."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from rkhs.estimators.options import check_number

C_RANGE = (0, 3)  # powers of ten
NU_RANGE = (0, 2)
WIDE_C_RANGE = (-1, 8)  # where leave-one-out errors choose
GRAPH_RANGE = (2, 8)  # of graphs


def as_grid(values: Any, parameter: str, powers: tuple[int, int], *, with_zero: bool = False) -> list[float]:
    """Numbers as they are given; for an integer so many over the range, in equal ratios, zero among them if wanted."""
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{parameter} must be a positive number of values, or the values, got {values!r}.")
        count = int(values) - with_zero
        return [0.0] * with_zero + [float(v) for v in np.logspace(*powers, count)]
    return [check_number(v, parameter, or_zero=with_zero) for v in as_list(values)]


def as_list(values: Any) -> list[Any]:
    """A list, also from a single value."""
    several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    found = list(values) if several else [values]
    if not found:
        raise ValueError("A grid needs at least one value.")
    return found
