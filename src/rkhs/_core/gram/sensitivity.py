"""Derivatives of weighted sums of Gram entries in the parameters of the kernel:  sum_ij B_ij dG_ij / dlog theta.

If B is the gradient of a function of G, this is the derivative of that function, for all parameters at once.

*Values and first derivatives under radial kernels* depend on the length scales only through z = x / s and directions
u / s.  With d = z_i - z_k, s = <u, d> and r = <v, d>, an entry of phi(q) is  phi,  phi' r,  -phi' s,  or
phi' <u, v> - phi'' s r.  Let P be the same expression with the next higher derivatives of phi.  The derivatives in
log s_j are the sum of

    P d_j^2   and    -2 phi' v_j d_j    or    2 phi'' d_j (u_j r + v_j s) - 2 phi' u_j v_j

Summed over all pairs, each is a product of a matrix of the size of B with points or directions: a few passes over B for
all features together.

*Values under the Laplace kernel* have the derivatives d_j k with d_j the distance in feature j.

*Values alone* take one evaluation of phi and phi' for the Gram matrix, the sums, and the products of the derivatives
with vectors (`value_gram`), since for any a

    sum_k P_ik d_ikj^2 a_k  =  z_ij^2 (P a)_i - 2 z_ij (P (z_j a))_i + (P (z_j^2 a))_i

*All other cases* use the Gram matrix of `Kernel.tangent`, for one parameter after the other.  It is the reference.

*Second moments of the gradients* of kernel functions at many points need no gradients.  For k = phi(q) with
q = <x, y> - rho/2 (|x|^2 + |y|^2), the gradient of k(y_l, .) at x_i is phi'_il (y_l - rho x_i), and

    sum_i w_i <grad k(y_l, .)(x_i), grad k(y_m, .)(x_i)>
        =  sum_i w_i phi'_il phi'_im (<y_l, y_m> - rho <y_l, x_i> - rho <x_i, y_m> + rho |x_i|^2)

This takes four matrix products of size l x t x l, where the gradients take one of size l x tn x l and an array of
tn x l numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, apply_matrix, inner, namespace, to_numpy, zeros
from rkhs._core.backend.memory import tile_entries
from rkhs._core.calculus.atoms import Atoms, pulled_back
from rkhs._core.calculus.forms import Form, near_pairs
from rkhs._core.gram.blocks import pushed
from rkhs._core.gram.jets import ORDER, JetProduct
from rkhs._core.gram.operator import Gram, gram
from rkhs._core.limits import limits
from rkhs.functionals._base import Combination, Functional, Part, pointwise
from rkhs.kernels._algebra import LinearTransform, Multiple, PushedKernel, Sum
from rkhs.kernels._base import Kernel
from rkhs.kernels._scaled import Laplace, ScaledKernel

FINITE = 1e8  # bound of derivatives at points that differ
LARGE = 1e150  # bound of derivatives that are singular at equal points
Setting = tuple[str, int | None]  # the name of a parameter of a kernel, and the feature if it has one value for each


def sensitivity(
    kernel: Kernel, L: Functional, M: Functional, B: Matrix, settings: Sequence[Setting]
) -> dict[Setting, float]:
    """Return sum_ij B_ij dG_ij / dlog theta for the Gram matrix G of L and M and each of the parameters theta.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> L = rkhs.Evaluation(np.array([[0.0, 0.0], [1.0, 2.0]]))
    >>> sensitivity(rkhs.Gaussian(scale=(1.0, 2.0)), L, L, np.ones((2, 2)), [("scale", 0), ("scale", 1)])
    {('scale', 0): 0.7357588823428847, ('scale', 1): 0.7357588823428847}
    """
    result: dict[Setting, float] = {}
    if isinstance(kernel, Sum | Multiple | PushedKernel):
        for prefix, child in kernel.children().items():
            inside = [(name.removeprefix(prefix + "."), j) for name, j in settings if name.startswith(prefix + ".")]
            for weight, left, right in _pushed_families(kernel, L, M) if inside else ():
                for (name, j), value in sensitivity(child, left, right, B, inside).items():
                    result[f"{prefix}.{name}", j] = result.get((f"{prefix}.{name}", j), 0.0) + weight * value
    elif not isinstance(B, np.ndarray):
        pass  # an accelerator computes a Gram matrix for each parameter as fast
    else:
        result = _of_scales(kernel, L, M, B, settings)
    for name, feature in settings:
        if (name, feature) not in result:
            tangent = gram(kernel.tangent(name, feature), L, None if M is L else M).in_double()
            result[name, feature] = float(namespace(B).sum(B * tangent))
    return {setting: result[setting] for setting in settings}


def _pushed_families(kernel: Kernel, L: Functional, M: Functional) -> Iterator[tuple[float, Functional, Functional]]:
    """Yield weights and families such that the weighted Gram matrices of a child of the kernel add up to G."""
    if not isinstance(kernel, PushedKernel):
        yield kernel.factor if isinstance(kernel, Multiple) else 1.0, L, M
        return
    for weight, on_left, on_right in kernel.pushes():
        lefts, rights = (pushed(F.parts, push, kernel.takes_blur) for F, push in ((L, on_left), (M, on_right)))
        if lefts and rights:
            yield weight, Combination(L.shape, lefts, repr(L)), Combination(M.shape, rights, repr(M))


def _of_scales(
    kernel: Kernel, L: Functional, M: Functional, B: Matrix, settings: Sequence[Setting]
) -> dict[Setting, float]:
    """Return the derivatives in the scales of a radial kernel, perhaps after a linear map, if the formulas apply."""
    prefix = "kernel." if isinstance(kernel, LinearTransform) else ""
    scales = [(name, j) for name, j in settings if name == prefix + "scale"]
    inner = kernel.kernel if isinstance(kernel, LinearTransform) else kernel
    form = kernel.form(L.dimension) if scales and isinstance(inner, ScaledKernel) else None
    parts = L.parts + M.parts
    if form is None or any(part.atoms.order > ORDER or part.atoms.blur is not None for part in parts):
        return {}
    total = np.zeros(np.asarray(form.linear).shape[0])
    for left in L.parts:
        for right in M.parts:
            weight = _on_atoms(B[left.rows, right.rows], left, right)
            if left.atoms.order <= right.atoms.order:
                total += _contracted(form, left.atoms, right.atoms, weight)
            else:
                total += _contracted(form, right.atoms, left.atoms, weight.T)
    return {(name, j): float(total.sum() if j is None else total[j]) for name, j in scales}


def _on_atoms(B: Matrix, left: Part, right: Part) -> Matrix:
    """Convert coefficients of pairs of functionals to coefficients of pairs of atoms."""
    if left.matrix is not None:
        B = apply_matrix(left.matrix.T, B)
    if right.matrix is not None:
        B = apply_matrix(right.matrix.T, B.T).T
    weight = left.weight * right.weight
    return B if weight == 1.0 else weight * B


def _contracted(form: Form, left: Atoms, right: Atoms, B: Matrix) -> Matrix:
    """Return the sums over pairs of atoms of B times the derivatives in all log s_j, (m,).

    The order of the left atoms must not exceed that of the right atoms.
    """
    k, columns = left.per_point, B.shape[1]
    origin = np.mean(to_numpy(right.points), axis=0) if right.size else 0.0
    right_side = _Side.of(right, form, origin)
    total = np.zeros(right_side.Z.shape[1])
    for rows, piece in left.tiled(max(1, limits().sensitivity_entries // max(columns, 1)) * k):
        total += _Tile(form, _Side.of(piece, form, origin), right_side).contracted(B[rows])
    return total


@dataclass(frozen=True, eq=False)
class _Side:
    """The original points (t, n) of atoms, and their points Z (t, m) and directions U after the linear map."""

    original: Matrix
    Z: Matrix
    U: Any  # (t or 1, k, m); None for values
    per_point: int

    @classmethod
    def of(cls, atoms: Atoms, form: Form, origin: Any) -> _Side:
        mapped = atoms.shifted(origin).pushed(form.linear)
        return cls(atoms.points, mapped.points, mapped.u(0) if atoms.order else None, atoms.per_point)


class _Tile:
    """A tile of left points and all right points; the left side has directions only if the right side has."""

    def __init__(self, form: Form, left: _Side, right: _Side) -> None:
        self.left, self.right = left, right
        order = (left.U is not None) + (right.U is not None)
        x_halves, y_halves = (np.sum(side.Z**2, axis=1) / 2 for side in (left, right))
        # q = -|d|^2 / 2,  r = <v, d>,  s = <u, d>  with d = z_i - z_k
        q = left.Z @ right.Z.T
        q -= x_halves[:, None]
        q -= y_halves
        self.r: Any = None  # <v, d>, (t, s, b)
        self.s: Any = None  # <u, d>, (t, a, s)
        if right.U is not None:
            self.r = np.moveaxis(right.U @ left.Z.T, 2, 0) - np.sum(right.U * right.Z[:, None, :], axis=-1)
        if left.U is not None:
            self.s = np.sum(left.U * left.Z[:, None, :], axis=-1)[:, :, None] - left.U @ right.Z.T
        self.near = []
        if 0 not in q.shape and form.careful(float(x_halves.max() + y_halves.max())):
            self.near = list(near_pairs(form, q, x_halves, y_halves, left.original.shape[1]))
        self.differences = [form.difference(left.original[i], right.original[k]) for i, k in self.near]
        for (i, k), d in zip(self.near, self.differences, strict=True):
            q[i, k] = -np.sum(d * d, axis=1) / 2
            if self.r is not None:
                self.r[i, k] = np.sum((right.U if len(right.U) == 1 else right.U[k]) * d[:, None, :], axis=-1)
            if self.s is not None:
                self.s[i, :, k] = np.sum((left.U if len(left.U) == 1 else left.U[i]) * d[:, None, :], axis=-1)
        # Derivatives that are singular at equal points multiply zeros there: bounded, their products do not overflow.
        phi = form.radial_derivatives(q, range(order + 2))
        self.phi = phi if form.smooth else {k: np.clip(values, -LARGE, LARGE) for k, values in phi.items()}

    def contracted(self, B: Matrix) -> Matrix:
        """Return the sum over the pairs of atoms of this tile, (m,)."""
        t, s = len(self.left.Z), len(self.right.Z)
        B = B.reshape(t, self.left.per_point, s, self.right.per_point)
        phi, r = self.phi, self.r
        # values with values: the entry is phi, its derivative phi' d_j^2, with P = phi'
        if r is None:
            return self._squares(phi[1] * np.sum(B, axis=(1, 3)))
        if self.s is None:
            # values with derivatives: phi' r has phi'' r d_j^2 - 2 phi' v_j d_j
            flat = np.sum(B, axis=1)  # (t, s, b)
            weighted = phi[1][:, :, None] * flat
            moved = np.tensordot(weighted, self.left.Z, axes=(0, 0)) - (
                weighted.sum(axis=0)[:, :, None] * self.right.Z[:, None, :]
            )
            return self._squares(phi[2] * np.sum(flat * r, axis=2)) - 2 * np.sum(self.right.U * moved, axis=(0, 1))
        return self._of_slopes(B)

    def _of_slopes(self, B: Matrix) -> Matrix:
        """Return the sum for derivatives on both sides."""
        phi, r, s, left, right = self.phi, self.r, self.s, self.left, self.right
        t, a, p, _ = B.shape
        # derivatives with derivatives: phi' <u, v> - phi'' s r has
        # (phi'' <u, v> - phi''' s r) d_j^2 + 2 phi'' d_j (u_j r + v_j s) - 2 phi' u_j v_j
        y = np.einsum("iakb,ikb->iak", B, r)  # sum_b B r
        x = np.einsum("iakb,iak->ikb", B, s)  # sum_a B s
        srB = np.einsum("iak,iak->ik", s, y)  # sum_ab B s r
        uvB, features = self._products(B)
        total = self._squares(phi[2] * uvB - phi[3] * srB) - 2 * features
        y *= phi[2][:, None, :]
        x *= phi[2][:, :, None]
        from_left = left.Z[:, None, :] * y.sum(axis=2)[:, :, None] - (y.reshape(t * a, p) @ right.Z).reshape(t, a, -1)
        from_right = np.tensordot(x, left.Z, axes=(0, 0)) - self.right.Z[:, None, :] * x.sum(axis=0)[:, :, None]
        return total + 2 * np.sum(left.U * from_left, axis=(0, 1)) + 2 * np.sum(right.U * from_right, axis=(0, 1))

    def _products(self, B: Matrix) -> tuple[Matrix, Matrix]:
        """Return sum_ab B <u_a, v_b> for each pair of points, and sum phi' B u_aj v_bj for each feature."""
        left, right, first = self.left, self.right, self.phi[1]
        t, a, p, b = B.shape
        if left.U.shape[0] == right.U.shape[0] == 1:  # the same directions at all points
            across = np.einsum("iakb,ab->ik", B, left.U[0] @ right.U[0].T, optimize=True)
            summed = np.einsum("iakb,ik->ab", B, first, optimize=True)
            return across, np.einsum("ab,aj,bj->j", summed, left.U[0], right.U[0], optimize=True)
        U = np.broadcast_to(left.U, (t, a, left.U.shape[2])).reshape(t * a, -1)
        V = np.broadcast_to(right.U, (p, b, right.U.shape[2])).reshape(p * b, -1)
        across = np.sum(B * (U @ V.T).reshape(B.shape), axis=(1, 3))
        weighted = (B * first[:, None, :, None]).reshape(t * a, p * b)
        return across, np.sum(U * (weighted @ V), axis=0)

    def _squares(self, P: Matrix) -> Matrix:
        """Return sum_ik P_ik d_ikj^2 for each feature j; P is overwritten."""
        near = np.zeros(self.left.Z.shape[1])
        for (i, k), d in zip(self.near, self.differences, strict=True):
            near += P[i, k] @ (d * d)
            P[i, k] = 0.0
        # sum_ik P_ik (z_ij - y_kj)^2 = sum_i P_i. z_ij^2 + sum_k P_.k y_kj^2 - 2 sum_i z_ij (P y)_ij
        Z, Y = self.left.Z, self.right.Z
        return near + P.sum(axis=1) @ Z**2 + P.sum(axis=0) @ Y**2 - 2 * np.sum(Z * (P @ Y), axis=0)


