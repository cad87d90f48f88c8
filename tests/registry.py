"""Every kernel and every family of functionals, each beside its definition in the terms of `oracle`.

Families live on a few points of R^d, the rows of `points(d)`, and are defined by rows of terms
(coefficient, index of the point, axes): D_axes at the point.  All their inner products are then
combinations of those of the *jet* of the points, all partial derivatives up to order two there, and
`tests/data/oracle.npz` stores those for every kernel (see `make_oracle`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import scipy.sparse

import oracle
import rkhs

DIMENSIONS = (1, 2, 5)
SCALES = (0.75, 1.3, 0.9, 1.1, 1.6)
ORDER = 2


def points(d):
    """Three points (two in R^5) about 1 apart, multiples of 1/64: exact in float32, also when shifted by 1000."""
    rng = np.random.default_rng(10 + d)
    return np.round(64 * rng.normal(size=(2 if d == 5 else 3, d)) / d**0.5) / 64


def near_points():
    """Points of R^2 that are about 1e-5, 1e-3 and 1 apart, in a corner far from the origin."""
    return np.array([1000.3, 0.7]) + np.array([[0.0, 0.0], [8e-6, 6e-6], [6e-4, -8e-4], [-1.1, 0.9]])


# Kernels.


@dataclass(frozen=True)
class KernelCase:
    """`make(d)` is the kernel in R^d, `define(d)` the same as a function of mpmath numbers."""

    make: Callable[[int], rkhs.extend.Kernel]
    define: Callable[[int], Any]
    stationary: bool = True  # a function of x - y


def _matrix(d):
    """A map to R^3, injective or not."""
    return np.round(8 * np.random.default_rng(d).normal(size=(3, d))) / 8


def _own(x, y):
    """A user's smooth kernel, in torch."""
    return (1 + x @ y) ** 2 * (-((x - y) @ (x - y)) / 2).exp()


def _wide(rows, d):
    """A map from R^d to as many numbers as a field kernel takes."""
    return np.round(8 * np.random.default_rng(rows + d).normal(size=(rows, d))) / 8


PLANE = [np.array([[0.0, -1.0], [1.0, 0.0]])]
SPACE = [np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]), np.array([[0.0, 0, 1], [0, 0, 0], [-1, 0, 0]])]
SPACE.append(np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 0]]))


def _bent(X):
    """x_i (1 + x_0 / 4)."""
    return X * (1 + X[:, :1] / 4)


def _bent_gradient(X):
    d = X.shape[1]
    first = like(np.eye(d)[0], X)
    return (1 + X[:, :1, None] / 4) * like(np.eye(d), X) + X[:, :, None] * first / 4


def _bent_second(X):
    d = X.shape[1]
    each = np.einsum("j,ik->ijk", np.eye(d)[0], np.eye(d)) / 4
    return like(np.broadcast_to(each + each.transpose(0, 2, 1), (len(X), d, d, d)), X)


def _thin_plate(extra):
    def order(d):
        return d // 2 + 1 + extra

    return KernelCase(lambda d: rkhs.kernels.ThinPlate(order(d)), lambda d: oracle.thin_plate(order(d), d))


def _constant(kernel, definition, stationary=True):
    return KernelCase(lambda d: kernel, lambda d: definition, stationary)


