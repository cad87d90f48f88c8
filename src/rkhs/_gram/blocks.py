"""From a kernel and two families to blocks that can be computed: sums split, blurs resolved.

    <L, M>  =  sum over blocks of  weight * (parts of L) x (parts of M) under one kernel

Every part of a block is sharp (or its kernel averages by itself), so all that is left is `kernel.pair`
on atoms, or a faster way to the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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

    @property
    def dimension(self) -> int:
        """That of the points which the kernel sees."""
        return self.lefts[0].atoms.dimension

    def pairs(self) -> Iterator[tuple[Part, Part]]:
        return ((left, right) for left in self.lefts for right in self.rights)


def blocks(kernel: Kernel, L: Functional, M: Functional) -> list[GramBlock]:
    """Return the blocks of the Gram matrix of L and M."""
    found = []
    parts = in_one_dtype(L.parts if M is L else L.parts + M.parts)
    lefts_by_blur = _by_blur(parts[: len(L.parts)])
    rights_by_blur = lefts_by_blur if M is L else _by_blur(parts[len(L.parts) :])
    for lefts in lefts_by_blur:
        for rights in rights_by_blur:
            for block in _unfolded(kernel, lefts, rights):
                resolved = _resolved(block.kernel, block.lefts, block.rights)
                found += [replace(b, weight=block.weight * b.weight) for b in resolved]
    return found


def _unfolded(kernel: Kernel, lefts: tuple[Part, ...], rights: tuple[Part, ...]) -> Iterator[GramBlock]:
    """Yield the summands of a kernel; one that pushes its inputs becomes the kernel behind it, on pushed parts."""
    for weight, summand in kernel.summands():
        if not isinstance(summand, PushedKernel):
            yield GramBlock(weight, summand, lefts, rights)
            continue
        for factor, on_left, on_right in summand.pushes():
            ours = pushed(lefts, on_left)
            theirs = ours if on_left is on_right and lefts is rights else pushed(rights, on_right)
            if ours and theirs:
                for block in _unfolded(summand.kernel, ours, theirs):
                    yield replace(block, weight=weight * factor * block.weight)


def pushed(parts: tuple[Part, ...], push: Push | None) -> tuple[Part, ...]:
    """Return the parts with pushed atoms; where one atom becomes several, as many parts on the same rows."""
    if push is None:
        return parts
    sharp = parts if push.linear else tuple(map(_by_cubature, parts))
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


def _resolved(kernel: Kernel, lefts: tuple[Part, ...], rights: tuple[Part, ...]) -> list[GramBlock]:
    """Return blocks without blur that equal (or, by cubature, approximate) the given one."""
    covariance = add_covariances(lefts[0].atoms.blur, rights[0].atoms.blur)
    if covariance is None or kernel.blurs:
        return [GramBlock(1.0, kernel, lefts, rights)]
    average = kernel.blurred(np.asarray(covariance))
    if average is None:
        return [GramBlock(1.0, kernel, tuple(map(_by_cubature, lefts)), tuple(map(_by_cubature, rights)))]
    sharp_lefts, sharp_rights = tuple(map(_sharp, lefts)), tuple(map(_sharp, rights))
    return [GramBlock(weight, k, sharp_lefts, sharp_rights) for weight, k in average.summands()]


def _sharp(part: Part) -> Part:
    return replace(part, atoms=part.atoms.sharp())


def _by_cubature(part: Part) -> Part:
    if part.atoms.blur is None:
        return part
    matrix, atoms = sharpen(part.atoms)
    return replace(part, atoms=atoms, matrix=matrix if part.matrix is None else compose(part.matrix, matrix))
