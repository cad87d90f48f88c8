"""Element-wise work on tiles in one pass over an accelerator's memory, by Triton, which comes with PyTorch for CUDA.

A tile in memory is read and written as fast as a tensor core multiplies a few hundred columns with it: each pass that
is saved counts.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rkhs._backend.arrays import Array

BLOCK = 1024  # entries that a program works on


@triton.jit
def _pass(
    S,
    phi,
    psi,
    c,
    first,
    coarse,
    rest,
    size,
    columns,
    COMBINE: tl.constexpr,
    HAS_C: tl.constexpr,
    BY_COLUMN: tl.constexpr,
    CUT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """phi * S + psi * c, or S alone, flat and contiguous; as it is, or the three parts of it where bits are cut."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    Q = tl.load(S + at, inside)
    if COMBINE:
        Q *= tl.load(phi + at, inside)
        if HAS_C:
            which = at % columns if BY_COLUMN else at // columns
            Q += tl.load(psi + at, inside) * tl.load(c + which, inside)
    if CUT:
        bits = Q.to(tl.int32, bitcast=True) + (1 << (CUT - 1))
        cut = (bits & -(1 << CUT)).to(tl.float32, bitcast=True)
        tl.store(first + at, cut, inside)
        tl.store(coarse + at, Q.to(tl.bfloat16), inside)
        tl.store(rest + at, (Q - cut).to(tl.bfloat16), inside)
    else:
        tl.store(first + at, Q, inside)


def combine(S: Array, phi: Array, psi: Array, c: Array | None) -> None:
    """S <- phi * S + psi * c for tiles (m, k) of one layout, by rows or by columns, and a row c of k numbers."""
    _over(S, (phi, psi), c, (S, S, S), 0)


def split_combined(S: Array, phi: Array, psi: Array, c: Array | None, cut: int) -> tuple[Array, Array, Array]:
    """Return the parts of phi * S + psi * c, see `split`; the first is written over S."""
    parts = (S, *(torch.empty_like(S, dtype=torch.bfloat16) for _ in range(2)))
    _over(S, (phi, psi), c, parts, cut)
    return parts


def split(A: Array, cut: int) -> tuple[Array, Array, Array]:
    """Return A less its last `cut` bits, and in bfloat16 A itself and what those bits leave, all laid out as A is."""
    parts = (torch.empty_like(A), *(torch.empty_like(A, dtype=torch.bfloat16) for _ in range(2)))
    _over(A, None, None, parts, cut)
    return parts


def _over(
    S: Array, pair: tuple[Array, Array] | None, c: Array | None, parts: tuple[Array, Array, Array], cut: int
) -> None:
    """One pass over arrays of one layout."""
    phi, psi = pair or (S, S)
    _pass[(triton.cdiv(S.numel(), BLOCK),)](
        S,
        phi,
        psi,
        S if c is None else c.contiguous(),
        *parts,
        S.numel(),
        S.shape[-1 if S.is_contiguous() else -2],
        COMBINE=pair is not None,
        HAS_C=c is not None,
        BY_COLUMN=S.is_contiguous(),
        CUT=cut,
        BLOCK=BLOCK,
    )