KERNELS = {
    "Gaussian": _constant(rkhs.Gaussian(0.8), oracle.gaussian(0.8)),
    "Gaussian, scales": KernelCase(lambda d: rkhs.Gaussian(SCALES[:d]), lambda d: oracle.gaussian(SCALES[:d])),
    "Laplace": _constant(rkhs.kernels.Laplace(0.8), oracle.laplace(0.8)),
    "Laplace, scales": KernelCase(lambda d: rkhs.kernels.Laplace(SCALES[:d]), lambda d: oracle.laplace(SCALES[:d])),
    "Matern 1/2": _constant(rkhs.Matern(0.5, 1.3), oracle.matern(0.5, 1.3)),
    "Matern 3/2": _constant(rkhs.Matern(1.5, 1.3), oracle.matern(1.5, 1.3)),
    "Matern 5/2": _constant(rkhs.Matern(2.5, 1.3), oracle.matern(2.5, 1.3)),
    "Matern 7/2": _constant(rkhs.Matern(3.5, 1.3), oracle.matern(3.5, 1.3)),
    "Matern 5/2, scales": KernelCase(lambda d: rkhs.Matern(2.5, SCALES[:d]), lambda d: oracle.matern(2.5, SCALES[:d])),
    "RationalQuadratic": _constant(rkhs.kernels.RationalQuadratic(1.5, 0.9), oracle.rational_quadratic(1.5, 0.9)),
    "RationalQuadratic, scales": KernelCase(
        lambda d: rkhs.kernels.RationalQuadratic(0.7, SCALES[:d]), lambda d: oracle.rational_quadratic(0.7, SCALES[:d])
    ),
    "Polynomial 3": _constant(rkhs.kernels.Polynomial(3), oracle.polynomial(3), stationary=False),
    "Polynomial 5": _constant(rkhs.kernels.Polynomial(5, 0.6), oracle.polynomial(5, 0.6), stationary=False),
    "Polynomial 2, homogeneous": _constant(
        rkhs.kernels.Polynomial(2, 0.0), oracle.polynomial(2, 0.0), stationary=False
    ),
    "Linear": _constant(rkhs.kernels.Linear(), oracle.linear(), stationary=False),
    **{
        f"Polyharmonic {b}": _constant(rkhs.kernels.Polyharmonic(b), oracle.polyharmonic(b))
        for b in (1, 2, 2.5, 3, 4, 5)
    },
    **{f"ThinPlate, lowest order + {m}": _thin_plate(m) for m in range(3)},
    "Sum": _constant(
        rkhs.Gaussian(0.8) + rkhs.Matern(2.5, 1.3) + rkhs.kernels.Polynomial(2),
        oracle.total(oracle.gaussian(0.8), oracle.matern(2.5, 1.3), oracle.polynomial(2)),
        stationary=False,
    ),
    "Sum, conditional": _constant(
        rkhs.kernels.Polyharmonic(5) + 0.5 * rkhs.kernels.Polyharmonic(6),
        oracle.total(oracle.polyharmonic(5), oracle.multiple(0.5, oracle.polyharmonic(6))),
    ),
    "Product": _constant(
        rkhs.Gaussian(0.8) * rkhs.kernels.Polynomial(2),
        oracle.product(oracle.gaussian(0.8), oracle.polynomial(2)),
        stationary=False,
    ),
    "Product, radial": _constant(
        rkhs.Matern(3.5, 1.3) * rkhs.kernels.RationalQuadratic(1.5, 0.9),
        oracle.product(oracle.matern(3.5, 1.3), oracle.rational_quadratic(1.5, 0.9)),
    ),
    "Multiple": _constant(2.5 * rkhs.Matern(1.5, 1.3), oracle.multiple(2.5, oracle.matern(1.5, 1.3))),
    "Pullback of Gaussian": KernelCase(
        lambda d: rkhs.Gaussian(SCALES[:3]) @ _matrix(d),
        lambda d: oracle.pullback(oracle.gaussian(SCALES[:3]), _matrix(d)),
    ),
    "Pullback of Matern": KernelCase(
        lambda d: rkhs.Matern(3.5) @ _matrix(d), lambda d: oracle.pullback(oracle.matern(3.5, 1.0), _matrix(d))
    ),
    "Pullback of Polynomial": KernelCase(
        lambda d: rkhs.kernels.Polynomial(3) @ np.array(SCALES[:d]),
        lambda d: oracle.pullback(oracle.polynomial(3), SCALES[:d]),
        stationary=False,
    ),
    "Pullback of ThinPlate": KernelCase(
        lambda d: rkhs.kernels.ThinPlate(3) @ _matrix(d), lambda d: oracle.pullback(oracle.thin_plate(3, 3), _matrix(d))
    ),
    "Pullback of sum of products": KernelCase(
        lambda d: (rkhs.Gaussian() * rkhs.kernels.Linear() + rkhs.Matern(2.5)) @ _matrix(d),
        lambda d: oracle.pullback(
            oracle.total(oracle.product(oracle.gaussian(1.0), oracle.linear()), oracle.matern(2.5, 1.0)), _matrix(d)
        ),
        stationary=False,
    ),
    "Gaussian and constant": _constant(
        rkhs.Gaussian(0.8) + 0.5 * rkhs.kernels.ConstantKernel(),
        oracle.total(oracle.gaussian(0.8), oracle.multiple(0.5, oracle.constant())),
    ),
    "Matern 9/2": _constant(rkhs.Matern(4.5, 1.3), oracle.matern(4.5, 1.3)),
    "Matern 21/2": _constant(rkhs.Matern(10.5, 1.3), oracle.matern(10.5, 1.3)),
    "Periodic": _constant(rkhs.kernels.Periodic(3.0, 0.8), oracle.periodic(3.0, 0.8), stationary=False),
    "Composition": _constant(
        rkhs.Matern(3.5) @ rkhs.kernels.Features(_bent, _bent_gradient, _bent_second),
        oracle.composed(oracle.matern(3.5, 1.0), lambda x: [a * (1 + x[0] / 4) for a in x]),
        stationary=False,
    ),
    "Symmetrized": KernelCase(
        lambda d: rkhs.kernels.Symmetrized(rkhs.Gaussian(0.8), [np.eye(d), -np.eye(d)]),
        lambda d: oracle.symmetrized(oracle.gaussian(0.8), [lambda x: x, lambda x: [-a for a in x]]),
        stationary=False,
    ),
    "CurlFree": KernelCase(
        lambda d: rkhs.kernels.CurlFree(rkhs.Gaussian(0.9)) @ _wide(4, d),
        lambda d: oracle.pullback(oracle.slopes(0.9, [np.eye(2)]), _wide(4, d)),
        stationary=False,
    ),
    "DivergenceFree, plane": KernelCase(
        lambda d: rkhs.kernels.DivergenceFree(rkhs.Gaussian(0.9)) @ _wide(4, d),
        lambda d: oracle.pullback(oracle.slopes(0.9, PLANE), _wide(4, d)),
        stationary=False,
    ),
    "DivergenceFree, space": KernelCase(
        lambda d: rkhs.kernels.DivergenceFree(rkhs.Gaussian(0.9)) @ _wide(6, d),
        lambda d: oracle.pullback(oracle.slopes(0.9, SPACE), _wide(6, d)),
        stationary=False,
    ),
    "Autodiff": _constant(
        rkhs.kernels.AutodiffKernel(_own), oracle.product(oracle.polynomial(2), oracle.gaussian(1.0)), stationary=False
    ),
}


