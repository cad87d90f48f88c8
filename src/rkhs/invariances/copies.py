"""Transformed copies of the points, for machines that learn an invariance from virtual samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rkhs._backend.arrays import Array


@dataclass(frozen=True)
class Moved:
    """X -> T_k(X, amount): the rows moved in one of the ways of `ImageTangents`, `SignalTangents` or `Tangents`."""

    tangents: Any
    which: int
    amount: float

    def __call__(self, X: Array) -> Array:
        """The moved rows, of the shape of X."""
        return self.tangents.moved(X, self.amount)[:, self.which]


def copies(tangents: Any, amounts: Sequence[float] = (-1.0, 1.0)) -> list[Moved]:
    """The transformations of all kinds by all amounts, for `rkhs.VirtualSampleSVC`.

    Parameters
    ----------
    tangents : `ImageTangents`, `SignalTangents` or `Tangents`
    amounts : by how much, in the units of the tangents

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.invariances import ImageTangents, copies
    >>> transforms = copies(ImageTangents(shape=(8, 8), kinds=["translation", "rotation"]), amounts=(-1, 1))
    >>> len(transforms)  # down, right and rotation, forth and back
    6
    >>> model = rkhs.VirtualSampleSVC(transforms)
    """
    kinds = getattr(tangents, "kinds", None)
    singles = [tangents] if kinds is None else [replace(tangents, kinds=(kind,)) for kind in kinds]
    return [Moved(single, k, float(a)) for single in singles for k in range(len(single.names)) for a in amounts]