Derivatives = Callable[[Matrix, Matrix], dict[Setting, tuple[float, Matrix]]]


def value_gram(kernel: Kernel, atoms: Atoms) -> tuple[Matrix, Derivatives] | None:
    """Return the Gram matrix G (n, n) of values at points, and a function that returns its derivatives.

    The function maps a symmetric matrix B (n, n) and vectors a (n, c) to <B, dG / dlog theta> and (dG / dlog theta) a
    for each parameter theta: scales of radial kernels and of the Laplace kernel, and factors.  Return None for others.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> points = rkhs.Evaluation(np.array([[0.0, 0.0], [1.0, 2.0]])).parts[0].atoms
    >>> _, derivatives = value_gram(rkhs.Gaussian(scale=(1.0, 2.0)), points)
    >>> total, image = derivatives(np.ones((2, 2)), np.ones((2, 1)))["scale", 0]
    >>> total, image.ravel()
    (0.7357588823428847, array([0.36787944, 0.36787944]))
    """
    if isinstance(kernel, Sum | Multiple):
        parts = [(prefix, value_gram(child, atoms)) for prefix, child in kernel.children().items()]
        inner = [(prefix, found) for prefix, found in parts if found is not None]
        factor = kernel.factor if isinstance(kernel, Multiple) else 1.0
        G: Matrix = factor * np.sum([matrix for _, (matrix, _) in inner], axis=0)

        def combined(B: Matrix, a: Matrix) -> dict[Setting, tuple[float, Matrix]]:
            total: dict[Setting, Any] = {("factor", None): (float(np.vdot(B, G)), G @ a)}
            for prefix, (_, derivatives) in inner:
                for (name, j), (each, image) in derivatives(B, a).items():
                    total[f"{prefix}.{name}", j] = factor * each, factor * image
            return total

        return (G, combined) if len(inner) == len(parts) else None
    X, names = atoms.points, set(kernel.parameters())
    scaled = isinstance(kernel, ScaledKernel | Laplace) and names == {"scale"}
    if kernel.order or not isinstance(X, np.ndarray) or atoms.order or atoms.blur is not None or (names and not scaled):
        return None
    if not names:
        return kernel(X), lambda B, a: {}
    if isinstance(kernel, Laplace):
        state: Any = kernel.linear(X.shape[1]) * X
        matrix = kernel(X)
    else:
        form: Any = kernel.form(X.shape[1])
        side = _Side.of(atoms, form, np.mean(X, axis=0))
        state = _Tile(form, side, side)
        matrix = state.phi[0]
    each: Any = _laplace_derivatives if isinstance(kernel, Laplace) else _radial_derivatives

    def derivatives(B: Matrix, a: Matrix) -> dict[Setting, tuple[float, Matrix]]:
        totals, images = each(state, matrix, B, a)  # (m,) and (n, m, c)
        found: dict[Setting, Any] = {("scale", j): (float(total), images[:, j]) for j, total in enumerate(totals)}
        return found | {("scale", None): (float(totals.sum()), images.sum(axis=1))}

    return matrix, derivatives


