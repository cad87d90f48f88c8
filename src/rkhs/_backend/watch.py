"""Long work tells how far it is; whoever is told may end it, by an exception."""

from __future__ import annotations

from collections.abc import Callable

Watch = Callable[[float], None]  # told the share of the work that is done, after each piece of it


def unwatched(share: float) -> None:
    """Nobody is told."""


def part_of(watch: Watch, k: int, count: int) -> Watch:
    """For part k of so many that are about as long, told to the watch of the whole.

    Examples
    --------
    >>> part_of(print, 1, 4)(0.5)
    0.375
    """
    return lambda share: watch((k + share) / count)
