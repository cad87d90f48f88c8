"""Smooth maps of the input, and what they do to atoms.

With g = f o phi, the chain rule takes atoms of g at x to atoms of f at phi(x), J being the Jacobian of phi:

    g(x) = f(phi(x))      D_u g = D_Ju f      D_u D_v g = D_Ju D_Jv f + D_w f,   w = phi''(u, v)

so that a functional of g is one of f: nothing else is needed to have kernels of phi(x).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import pi
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from rkhs._backend.arrays import Array, Matrix, Vector, like, namespace, to_numpy, zeros
from rkhs._calculus.atoms import Atoms


class Map(ABC):
    """phi: R^n -> R^p at the rows of X, with its derivatives."""

    orders: int = 1  # of derivatives that are known

    @abstractmethod
    def image(self, dimension: int) -> int:
        """p, for inputs of a dimension n."""

    @abstractmethod
    def values(self, X: Array) -> Array:
        """phi (t, p)."""

    @abstractmethod
    def jacobian(self, X: Array) -> Array:
        """d phi_a / dx_j, (t, p, n)."""

    def second(self, X: Array) -> Array:
        """d^2 phi_a / dx_i dx_j, (t, p, n, n); where `orders` is two."""
        raise NotImplementedError(f"{type(self).__name__} does not know its second derivatives.")

    def pushed(self, atoms: Atoms) -> tuple[Atoms, ...]:
        """Return the atoms of f o phi as atoms of f, which are to be added up."""
        assert atoms.blur is None, "blurs are resolved before: see `blocks`"
        xp, X = namespace(atoms.points), atoms.points
        points = self._checked(self.values(X), X, "values")
        (t, n), (k, m), p = X.shape, (atoms.per_point, atoms.order), int(points.shape[1])
        if m == 0:
            return (Atoms(points, zeros((k, 0, p), points)),)
        J = self._checked(self.jacobian(X), X, "Jacobian")
        flat = xp.reshape(atoms.directions, (*atoms.directions.shape[:-3], k * m, n))
        along = xp.reshape(flat @ xp.matrix_transpose(J), (t, k, m, p))
        if m == 1:
            return (Atoms(points, along),)
        bent = self._checked(self.second(X), X, "second derivatives")
        bends = xp.einsum("tpij,tki,tkj->tkp", bent, *(xp.broadcast_to(atoms.u(i), (t, k, n)) for i in range(2)))
        return Atoms(points, along), Atoms(points, bends[:, :, None, :])

    def _checked(self, found: Array, X: Array, what: str) -> Array:
        xp = namespace(found)
        finite = xp.isfinite(found)
        if not bool(xp.all(finite)):
            row = int(np.argwhere(~to_numpy(finite))[0, 0])
            raise ValueError(f"The {what} of {self!r} at row {row} of the points are not finite.")
        n = int(X.shape[1])
        wanted = {"values": (None,), "Jacobian": (None, n)}.get(what, (None, n, n))
        if tuple(found.shape)[:1] != (X.shape[0],) or tuple(found.shape)[2:] != wanted[1:]:
            raise ValueError(
                f"The {what} of {self!r} have shape {tuple(found.shape)}; {int(X.shape[0])} points of R^{n} need "
                f"({int(X.shape[0])}, p{''.join(f', {size}' for size in wanted[1:])})."
            )
        return found


@dataclass(frozen=True)
class Features(Map):
    """Features of the input by a function X (t, n) -> (t, p), with its Jacobian (t, p, n), or derived by PyTorch.

    Without a `gradient` the function has to be one of PyTorch tensors, and second derivatives are known too.  With
    one, second derivatives (t, p, n, n) are known where `second_gradient` is given.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> squares = rkhs.kernels.Features(lambda X: X**2, gradient=lambda X: 2 * X[:, :, None] * np.eye(X.shape[1]))
    >>> kernel = rkhs.kernels.Linear() @ squares
    >>> rkhs.gram(kernel, rkhs.Gradient([[3.0]]), rkhs.Evaluation([[2.0]])).dense()
    array([[24.]])
    """

    function: Callable[[Array], Array]
    gradient: Callable[[Array], Array] | None = None
    second_gradient: Callable[[Array], Array] | None = None

    def __repr__(self) -> str:
        how = "by PyTorch" if self.gradient is None else "with gradient"
        return f"Features({getattr(self.function, '__name__', type(self.function).__name__)}, {how})"

    @property
    def orders(self) -> int:  # type: ignore[override]
        return 2 if self.gradient is None or self.second_gradient is not None else 1

    def image(self, dimension: int) -> int:
        return int(self.values(np.random.default_rng(0).standard_normal((1, dimension))).shape[1])

    def values(self, X: Array) -> Array:
        return self._derivatives(X, 0)

    def jacobian(self, X: Array) -> Array:
        return self._derivatives(X, 1)

    def second(self, X: Array) -> Array:
        return self._derivatives(X, 2)

    def _derivatives(self, X: Array, order: int) -> Array:
        """Return the derivatives of an order by the function that was given for them, else by PyTorch."""
        given = (None if self.gradient is None else self.function, self.gradient, self.second_gradient)[order]
        if given is not None:
            return like(given(X), X)
        try:
            import torch
        except ImportError:
            raise ImportError(
                f"{self!r} needs PyTorch (pip install 'rkhs[gpu]'), or a `gradient` that gives its Jacobian."
            ) from None
        rows = X if is_torch_array(X) else torch.tensor(np.ascontiguousarray(X))
        if order == 0:
            return like(self.function(rows), X)

        def one(x: Any) -> Any:
            return self.function(x[None])[0]

        for _ in range(order):
            one = torch.func.jacfwd(one)
        return like(torch.func.vmap(one)(rows), X)


@dataclass(frozen=True)
class Circles(Map):
    """Each feature on a circle: period / 2 pi (cos, sin) of 2 pi x / period, where lengths are those of x."""

    period: tuple[float, ...]
    orders = 2

    def image(self, dimension: int) -> int:
        return 2 * dimension

    def _waves(self, X: Array) -> tuple[Array, Array, Array]:
        """cos and sin of the angles (t, n), and the frequencies (n,)."""
        period = np.asarray(self.period)
        if period.size not in (1, X.shape[1]):
            raise ValueError(f"There are {period.size} periods for points of {int(X.shape[1])} features.")
        xp = namespace(X)
        period = like(np.broadcast_to(period, (int(X.shape[1]),)), X)
        rest = xp.fmod(X, period)  # exact, however many periods away; and so is the difference (Sterbenz)
        rest = rest - period * xp.round(rest / period)
        w = 2 * pi / period
        return xp.cos(w * rest), xp.sin(w * rest), w

    def values(self, X: Array) -> Array:
        cos, sin, w = self._waves(X)
        return namespace(X).concat([cos / w, sin / w], axis=1)

    def jacobian(self, X: Array) -> Array:
        cos, sin, _ = self._waves(X)
        each = like(np.eye(int(X.shape[1])), X)
        return namespace(X).concat([-sin[:, :, None] * each, cos[:, :, None] * each], axis=1)

    def second(self, X: Array) -> Array:
        cos, sin, w = self._waves(X)
        n = int(X.shape[1])
        each = np.zeros((n, n, n))
        each[np.arange(n), np.arange(n), np.arange(n)] = 1.0
        unit = like(each, X)
        both = [(-w * wave)[:, :, None, None] * unit for wave in (cos, sin)]
        return namespace(X).concat(both, axis=1)


@dataclass(frozen=True)
class InverseDistances(Map):
    """The inverse distances of all pairs of atoms, whose coordinates (x, y, z) follow each other in a row.

        1 / |r_i - r_j|,  i < j

    What a molecule's energy is a smooth function of: neither shifts nor turns of the molecule change it.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.InverseDistances().values([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])
    array([[0.5]])
    """

    def _pairs(self, n: int) -> tuple[Vector, Vector]:
        if n % 3 or n < 6:
            raise ValueError(f"Positions of atoms in space are 3 numbers each, of two at least; got {n} features.")
        pairs = np.array(list(combinations(range(n // 3), 2)))
        return pairs[:, 0], pairs[:, 1]

    def image(self, dimension: int) -> int:
        return len(self._pairs(dimension)[0])

    def moved(self, permutations: Any) -> Matrix:
        """Return what permutations of atoms (g, atoms) do to the distances, (g, p): a group for `Symmetrized`.

        Examples
        --------
        >>> InverseDistances().moved([[0, 1, 2], [1, 0, 2]])  # of the pairs (0, 1), (0, 2), (1, 2)
        array([[0, 1, 2],
               [0, 2, 1]])
        """
        given = np.atleast_2d(np.asarray(permutations))
        i, j = self._pairs(3 * given.shape[1])
        place = np.zeros((given.shape[1],) * 2, dtype=int)
        place[i, j] = place[j, i] = np.arange(len(i))
        return np.stack([place[g[i], g[j]] for g in given])

    def _differences(self, X: Array) -> Array:
        """r_i - r_j, (t, p, 3)."""
        i, j = self._pairs(int(X.shape[1]))
        positions = namespace(X).reshape(X, (X.shape[0], -1, 3))
        return positions[:, i] - positions[:, j]

    def values(self, X: Array) -> Array:
        X = np.asarray(X, dtype=np.float64) if isinstance(X, list) else X
        xp, d = namespace(X), self._differences(X)
        lengths = xp.sqrt(xp.sum(d * d, axis=-1))
        if bool(xp.any(lengths == 0)):
            row, pair = np.argwhere(to_numpy(lengths) == 0)[0].tolist()
            i, j = (int(side[pair]) for side in self._pairs(int(X.shape[1])))
            raise ValueError(f"Atoms {i} and {j} of row {row} are in one place.")
        return 1 / lengths

    def jacobian(self, X: Array) -> Array:
        xp, d = namespace(X), self._differences(X)
        (t, p), (i, j) = d.shape[:2], self._pairs(int(X.shape[1]))
        slopes = -d / xp.sum(d * d, axis=-1)[:, :, None] ** 1.5
        J = zeros((t, p, int(X.shape[1]) // 3, 3), X)
        J[:, np.arange(p), i] = slopes
        J[:, np.arange(p), j] = -slopes
        return xp.reshape(J, (t, p, int(X.shape[1])))
