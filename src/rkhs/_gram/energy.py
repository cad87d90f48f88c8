"""v'Gv for many v without Gv: about half of what the product costs.

For k = phi(q) and coefficients A_i on gradients at the points x_i, the formula of `jets` for A_i on the left as well is

    v'Gv  =  sum over i, j of  phi' <A_i, A_j> + phi'' S_ij S_ji,        S_ij = <A_j, x_i - rho x_j>

which is symmetric: tile (j, i) adds what tile (i, j) does.  That leaves three matrix products of t x t x n for half of
the tiles, and no array of the size of v.
"""

from __future__ import annotations

from rkhs._backend.arrays import Array, inner, namespace, zeros
from rkhs._backend.memory import tile_entries, tiles
from rkhs._gram.jet_points import Jets
from rkhs._gram.jets import COPIES, Flow, JetProduct

SMALLER = 4  # tiles than those of products: about half of them are on the diagonal or above it


def energies(product: JetProduct, v: Array) -> Array:
    """v'Gv (r,) of the columns of v (N, r), for the Gram matrix of some parts with themselves."""
    rho, r = product.form.rho, int(v.shape[1])
    total = zeros((r,), v)
    coefficients = [points.scatter(v) for points in product.rights]
    for a, left in enumerate(product.lefts):
        for b, right in enumerate(product.rights[: a + 1]):
            flow, mine = Flow(rho, right, coefficients[b], left, left.zeros(r), product.products), coefficients[a]
            if a == b and flow.rungs == range(1, 3) and not product.form.careful(2 * left.largest):
                total += _of_gradients(product, flow)
                continue
            if right.points.shape[0] < left.points.shape[0]:  # either way is the same, and this one less work
                flow, mine = Flow(rho, left, mine, right, right.zeros(r), product.products), coefficients[b]
            product.add_flow(flow)
            total += (1 if a == b else 2) * _paired(mine, flow.jets)
    return product.weight * total


def _of_gradients(product: JetProduct, flow: Flow) -> Array:
    """The energies of coefficients on gradients alone, at one set of points."""
    points, A = flow.source, flow.coefficients.gradients
    assert A is not None
    xp, (r, t, n) = namespace(A), A.shape
    total, X = zeros((r,), A), (points.augmented if flow.rho else points.plain)[0]
    beside = xp.reshape(xp.permute_dims(A, (1, 0, 2)), (t, r * n))  # so that one product with phi' serves all
    B = flow.slopes[0]
    for i, j in tiles(t, t, tile_entries(product.budget, points.points, COPIES) // SMALLER):
        if i.start > j.start:
            continue
        phi = product.form.ladder(product.quadratic(points, points, i, j), flow.rungs)
        share = 0.5 if i == j else 1.0  # of what both tiles add
        straight = xp.reshape(beside[i] * (phi[1] @ beside[j]), (-1, r, n))
        total += share * xp.sum(straight, axis=(0, 2))
        second = xp.reshape(phi[2], (-1,))
        for k in range(r):
            S = X[i] @ B[k, j].T
            S *= B[k, i] @ X[j].T
            total[k] += share * xp.vecdot(xp.reshape(S, (-1,)), second)
    return 2 * total


def _paired(coefficients: Jets, jets: Jets) -> Array:
    """The coefficients applied to the jets, (r,)."""
    total, xp = 0.0, namespace(jets.values if jets.gradients is None else jets.gradients)
    if jets.values is not None:
        total = total + xp.sum(coefficients.values * jets.values, axis=0)
    if jets.gradients is not None:
        total = total + xp.sum(inner(coefficients.gradients, jets.gradients), axis=1)
    return total
