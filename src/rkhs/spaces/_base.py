"""Finite-dimensional spaces of functions that approximate an RKHS.

    f = sum_a tau_a psi_a,        |f|^2 = tau'K tau

A space defines p functions psi_a, the action of functionals on them (`rows`) and their Gram matrix K (`gram`).  From
these follows the part of a functional that the space does not represent (`outside`), by p x p matrices that are stored.
A space of many orthonormal functions is not `stored`: it defines products instead (`apply`, `adjoint`).  It may have
sums from which products with normal matrices follow (`summed`, `normal_of`): on a Fourier grid these are Toeplitz.

All computations are in float64, whatever the dtype of the points, on the device of `prototype`: rows are transferred
one tile at a time, and sums stay there until they are complete.  Solving with these sums multiplies their rounding
errors by the inverse of K; docs/measurements/scaling.md describes the effect of float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import EPS, Array, Matrix, Vector, like, namespace, same_device, to_numpy
from rkhs._core.backend.memory import budget_bytes, on_cpu, tile_entries
from rkhs._core.backend.precision import check_precision
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.gram.operator import gram
from rkhs._core.limits import limits
from rkhs.functionals._base import Functional
from rkhs.kernels._base import Kernel

UNIT = 8 * EPS  # the rounding error of a sum relative to its largest term, with a margin for the number of terms
TILE_ROWS = 128  # minimal number of rows of a tile; products with fewer rows are slow


class Tile(ABC):
    """The functions of a space at some points.

    `alike` is whether the normal matrix of the gradients contains that of the values as a factor: for the Gaussian, all
    of whose radial derivatives are the same function, and for pairs of a cosine and a sine.
    """

    alike: bool = False

    @property
    @abstractmethod
    def values(self) -> Array:
        """The values psi_a(x_i) as a new array (t, p)."""

    @abstractmethod
    def gradient_products(self, root: Array, known: Array | None) -> list[Array]:
        """Return the products that `FiniteSpace.gradient_normal` needs, for square roots (t, 1) of weights.

        They are summed over tiles.  `known` is the normal matrix of the values, if the tile is `alike` and the matrix
        has been computed already.
        """


class Stored:
    """Whether the p x p matrices of a space are stored, for the space and for the approximation that chooses it."""

    stored: ClassVar[bool] = True  # otherwise the functions have to be orthonormal

    def require_stored(self, message: str) -> None:
        """Raise ValueError with a message unless matrices are stored."""
        if not self.stored:
            raise ValueError(message)


@dataclass(frozen=True, eq=False)
class FiniteSpace(Stored, ABC):
    """The span of p functions psi_a in, or near, the RKHS of a kernel.

        f = sum_a tau_a psi_a,        |f|^2 = tau'K tau

    Parameters
    ----------
    kernel : Kernel
        The kernel of the RKHS.

    Examples
    --------
    >>> import rkhs
    >>> def pilot(space, count, generator): ...  # not needed for explicit landmarks
    >>> landmarks = rkhs.Landmarks(rkhs.Evaluation([[0.0], [1.0]]))
    >>> space = landmarks.choose(rkhs.Gaussian(), [rkhs.Evaluation([[0.5]])], pilot)
    >>> isinstance(space, rkhs.extend.FiniteSpace), space.size, space.gram.round(2).tolist()
    (True, 2, [[1.0, 0.61], [0.61, 1.0]])
    """

    kernel: Kernel
    defines_kernel: ClassVar[bool] = False  # whether the kernel of the process is that of the space, as random features

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without cached properties

    @property
    @abstractmethod
    def size(self) -> int:
        """The number p of functions."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The dimension n of the points."""

    @property
    @abstractmethod
    def prototype(self) -> Array:
        """An empty float64 array with the namespace and device of all computations."""

    @abstractmethod
    def like(self, prototype: Array) -> Self:
        """Return the same space with another prototype.

        Parameters
        ----------
        prototype : array
            An empty float64 array with the namespace and device to use.

        Returns
        -------
        FiniteSpace
            The same space on another device.
        """

    @property
    @abstractmethod
    def gram(self) -> Any:
        """The Gram matrix K of the functions, of shape (p, p)."""

    @property
    def representers(self) -> Functional | None:
        """The functionals whose representers are the functions psi; None if they are other functions."""
        return None

    @property
    def constraints(self) -> Matrix:
        """The matrix C of shape (r, p) such that functions with C tau = 0 are in the RKHS; r = 0 if all are."""
        return np.zeros((0, self.size))

    @abstractmethod
    def rows(self, functional: Functional) -> Array:
        """Apply functionals to the functions of the space.

        Parameters
        ----------
        functional : Functional
            The functionals L_i.

        Returns
        -------
        array of shape (size, p)
            The values L_i(psi_a).
        """

    def apply(self, functional: Functional, tau: Array) -> Array:
        """Apply functionals to a function of the space.

        Parameters
        ----------
        functional : Functional
            The functionals L_i.
        tau : array of shape (p,) or (p, outputs)
            The coefficients of the function.

        Returns
        -------
        array of shape (size,) or (size, outputs)
            The values L_i(f).
        """
        rows = self.rows(functional)
        return rows @ like(tau, rows)

    def adjoint(self, functional: Functional, alpha: Matrix) -> Matrix:
        """Return the coefficients of sums of representers, projected onto the space; the adjoint of `apply`.

        Parameters
        ----------
        functional : Functional
            The functionals L_i.
        alpha : ndarray of shape (size, k)
            The coefficients of their representers.

        Returns
        -------
        ndarray of shape (p, k)
            The sums over i of alpha_i L_i(psi_a).
        """
        return to_numpy(self.rows(functional)).T @ alpha

    def outside(self, functional: Functional) -> Vector:
        """Return the squared norms of the components of functionals that are orthogonal to the space.

        With constraints, the functionals are first replaced by the nearest ones that vanish on the null space of the
        kernel.

        Parameters
        ----------
        functional : Functional
            The functionals L_i.

        Returns
        -------
        ndarray of shape (size,)
            The squared norms of L_i in the RKHS minus those of their projections onto the space.
        """
        R = Orthonormal.of(self).map
        result = []
        for rows in self.tiles(functional.size):
            L = self.on_device(functional.take(rows))
            E, (A, impossible) = to_numpy(self.rows(L)), self.annihilated(L)
            rest = E - A @ self.gram if len(self.constraints) else E
            norms = to_numpy(gram(self.kernel, L).diagonal()) - np.sum((E + rest) * A, axis=1)
            # |L|^2 - |e|^2 with e = L(psi R)
            inside = np.sum((rest @ R) ** 2, axis=1)
            result.append(np.where(impossible, np.inf, np.clip(norms - inside, 0, None)))
        return np.concatenate([np.zeros(0), *result])

    def on_device(self, functional: Functional) -> Functional:
        """Move functionals to the device of the space.

        Parameters
        ----------
        functional : Functional
            The functionals.

        Returns
        -------
        Functional
            The same functionals on the device of the space.
        """
        return functional if same_device(functional.prototype, self.prototype) else functional.like(self.prototype)

    def tile(self, points: Array) -> Tile | None:
        """Return the functions of the space at points.

        Parameters
        ----------
        points : array of shape (t, n)
            The points.

        Returns
        -------
        Tile or None
            The functions at the points; None if there are no closed forms.
        """
        return None

    def gradient_normal(self, products: Sequence[Array]) -> Matrix:
        """Return the normal matrix of gradients from the products of all tiles.

        Parameters
        ----------
        products : sequence of array
            The sums over tiles of `Tile.gradient_products`.

        Returns
        -------
        ndarray of shape (p, p)
            The sums over i of w_i <grad psi_a, grad psi_b>(x_i).
        """
        raise NotImplementedError(f"{type(self).__name__} defines `tile` and must define `gradient_normal` too.")

    def hidden(self, functions: Orthonormal) -> int:
        """Return the number of functions that are lost because they depend on others up to rounding.

        Parameters
        ----------
        functions : Orthonormal
            The orthonormal functions of the space.

        Returns
        -------
        int
            The number of functions, 0 if it is not known.
        """
        return 0

    def annihilated(self, functional: Functional) -> tuple[Matrix, Vector]:
        """Return combinations of the functions that make functionals vanish on the null space of the kernel.

        Parameters
        ----------
        functional : Functional
            The functionals L_i.

        Returns
        -------
        A : ndarray of shape (size, p)
            Coefficients such that L_i - sum_b A_ib psi_b is in the RKHS; zero without constraints.
        impossible : ndarray of bool of shape (size,)
            The functionals for which there are no such coefficients.
        """
        return np.zeros((functional.size, self.size)), np.zeros(functional.size, dtype=bool)

    @property
    def tile_rows(self) -> int:
        """The number of rows in a tile."""
        entries = limits().feature_entries
        if not on_cpu(self.prototype):  # on accelerators 12 arrays of the size of a tile exist at once
            entries = tile_entries(budget_bytes(None, self.prototype), self.prototype, 12)
        return max(TILE_ROWS, entries // max(self.size, 1))

    def tiles(self, size: int, rows: int | None = None) -> Iterator[slice]:
        """Return consecutive slices that cover a range of rows.

        Parameters
        ----------
        size : int
            The number of rows in total.
        rows : int, optional
            The number of rows in a tile, `tile_rows` by default.

        Returns
        -------
        iterator of slice
            The tiles.
        """
        rows = rows or self.tile_rows
        return (slice(start, min(start + rows, size)) for start in range(0, size, rows))

    # What problems need in a space whose p x p matrices are not stored.

    @property
    def product_error(self) -> float:
        """The relative error of `apply` and `adjoint`, in the Euclidean norm."""
        return UNIT

    @property
    def finer(self) -> FiniteSpace | None:
        """The same space with more accurate products; None if there is none."""
        return None

    def coarser(self, most: int, families: Sequence[Functional]) -> FiniteSpace:
        """Return a space with at most about `most` functions, for functionals at the same points."""
        return self

    @property
    def summary(self) -> str:
        """The size of the space in words."""
        return f"{self.size} functions"

    def summed(self, functional: Functional, weight: Vector, known: list[Any]) -> Any:
        """Return sums from which products with the normal matrix follow without the rows; None if there are none.

        They can be added up over blocks of data.  `known` is a list for what several families share.
        """
        return None

    def normal_of(self, summed: Sequence[Any]) -> Any:
        """Return the sum of the normal matrices of families with sums: products, `diagonal`, `leading` and `block`."""
        raise NotImplementedError(f"{type(self).__name__} defines `summed` and must define `normal_of` too.")

    def outside_of_box(self, families: Sequence[Functional]) -> str | None:
        """Return what is wrong with functionals at points for which the space was not made; None if nothing is."""
        return None

    def missing(self, functional: Functional) -> Vector:
        """Return `outside` as far as it is known at no great cost."""
        return self.outside(functional)


@dataclass(frozen=True, eq=False)
class Orthonormal:
    """Orthonormal functions psi D V / sqrt(values) that span a space up to rounding.

    D (p,) contains the inverse norms of the psi, and D K D = V diag(values) V'.  Eigenvalues below the rounding error
    of D K D belong to combinations that are indistinguishable from zero, and are omitted.
    """

    D: Vector
    V: Matrix  # (p, m), orthonormal columns
    values: Vector  # (m,), in decreasing order

    @classmethod
    def of(cls, space: FiniteSpace) -> Orthonormal:
        """Return the orthonormal functions of a space that satisfy its constraints."""
        K, C = space.gram, space.constraints
        size = np.sqrt(np.abs(np.diag(K)) if not len(C) else np.abs(K).max(axis=1, initial=0.0))
        D = 1 / np.where(size > 0, size, 1.0)
        Z = scipy.linalg.null_space(C * D) if len(C) else None
        inner = D[:, None] * K * D
        inner = inner if Z is None else Z.T @ inner @ Z
        # D K D = V diag(values) V'
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        kept = values > eigenvalue_error(len(values)) * max(values[-1:].sum(), 0.0)
        vectors = np.ascontiguousarray(vectors[:, kept][:, ::-1])
        return cls(D, vectors if Z is None else Z @ vectors, values[kept][::-1])

    @property
    def map(self) -> Matrix:
        """The matrix (p, m) from coefficients of the orthonormal functions to those of the psi."""
        return self.D[:, None] * (self.V / np.sqrt(self.values))


def eigenvalue_error(size: int) -> float:
    """Return the rounding error of the eigenvalues of a matrix of this size, relative to the largest eigenvalue."""
    return UNIT * float(size) ** 0.5


# (space, count, generator) -> a preliminary solution in the space from a sample of `count` functionals of each term.
Pilot = Callable[[FiniteSpace, int, np.random.Generator], Any]


class Approximation(Stored, ABC):
    """A method that chooses a finite-dimensional space for a problem.

    Subclasses define `choose`.

    Examples
    --------
    >>> import rkhs
    >>> class FirstPoints(rkhs.extend.Approximation):
    ...     def choose(self, kernel, families, pilot):
    ...         return rkhs.Landmarks(families[0].take(slice(2))).choose(kernel, families, pilot)
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0], [2.0]]), rkhs.Squared(), target=[0.0, 1.0, 2.0])
    >>> rkhs.Problem(rkhs.Gaussian(), [term], approximation=FirstPoints()).solve().status
    'converged'
    """

    needs_spectrum: ClassVar[bool] = False  # whether kernels need a spectral density
    has_gradients: ClassVar[bool] = False  # whether the evidence in the space has derivatives in hyperparameters

    @abstractmethod
    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Any) -> FiniteSpace:
        """Choose the space for a problem.

        Parameters
        ----------
        kernel : Kernel
            The kernel of the problem.
        families : sequence of Functional
            The functionals of all terms, or a sample of them if they are streamed.
        pilot : callable
            The function (space, count, generator) -> f, which returns a preliminary solution in a space from a sample
            of `count` functionals of each term.

        Returns
        -------
        FiniteSpace
            The space.
        """

    def solutions(self, problem: Any, weightings: Sequence[Sequence[Any]]) -> list[Any] | None:
        """Solve a problem without a space that is common to all points; None to solve it in the space of `choose`.

        Parameters
        ----------
        problem : Problem
            The problem.
        weightings : sequence
            For each solution, a factor on the weights of each term, or one for each of its rows.

        Returns
        -------
        list of Solution or None
            The solutions.
        """
        return None

    def tuning_sample(self, terms: Sequence[Any], most: int, random: np.random.Generator) -> Sequence[Any]:
        """Return terms from which at most `most` functionals at random points are drawn to tune hyperparameters."""
        return terms

    @property
    def needs_extent(self) -> bool:
        """Whether `choose` needs the extent of all rows of a stream, which `in_box` states."""
        return False

    def in_box(self, low: Vector, high: Vector) -> Approximation:
        """Return the approximation for points in a box, which is given by its corners."""
        return self

    @property
    def sample_size(self) -> int:
        """The number of rows of a stream that are sampled for `choose`; 0 if those of any block will do."""
        return 5000

    def contains(self, families: Sequence[Functional]) -> bool:
        """Return whether the space contains the representers of all functionals, so that the solution is exact.

        Parameters
        ----------
        families : sequence of Functional
            The functionals of all terms.

        Returns
        -------
        bool
            Whether the solution in the space is exact.
        """
        return False


