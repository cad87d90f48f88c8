"""Families for which there are formulas of their own: a value at each point, or the whole gradient."""

from __future__ import annotations

from rkhs.functionals.base import Functional, Part


def pointwise(family: Functional) -> Part | None:
    """The one part of a multiple of plain values, or of whole gradients; None for any other family.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.zeros((3, 2))
    >>> pointwise(2.0 * rkhs.Gradient(X)).weight, pointwise(rkhs.Laplacian(X))
    (2.0, None)
    """
    if len(family.parts) != 1:
        return None
    (part,) = family.parts
    if part.matrix is not None or part.atoms.blur is not None:
        return None
    values = part.atoms.order == 0 and part.atoms.per_point == 1
    return part if values or part.atoms.gradient else None
