"""Smooth maps of the input, and the chain rule for atoms.

With g = f o phi and the Jacobian J of phi, the chain rule maps atoms of g at x to atoms of f at phi(x):

    g(x) = f(phi(x))      D_u g = D_Ju f      D_u D_v g = D_Ju D_Jv f + D_w f,   w = phi''(u, v)

So every functional of g is a functional of f, which is all that a kernel of phi(x) needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import inf, pi
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from rkhs._core.backend.arrays import Array, Matrix, Vector, import_optional, like, namespace, to_numpy, zeros
from rkhs._core.calculus.atoms import Atoms


class Map(ABC):
    """A differentiable map phi of the input to features.

    ``kernel @ phi`` is the kernel k(phi(x), phi(y)), whose functions may be differentiated up to `orders` times.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> class Circle(rkhs.extend.Map):  # an angle as a point of the plane
    ...     def image(self, dimension):
    ...         return 2
    ...     def values(self, X):
    ...         return np.hstack([np.cos(X), np.sin(X)])
    ...     def jacobian(self, X):
    ...         return np.hstack([-np.sin(X), np.cos(X)])[:, :, None]
    >>> kernel = rkhs.kernels.Composition(rkhs.Gaussian(), Circle())
    >>> bool(np.isclose(kernel([[0.1]], [[0.2]])[0, 0], kernel([[0.1]], [[0.2 + 2 * np.pi]])[0, 0]))
    True
    """

    orders: int = 1  # the highest order of derivatives that is available

    @abstractmethod
    def image(self, dimension: int) -> int:
        """Return the dimension p of the image.

        Parameters
        ----------
        dimension : int
            The dimension n of the input.

        Returns
        -------
        int
            The dimension p.
        """

    @abstractmethod
    def values(self, X: Array) -> Array:
        """Return phi at the points.

        Parameters
        ----------
        X : array of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t, p)
            The values of phi.
        """

    @abstractmethod
    def jacobian(self, X: Array) -> Array:
        """Return the Jacobian of phi at the points.

        Parameters
        ----------
        X : array of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t, p, n)
            The derivatives of phi_a along x_j.
        """

    def second(self, X: Array) -> Array:
        """Return the second derivatives of phi at the points, which are available if `orders` is 2.

        Parameters
        ----------
        X : array of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t, p, n, n)
            The derivatives of phi_a along x_i and x_j.
        """
        raise NotImplementedError(f"{type(self).__name__} has no second derivatives.")

    def pushed(self, atoms: Atoms) -> tuple[Atoms, ...]:
        """Return atoms of f whose sum is equal to the given atoms of f o phi.

        Parameters
        ----------
        atoms : Atoms
            Atoms of f o phi, without blur.

        Returns
        -------
        tuple of Atoms
            The summands.
        """
        assert atoms.blur is None, "`_core.gram.blocks` replaces blurs by cubature before"
        xp, X = namespace(atoms.points), atoms.points
        points = self._checked(self.values(X), X, "values")
        (t, n), (k, m), p = X.shape, (atoms.per_point, atoms.order), int(points.shape[1])
        # g(x) = f(phi(x))
        if m == 0:
            return (Atoms(points, zeros((k, 0, p), points)),)
        # D_u g = D_Ju f: directions are multiplied by the Jacobian, u -> J u
        J = self._checked(self.jacobian(X), X, "Jacobian")
        flat = xp.reshape(atoms.directions, (*atoms.directions.shape[:-3], k * m, n))
        along = xp.matrix_transpose(J)
        along = xp.reshape(along if atoms.gradient else flat @ along, (t, k, m, p))
        if m == 1:
            return (Atoms(points, along),)
        # D_u D_v g = D_Ju D_Jv f + D_w f with w = phi''(u, v), which is a derivative of first order
        hessians = self._checked(self.second(X), X, "second derivatives")
        second = xp.einsum("tpij,tki,tkj->tkp", hessians, *(xp.broadcast_to(atoms.u(i), (t, k, n)) for i in range(2)))
        return Atoms(points, along), Atoms(points, second[:, :, None, :])

    def _checked(self, array: Array, X: Array, what: str) -> Array:
        xp = namespace(array)
        finite = xp.isfinite(array)
        if not bool(xp.all(finite)):
            row = int(np.argwhere(~to_numpy(finite))[0, 0])
            raise ValueError(f"The {what} of {self!r} at row {row} of the points are not finite.")
        n = int(X.shape[1])
        expected = {"values": (None,), "Jacobian": (None, n)}.get(what, (None, n, n))
        if tuple(array.shape)[:1] != (X.shape[0],) or tuple(array.shape)[2:] != expected[1:]:
            raise ValueError(
                f"The {what} of {self!r} have shape {tuple(array.shape)}; {int(X.shape[0])} points of R^{n} need "
                f"({int(X.shape[0])}, p{''.join(f', {size}' for size in expected[1:])})."
            )
        return array


@dataclass(frozen=True)
class Features(Map):
    """Features of the input by an arbitrary function, with derivatives that are given or computed by PyTorch.

    Parameters
    ----------
    function : callable
        A function that maps points of shape (t, n) to features of shape (t, p).  Without `gradient` it is called with
        PyTorch tensors and differentiated automatically, up to the second order.
    gradient : callable, optional
        A function that maps points to Jacobians of shape (t, p, n).
    second_gradient : callable, optional
        A function that maps points to second derivatives of shape (t, p, n, n).

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
        """Return the derivatives of an order by the user's function for them, or else by PyTorch."""
        function = (None if self.gradient is None else self.function, self.gradient, self.second_gradient)[order]
        if function is not None:
            return like(function(X), X)
        needs = f"{self!r} needs PyTorch (pip install 'rkhs[gpu]'), or a `gradient` that returns its Jacobian."
        torch = import_optional("torch", needs)
        rows = X if is_torch_array(X) else torch.tensor(np.ascontiguousarray(X))
        if order == 0:
            return like(self.function(rows), X)

        def at_point(x: Any) -> Any:
            return self.function(x[None])[0]

        for _ in range(order):
            at_point = torch.func.jacfwd(at_point)
        return like(torch.func.vmap(at_point)(rows), X)


