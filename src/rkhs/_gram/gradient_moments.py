"""What the gradients of kernel functions at many points have in common, without computing them.

For k = phi(q), the gradient of k(y_l, .) at x_i is phi' (y_l - rho x_i), so that

    sum_i w_i <grad k(y_l, .)(x_i), grad k(y_m, .)(x_i)>
        =  sum_i w_i phi'_il phi'_im (<y_l, y_m> - rho <y_l, x_i> - rho <x_i, y_m> + rho |x_i|^2)

four products of l x t x l in the place of one of l x tn x l, and no array of the size tn x l.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rkhs._backend.arrays import Array, inner, namespace, zeros
from rkhs._backend.memory import tile_entries
from rkhs._backend.precision import Plain
from rkhs._gram.jet_points import pulled_back
from rkhs._gram.jets import COPIES, JetProduct
from rkhs.functionals.pointwise import pointwise

if TYPE_CHECKING:
    from rkhs._gram.operator import Gram


def gradient_moments(gram: Gram, weight: Array) -> Array | None:
    """M'WM (l, l) for the Gram matrix M (t n, l) of gradients at t points and values at l points; None for others.

    The weights (t n,) must be the same for all rows of a point.
    """
    blocks, gradients, values = gram.blocks, pointwise(gram.L), pointwise(gram.M)
    if len(blocks) != 1 or gradients is None or values is None or gradients.atoms.order != 1 or values.atoms.order != 0:
        return None
    if not blocks[0].lefts[0].atoms.gradient:  # the kernel sees other points, and its gradients are not ours
        return None
    form = blocks[0].kernel.form(gram.L.dimension)
    weights = namespace(weight).reshape(weight, (-1, gram.L.dimension))
    if bool(namespace(weight).any(weights != weights[:, :1])) or form is None:
        return None
    product = JetProduct(form, blocks[0].lefts, blocks[0].rights, 1.0, gram.budget, Plain())
    left, right = product.lefts[0], product.rights[0]
    if form.careful(left.largest + right.largest):
        return None
    X, Y = (pulled_back(points.points, points.linear) for points in (left, right))
    total, between = zeros((Y.shape[0],) * 2, Y), Y @ Y.T
    most = max(1, tile_entries(gram.budget, X, COPIES) // max(1, int(Y.shape[0])))
    for start in range(0, int(X.shape[0]), most):
        i = slice(start, start + most)
        phi = form.ladder(product.quadratic(left, right, i, slice(None)), range(1, 2))[1]
        weighted = weights[i, :1] * phi
        total += (weighted.T @ phi) * between
        if form.rho:
            cross = (weighted * (X[i] @ Y.T)).T @ phi
            total += (weighted * inner(X[i], X[i])[:, None]).T @ phi - cross - cross.T
    factor = blocks[0].weight * gradients.weight * values.weight
    return factor**2 * total
