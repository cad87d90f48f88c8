"""Matrix products in a chosen precision.

Tensor cores read only the first 10 bits after the leading one of float32 operands (TF32), and multiply them about eight
times as fast as float32.  With each operand split into two such numbers, A = A1 + A2,

    A B  =  A1 B1 + A1 B2 + A2 B1        (A2 B2 is below the rounding error)

three products have the accuracy of float32.  The last two are corrections of 2^-11 relative to the first: 7 bits of
their operands (bfloat16) suffice, which tensor cores multiply another two times faster.  Without tensor cores the
operands are rounded to the same bits, so that the results agree with those of an accelerator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import RLock
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array

PRECISIONS = ("float64", "float32", "tf32x3", "tf32")
TF32_CUT = 13  # of the 23 bits of a float32 mantissa TF32 lacks the last 13; bfloat16 lacks 16
_SETTING = RLock()


class Products:
    """Matrix products in the dtype of the operands.

    `operand` converts a matrix to an operand, which can be sliced and transposed.
    """

    def operand(self, A: Array) -> Any:
        """Convert A to an operand of these products."""
        return A

    def operands(self, A: Array) -> tuple[Any, Any]:
        """Return A, or a stack of matrices, as operands stored by rows and by columns.

        Tensor cores read fastest along the axis that is summed over.
        """
        rows = self.operand(A)
        return rows, self.operand(A.mT.contiguous().mT) if _on_gpu(A) else rows

    def __call__(self, A: Any, B: Any) -> Array:
        """Return A @ B of two operands."""
        return A @ B

    def combined(self, S: Array, phi: Array, psi: Array, c: Array | None) -> Any:
        """Return phi * S + psi * c as an operand, for a row c and a tile S; S is overwritten."""
        if _on_gpu(S) and _has_triton() and _alike(S, phi, psi):
            return self._fused(S, phi, psi, c)
        S *= phi
        if c is not None:
            S += psi * c
        return self.operand(S)

    def _fused(self, S: Array, phi: Array, psi: Array, c: Array | None) -> Any:
        """Return the result of `combined`, computed in one pass over memory."""
        from rkhs._core.backend import fused

        fused.combine(S, phi, psi, c)
        return S


class TF32(Products):
    """Products of operands rounded to TF32, accumulated in float32."""

    def operand(self, A: Array) -> Any:
        return A if _on_gpu(A) else cut(A, TF32_CUT)

    def __call__(self, A: Any, B: Any) -> Array:
        with _tensor_cores(A):
            return A @ B


class ThreeTF32(Products):
    """Products of split operands in three parts, with the accuracy of float32."""

    def operand(self, A: Array) -> Any:
        if _on_gpu(A) and _has_triton() and _alike(A):
            from rkhs._core.backend import fused

            return SplitOperand(*fused.split(A, TF32_CUT))
        # A = A1 + A2 with A1 of 10 bits and the remainder A2 exact in float32
        first = cut(A, TF32_CUT)
        coarse, rest = (part.bfloat16() if _on_gpu(A) else cut(part, 16) for part in (A, A - first))
        return SplitOperand(first, coarse, rest)

    def _fused(self, S: Array, phi: Array, psi: Array, c: Array | None) -> Any:
        from rkhs._core.backend import fused

        return SplitOperand(*fused.split_combined(S, phi, psi, c, TF32_CUT))

    def __call__(self, A: Any, B: Any) -> Array:
        gpu = _on_gpu(A.first)
        if gpu:
            import torch

            total = torch.mm(A.coarse, B.rest, out_dtype=torch.float32)
            torch.addmm(total, A.rest, B.coarse, out_dtype=torch.float32, out=total)
        else:
            # A1 B2 + A2 B1, small terms first
            total = A.coarse @ B.rest + A.rest @ B.coarse
        with _tensor_cores(A.first):
            terms = 1024  # tensor cores truncate partial sums: their error grows with the number of terms
            for start in range(0, A.first.shape[1], terms):
                left, right = A.first[:, start : start + terms], B.first[start : start + terms]
                if gpu:
                    total.addmm_(left, right)
                else:
                    total += left @ right
        return total


@dataclass(frozen=True, eq=False)
class SplitOperand:
    """A matrix rounded to TF32, and, both in bfloat16, the matrix itself and the remainder of that rounding."""

    first: Array
    coarse: Array
    rest: Array

    def __getitem__(self, where: Any) -> SplitOperand:
        return SplitOperand(self.first[where], self.coarse[where], self.rest[where])

    @property
    def T(self) -> SplitOperand:
        return SplitOperand(self.first.T, self.coarse.T, self.rest.T)


def products_in(precision: str | None) -> Products:
    """Return the matrix products of a precision; None stands for the dtype of the operands."""
    return {"tf32": TF32, "tf32x3": ThreeTF32}.get(precision or "", Products)()


def check_precision(precision: str | None) -> None:
    if precision is not None and precision not in PRECISIONS:
        names = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(f"precision must be None (that of the data) or one of {names}, got {precision!r}.")


def cut(A: Array, bits: int) -> Array:
    """Round a float32 array to a mantissa with `bits` bits fewer."""
    half, mask = 1 << (bits - 1), -(1 << bits)
    if isinstance(A, np.ndarray):
        return ((A.view(np.int32) + np.int32(half)) & np.int32(mask)).view(np.float32)
    import torch

    return ((A.view(torch.int32) + half) & mask).view(torch.float32)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None  # `fused` needs it; PyTorch includes it on Linux


def _alike(*tiles: Array) -> bool:
    """Return whether all tiles have the same dtype and memory layout, by rows or by columns."""
    by_rows, by_columns = (all(t.is_contiguous() for t in layout) for layout in (tiles, [t.mT for t in tiles]))
    return len({t.dtype for t in tiles}) == 1 and (by_rows or by_columns)


def _on_gpu(A: Array) -> bool:
    return not isinstance(A, np.ndarray) and A.device.type == "cuda"


@contextmanager
def _tensor_cores(A: Array) -> Iterator[None]:
    """Let float32 products within the block run on the tensor cores of an accelerator.

    PyTorch has one setting for all threads, so that a lock serializes the blocks; each restores the previous value.
    """
    if not _on_gpu(A):
        yield
        return
    import torch

    settings = torch.backends.cuda.matmul
    name, on = ("fp32_precision", "tf32") if hasattr(settings, "fp32_precision") else ("allow_tf32", True)
    with _SETTING:
        before = getattr(settings, name)
        setattr(settings, name, on)
        try:
            yield
        finally:
            setattr(settings, name, before)
