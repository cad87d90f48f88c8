"""Element-wise work on tiles in one pass over an accelerator's memory, by Triton, which comes with PyTorch for CUDA.

A tile in memory is read and written as fast as a tensor core multiplies a few hundred columns with it: each pass that
is saved counts.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from rkhs.backend.arrays import Array

BLOCK = 1024  # entries that a program works on


@triton.jit
def _combine(
    S,
    phi,
    psi,
    c,
    first,
    second,
    size,
    columns,
    HAS_C: tl.constexpr,
    BY_COLUMN: tl.constexpr,
    SPLIT: tl.constexpr,
    CUT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """phi * S + psi * c, flat and contiguous, in one number or in two of TF32."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    Q = tl.load(phi + at, inside) * tl.load(S + at, inside)
    if HAS_C:
        which = at % columns if BY_COLUMN else at // columns
        Q += tl.load(psi + at, inside) * tl.load(c + which, inside)
    if SPLIT:
        bits = Q.to(tl.int32, bitcast=True) + (1 << (CUT - 1))
        cut = (bits & -(1 << CUT)).to(tl.float32, bitcast=True)
        tl.store(first + at, cut, inside)
        tl.store(second + at, Q - cut, inside)
    else:
        tl.store(first + at, Q, inside)


def combined(S: Array, phi: Array, psi: Array, c: Array | None, cut: int | None) -> tuple[Array, Any]:
    """phi * S + psi * c for tiles (m, k) of one layout, by rows or by columns, and a row c of k numbers.

    It is written over S; with `cut`, the result is split in two numbers that have so many bits less.
    """
    transposed = not S.is_contiguous()
    flat = [array.T if transposed else array for array in (S, phi, psi)]
    second = S.new_empty(flat[0].shape) if cut is not None else flat[0]
    _combine[(triton.cdiv(S.numel(), BLOCK),)](
        *flat,
        flat[0] if c is None else c.contiguous(),
        flat[0],
        second,
        S.numel(),
        flat[0].shape[1],
        HAS_C=c is not None,
        BY_COLUMN=not transposed,
        SPLIT=cut is not None,
        CUT=cut or 1,
        BLOCK=BLOCK,
    )
    return S, second.T if transposed else second
