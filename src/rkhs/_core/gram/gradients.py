"""Gram matrices of gradients of sums over several points, such as energies that are sums over atoms.

A functional at a geometry a is a sum over points x_ai with directions J_ai, and one at b a sum over points y_bj with
directions K_bj.  For a kernel phi(q) of the distance, with d = x_ai - y_bj and q = -|d|^2 / 2,

    G_ab  =  sum_ij  J_ai (phi' K_bj' - phi'' d (K_bj d)')
          =  sum_i  J_ai (sum_j phi' K_bj)'  -  sum_ij  phi'' (J_ai d) (K_bj d)',

so that only one product of the size of G_ab is needed for each i, not for each pair (i, j), and all other products are
those of a direction with a point.  Distances are computed from differences, so that near points need no correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, namespace, to_numpy
from rkhs._core.backend.memory import cores, in_threads, on_cpu
from rkhs._core.calculus.atoms import mapped
from rkhs._core.gram.blocks import GramBlock
from rkhs.functionals._base import Part

CACHED, DEVICE = 2**18, 2**26  # numbers in the array W of a tile, on CPUs and on accelerators


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

    def layout(part: Part) -> tuple[slice, float, int]:
        return part.rows, part.weight, part.atoms.per_point

    return tuple(part for part in plain if layout(part) == layout(plain[0]))


def add_gradients(out: Array, block: GramBlock, lower: bool) -> None:
    """Add a block from `sums_of_gradients` to `out`; with `lower`, tiles above the diagonal are omitted."""
    (left, right), xp = (block.lefts[0], block.rights[0]), namespace(out)
    form = block.kernel.form(left.atoms.dimension)
    assert form is not None
    X, U = _stacked(block.lefts, form.linear)
    Y, V = (X, U) if block.rights is block.lefts else _stacked(block.rights, form.linear)
    target = out[left.rows, right.rows]
    (t, points, p), k, m = X.shape, int(U.shape[2]), int(V.shape[2])
    runs, center = _runs(Y), xp.mean(Y, axis=(0, 1))  # without which J x and K y may round off J d and K d
    X, Y = X - center, Y - center
    J = xp.reshape(xp.permute_dims(U, (0, 2, 1, 3)), (t, k, points * p))
    J_own = xp.sum(xp.reshape(J, (t, k, points, p)) * X[:, None], axis=-1)[..., None]
    weight = block.weight * left.weight * right.weight
    entries = CACHED if on_cpu(out) else DEVICE
    lower = lower and left.rows == right.rows and left.atoms.per_point == right.atoms.per_point

    def add(run: slice) -> None:
        y, K = Y[run.start], xp.reshape(xp.permute_dims(V[run], (1, 3, 0, 2)), (V.shape[1], p, -1))  # (j, p, m)
        others, count = int(K.shape[0]), int(K.shape[2])
        K_own = xp.reshape(xp.sum(K * y[:, :, None], axis=1), (-1,))
        K_first, K_across = xp.reshape(K, (others, -1)), xp.reshape(xp.permute_dims(K, (1, 0, 2)), (p, -1))
        columns = slice(run.start * m, run.stop * m)
        step = max(1, entries // (points * p * count))
        for start in range(run.start if lower else 0, t, step):
            a = slice(start, min(start + step, t))
            x, size = X[a], min(start + step, t) - start
            # W = sum_j phi' K_bj for each point i, of the size of a derivative
            d = xp.reshape(x[:, :, None] - y, (-1, others, p))  # (a i, j, p)
            q = -xp.sum(d * d, axis=-1) / 2
            phi = form.radial_derivatives(q, range(1, 3))
            # At d = 0 the term phi'' (J d)(K d)' vanishes, also for rough kernels, whose phi'' is unbounded there: the
            # products below leave rounding errors of J d, and these must not be multiplied by it.
            curvature = xp.where(q == 0, 0.0, phi[2])
            W = xp.reshape(phi[1] @ K_first, (size, points * p, count))
            J_d = J_own[a] - xp.reshape(xp.reshape(J[a], (-1, p)) @ y.T, (size, k, points, -1))
            K_d = xp.reshape(xp.reshape(x, (-1, p)) @ K_across - K_own, (-1, others, count)) * curvature[:, :, None]
            # G_ab = sum_i J_ai W_i - sum_ij phi'' (J_ai d) (K_bj d)'
            tile = J[a] @ W
            tile -= xp.reshape(J_d, (size, k, -1)) @ xp.reshape(K_d, (size, -1, count))
            target[a.start * k : a.stop * k, columns] += weight * xp.reshape(tile, (-1, count))

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
