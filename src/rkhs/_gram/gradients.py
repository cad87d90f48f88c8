"""Gram matrices of gradients of sums over several points, such as energies that are sums over atoms.

A functional at a geometry a is a sum over points x_ai with directions J_ai, and one at b a sum over points y_bj with
directions K_bj.  For a kernel phi(q) of the distance, with d = x_ai - y_bj and q = -|d|^2 / 2,

    G_ab  =  sum_ij  J_ai (phi' K_bj' - phi'' d (K_bj d)')  =  sum_i J_ai W_i',
    W_i   =  sum_j  phi' K_bj - phi'' (K_bj d) d',

so that only one product of the size of G_ab is needed for each i, not for each pair (i, j).  Differences are computed
before their squares, so that near points need no correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, namespace, to_numpy
from rkhs._backend.memory import cores, in_threads, on_cpu
from rkhs._calculus.atoms import mapped
from rkhs._gram.blocks import GramBlock
from rkhs.functionals._base import Part

CACHED, DEVICE = 2**19, 2**26  # numbers in the array W of a tile, on CPUs and on accelerators


def sums_of_gradients(block: GramBlock) -> GramBlock | None:
    """Return the part of a block that has the form above with several points on one side; None if there is none."""
    form = block.kernel.form(block.lefts[0].atoms.dimension)
    lefts, rights = (_together(side) for side in (block.lefts, block.rights))
    if form is None or not form.rho or not lefts or not rights or len(lefts) * len(rights) == 1:
        return None
    return replace(block, lefts=lefts, rights=lefts if block.rights is block.lefts else rights)


def _together(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts with derivatives along the same number of directions for the same functionals."""
    plain = [
        part
        for part in parts
        if part.matrix is None and part.atoms.order == 1 and not part.atoms.shared and part.atoms.blur is None
    ]

    def same(part: Part) -> bool:
        return (part.rows, part.weight, part.atoms.per_point) == (
            plain[0].rows,
            plain[0].weight,
            plain[0].atoms.per_point,
        )

    return tuple(part for part in plain if same(part))


def add_gradients(out: Array, block: GramBlock, lower: bool) -> None:
    """Add a block from `sums_of_gradients` to `out`; with `lower`, tiles above the diagonal are omitted."""
    (left, right), xp = (block.lefts[0], block.rights[0]), namespace(out)
    form = block.kernel.form(left.atoms.dimension)
    assert form is not None
    X, U = _stacked(block.lefts, form.linear)
    Y, V = (X, U) if block.rights is block.lefts else _stacked(block.rights, form.linear)
    target = out[left.rows, right.rows]
    (t, points, p), k = X.shape, int(U.shape[2])
    weight = block.weight * left.weight * right.weight
    flat = xp.reshape(xp.permute_dims(U, (0, 2, 1, 3)), (t, k, points * p))
    runs = _runs(Y)
    height = (CACHED if on_cpu(out) else DEVICE) // max(points * p * k, 1)
    lower = lower and left.rows == right.rows and left.atoms.per_point == right.atoms.per_point

    def add(run: slice) -> None:
        y, K = Y[run.start], V[run]
        K = xp.reshape(xp.permute_dims(K, (1, 0, 2, 3)), (K.shape[1], -1, p))  # (j, m, p)
        m, per_point = int(K.shape[1]), int(V.shape[2])
        columns = slice(run.start * per_point, run.stop * per_point)
        step = max(1, height * k // m)
        for start in range(run.start if lower else 0, t, step):
            a = slice(start, min(start + step, t))
            d = xp.reshape(X[a, :, None] - y, (-1, y.shape[0], p))  # (a i, j, p)
            phi = form.radial_derivatives(-xp.sum(d * d, axis=-1) / 2, range(1, 3))
            along = xp.permute_dims(xp.matmul(K, xp.permute_dims(d, (1, 2, 0))), (2, 1, 0))  # K_bj d, (a i, m, j)
            W = xp.reshape(phi[1] @ xp.reshape(K, (-1, m * p)), (-1, m, p)) - (along * phi[2][:, None, :]) @ d
            W = xp.permute_dims(xp.reshape(W, (-1, points, m, p)), (0, 1, 3, 2))  # (a, i, p, m)
            tile = flat[a] @ xp.reshape(W, (-1, points * p, m))
            target[a.start * k : a.stop * k, columns] += weight * xp.reshape(tile, (-1, m))

    threads = cores(out)
    in_threads(add, [runs[thread::threads] for thread in range(threads)])


def _runs(Y: Array) -> list[slice]:
    """Return the ranges of equal consecutive points (t, j, p): several functionals at one geometry."""
    xp, count = namespace(Y), int(Y.shape[0])
    changed = to_numpy(xp.any(Y[1:, 0] != Y[:-1, 0], axis=-1))
    return [slice(*pair) for pair in pairwise([0, *(np.flatnonzero(changed) + 1).tolist(), count])]


def _stacked(parts: Sequence[Part], linear: Any) -> tuple[Array, Array]:
    """Return the points (t, i, p) and directions (t, i, k, p) of all parts, mapped by A."""
    xp = namespace(parts[0].atoms.points)
    points = xp.stack([mapped(part.atoms.points, linear) for part in parts], axis=1)
    return points, xp.stack([mapped(part.atoms.directions[:, :, 0, :], linear) for part in parts], axis=1)
