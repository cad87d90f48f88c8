"""`cv_results_` in short, for files: hundreds of candidates share a few values of each parameter, kept once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector


@dataclass(frozen=True, eq=False)
class Column:
    """Values of which many are the same: the different ones, and which of them each is.

    Examples
    --------
    >>> column = Column.of(["near", None, "near"])
    >>> column.different, column.which.tolist(), column.values()
    (['near', None], [0, 1, 0], ['near', None, 'near'])
    """

    different: list[Any]
    which: Vector

    @classmethod
    def of(cls, values: Iterable[Any]) -> Column:
        """Texts and numbers are the same if they look so, objects if they are."""
        places: dict[Any, int] = {}
        different, which = list[Any](), list[int]()
        for value in values:
            key = (type(value), repr(value)) if _plain(value) else id(value)
            if key not in places:
                places[key] = len(different)
                different.append(value)
            which.append(places[key])
        return cls(different, np.array(which, dtype=np.int32))

    def values(self) -> list[Any]:
        """All of them."""
        return [self.different[k] for k in self.which]


@dataclass(frozen=True, eq=False)
class Results:
    """What `cv_results_` holds, in its order; `params` by name, and arrays of objects as columns."""

    entries: dict[str, Any]

    @classmethod
    def of(cls, results: dict[str, Any]) -> Results:
        """In short."""
        return cls({name: _short(value) for name, value in results.items()})

    def whole(self) -> dict[str, Any]:
        """As it was."""
        return {name: _whole(value) for name, value in self.entries.items()}


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, str | float | int | np.number)


def _short(value: Any) -> Any:
    if isinstance(value, list):  # params: a dict for each candidate, all with the same names
        return {name: Column.of(one[name] for one in value) for name in value[0]}
    objects = isinstance(value, np.ma.MaskedArray) and value.dtype == object and value.ndim == 1
    return Column.of(value.data) if objects else value


def _whole(value: Any) -> Any:
    if isinstance(value, Column):
        data = np.empty(len(value.which), dtype=object)
        data[:] = value.values()
        return np.ma.masked_array(data, mask=False)
    if isinstance(value, dict):
        columns = [column.values() for column in value.values()]
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    return value
