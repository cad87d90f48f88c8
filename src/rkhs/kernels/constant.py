"""The constant kernel: a penalised offset."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, namespace
from rkhs._calculus.forms import Form
from rkhs.kernels.base import FormKernel, Kernel


@dataclass(frozen=True)
class ConstantKernel(FormKernel):
    """The constant functions as a kernel: an offset that is penalised.

        k(x, y) = 1,  and |c| is the norm of the constant c

    In a sum, `k + learn() * ConstantKernel()`, it is an offset that is drawn to zero; one that is not is the basis
    `rkhs.Constant()`.

    Examples
    --------
    >>> import rkhs
    >>> (rkhs.Linear() + 4.0 * rkhs.kernels.ConstantKernel())([[1.0]], [[2.0], [0.0]])
    array([[6., 4.]])
    """

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return Form(0, _ladder, smooth=True)

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel:
        return self


def _ladder(q: Array, rungs: range) -> dict[int, Array]:
    xp = namespace(q)
    return {k: xp.ones_like(q) if k == 0 else xp.zeros_like(q) for k in rungs}
