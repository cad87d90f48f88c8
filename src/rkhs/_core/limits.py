"""The sizes at which algorithms change their form, such as the number of rows up to which a matrix is stored.

They stand in one object so that a test can reach the code above a threshold with a problem of ten rows:

    with with_limits(tile_entries=8):
        ...

Only sizes belong here: what trades memory for time without changing the result beyond rounding, or what decides which
of two tested methods is used.  Constants of one algorithm stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    """Sizes at which algorithms change their form; each field says which one, its unit and where the number is from."""


_limits: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039  (frozen)


def limits() -> Limits:
    """Return the limits of the enclosing block."""
    return _limits.get()


@contextmanager
def with_limits(**changes: int | float) -> Iterator[Limits]:
    """Change limits within the block, also in threads that it starts by `map_in_threads`."""
    token = _limits.set(replace(_limits.get(), **changes))
    try:
        yield _limits.get()
    finally:
        _limits.reset(token)