def _laplace_derivatives(Z: Matrix, G: Matrix, B: Matrix, a: Matrix) -> tuple[Matrix, Matrix]:
    """Return the same for each scale of a Laplace kernel, whose scaled points are Z (n, m)."""
    # dk / dlog s_j = k |z_j - z'_j|
    pairs = [(np.vdot(B, D), D @ a) for D in (np.abs(z[:, None] - z) * G for z in Z.T)]
    return np.array([total for total, _ in pairs]), np.stack([image for _, image in pairs], axis=1)


def _radial_derivatives(tile: _Tile, G: Matrix, B: Matrix, a: Matrix) -> tuple[Matrix, Matrix]:
    """Return the same for each scale of a radial kernel."""
    Z, P = tile.left.Z, tile.phi[1]
    totals = tile._squares(B * P)
    if tile.near:  # products are for curvatures, to which equal points add nothing
        P = np.where(np.abs(P) < FINITE, P, 0.0)
    moved = np.stack([np.ones_like(Z), Z, Z * Z], axis=1)[..., None] * a[:, None, None]  # (n, 3, m, c)
    R = (P @ moved.reshape(len(Z), -1)).reshape(moved.shape)
    return totals, Z[..., None] * (Z[..., None] * R[:, 0] - 2 * R[:, 1]) + R[:, 2]


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
    # The parts of a pushed kernel have pushed directions, which are not the gradients asked for, or are several.
    single = len(block.lefts) == len(block.rights) == 1 and block.lefts[0].atoms.gradient
    if form is None or not single or bool(xp.any(weights != weights[:, :1])):
        return None
    product = JetProduct(form, block, gram.budget, None)
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
        # sum_i w_i phi'_il phi'_im (<y_l, y_m> - rho <y_l, x_i> - rho <x_i, y_m> + rho |x_i|^2)
        total += (weighted.T @ phi) * between
        if form.rho:
            cross = (weighted * (X[i] @ Y.T)).T @ phi
            total += (weighted * inner(X[i], X[i])[:, None]).T @ phi - cross - cross.T
    return (block.weight * gradients.weight * values.weight) ** 2 * total
