"""What `benchmarks.products` measures, and what `benchmarks.plots` draws."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """What is multiplied with what."""

    t: int
    n: int
    library: str = "numpy"
    dtype: str = "float64"
    family: str = "gradients"


@dataclass(frozen=True)
class Cost:
    """Seconds of one product, and of the matrix products inside it."""

    setting: Setting
    kernel: str
    bare: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.bare


@dataclass(frozen=True)
class Dense:
    """The dense matrix, build and product, beside the structured product: seconds and bytes."""

    t: int
    n: int
    dense: float
    ours: float
    dense_bytes: int
    our_bytes: int
    difference: float