@dataclass(frozen=True)
class Circles(Map):
    """Map each feature x isometrically to a circle: period / 2 pi (cos, sin) of the angle 2 pi x / period."""

    period: tuple[float, ...]
    orders = 2

    def image(self, dimension: int) -> int:
        return 2 * dimension

    def _waves(self, X: Array) -> tuple[Array, Array, Array]:
        """Return cos and sin of the angles (t, n), and the frequencies (n,)."""
        period = np.asarray(self.period)
        if period.size not in (1, X.shape[1]):
            raise ValueError(
                f"The kernel has {period.size} periods for points of {int(X.shape[1])} features: pass one period, or "
                "one for each feature."
            )
        xp = namespace(X)
        period = like(np.broadcast_to(period, (int(X.shape[1]),)), X)
        rest = xp.fmod(X, period)  # exact, and so is the difference below (Sterbenz's lemma)
        # x mod period in [-period/2, period/2], where the sine and cosine are accurate
        rest = rest - period * xp.round(rest / period)
        w = 2 * pi / period
        return xp.cos(w * rest), xp.sin(w * rest), w

    def values(self, X: Array) -> Array:
        cos, sin, w = self._waves(X)
        return namespace(X).concat([cos / w, sin / w], axis=1)

    def jacobian(self, X: Array) -> Array:
        # phi = (cos wx, sin wx) / w, so that phi' = (-sin wx, cos wx) has length one
        cos, sin, _ = self._waves(X)
        unit = like(np.eye(int(X.shape[1])), X)
        return namespace(X).concat([-sin[:, :, None] * unit, cos[:, :, None] * unit], axis=1)

    def second(self, X: Array) -> Array:
        # phi'' = -w (cos wx, sin wx), for each feature alone
        cos, sin, w = self._waves(X)
        n = int(X.shape[1])
        diagonal = np.zeros((n, n, n))
        diagonal[np.arange(n), np.arange(n), np.arange(n)] = 1.0
        unit = like(diagonal, X)
        return namespace(X).concat([(-w * wave)[:, :, None, None] * unit for wave in (cos, sin)], axis=1)


