"""Fused element-wise operations on tiles, written in Triton, which PyTorch for CUDA includes.

Reading and writing a tile takes as long as multiplying it by a few hundred columns on tensor cores, so that every pass
over memory that is avoided counts.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rkhs._core.backend.arrays import Array

BLOCK = 1024  # entries per Triton program


@triton.jit
def _kernel(
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
    """Compute Q = phi * S + psi * c, or Q = S, on flat arrays; store Q, or its three parts if CUT is positive."""
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
    """Set S <- phi * S + psi * c in place, for tiles (m, k) of the same memory layout and a row c of length k."""
    _launch(S, (phi, psi), c, (S, S, S), 0)


def split_combined(S: Array, phi: Array, psi: Array, c: Array | None, cut: int) -> tuple[Array, Array, Array]:
    """Return the three parts (see `split`) of phi * S + psi * c; the first overwrites S."""
    parts = (S, *(torch.empty_like(S, dtype=torch.bfloat16) for _ in range(2)))
    _launch(S, (phi, psi), c, parts, cut)
    return parts


def split(A: Array, cut: int) -> tuple[Array, Array, Array]:
    """Return A rounded to `cut` bits fewer, and in bfloat16 A itself and the remainder, all in the layout of A."""
    parts = (torch.empty_like(A), *(torch.empty_like(A, dtype=torch.bfloat16) for _ in range(2)))
    _launch(A, None, None, parts, cut)
    return parts


def _launch(
    S: Array, pair: tuple[Array, Array] | None, c: Array | None, parts: tuple[Array, Array, Array], cut: int
) -> None:
    phi, psi = pair or (S, S)
    by_column = S.is_contiguous()
    arrays = (S, phi, psi, S if c is None else c.contiguous(), *parts)
    options = {"COMBINE": pair is not None, "HAS_C": c is not None, "BY_COLUMN": by_column, "CUT": cut, "BLOCK": BLOCK}
    _kernel[(triton.cdiv(S.numel(), BLOCK),)](*arrays, S.numel(), S.shape[-1 if by_column else -2], **options)
