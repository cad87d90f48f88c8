"""Derivatives: partial, directional, gradients, Hessians and Laplacians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import Array, Matrix, as_array, as_points, immutable_copy, like, same_kind, to_numpy
from rkhs._core.backend.sparse import SparseVectors
from rkhs._core.calculus.atoms import Atoms
from rkhs.functionals._base import AtPoints, Part


@dataclass(frozen=True, eq=False, repr=False)
class Derivative(AtPoints):
    """Partial derivatives of any order at points.

        L_i(f) = d^m f / dx_a dx_b .. (x_i) for axes = [a, b, ..]: shape (t,)

    With several lists of axes of equal length there are several derivatives at each point: shape (t, k).

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.
    axes : sequence of int, or of sequences of int
        The features in which to differentiate, one entry per order; or several such lists of equal length.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[2.0, 3.0]])
    >>> rkhs.Derivative(X, axes=[0, 1])(rkhs.Polynomials(degree=2))  # of 1, x, y, x^2, x y, y^2
    array([[0., 0., 0., 0., 1., 0.]])
    >>> rkhs.Derivative(X, axes=[[0], [1]]).shape
    (1, 2)
    """

    axes: Sequence[int] | Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        super().__post_init__()
        n = int(self.X.shape[1])
        try:
            array = np.asarray([list(a) if np.ndim(a) else a for a in self.axes])  # type: ignore[arg-type]
        except (TypeError, ValueError):
            array = np.zeros((0, 0, 0))
        if array.ndim not in (1, 2) or array.size == 0 or array.dtype.kind not in "iu":
            raise ValueError(
                f"axes must be a list of features such as [0] or [0, 1], or several lists of equal length, got "
                f"{self.axes!r}: stack families for derivatives of different orders."
            )
        if array.min() < -n or array.max() >= n:
            raise ValueError(f"axes {self.axes!r} name a feature that points in R^{n} do not have (0 to {n - 1}).")
        listed = (array % n).tolist()
        object.__setattr__(self, "axes", tuple(listed) if array.ndim == 1 else tuple(map(tuple, listed)))

    @property
    def details(self) -> list[str]:
        return [f"axes={[list(a) if isinstance(a, tuple) else a for a in self.axes]}"]

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]), *np.shape(self.axes)[:-1])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(Atoms(self.X, _unit_directions(np.atleast_2d(np.asarray(self.axes)), self.X))),)


@dataclass(frozen=True, eq=False, repr=False)
class DirectionalDerivative(AtPoints):
    """Derivatives along given directions at points.

        L_i(f) = <v_i, grad f(x_i)>

    The shape is (t,) for V of shape (t, n), and (t, k) for k directions at each point.

    Parameters
    ----------
    X : array-like or SciPy sparse matrix of shape (t, n)
        The points.
    V : array-like of shape (t, n) or (t, k, n), or SciPy sparse matrix of shape (t, n)
        The directions; sparse if X is.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X, V = np.array([[2.0, 3.0]]), np.array([[1.0, -1.0]])
    >>> rkhs.functionals.DirectionalDerivative(X, V)(rkhs.Polynomials(degree=2))
    array([[ 0.,  1., -1.,  4.,  1., -6.]])
    """

    V: Array

    def __post_init__(self) -> None:
        X = as_points(self.X, sparse=True)
        V = as_points(self.V, "V", sparse=True) if isinstance(X, SparseVectors) else as_array(self.V, "V")
        if isinstance(X, SparseVectors) != isinstance(V, SparseVectors):
            raise TypeError("X is a sparse matrix and V is not: pass scipy.sparse.csr_array(V).")
        X, V = same_kind(X, V)
        if V.ndim not in (2, 3) or V.shape[0] != X.shape[0] or V.shape[-1] != X.shape[1]:
            t, n = X.shape
            raise ValueError(f"V must have shape ({t}, {n}) or ({t}, k, {n}) to match X, got {tuple(V.shape)}.")
        object.__setattr__(self, "X", immutable_copy(X))
        object.__setattr__(self, "V", immutable_copy(V))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.V.shape[:-1])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        directions = self.V[:, None, None, :] if self.V.ndim == 2 else self.V[:, :, None, :]
        return (Part(Atoms(self.X, directions)),)


class Gradient(AtPoints):
    """The gradient at points: all first partial derivatives.

        L_ia(f) = df/dx_a (x_i): shape (t, n)

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Gradient(np.array([[2.0, 3.0]]))(rkhs.Polynomials(degree=1))
    array([[[0., 1., 0.],
            [0., 0., 1.]]])
    """

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.X.shape)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(Atoms(self.X, _unit_directions(np.arange(self.X.shape[1])[:, None], self.X))),)


class Jet(AtPoints):
    """The value and the gradient at points, as one vector for each point.

        L_i(f) = (f(x_i), df/dx_1 (x_i), .., df/dx_n (x_i)): shape (t, 1 + n)

    It is meant for losses of vectors, such as `rkhs.losses.RobustHinge`.

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.functionals.Jet(np.array([[2.0]]))(rkhs.Polynomials(degree=1))
    array([[[1., 2.],
            [0., 1.]]])
    """

    @property
    def shape(self) -> tuple[int, ...]:
        return int(self.X.shape[0]), 1 + int(self.X.shape[1])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, n = (int(k) for k in self.X.shape)
        points, dtype = scipy.sparse.eye_array(t), to_numpy(self.X[:0]).dtype
        values, slopes = (
            scipy.sparse.kron(points, rows, format="csr").astype(dtype)
            for rows in (np.eye(1 + n, 1), np.eye(1 + n, n, k=-1))
        )
        gradients = Atoms(self.X, _unit_directions(np.arange(n)[:, None], self.X))
        return Part(Atoms.values(self.X), matrix=values), Part(gradients, matrix=slopes)


class Hessian(AtPoints):
    """The Hessian matrix at points: all second partial derivatives.

        L_iab(f) = d^2 f / dx_a dx_b (x_i): shape (t, n, n)

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.functionals.Hessian(np.array([[2.0]]))(rkhs.Polynomials(degree=2))
    array([[[[0., 0., 2.]]]])
    """

    @property
    def shape(self) -> tuple[int, ...]:
        t, n = self.X.shape
        return int(t), int(n), int(n)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        n = self.X.shape[1]
        axes = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)
        return (Part(Atoms(self.X, _unit_directions(axes, self.X))),)


class Laplacian(AtPoints):
    """The Laplacian at points: the trace of the Hessian.

        L_i(f) = sum_a d^2 f / dx_a^2 (x_i): shape (t,)

    Parameters
    ----------
    X : array-like of shape (t, n)
        The points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.functionals.Laplacian(np.array([[2.0, 3.0]]))(rkhs.Polynomials(degree=2))
    array([[0., 0., 0., 2., 0., 2.]])
    """

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, n = self.X.shape
        axes = np.repeat(np.arange(n)[:, None], 2, axis=1)
        dtype = to_numpy(self.X[:0]).dtype
        trace = scipy.sparse.kron(scipy.sparse.eye_array(t), np.ones((1, n)), format="csr").astype(dtype)
        return (Part(Atoms(self.X, _unit_directions(axes, self.X)), matrix=trace),)


def _unit_directions(axes: Matrix, X: Array) -> Array:
    """Return unit vectors (k, m, n) along the axes (k, m)."""
    return like(np.eye(X.shape[1])[axes], X)
