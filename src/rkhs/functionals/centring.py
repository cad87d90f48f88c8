"""Spaces seen from the middle of the points of functionals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from rkhs._backend.arrays import to_numpy
from rkhs._calculus.spaces import Space
from rkhs.functionals.base import Functional

LOOK = 4096  # points of each array that are looked at, about


@overload
def centred(space: Space, families: Sequence[Functional]) -> Space: ...
@overload
def centred(space: Space | None, families: Sequence[Functional]) -> Space | None: ...
def centred(space: Space | None, families: Sequence[Functional]) -> Space | None:
    """The same functions on a basis for the points of the families (`Space.centred`).

    Examples
    --------
    >>> import rkhs
    >>> X = [[1.7e9], [1.7e9 + 1], [1.7e9 + 3]]
    >>> rkhs.Evaluation(X)(centred(rkhs.Polynomials(2), [rkhs.Evaluation(X)]))
    array([[ 1.    , -0.25  ,  0.0625],
           [ 1.    ,  0.    ,  0.    ],
           [ 1.    ,  0.5   ,  0.25  ]])
    """
    if space is None or not families:
        return space
    arrays = {id(part.atoms.points): part.atoms.points for family in families for part in family.parts}
    return space.centred(np.concatenate([to_numpy(a[:: max(1, int(a.shape[0]) // LOOK)]) for a in arrays.values()]))
