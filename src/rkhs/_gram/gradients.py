"""Gram matrices of gradients of sums over several points, such as energies that are sums over atoms.

A functional at a geometry a is a sum over points x_ai with directions J_ai, and one at b a sum over points y_bj with
directions K_bj.  For a kernel phi(q) of the distance, with d = x_ai - y_bj and q = -|d|^2 / 2,

    G_ab  =  sum_ij  J_ai (phi' K_bj' - phi'' d (K_bj d)')  =  sum_i J_ai W_i',      W_i = sum_j phi' K_bj - phi'' (K_bj d) d'

so that only one product of the size of G_ab is needed for each i, not for each pair (i, j).  Differences are computed
before their squares, so that near points need no correction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rkhs._backend.arrays import Array, namespace
from rkhs._backend.memory import cores, in_threads, on_cpu
from rkhs._calculus.atoms import mapped
from rkhs._calculus.forms import Form
from rkhs._gram.blocks import GramBlock
from rkhs.functionals._base import Part

CACHED, DEVICE = 2**19, 2**26  # numbers in the array W of a tile, on CPUs and on accelerators


def sums_of_gradients(form: Form, block: GramBlock) -> bool:
    """Return whether a block of a Gram matrix has the form above, with several points on one side."""
    return bool(form.rho and len(block.lefts) * len(block.rights) > 1) and all(
        _together(side) for side in (block.lefts, block.rights)
    )


def _together(parts: Sequence[Part]) -> bool:
    first = parts[0]
    return all(
        part.matrix is None
        and part.atoms.order == 1
        and not part.atoms.shared
        and part.atoms.blur is None
        and part.rows == first.rows
        and part.weight == first.weight
        and part.atoms.per_point == first.atoms.per_point
        for part in parts
    )


def add_gradients(out: Array, form: Form, block: GramBlock, lower: bool) -> None:
    """Add a block that `sums_of_gradients` accepts to `out`; with `lower`, tiles above the diagonal are omitted."""
    (left, right), xp = (block.lefts[0], block.rights[0]), namespace(out)
    X, U = _stacked(block.lefts, form.linear)
    Y, V = (X, U) if block.rights is block.lefts else _stacked(block.rights, form.linear)
    target = out[left.rows, right.rows]
    (t, points, p), m = X.shape, int(V.shape[2])
    weight = block.weight * left.weight * right.weight
    flat = xp.reshape(xp.permute_dims(U, (0, 2, 1, 3)), (t, -1, points * p))  # (t, k, i p)
    step = max(1, (CACHED if on_cpu(out) else DEVICE) // max(points * m * p, 1))
    lower = lower and left.rows == right.rows and left.atoms.per_point == right.atoms.per_point

    def add(b: int) -> None:
        K = V[b]  # (j, m, p)
        for start in range(b if lower else 0, t, step):
            a = slice(start, min(start + step, t))
            height = a.stop - a.start
            d = X[a, :, None] - Y[b][None, None]  # (a, i, j, p)
            phi = form.radial_derivatives(-xp.sum(d * d, axis=-1) / 2, range(1, 3))
            d = xp.reshape(d, (height * points, -1, p))
            along = xp.matmul(K, xp.permute_dims(d, (1, 2, 0)))  # K_bj d, (j, m, a i)
            second = xp.reshape(phi[2], (height * points, -1))
            along = xp.permute_dims(along, (2, 1, 0)) * second[:, None, :]  # (a i, m, j)
            W = (
                xp.reshape(xp.reshape(phi[1], (height * points, -1)) @ xp.reshape(K, (-1, m * p)), (-1, m, p))
                - along @ d
            )
            W = xp.reshape(
                xp.permute_dims(xp.reshape(W, (height, points, m, p)), (0, 1, 3, 2)), (height, points * p, m)
            )
            tile = xp.reshape(weight * (flat[a] @ W), (-1, m))
            k = flat.shape[1]
            target[a.start * k : a.stop * k, b * m : (b + 1) * m] += tile

    threads = cores(out)
    columns = range(int(Y.shape[0]))
    in_threads(add, [columns[k::threads] for k in range(threads)])


def _stacked(parts: Sequence[Part], linear: Any) -> tuple[Array, Array]:
    """Return the points (t, i, p) and directions (t, i, k, p) of all parts, mapped by A."""
    xp = namespace(parts[0].atoms.points)
    points = xp.stack([mapped(part.atoms.points, linear) for part in parts], axis=1)
    return points, xp.stack([mapped(part.atoms.directions[:, :, 0, :], linear) for part in parts], axis=1)
