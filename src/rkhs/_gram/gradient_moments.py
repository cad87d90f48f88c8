"""Second moments of the gradients of kernel functions at many points, without computing the gradients.

For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), the gradient of k(y_l, .) at x_i is phi'_il (y_l - rho x_i), and

    sum_i w_i <grad k(y_l, .)(x_i), grad k(y_m, .)(x_i)>
        =  sum_i w_i phi'_il phi'_im (<y_l, y_m> - rho <y_l, x_i> - rho <x_i, y_m> + rho |x_i|^2)

This takes four matrix products of size l x t x l, where the gradients take one of size l x tn x l and an array of
tn x l numbers.
"""

from __future__ import annotations

from rkhs._backend.arrays import Array, inner, namespace, zeros
from rkhs._backend.memory import tile_entries
from rkhs._calculus.atoms import pulled_back
from rkhs._gram.jets import JetProduct
from rkhs._gram.operator import Gram
from rkhs.functionals._points import pointwise


def gradient_moments(gram: Gram, weight: Array) -> Array | None:
    """Return M'WM (l, l) for the Gram matrix M (tn, l) of gradients at t points with values at l points.

    Return None if the formula does not apply: for other functionals, and for weights (tn,) that differ between the rows
    of a point.
    """
    xp, blocks, gradients, values = namespace(weight), gram.blocks, pointwise(gram.L), pointwise(gram.M)
    if len(blocks) != 1 or gradients is None or values is None or gradients.atoms.order != 1 or values.atoms.order != 0:
        return None
    block, weights = blocks[0], xp.reshape(weight, (-1, gram.L.dimension))
    form = block.kernel.form(gram.L.dimension)
    # The parts of a pushed kernel have pushed directions, which are not the gradients asked for.
    if form is None or not block.lefts[0].atoms.gradient or bool(xp.any(weights != weights[:, :1])):
        return None
    product = JetProduct(form, block.lefts, block.rights, 1.0, gram.budget, None)
    left, right = product.lefts[0], product.rights[0]
    if form.careful(left.largest + right.largest):
        return None
    X, Y = (pulled_back(side.points, side.linear) for side in (left, right))
    total, between = zeros((Y.shape[0],) * 2, Y), Y @ Y.T
    height = max(1, tile_entries(gram.budget, X) // max(1, int(Y.shape[0])))
    for start in range(0, int(X.shape[0]), height):
        i = slice(start, start + height)
        phi = form.radial_derivatives(product.quadratic(left, right, i, slice(None)), range(1, 2))[1]
        weighted = weights[i, :1] * phi
        total += (weighted.T @ phi) * between
        if form.rho:
            cross = (weighted * (X[i] @ Y.T)).T @ phi
            total += (weighted * inner(X[i], X[i])[:, None]).T @ phi - cross - cross.T
    return (block.weight * gradients.weight * values.weight) ** 2 * total