def check_approximation(approximation: Any) -> None:
    if not isinstance(approximation, Approximation):
        raise TypeError(
            "approximation must be None, rkhs.Landmarks(p), rkhs.FourierFeatures(p), rkhs.FourierGrid() or "
            f"rkhs.Neighbors(m), got {approximation!r}."
        )


def check_sums(precision: str | None) -> None:
    """Raise ValueError for a precision below float64, which approximations do not support."""
    check_precision(precision)
    if precision not in (None, "float64"):
        raise ValueError(
            f"precision={precision!r} is for Gram products, whose errors are corrected; those of the sums of an "
            "approximation are not, and the inverse of its Gram matrix multiplies them: omit `precision`, or the "
            "approximation."
        )


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator for any `random_state` that scikit-learn accepts."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def corners(atoms: Sequence[Atoms]) -> tuple[Vector, Vector]:
    """Return the corners of the smallest box that contains the points of atoms; both are zero without points.

    Parameters
    ----------
    atoms : sequence of Atoms
        The atoms, such as those of the parts of a functional.

    Returns
    -------
    low, high : ndarray of shape (n,)
        The lower and the upper corner.

    Examples
    --------
    >>> import rkhs
    >>> family = rkhs.Difference([[0.0], [1.0]], [[3.0], [2.0]])
    >>> low, high = rkhs.extend.corners([part.atoms for part in family.parts])
    >>> float(low[0]), float(high[0])
    (0.0, 3.0)
    """
    points = [to_numpy(one.points) for one in atoms if one.points.shape[0]] or [np.zeros((1, atoms[0].dimension))]
    low, high = (end([end(array, axis=0) for array in points], axis=0) for end in (np.min, np.max))
    return low.astype(np.float64), high.astype(np.float64)


def in_double(points: Array) -> Array:
    """Convert the points to float64 in their namespace and on their device."""
    xp = namespace(points)
    return points if points.dtype == xp.float64 else xp.astype(points, xp.float64)


def square(F: Array, root: Array) -> Array:
    """Return F' diag(root^2) F; F is overwritten."""
    F *= root
    return F.T @ F
