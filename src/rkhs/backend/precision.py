"""Matrix products in a chosen precision.

Tensor cores multiply float32 operands of which they read the first 10 bits after the leading one (TF32), about eight
times as fast as float32.  With each operand split into two such numbers, A = A1 + A2,

    A B  =  A1 B1 + A1 B2 + A2 B1        (A2 B2 is lost in rounding)

three products have the accuracy of float32 at a third of that speed.  Where there are no tensor cores, operands
are cut to the same bits, so that the numbers are those of an accelerator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_array

from rkhs.backend.arrays import Array

PRECISIONS = ("float64", "float32", "tf32x3", "tf32")
CUT = 13  # of the 23 bits of a float32, which TF32 has not


class Products(ABC):
    """How matrices are multiplied: `operand` prepares one, which can be sliced and transposed, for many products."""

    @property
    def sharp(self) -> Products:
        """The same, or better where the result is a difference of large numbers."""
        return self

    @abstractmethod
    def operand(self, A: Array) -> Any:
        """A as these products take it."""

    @abstractmethod
    def __call__(self, A: Any, B: Any) -> Array:
        """A @ B of two operands."""


class Plain(Products):
    """In the type of the operands."""

    def operand(self, A: Array) -> Any:
        return A

    def __call__(self, A: Any, B: Any) -> Array:
        return A @ B


class TF32(Products):
    """Of operands cut to TF32, summed in float32."""

    @property
    def sharp(self) -> Products:
        return ThreeTF32()

    def operand(self, A: Array) -> Any:
        return A if _has_tensor_cores(A) else cut(A)

    def __call__(self, A: Any, B: Any) -> Array:
        with _tensor_cores(A):
            return A @ B


class ThreeTF32(Products):
    """The three products of split operands."""

    def operand(self, A: Array) -> Any:
        first = cut(A)
        second = A - first
        return Split(first, second if _has_tensor_cores(A) else cut(second))

    def __call__(self, A: Any, B: Any) -> Array:
        with _tensor_cores(A.first):
            total = A.first @ B.second
            total += A.second @ B.first
            total += A.first @ B.first
        return total


@dataclass(frozen=True, eq=False)
class Split:
    """first + second, two matrices of TF32 numbers."""

    first: Array
    second: Array

    def __getitem__(self, where: Any) -> Split:
        return Split(self.first[where], self.second[where])

    @property
    def T(self) -> Split:
        return Split(self.first.T, self.second.T)


def products_in(precision: str | None) -> Products:
    """The products of a precision; None is the type of the data."""
    return {"tf32": TF32, "tf32x3": ThreeTF32}.get(precision or "", Plain)()


def dtype_of(precision: str, xp: Any) -> Any:
    """The type in which the operands of products of a precision are held."""
    return xp.float64 if precision == "float64" else xp.float32


def check_precision(precision: str | None) -> None:
    """Refuse what is no precision."""
    if precision is not None and precision not in PRECISIONS:
        names = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(f"precision must be None (that of the data) or one of {names}, got {precision!r}.")


def cut(A: Array) -> Array:
    """The nearest TF32 numbers to those of a float32 array."""
    half, mask = 1 << (CUT - 1), -(1 << CUT)
    if is_torch_array(A):
        import torch

        return (A.contiguous().view(torch.int32) + half).bitwise_and_(mask).view(torch.float32)
    return ((np.ascontiguousarray(A).view(np.int32) + np.int32(half)) & np.int32(mask)).view(np.float32)


def _has_tensor_cores(A: Array) -> bool:
    return is_torch_array(A) and device(A).type == "cuda"


@contextmanager
def _tensor_cores(A: Array) -> Iterator[None]:
    """Let float32 products on an accelerator run on its tensor cores, as long as this lasts."""
    if not _has_tensor_cores(A):
        yield
        return
    import torch

    settings = torch.backends.cuda.matmul
    name, on = ("fp32_precision", "tf32") if hasattr(settings, "fp32_precision") else ("allow_tf32", True)
    before = getattr(settings, name)
    setattr(settings, name, on)
    try:
        yield
    finally:
        setattr(settings, name, before)
