"""Kernels of vector fields: functions F(x, e) = <e, v(x)> of a point and a direction, linear in the direction.

The input is (x, e) in R^2n; the value at (x, e_c) is component c of the field at x, and
`rkhs.functionals.Components(X)` evaluates all components.

    curl-free           v = grad g          F = D_e g,           K = D_e D_e' k
    divergence-free     in the plane        v = (dg/dy, -dg/dx), F = D_Je g
                        in space            v = curl A,          F = sum_c D_(e_c x e) A_c

The potential g, and each component of A, has the kernel k.  So K is a sum of D_Me D_Me' k, and all functionals of the
field are derivatives of the potential.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, as_array, as_points, double, like, namespace
from rkhs._core.calculus.atoms import Atoms
from rkhs.kernels._algebra import LinearTransform, Product, Push, PushedKernel
from rkhs.kernels._base import Kernel
from rkhs.kernels._polynomial import Linear


class FieldKernel(PushedKernel):
    """The kernel K((x, e), (y, e')) = sum over matrices M of D_Me^x D_Me'^y k(x, y)."""

    def __post_init__(self) -> None:
        self._check_definite()

    def image(self, dimension: int) -> int:
        return _field_dimension(dimension, self)

    def smoothness(self, dimension: int) -> float:
        return super().smoothness(dimension) - 1

    def smoother(self, order: int, dimension: int) -> str | None:
        inner = super().smoother(order + 1, dimension)
        return None if inner is None else f"{type(self).__name__}({inner})"

    def seen(self, X: Array) -> Array:
        points = as_points(X)
        return points[:, : _field_dimension(int(points.shape[1]), self)]


@dataclass(frozen=True)
class CurlFree(FieldKernel):
    """The kernel of curl-free vector fields, which are the gradients of a potential with the given kernel.

    The input is (x, e) and the value is <e, v(x)>; use `rkhs.functionals.Components` for the components.  The fields
    are exactly curl-free.

    Parameters
    ----------
    kernel : Kernel
        The positive definite kernel of the potential.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> term = rkhs.Term(rkhs.functionals.Components(X), rkhs.Squared(), target=2 * X, weight=1e6)  # v = grad |x|^2
    >>> v = rkhs.Problem(rkhs.kernels.CurlFree(rkhs.Gaussian(scale=2.0)), [term]).solve().function
    >>> rkhs.functionals.Components([[1.0, 1.0]])(v).round(1)
    array([[1.7, 1.7]])
    """

    kernel: Kernel

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        push = partial(_push_to_potential, self, None)
        yield 1.0, push, push


@dataclass(frozen=True)
class DivergenceFree(FieldKernel):
    """The kernel of divergence-free vector fields in the plane or in space.

    The input is (x, e) and the value is <e, v(x)>; use `rkhs.functionals.Components` for the components.  The
    divergence is exactly zero: v is the rotated gradient of a stream function in the plane, the curl of a vector
    potential in space.

    Parameters
    ----------
    kernel : Kernel
        The positive definite kernel of the potential.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> K = rkhs.kernels.DivergenceFree(rkhs.Gaussian(scale=1.0))
    >>> X = np.array([[0.3, 0.1]])
    >>> gradients = rkhs.Gradient(np.hstack([np.repeat(X, 2, axis=0), np.eye(2)]))  # of both components
    >>> divergence = np.array([[1.0, 0, 0, 0, 0, 1, 0, 0]]) @ gradients
    >>> np.abs(rkhs.gram(K, divergence, rkhs.functionals.Components(np.ones((1, 2)))).dense()).max() < 1e-15
    np.True_
    """

    kernel: Kernel

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        for which in range(3):
            push = partial(_push_to_potential, self, which)
            yield 1.0, push, push

    def smoothness(self, dimension: int) -> float:
        _rotations(_field_dimension(dimension, self))
        return super().smoothness(dimension)


def _push_to_potential(kernel: Kernel, which: int | None, atoms: Atoms) -> tuple[Atoms, ...]:
    """Return atoms of F(x, e) = D_Me g(x) as atoms of g; M is the identity, or number `which` of `_rotations`.

    With directions (u, w):  F = D_Me,  D F = D_u D_Me + D_Mw,  D D' F = D_u D_u' D_Me + D_u D_Mw' + D_u' D_Mw.
    """
    assert atoms.blur is None, "rkhs._core.gram.blocks resolves blurs before"
    xp, n = namespace(atoms.points), _field_dimension(atoms.dimension, kernel)
    matrices = [np.eye(n)] if which is None else _rotations(n)[which : which + 1]
    if not matrices:  # one matrix in the plane, three in space
        return ()
    M = like(matrices[0].T, atoms.points)
    points, m, k = atoms.points[:, :n], atoms.order, atoms.per_point
    t = int(points.shape[0])
    # F(x, e) = D_Me g(x): a value of the field is a derivative of the potential along M e
    Me = xp.broadcast_to((atoms.points[:, n:] @ M)[:, None, None, :], (t, k, 1, n))
    directions = xp.broadcast_to(atoms.directions, (t, k, m, 2 * n))
    U, W = directions[..., :n], directions[..., n:] @ M
    # D_u (D_Me g) with e fixed ..
    pushed = [Atoms(points, xp.concat([U, Me], axis=2))]
    # .. and D_Mw g for the change w of e, one direction at a time, as F is linear in e
    for i in range(m):
        others = [U[:, :, j : j + 1] for j in range(m) if j != i]
        pushed.append(Atoms(points, xp.concat([*others, W[:, :, i : i + 1]], axis=2)))
    return tuple(pushed)


def _rotations(n: int) -> list[Matrix]:
    """Return the matrices M of divergence-free fields: a right angle in the plane, e -> e_c x e in space."""
    if n == 2:
        return [np.array([[0.0, -1.0], [1.0, 0.0]])]
    if n == 3:
        return [np.cross(np.eye(3)[c], np.eye(3)).T for c in range(3)]
    raise ValueError(f"DivergenceFree is for fields in R^2 and R^3, got points of R^{n}.")


def _field_dimension(dimension: int, kernel: Kernel) -> int:
    if dimension % 2:
        raise ValueError(
            f"{kernel!r} is a kernel of points (x, e) whose direction e has as many coordinates as x, got "
            f"R^{dimension}: use rkhs.functionals.Components(X) for the components of a field at X."
        )
    return dimension // 2


def components(kernel: Kernel, dimension: int, covariance: Any) -> Kernel:
    """Return the kernel of several outputs that share a kernel and have covariances B.

        K((x, e), (y, e')) = k(x, y) e'Be

    The input is (x, e) in R^(n+m) with e = e_c for output c: `rkhs.functionals.Components(X, m)`.

    Parameters
    ----------
    kernel : Kernel
        The kernel k of each output.
    dimension : int
        The number n of features.
    covariance : array-like of shape (m, m)
        The positive semi-definite matrix B of the covariances among the outputs.

    Returns
    -------
    Kernel
        The kernel K on R^(n+m).

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> K = rkhs.kernels.components(rkhs.Gaussian(scale=1.0), dimension=1, covariance=[[1.0, 0.5], [0.5, 1.0]])
    >>> rkhs.gram(K, rkhs.functionals.Components([[0.0]], 2)).dense()
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    B = double(as_array(covariance, "covariance"))
    if B.ndim != 2 or B.shape[0] != B.shape[1] or not np.allclose(B, B.T):
        raise ValueError(f"covariance must be a symmetric matrix, got shape {B.shape}.")
    values, vectors = np.linalg.eigh(B)
    if values[0] < -1e-12 * max(values[-1], 0.0) or not values[-1] > 0:
        raise ValueError(f"covariance must be positive semi-definite; its smallest eigenvalue is {values[0]:.3g}.")
    m = len(B)
    root = (vectors * np.sqrt(np.clip(values, 0, None))).T
    first = np.hstack([np.eye(dimension), np.zeros((dimension, m))])
    return Product(
        (LinearTransform(kernel, first), LinearTransform(Linear(), np.hstack([np.zeros((m, dimension)), root])))
    )