def definite(d):
    """The names of the kernels that are positive definite in R^d."""
    return [name for name, case in KERNELS.items() if case.make(d).order == 0]


# Families.


@dataclass(frozen=True)
class FamilyCase:
    """`make(X)` is the family on the points X (any namespace), `define(t, d)` its rows of terms."""

    make: Callable[[Any], rkhs.extend.Functional]
    define: Callable[[int, int], list[list[tuple[float, int, tuple[int, ...]]]]]
    order: int


def _each(terms, order=0):
    """A family of t functionals, the terms of each a function of its point i (and t, d)."""
    return lambda t, d: [terms(i, t, d) for i in range(t)]


def _directions(t, d, k):
    """(t, k, d) directions, not unit vectors."""
    return np.round(8 * np.random.default_rng(k).normal(size=(t, k, d))) / 8


def _tangents(X, k):
    return rkhs.functionals.DirectionalDerivative(X, like(_directions(*X.shape, k), X))


def _mixing(rows, columns):
    return np.round(8 * np.random.default_rng(rows).normal(size=(rows, columns))) / 8


def _next(X):
    """The points in cyclic order, each the successor of X's."""
    return X[[*range(1, len(X)), 0]]


def _mixed(W, rows):
    """The terms of W @ L from those of L."""
    return [[(w * c, i, axes) for w, row in zip(weights, rows, strict=True) for c, i, axes in row] for weights in W]


def _gradient(t, d):
    return [[(1.0, i, (a,))] for i in range(t) for a in range(d)]


def _jet(t, d):
    return [[(1.0, i, index)] for i in range(t) for index in ((), *((a,) for a in range(d)))]


def _hessian(t, d):
    return [[(1.0, i, (a, b))] for i in range(t) for a in range(d) for b in range(d)]


def _laplacian(t, d):
    return [[(1.0, i, (a, a)) for a in range(d)] for i in range(t)]


def _evaluation(t, d):
    return [[(1.0, i, ())] for i in range(t)]


def _sparse(X):
    t = X.shape[0]
    W = scipy.sparse.csr_array(np.where(_mixing(4, t + t) > 0, _mixing(4, t + t), 0.0))
    return W @ rkhs.stack([rkhs.Evaluation(X), rkhs.functionals.Laplacian(X)])


