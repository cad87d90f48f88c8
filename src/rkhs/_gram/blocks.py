"""From a kernel and two families to blocks that can be computed: sums split, blurs resolved.

    <L, M>  =  sum over blocks of  weight * (parts of L) x (parts of M) under one kernel

Every part of a block is sharp (or its kernel averages by itself), so all that is left is `kernel.pair`
on atoms, or a faster way to the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from rkhs._backend.arrays import compose
from rkhs._calculus.atoms import add_covariances, sharpen
from rkhs.errors import NotBoundedError
from rkhs.functionals.base import Functional, Part, in_one_dtype
from rkhs.kernels.algebra import Push, PushedKernel
from rkhs.kernels.base import Kernel


@dataclass(frozen=True, eq=False)
class GramBlock:
    """weight * the inner products of all left with all right parts under the kernel."""

    weight: float
    kernel: Kernel
    lefts: tuple[Part, ...]
    rights: tuple[Part, ...]


def blocks(kernel: Kernel, L: Functional, M: Functional) -> list[GramBlock]:
    """Return the blocks of the Gram matrix of L and M."""
    parts = in_one_dtype(L.parts if M is L else L.parts + M.parts)
    lefts_by_blur = _by_blur(parts[: len(L.parts)])
    rights_by_blur = lefts_by_blur if M is L else _by_blur(parts[len(L.parts) :])
    pairs = product(lefts_by_blur, rights_by_blur)
    return [one for lefts, rights in pairs for block in _unfolded(kernel, lefts, rights) for one in _resolved(block)]


def _unfolded(kernel: Kernel, lefts: tuple[Part, ...], rights: tuple[Part, ...]) -> Iterator[GramBlock]:
    """Yield the summands of a kernel; one that pushes its inputs becomes the kernel behind it, on pushed parts."""
    for weight, summand in kernel.summands():
        if not isinstance(summand, PushedKernel):
            yield GramBlock(weight, summand, lefts, rights)
            continue
        for factor, on_left, on_right in summand.pushes():
            ours = pushed(lefts, on_left, summand.takes_blur)
            same = on_left is on_right and lefts is rights
            theirs = ours if same else pushed(rights, on_right, summand.takes_blur)
            if ours and theirs:
                for block in _unfolded(summand.kernel, ours, theirs):
                    yield replace(block, weight=weight * factor * block.weight)


def pushed(parts: tuple[Part, ...], push: Push | None, takes_blur: bool) -> tuple[Part, ...]:
    """Return the parts with pushed atoms; where one atom becomes several, as many parts on the same rows."""
    if push is None:
        return parts
    sharp = parts if takes_blur else tuple(map(_by_cubature, parts))
    return tuple(replace(part, atoms=atoms) for part in sharp for atoms in push(part.atoms))


def check_bounded(kernel: Kernel, L: Functional) -> None:
    """Refuse a family that takes derivatives which the kernel does not bound, before any number is computed."""
    n = L.dimension
    limit = kernel.smoothness(n)
    if L.order >= limit:
        remedy = kernel.smoother(L.order, n)
        raise NotBoundedError(
            f"{L!r} takes derivatives of order {L.order}, which are not bounded on the RKHS of {kernel!r} "
            f"in R^{n}: it bounds orders below {limit:g}. "
            f"Use {f'{remedy}, or ' if remedy else ''}a Difference of values."
        )


def _by_blur(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    """Return the parts grouped by their blur; those without atoms have nothing to add."""
    groups: dict[Any, list[Part]] = {}
    for part in parts:
        blur = part.atoms.blur
        key = None if blur is None else (blur.shape, blur.tobytes())
        if part.atoms.size:
            groups.setdefault(key, []).append(part)
    return [tuple(group) for group in groups.values()]


def _resolved(block: GramBlock) -> list[GramBlock]:
    """Return blocks without blur that equal (or, by cubature, approximate) the given one."""
    covariance = add_covariances(block.lefts[0].atoms.blur, block.rights[0].atoms.blur)
    if covariance is None or block.kernel.blurs:
        return [block]
    average = block.kernel.blurred(np.asarray(covariance))
    if average is None:
        return [
            replace(block, lefts=tuple(map(_by_cubature, block.lefts)), rights=tuple(map(_by_cubature, block.rights)))
        ]
    lefts, rights = (
        tuple(replace(part, atoms=replace(part.atoms, blur=None)) for part in side)
        for side in (block.lefts, block.rights)
    )
    return [GramBlock(block.weight * weight, kernel, lefts, rights) for weight, kernel in average.summands()]


def _by_cubature(part: Part) -> Part:
    if part.atoms.blur is None:
        return part
    matrix, atoms = sharpen(part.atoms)
    return replace(part, atoms=atoms, matrix=matrix if part.matrix is None else compose(part.matrix, matrix))