@dataclass(frozen=True)
class Standardized(Map):
    """The standardized features z = (x - mean) / deviation, or with a limit z / sqrt(1 + (z / limit)^2).

    Parameters
    ----------
    mean : sequence of float
        The mean of each feature, or any other center.
    deviation : sequence of float
        The positive unit of each feature.
    limit : float, default=inf
        The bound of smoothly clipped features, for those with heavy tails.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.Standardized((10.0,), (2.0,)).values([[14.0]])
    array([[2.]])
    >>> rkhs.kernels.Standardized((10.0,), (2.0,), limit=3.0).values([[1e9]])
    array([[3.]])
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    limit: float = inf
    orders = 2

    def __post_init__(self) -> None:
        mean, deviation = (np.asarray(values, dtype=np.float64) for values in (self.mean, self.deviation))
        if mean.ndim != 1 or mean.shape != deviation.shape or not np.all(np.isfinite(mean) & (deviation > 0)):
            raise ValueError(
                "Standardized needs a finite mean and a positive deviation for each feature, got "
                f"mean={self.mean!r} and deviation={self.deviation!r}."
            )
        object.__setattr__(self, "mean", tuple(mean.tolist()))  # lists and arrays cannot be hashed
        object.__setattr__(self, "deviation", tuple(deviation.tolist()))

    def __repr__(self) -> str:
        return f"Standardized({len(self.mean)} features)"

    def image(self, dimension: int) -> int:
        if dimension != len(self.mean):
            raise ValueError(f"{self!r} got points of {dimension} features: pass a mean and a deviation for each.")
        return dimension

    def values(self, X: Array) -> Array:
        z, bound = self._scaled(np.asarray(X, dtype=np.float64) if isinstance(X, list) else X)
        return z if bound is None else z / bound

    def jacobian(self, X: Array) -> Array:
        # phi' = b^-3 / s with b = sqrt(1 + (z / limit)^2)
        z, bound = self._scaled(X)
        slope = 0.0 * z + 1.0 if bound is None else bound**-3
        return slope[:, :, None] * like(np.diag(1 / np.asarray(self.deviation)), X)

    def second(self, X: Array) -> Array:
        # phi'' = -3 z b^-5 / (limit s)^2
        z, bound = self._scaled(X)
        n = int(X.shape[1])
        if bound is None:
            return zeros((X.shape[0], n, n, n), X)
        unit = np.zeros((n, n, n))
        unit[np.arange(n), np.arange(n), np.arange(n)] = (self.limit * np.asarray(self.deviation)) ** -2.0
        return (-3.0 * z * bound**-5)[:, :, None, None] * like(unit, X)

    def _scaled(self, X: Array) -> tuple[Array, Array | None]:
        """Return z, and sqrt(1 + (z / limit)^2) if there is a limit."""
        self.image(int(X.shape[1]))
        z = (X - like(np.asarray(self.mean), X)) / like(np.asarray(self.deviation), X)
        return z, None if self.limit == inf else namespace(X).sqrt(1.0 + (z / self.limit) ** 2)


@dataclass(frozen=True)
class InverseDistances(Map):
    """The inverse distances of all pairs of atoms of a molecule.

        1 / |r_i - r_j|,  i < j

    A row of the input contains the coordinates x, y, z of each atom in turn.  The inverse distances are invariant under
    translations and rotations of the molecule, and its energy is a smooth function of them.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.kernels.InverseDistances().values([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])
    array([[0.5]])
    """

    def _pairs(self, n: int) -> tuple[Vector, Vector]:
        if n % 3 or n < 6:
            raise ValueError(f"InverseDistances needs 3 coordinates for each of at least two atoms; got {n} features.")
        pairs = np.array(list(combinations(range(n // 3), 2)))
        return pairs[:, 0], pairs[:, 1]

    def image(self, dimension: int) -> int:
        return len(self._pairs(dimension)[0])

    def moved(self, permutations: Any) -> Matrix:
        """Return the permutations of the distances that permutations of atoms induce, a group for `Symmetrized`.

        Parameters
        ----------
        permutations : array-like of shape (g, atoms)
            The permutations of the atoms.

        Returns
        -------
        ndarray of shape (g, p)
            The permutations of the p distances.

        Examples
        --------
        >>> InverseDistances().moved([[0, 1, 2], [1, 0, 2]])  # of the pairs (0, 1), (0, 2), (1, 2)
        array([[0, 1, 2],
               [0, 2, 1]])
        """
        permutations = np.atleast_2d(np.asarray(permutations))
        i, j = self._pairs(3 * permutations.shape[1])
        index = np.zeros((permutations.shape[1],) * 2, dtype=int)  # of the distance between two atoms
        index[i, j] = index[j, i] = np.arange(len(i))
        return np.stack([index[g[i], g[j]] for g in permutations])

    def _differences(self, X: Array) -> Array:
        """Return r_i - r_j for all pairs of atoms, (t, p, 3)."""
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
            raise ValueError(f"Atoms {i} and {j} of row {row} coincide: their inverse distance is infinite.")
        return 1 / lengths

    def jacobian(self, X: Array) -> Array:
        xp, d = namespace(X), self._differences(X)
        (t, p), (i, j) = d.shape[:2], self._pairs(int(X.shape[1]))
        # d(1/|d|) = -d / |d|^3 with d = r_i - r_j, for r_i, and the opposite for r_j
        slopes = -d / xp.sum(d * d, axis=-1)[:, :, None] ** 1.5
        J = zeros((t, p, int(X.shape[1]) // 3, 3), X)
        J[:, np.arange(p), i] = slopes
        J[:, np.arange(p), j] = -slopes
        return xp.reshape(J, (t, p, int(X.shape[1])))
