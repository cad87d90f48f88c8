"""Whether the parameters of a machine are those that it began to learn with."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from scipy.sparse import issparse

from rkhs._backend.arrays import owned, to_numpy
from rkhs.functionals import Functional

FREE = ("tol", "verbose", "random_state")  # which say nothing about the sums of the rows


def parameters(machine: Any) -> dict[str, Any]:
    """The parameters of a machine as they are now, whatever becomes of lists, dictionaries and arrays among them."""
    given = machine.get_params(deep=False)
    return {name: _kept(value) for name, value in given.items()}


def _kept(value: Any) -> Any:
    if is_array_api_obj(value):
        return owned(value)
    return copy(value) if isinstance(value, list | dict) else value


def check_unchanged(machine: Any, before: dict[str, Any]) -> None:
    """Refuse to go on learning with other parameters than before, and name them."""
    now = parameters(machine)
    changed = [name for name in now if name not in FREE and not same(now[name], before[name])]
    if changed:
        told = "; ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
        raise ValueError(
            f"The rows that {type(machine).__name__}.partial_fit has seen were added up with other parameters: {told}. "
            "Set these back, or start anew with sklearn.base.clone(machine)."
        )


def same(one: Any, other: Any) -> bool:
    """Whether two parameters are the same, or copies of the same.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.zeros((2, 1))
    >>> same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X.copy())))
    True
    >>> same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X + 1)))
    False
    """
    if one is other:
        return True
    if is_array_api_obj(one) or is_array_api_obj(other):
        return is_array_api_obj(one) == is_array_api_obj(other) and np.array_equal(to_numpy(one), to_numpy(other))
    if isinstance(one, float) and one != one:
        return isinstance(other, float) and other != other
    if type(one) is not type(other):
        return bool(one == other)  # numbers of several types
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Functional):
        return same((one.shape, one.parts), (other.shape, other.parts))
    if issparse(one):
        return one.shape == other.shape and (one != other).nnz == 0
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
