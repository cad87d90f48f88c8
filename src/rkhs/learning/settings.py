"""The settings of a problem by name: positive numbers of its kernel, and weights of its terms.

A name is what stands after `problem.`: "kernel.scale", "kernel.kernels[0].factor", "kernel.scale[2]" (of the third
feature), "terms[1].weight".  All work is with their logarithms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._gram.sensitivity import sensitivity
from rkhs.kernels.base import Kernel
from rkhs.learning.observations import Observations


@dataclass(frozen=True)
class Setting:
    """A number of the kernel, by its name there and perhaps a feature; or the weight of a term, by its number."""

    parameter: str | None = None
    feature: int | None = None
    term: int | None = None

    @property
    def name(self) -> str:
        if self.parameter is None:
            return f"terms[{self.term}].weight"
        return f"kernel.{self.parameter}{'' if self.feature is None else f'[{self.feature}]'}"


def kernel_settings(kernel: Kernel, names: Iterable[str] | None = None) -> list[Setting]:
    """Those of a kernel that is known; of some of its parameters, or all."""
    found = []
    for name, value in kernel.parameters().items():
        if names is None or name in names:
            count = len(value) if isinstance(value, tuple) else None
            found += [Setting(name, j) for j in ([None] if count is None else range(count))]
    return found


def gradient(
    observations: Observations, kernel: Kernel, weight: Matrix, B: Matrix, settings: Sequence[Setting]
) -> Matrix:
    """sum_ij B_ij dS_ij / dlog of each setting, for S = G + diag(1/(2w))."""
    L = observations.functionals
    own = [(s.parameter, s.feature) for s in settings if s.parameter is not None]
    found: Mapping[Any, float] = sensitivity(kernel, L, L, B, own) if own else {}
    noise = -np.diag(B) / (2 * weight)
    return np.array(
        [
            float(noise[observations.term == s.term].sum()) if s.parameter is None else found[s.parameter, s.feature]
            for s in settings
        ]
    )