FAMILIES = {
    "Evaluation": FamilyCase(rkhs.Evaluation, _evaluation, 0),
    "Difference": FamilyCase(
        lambda X: rkhs.Difference(X, _next(X)), _each(lambda i, t, d: [(1.0, i, ()), (-1.0, (i + 1) % t, ())]), 0
    ),
    "GraphDifference": FamilyCase(
        lambda X: rkhs.functionals.GraphDifference(X, edges=[[1, 0], [0, len(X) - 1]], weights=[0.5, 2.0]),
        lambda t, d: [[(0.5**0.5, 1, ()), (-(0.5**0.5), 0, ())], [(2.0**0.5, 0, ()), (-(2.0**0.5), t - 1, ())]],
        0,
    ),
    "Average": FamilyCase(
        lambda X: rkhs.functionals.Average(X[[0, 1, 1, -1]].reshape(2, 2, -1), weights=[[1.0, 3.0], [2.0, 2.0]]),
        lambda t, d: [[(0.25, 0, ()), (0.75, 1, ())], [(0.5, 1, ()), (0.5, t - 1, ())]],
        0,
    ),
    "Derivative": FamilyCase(
        lambda X: rkhs.Derivative(X, axes=[[-1], [0]]),
        lambda t, d: [[(1.0, i, (a,))] for i in range(t) for a in (d - 1, 0)],
        1,
    ),
    "Gradient": FamilyCase(rkhs.Gradient, _gradient, 1),
    "DirectionalDerivative": FamilyCase(
        lambda X: rkhs.functionals.DirectionalDerivative(X, like(_directions(*X.shape, 1)[:, 0], X)),
        _each(lambda i, t, d: [(v, i, (a,)) for a, v in enumerate(_directions(t, d, 1)[i, 0])]),
        1,
    ),
    "DirectionalDerivative, several": FamilyCase(
        lambda X: _tangents(X, 2),
        lambda t, d: [[(v, i, (a,)) for a, v in enumerate(V)] for i in range(t) for V in _directions(t, d, 2)[i]],
        1,
    ),
    "values and slopes": FamilyCase(
        lambda X: rkhs.Evaluation(X) / 4 - 0.5 * rkhs.Derivative(X, axes=[0]),
        _each(lambda i, t, d: [(0.25, i, ()), (-0.5, i, (0,))]),
        1,
    ),
    "coefficients": FamilyCase(
        lambda X: (
            _mixing(1, X.shape[0])[0] * rkhs.Evaluation(X) + _mixing(2, X.shape[0])[1] * rkhs.functionals.Laplacian(X)
        ),
        _each(lambda i, t, d: [(_mixing(1, t)[0, i], i, ()), *((_mixing(2, t)[1, i], i, (a, a)) for a in range(d))]),
        2,
    ),
    "coefficients of rows": FamilyCase(
        lambda X: _mixing(1, X.shape[0])[0] * rkhs.Gradient(X),
        lambda t, d: [[(_mixing(1, t)[0, i], i, (a,))] for i in range(t) for a in range(d)],
        1,
    ),
    "W @ Gradient": FamilyCase(
        lambda X: like(_mixing(3, X.shape[0] * X.shape[1]), X) @ rkhs.Gradient(X),
        lambda t, d: _mixed(_mixing(3, t * d), _gradient(t, d)),
        1,
    ),
    "Derivative, second": FamilyCase(
        lambda X: rkhs.Derivative(X, axes=[0, X.shape[1] - 1]), _each(lambda i, t, d: [(1.0, i, (0, d - 1))]), 2
    ),
    "Hessian": FamilyCase(rkhs.functionals.Hessian, _hessian, 2),
    "Jet": FamilyCase(rkhs.functionals.Jet, _jet, 1),
    "Laplacian": FamilyCase(rkhs.functionals.Laplacian, _laplacian, 2),
    "Laplacian and value": FamilyCase(
        lambda X: -rkhs.functionals.Laplacian(X) + 3 * rkhs.Evaluation(X),
        lambda t, d: [[(-c, i, axes) for c, i, axes in row] + [(3.0, i, ())] for i, row in enumerate(_laplacian(t, d))],
        2,
    ),
    "sparse W @ stack": FamilyCase(
        _sparse, lambda t, d: _mixed(np.maximum(_mixing(4, 2 * t), 0.0), _evaluation(t, d) + _laplacian(t, d)), 2
    ),
}


def bounded(kernel, d):
    """The names of the families that are bounded on the space of the kernel."""
    return [name for name, case in FAMILIES.items() if case.order < kernel.smoothness(d)]


def like(values, X):
    """An array of the namespace and dtype of X."""
    return np.asarray(values, X.dtype) if isinstance(X, np.ndarray) else X.new_tensor(values)


# The jet of the points, and families as combinations of it.


def jet(t, d, order=ORDER):
    """All (point, axes) up to the order, lower orders first."""
    return [
        (i, axes) for m in range(order + 1) for i in range(t) for axes in combinations_with_replacement(range(d), m)
    ]


def combination(rows, t, d):
    """The coefficients (rows, jet) of a family on the jet, from its terms."""
    place = {atom: j for j, atom in enumerate(jet(t, d))}
    matrix = np.zeros((len(rows), len(place)), dtype=np.longdouble)
    for row, terms in enumerate(rows):
        for coefficient, i, axes in terms:
            matrix[row, place[i, tuple(sorted(axes))]] += coefficient
    return matrix
