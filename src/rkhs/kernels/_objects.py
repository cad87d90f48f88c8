"""Kernels that users compute: of objects such as strings, graphs and sets, or of points, differentiated by PyTorch.

The points of a kernel of objects are the indices of the objects in a list.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import is_torch_array

from rkhs._core.backend.arrays import (
    Array,
    Matrix,
    Vector,
    as_array,
    frozen,
    immutable_copy,
    import_optional,
    like,
    to_numpy,
)
from rkhs._core.calculus.atoms import AllPairs, Atoms, Pairing
from rkhs.kernels._base import Kernel

ROUNDING = 1e-8  # relative differences of kernel values below this are rounding errors of whoever computed them
SINGLE_ROUNDING = 1e-5  # the same for values in float32
NEGATIVE = 1e-7  # a negative eigenvalue below this share of the trace is a rounding error, in float32 as well
COMPARED = 32  # pairs of each computation for which symmetry and definiteness are checked


class IndexKernel(Kernel):
    """A kernel of the objects of a list; a point is the index of an object, so that points have shape (t, 1).

    Functionals that take values at objects, differences and averages of them are bounded, and derivatives are not.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of objects."""

    @abstractmethod
    def entries(self, i: Vector, j: Vector) -> Matrix:
        """Return the values k(object i, object j) for arrays of indices that broadcast.

        Parameters
        ----------
        i, j : ndarray of int
            The indices.

        Returns
        -------
        ndarray
            The values, in the shape to which i and j broadcast.
        """

    @property
    def points(self) -> Matrix:
        """The points of all objects: the indices 0, 1, ... as an array (size, 1), the X of estimators."""
        return np.arange(self.size, dtype=np.float64)[:, None]

    def smoothness(self, dimension: int) -> float:
        return 1.0  # values are bounded functionals, and there are no derivatives

    def __deepcopy__(self, memo: Any) -> Any:
        return self  # immutable: the clones of an estimator share the objects and the values computed so far

    def pair(self, pairing: Pairing) -> Array:
        i, j = (self._indices(side.points) for side in (pairing.left, pairing.right))
        values = self.entries(i[:, None], j[None, :]) if isinstance(pairing, AllPairs) else self.entries(i, j)
        return like(values, pairing.left.points)

    def _indices(self, points: Array) -> Vector:
        """Validate points and return them as integer indices."""
        rows = to_numpy(points)
        if rows.shape[1] != 1:
            raise ValueError(
                f"The points of {self!r} are indices of its objects, of shape (t, 1), got shape {rows.shape}: pass "
                "kernel.points, or some of its rows."
            )
        indices = rows[:, 0].astype(np.intp)
        wrong = np.flatnonzero((indices != rows[:, 0]) | (indices < 0) | (indices >= self.size))
        if len(wrong):
            raise ValueError(
                f"{rows[wrong[0], 0]:g} is not the index of one of the {self.size} objects of {self!r}: the points are "
                "whole numbers, from 0 on."
            )
        return indices


@dataclass(frozen=True, eq=False)
class Precomputed(IndexKernel):
    """The kernel of a list of objects, given by the matrix of its values.

        k(i, j) = K_ij,  the points being the indices i = 0, 1, .. of the objects

    Values, differences and averages are bounded functionals; there are no derivatives.  The estimators also take
    ``kernel="precomputed"``, with kernel matrices as X, as `sklearn.svm.SVC` does.

    Parameters
    ----------
    K : array-like of shape (t, t) or (s, t) with s > t
        The symmetric positive semidefinite matrix of t objects.  Rows below it are the values of s - t new objects, at
        which functions of the first t can be evaluated.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> sets = [{1, 2}, {2, 3}, {7}, {7, 8}]
    >>> K = np.array([[len(a & b) / len(a | b) for b in sets] for a in sets])  # Jaccard's index
    >>> kernel = rkhs.kernels.Precomputed(K)
    >>> labels = rkhs.Term(rkhs.Evaluation([[0], [2]]), rkhs.Squared(), target=[1.0, -1.0], weight=100.0)
    >>> same = rkhs.Term(rkhs.Difference([[2]], [[3]]), rkhs.Squared(), weight=100.0)  # f(set 2) = f(set 3)
    >>> rkhs.Problem(kernel, [labels, same]).solve().function(kernel.points).round(2)
    array([ 1.  ,  0.33, -0.99, -0.99])
    """

    K: Array

    def __post_init__(self) -> None:
        given = to_numpy(as_array(self.K, "K"))
        K = given.astype(np.float64, copy=False)
        rounding = ROUNDING if given.dtype.itemsize > 4 else SINGLE_ROUNDING
        if K.ndim != 2 or K.shape[0] < K.shape[1] or K.shape[1] == 0:
            raise ValueError(
                f"K must be a square kernel matrix, with or without rows of new objects below it, got shape {K.shape}."
            )
        square = K[: K.shape[1]]
        check_kernel_matrix(square, "K", range(len(square)), rounding)
        check_semidefinite(square, "K")
        if not np.array_equal(square, square.T):
            K = frozen(np.concatenate([(square + square.T) / 2, K[len(square) :]]))
        object.__setattr__(self, "K", immutable_copy(K))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Precomputed) and np.array_equal(self.K, other.K)

    def __hash__(self) -> int:
        return hash((self.K.shape, self.K[0].tobytes()))

    def __repr__(self) -> str:
        t, new = self.K.shape[1], self.K.shape[0] - self.K.shape[1]
        return f"Precomputed({t} objects{f' and {new} new ones' if new else ''})"

    @property
    def size(self) -> int:
        return int(self.K.shape[0])

    def entries(self, i: Vector, j: Vector) -> Matrix:
        old = self.K.shape[1]
        if np.any(np.minimum(i, j) >= old):
            raise ValueError(
                f"{self!r} has no values of new objects among themselves, which this computation needs (standard "
                "deviations do, for example): pass the square matrix of all objects."
            )
        return np.asarray(self.K[np.maximum(i, j), np.minimum(i, j)])

    def extended(self, rows: Array) -> Precomputed:
        """Return the kernel with new objects, which get the next indices.

        Parameters
        ----------
        rows : array-like of shape (s, t)
            The kernel values of the new objects with the first t objects.

        Returns
        -------
        Precomputed
            The kernel, under which a function of the old objects has values at the new ones.
        """
        added = np.asarray(to_numpy(as_array(rows, "rows")), dtype=np.float64)
        if added.ndim != 2 or added.shape[1] != self.K.shape[1]:
            raise ValueError(
                f"rows must have one column for each of the {self.K.shape[1]} objects of {self!r}, got shape "
                f"{added.shape}."
            )
        extended = object.__new__(Precomputed)  # the square matrix has been validated
        object.__setattr__(extended, "K", frozen(np.concatenate([self.K, added])))
        return extended


@dataclass(frozen=True, eq=False)
class ObjectKernel(IndexKernel):
    """The kernel of a list of objects, given by a function of two objects.

        k(i, j) = function(objects[i], objects[j]),  the points being the indices i = 0, 1, .. of the objects

    Entries are computed when they are needed, and kept.  The function must be symmetric and positive semidefinite: a
    count of common substrings is, and a similarity of another kind need not be.  A value that is not finite raises an
    error.  So does a violation of k(a, b) = k(b, a) or of k(a, b)^2 <= k(a, a) k(b, b), checked for some of the pairs.

    Parameters
    ----------
    function : callable
        A function of two objects that returns a number.  To pickle a model, use a function of a module, not a lambda.
    objects : iterable
        The objects: labeled ones, unlabeled ones, and those to predict if they are known already.

    Examples
    --------
    The spectrum kernel of Leslie, Eskin and Noble (2002), which counts common substrings of length 2:

    >>> import rkhs
    >>> from collections import Counter
    >>> def spectrum(a, b, length=2):
    ...     p, q = (Counter(s[i : i + length] for i in range(len(s) - length + 1)) for s in (a, b))
    ...     return sum(p[part] * q[part] for part in p)
    >>> kernel = rkhs.kernels.ObjectKernel(spectrum, ["banana", "bandana", "cherry", "berry", "ananas", "sherry"])
    >>> X = kernel.points  # the indices of the words
    >>> model = rkhs.InvariantClassifier(kernel, invariance=None).fit(X[:4], [1, 1, 0, 0])
    >>> model.predict(X[4:])
    array([1, 0])

    A word that was not in the list:

    >>> from dataclasses import replace
    >>> longer = kernel.extended(["merry"])
    >>> bool(replace(model.function_, kernel=longer)(longer.points[-1:]) < 0)
    True
    """

    function: Callable[[Any, Any], float]
    objects: Any  # an iterable, which becomes a tuple

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"ObjectKernel needs a function of two objects, got {self.function!r}.")
        objects = tuple(self.objects)
        if not objects:
            raise ValueError("ObjectKernel needs at least one object, got an empty list.")
        object.__setattr__(self, "objects", objects)

    def __repr__(self) -> str:
        return f"ObjectKernel({getattr(self.function, '__name__', repr(self.function))}, {self.size} objects)"

    @property
    def size(self) -> int:
        return len(self.objects)

    @cached_property
    def _known(self) -> Matrix:
        """The values (t, t) that have been computed so far, NaN elsewhere."""
        return np.full((self.size, self.size), np.nan)

    def entries(self, i: Vector, j: Vector) -> Matrix:
        low, high = np.broadcast_arrays(np.minimum(i, j), np.maximum(i, j))
        missing = np.isnan(self._known[low, high])
        if np.any(missing):
            a, b = np.divmod(np.unique(low[missing] * self.size + high[missing]), self.size)
            self._known[a, b] = self._known[b, a] = self._computed(a, b)
        return np.asarray(self._known[low, high])

    def _computed(self, i: Vector, j: Vector) -> Vector:
        """Return the values of pairs of objects, after checks."""
        values = np.array([self._value(a, b) for a, b in zip(i.tolist(), j.tolist(), strict=True)])
        for k in np.unique(np.linspace(0, len(i) - 1, COMPARED).round().astype(int)).tolist():
            a, b, value = int(i[k]), int(j[k]), float(values[k])
            square = np.array([[self._value(a, a), value], [self._value(b, a), self._value(b, b)]])
            check_kernel_matrix(square, repr(self), (a, b), ROUNDING)
        return values

    def _value(self, i: int, j: int) -> float:
        value = self.function(self.objects[i], self.objects[j])
        if not isinstance(value, Real) or not isfinite(float(value)):
            raise ValueError(f"The function of {self!r} returned {value!r} for objects {i} and {j}, not a number.")
        return float(value)

    def extended(self, more: Iterable[Any]) -> ObjectKernel:
        """Return the kernel with new objects, which get the next indices, and the values computed so far.

        Parameters
        ----------
        more : iterable
            The new objects.

        Returns
        -------
        ObjectKernel
            The kernel, under which a function of the old objects has values at the new ones.
        """
        extended = ObjectKernel(self.function, (*self.objects, *more))
        vars(extended)["_known"] = np.pad(self._known, (0, extended.size - self.size), constant_values=np.nan)
        return extended


def check_kernel_matrix(K: Matrix, name: str, objects: Any, rounding: float) -> None:
    """Raise ValueError if a matrix (t, t) of kernel values of `objects` violates K = K' or |K_ij|^2 <= K_ii K_jj.

    These conditions are necessary for a kernel matrix, and take no factorization.
    """
    asymmetry = np.abs(K - K.T)
    if asymmetry.max() > rounding * np.abs(K).max():
        i, j = np.unravel_index(int(asymmetry.argmax()), K.shape)
        raise ValueError(
            f"{name} is not symmetric: objects {objects[i]} and {objects[j]} have the value {K[i, j]:g}, "
            f"and {K[j, i]:g} in the other order. A kernel is; (K + K.T) / 2 is one if the difference is noise."
        )
    diagonal = np.sqrt(np.maximum(np.diag(K), 0.0))
    excess = np.abs(K) - (1 + rounding) * diagonal[:, None] * diagonal
    if excess.max() > 0:
        i, j = np.unravel_index(int(excess.argmax()), K.shape)
        raise ValueError(
            f"{name} is not positive semidefinite: the value {K[i, j]:g} of objects {objects[i]} and {objects[j]} "
            f"exceeds the root of {K[i, i]:g} times {K[j, j]:g}, their values with themselves. Use an inner product of "
            "features."
        )


def check_semidefinite(K: Matrix, name: str) -> None:
    """Raise ValueError if a kernel matrix (t, t) has a negative eigenvalue, and thus no Cholesky factorization."""
    shifted = np.array(K, order="F")  # factorized in place, without another copy
    shifted[np.diag_indices_from(K)] += max(NEGATIVE * float(np.trace(K)), np.finfo(np.float64).tiny)
    if scipy.linalg.lapack.dpotrf(shifted, overwrite_a=1, clean=0)[1]:
        least, largest = np.linalg.eigvalsh(K)[[0, -1]]
        raise ValueError(
            f"{name} is not positive semidefinite: its eigenvalues range from {least:.2g} to {largest:.2g}, and no "
            f"inner product of features has negative ones. Add {-least:.2g} to its diagonal, or use another kernel."
        )


@dataclass(frozen=True)
class AutodiffKernel(Kernel):
    """A kernel from any function that PyTorch can differentiate.

        k(x, y) = fn(x, y)

    The derivatives come from forward-mode differentiation.  They are correct wherever fn is differentiable *as
    written*: a norm |x - y| inside fn has no derivative at x = y and yields NaN there, even where k is smooth.  Write
    such kernels as functions of |x - y|^2, or as a `FormKernel` (see "add a kernel").

    Parameters
    ----------
    fn : callable
        The function of two PyTorch vectors of shape (n,) that returns a scalar.
    smooth : float, default=inf
        Derivatives of order below this are bounded functionals; it is not checked.
    order : int, default=0
        The order of conditional positive definiteness; it is not checked.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> k = rkhs.kernels.AutodiffKernel(lambda x, y: (x @ y + 1.0) ** 2)
    >>> rkhs.gram(k, rkhs.Gradient(np.array([[1.0, 2.0]])), rkhs.Evaluation(np.array([[3.0, 1.0]]))).dense()
    array([[36.],
           [12.]])
    """

    fn: Callable[[Any, Any], Any]
    smooth: float = inf
    order: int = 0

    def smoothness(self, dimension: int) -> float:
        return self.smooth

    def pair(self, pairing: Pairing) -> Array:
        torch = import_optional("torch", "AutodiffKernel needs PyTorch: pip install 'rkhs[gpu]'.")
        left, right = pairing.left, pairing.right
        native = is_torch_array(left.points)

        def tensor(array: Array) -> Any:
            return array if native else torch.tensor(np.ascontiguousarray(array))  # PyTorch has no negative strides

        def flat(atoms: Atoms) -> tuple[Any, Any]:
            """Return the points (size, n) and the directions (size, m, n) of the atoms."""
            t, k, m, n = atoms.points.shape[0], atoms.per_point, atoms.order, atoms.dimension
            points = tensor(atoms.points)[:, None, :].expand(t, k, n)
            return points.reshape(t * k, n), tensor(atoms.directions).expand(t, k, m, n).reshape(t * k, m, n)

        def single(x: Any, us: Any, y: Any, vs: Any) -> Any:
            return _directional(self.fn, x, list(us.unbind(0)), y, list(vs.unbind(0)))

        (x, us), (y, vs) = flat(left), flat(right)
        mapped = torch.func.vmap(single)
        if isinstance(pairing, AllPairs):
            mapped = torch.func.vmap(torch.func.vmap(single, in_dims=(None, None, 0, 0)), in_dims=(0, 0, None, None))
        values = mapped(x, us, y, vs)
        return values if native else like(to_numpy(values), left.points)


def _directional(fn: Callable[[Any, Any], Any], x: Any, us: list[Any], y: Any, vs: list[Any]) -> Any:
    """Return D_us on the first argument and D_vs on the second of fn, by nested Jacobian-vector products."""
    import torch

    if us:
        return torch.func.jvp(lambda s: _directional(fn, s, us[1:], y, vs), (x,), (us[0],))[1]
    if vs:
        return torch.func.jvp(lambda s: _directional(fn, x, us, s, vs[1:]), (y,), (vs[0],))[1]
    return fn(x, y)
