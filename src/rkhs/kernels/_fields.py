"""Kernels of vector fields: functions F(x, e) = <e, v(x)> of a point and a direction, linear in the direction.

Points of R^2n are (x, e), one after the other; the value at (x, e_c) is component c of the field at x, and
`rkhs.functionals.Components(X)` are the functionals that give all of them.

    curl-free           v = grad g          F = D_e g,           K = D_e D_e' k
    divergence-free     in the plane        v = (dg/dy, -dg/dx), F = D_Je g
                        in space            v = curl A,          F = sum_c D_(e_c x e) A_c

g, and each component of A, are functions with the kernel k: so K is a sum of D_Me D_Me' k, all of whose functionals
are derivatives of k.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, as_array, as_points, like, namespace, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs.kernels._algebra import Product, Pullback, Push, PushedKernel
from rkhs.kernels._base import Kernel
from rkhs.kernels._polynomial import Linear


class FieldKernel(PushedKernel):
    """K((x, e), (y, e')) = sum over matrices M of D_Me^x D_Me'^y k(x, y)."""

    def __post_init__(self) -> None:
        self._check_definite()

    def image(self, dimension: int) -> int:
        return _half(dimension, self)

    def smoothness(self, dimension: int) -> float:
        return super().smoothness(dimension) - 1

    def smoother(self, order: int, dimension: int) -> str | None:
        inner = super().smoother(order + 1, dimension)
        return None if inner is None else f"{type(self).__name__}({inner})"

    def seen(self, X: Array) -> Array:
        points = as_points(X)
        return points[:, : _half(int(points.shape[1]), self)]


@dataclass(frozen=True)
class CurlFree(FieldKernel):
    """Vector fields without curl, exactly: gradients of a potential.

    v = grad g, where g has the kernel k_1.

    Points are (x, e), the value is <e, v(x)>; see `rkhs.functionals.Components`.

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
        slope = partial(_slopes, self, None)
        yield 1.0, slope, slope


@dataclass(frozen=True)
class DivergenceFree(FieldKernel):
    """Vector fields without sources, exactly, in the plane or in space: their divergence is zero.

    Points are (x, e), the value is <e, v(x)>; see `rkhs.functionals.Components`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> K = rkhs.kernels.DivergenceFree(rkhs.Gaussian(scale=1.0))
    >>> X = np.array([[0.3, 0.1]])
    >>> slopes = rkhs.Gradient(np.hstack([np.repeat(X, 2, axis=0), np.eye(2)]))  # of both components
    >>> divergence = np.array([[1.0, 0, 0, 0, 0, 1, 0, 0]]) @ slopes
    >>> np.abs(rkhs.gram(K, divergence, rkhs.functionals.Components(np.ones((1, 2)))).dense()).max() < 1e-15
    np.True_
    """

    kernel: Kernel

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        for which in range(3):
            slope = partial(_slopes, self, which)
            yield 1.0, slope, slope

    def smoothness(self, dimension: int) -> float:
        _turns(_half(dimension, self))
        return super().smoothness(dimension)


def _slopes(kernel: Kernel, which: int | None, atoms: Atoms) -> tuple[Atoms, ...]:
    """Return atoms of F(x, e) = D_Me g(x) as atoms of g; M is the identity, or number `which` of `_turns`.

    With directions (u, w):  F = D_Me,  D F = D_u D_Me + D_Mw,  D D' F = D_u D_u' D_Me + D_u D_Mw' + D_u' D_Mw.
    """
    assert atoms.blur is None, "blurs are resolved before: see `blocks`"
    xp, n = namespace(atoms.points), _half(atoms.dimension, kernel)
    turns = [np.eye(n)] if which is None else _turns(n)[which : which + 1]
    if not turns:
        return ()
    turn = like(turns[0].T, atoms.points)
    points, m, k = atoms.points[:, :n], atoms.order, atoms.per_point
    t = int(points.shape[0])
    own = xp.broadcast_to((atoms.points[:, n:] @ turn)[:, None, None, :], (t, k, 1, n))
    given = xp.broadcast_to(atoms.directions, (t, k, m, 2 * n))
    U, W = given[..., :n], given[..., n:] @ turn
    found = [Atoms(points, xp.concat([U, own], axis=2))]
    for i in range(m):
        others = [U[:, :, j : j + 1] for j in range(m) if j != i]
        found.append(Atoms(points, xp.concat([*others, W[:, :, i : i + 1]], axis=2)))
    return tuple(found)


def _turns(n: int) -> list[Matrix]:
    """Return the M of fields without sources: a right angle in the plane, e_c x in space."""
    if n == 2:
        return [np.array([[0.0, -1.0], [1.0, 0.0]])]
    if n == 3:
        return [np.cross(np.eye(3)[c], np.eye(3)).T for c in range(3)]
    raise ValueError(f"DivergenceFree is for fields in the plane and in space, R^2 and R^3, not in R^{n}.")


def _half(dimension: int, who: Any) -> int:
    if dimension % 2:
        raise ValueError(
            f"{who!r} is a kernel of points (x, e) with as many numbers for the direction e as for x, got "
            f"R^{dimension}: use rkhs.functionals.Components(X) for the components of a field at X."
        )
    return dimension // 2


def components(kernel: Kernel, dimension: int, covariance: Any) -> Kernel:
    """Several outputs that share a kernel, with covariances B (m, m) among them.

        K((x, e), (y, e')) = k(x, y) e'Be

    Points are (x, e) of R^(n+m), e = e_c for output c: `rkhs.functionals.Components(X, m)`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> K = rkhs.kernels.components(rkhs.Gaussian(scale=1.0), dimension=1, covariance=[[1.0, 0.5], [0.5, 1.0]])
    >>> rkhs.gram(K, rkhs.functionals.Components([[0.0]], 2)).dense()
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    B = to_numpy(as_array(covariance, "covariance")).astype(np.float64)
    if B.ndim != 2 or B.shape[0] != B.shape[1] or not np.allclose(B, B.T):
        raise ValueError(f"Covariances among outputs are a symmetric matrix, got shape {B.shape}.")
    values, vectors = np.linalg.eigh(B)
    if values[0] < -1e-12 * max(values[-1], 0.0) or not values[-1] > 0:
        raise ValueError(f"Covariances among outputs are positive semi-definite; an eigenvalue is {values[0]:.3g}.")
    m = len(B)
    root = (vectors * np.sqrt(np.clip(values, 0, None))).T
    first = np.hstack([np.eye(dimension), np.zeros((dimension, m))])
    return Product((Pullback(kernel, first), Pullback(Linear(), np.hstack([np.zeros((m, dimension)), root]))))
