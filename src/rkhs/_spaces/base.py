"""Finite-dimensional spaces of functions in which approximations look for f.

    f = sum_a tau_a psi_a,        |f|^2 = tau'K tau

A space says which p functions these are, how functionals act on them (`rows`), how to multiply by their Gram matrix K
(`gram`) and by the normal matrix of functionals (`normal`), and how much of a functional the space misses (`outside`).
`gram` and `normal` need only have `@`: a graph has a sparse K, a Fourier grid a diagonal one and a Toeplitz normal
matrix, and neither ever holds p x p numbers.  A `DenseSpace` holds them, and so far every space is one.

All numbers are in float64, whatever the points are in, on the device of `prototype`: rows are brought there a tile at a
time, and sums stay there until they are complete.  Solving with these sums multiplies their rounding errors by the
inverse of K: see docs/scaling.md for what float32 would do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import EPS, Array, Matrix, Vector, in_one_place, like, namespace, to_numpy, zeros
from rkhs._backend.memory import budget_bytes, on_cpu, tile_entries
from rkhs._backend.precision import check_precision
from rkhs._gram.operator import gram
from rkhs.functionals._base import Functional
from rkhs.kernels._base import Kernel

UNIT = 8 * EPS  # the rounding error of a sum relative to its largest term, with a margin for the number of terms
TILE_ROWS = 128  # the least that a tile has: fewer make slow products
TILE_ENTRIES = 2**21  # of a tile of rows x functions on a CPU: 16 MiB, large enough for fast matrix products


@dataclass(frozen=True, eq=False)
class FiniteSpace(ABC):
    """The span of p functions in (or near) the RKHS of a kernel."""

    kernel: Kernel

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # cached numbers are computed again

    @property
    @abstractmethod
    def size(self) -> int:
        """p."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """n, of the points."""

    @property
    @abstractmethod
    def prototype(self) -> Array:
        """An empty float64 array of the library and on the device that all numbers are computed with."""

    @abstractmethod
    def like(self, prototype: Array) -> Self:
        """Return the same space with another prototype."""

    @property
    @abstractmethod
    def gram(self) -> Any:
        """K (p, p): |f|^2 = tau'K tau."""

    @property
    def constraints(self) -> Matrix:
        """C (r, p): the functions with C tau = 0 are in the RKHS; r = 0 where all are."""
        return np.zeros((0, self.size))

    @abstractmethod
    def rows(self, functional: Functional) -> Array:
        """Return L_i(psi_a), (size, p)."""

    @abstractmethod
    def normal(self, functional: Functional, weight: Vector) -> Any:
        """Return sum_i w_i L_i(psi_a) L_i(psi_b), (p, p), for weights (size,)."""

    @abstractmethod
    def outside(self, functional: Functional) -> Vector:
        """Return |L_i|^2 in the RKHS less the part of it in the space, (size,).

        With constraints, that of the nearest functional which vanishes on the null space of the kernel.
        """

    def brought(self, functional: Functional) -> Functional:
        """Return the functionals on the device of the space."""
        return functional if in_one_place(functional.prototype, self.prototype) else functional.like(self.prototype)


class Tile(ABC):
    """The functions of a space at some points.

    `alike` says whether the normal matrix of the values is a part of that of the gradients: of the Gaussian, all of
    whose radial derivatives are one function, and of pairs of cosine and sine.
    """

    alike: bool = False

    @property
    @abstractmethod
    def values(self) -> Array:
        """psi_a(x_i), (t, p), a new array."""

    @abstractmethod
    def gradient_products(self, root: Array, known: Array | None) -> list[Array]:
        """Return the products that `DenseSpace.gradient_normal` needs, for square roots (t, 1) of weights.

        They add up over tiles.  `known` is the normal matrix of the values, where the tile is `alike` and it has been
        computed already.
        """


class DenseSpace(FiniteSpace):
    """A space whose p x p matrices are held in memory."""

    @property
    @abstractmethod
    def gram(self) -> Matrix: ...

    def tile(self, points: Array) -> Tile | None:
        """Return the functions at some points; None where there is no closed form."""
        return None

    def gradient_normal(self, products: Sequence[Array]) -> Matrix:
        """Return sum_i w_i <grad psi_a, grad psi_b>(x_i) from the products of all tiles."""
        raise NotImplementedError(
            f"{type(self).__name__} has a `tile` and needs `gradient_normal` to sum up gradients."
        )

    def hidden(self, functions: Orthonormal) -> int:
        """Return how many functions are lost because rounding does not tell them from others."""
        return 0

    def normal(self, functional: Functional, weight: Vector) -> Matrix:
        total = zeros((self.size, self.size), self.prototype)
        for rows in self.tiles(functional.size):
            E = self.rows(functional.take(rows))
            total += square(E, like(np.sqrt(weight[rows, None]), E))
        return to_numpy(total)

    def outside(self, functional: Functional) -> Vector:
        R = Orthonormal.of(self).map
        found = []
        for rows in self.tiles(functional.size):
            L = self.brought(functional.take(rows))
            E, (A, missed) = to_numpy(self.rows(L)), self.annihilated(L)
            left = E - A @ self.gram if len(self.constraints) else E
            norms = to_numpy(gram(self.kernel, L).diagonal()) - np.sum((E + left) * A, axis=1)
            inside = np.sum((left @ R) ** 2, axis=1)
            found.append(np.where(missed, np.inf, np.clip(norms - inside, 0, None)))
        return np.concatenate([np.zeros(0), *found])

    def annihilated(self, functional: Functional) -> tuple[Matrix, Vector]:
        """Return A (size, p) with L_i - sum_b A_ib psi_b in the RKHS, and for which i there is none.

        Without constraints every L_i is, and A = 0.
        """
        return np.zeros((functional.size, self.size)), np.zeros(functional.size, dtype=bool)

    @property
    def tile_rows(self) -> int:
        entries = TILE_ENTRIES
        if not on_cpu(self.prototype):  # where 12 arrays of the size of a tile are alive at once
            entries = tile_entries(budget_bytes(None, self.prototype), self.prototype, 12)
        return max(TILE_ROWS, entries // max(self.size, 1))

    def tiles(self, size: int, rows: int | None = None) -> Iterator[slice]:
        """Cut `size` rows into tiles of at most `rows`."""
        rows = rows or self.tile_rows
        return (slice(start, min(start + rows, size)) for start in range(0, size, rows))


@dataclass(frozen=True, eq=False)
class Orthonormal:
    """Orthonormal functions psi D V / sqrt(values) of a space, as far as rounding tells them apart.

    D (p,) are the inverse norms of the psi, and D K D = V diag(values) V'.  Values below the rounding of the left-hand
    side belong to combinations that floating-point numbers cannot tell from zero: they are left out.
    """

    D: Vector
    V: Matrix  # (p, m), orthonormal columns
    values: Vector  # (m,), the largest first

    @classmethod
    def of(cls, space: DenseSpace) -> Orthonormal:
        """Return those of a space, within its constraints."""
        K, C = space.gram, space.constraints
        size = np.sqrt(np.abs(np.diag(K)) if not len(C) else np.abs(K).max(axis=1, initial=0.0))
        D = 1 / np.where(size > 0, size, 1.0)
        Z = scipy.linalg.null_space(C * D) if len(C) else None
        inner = D[:, None] * K * D
        inner = inner if Z is None else Z.T @ inner @ Z
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        seen = values > eigenvalue_error(len(values)) * max(values[-1:].sum(), 0.0)
        vectors = np.ascontiguousarray(vectors[:, seen][:, ::-1])
        return cls(D, vectors if Z is None else Z @ vectors, values[seen][::-1])

    @property
    def map(self) -> Matrix:
        """(p, m), from coefficients of the orthonormal functions to those of the psi."""
        return self.D[:, None] * (self.V / np.sqrt(self.values))


def eigenvalue_error(size: int) -> float:
    """Return the rounding error of the eigenvalues of a matrix of this size, relative to the largest."""
    return UNIT * float(size) ** 0.5


# A first f in a space, from at most so many functionals of each term, drawn by the generator.
Pilot = Callable[[DenseSpace, int, np.random.Generator], Any]


class Approximation(ABC):
    """A user's choice of a space: which kind, and how many functions."""

    @abstractmethod
    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Pilot) -> DenseSpace:
        """Return the space for a problem with these functionals, which are in memory, or are a sample of all."""

    @property
    def sample_size(self) -> int:
        """Rows of a stream to choose functions from, 5,000 at least."""
        return 5000

    def contains(self, families: Sequence[Functional]) -> bool:
        """Return whether the representers of all functionals are in the space, so that nothing is approximated."""
        return False


def check_approximation(approximation: Any) -> None:
    """Refuse anything that is not an approximation."""
    if not isinstance(approximation, Approximation):
        raise TypeError(
            f"approximation must be None, rkhs.Landmarks(p) or rkhs.FourierFeatures(p), got {approximation!r}."
        )


def check_sums(precision: str | None) -> None:
    """Refuse sums in less than float64."""
    check_precision(precision)
    if precision not in (None, "float64"):
        raise ValueError(
            f"precision={precision!r} is for Gram products, whose errors are corrected; those of the sums of an "
            "approximation are not, and the inverse of its Gram matrix multiplies them: leave `precision` out, or the "
            "approximation."
        )


def check_count(owner: Approximation, count: Any) -> None:
    """Refuse what is not a positive number of functions."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{type(owner).__name__} needs a positive number of functions, got {count!r}.")


def generator(random_state: Any) -> np.random.Generator:
    """Return NumPy's generator for any `random_state` that scikit-learn takes."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def in_double(points: Array) -> Array:
    """Return the points in float64, where they are."""
    xp = namespace(points)
    return points if points.dtype == xp.float64 else xp.astype(points, xp.float64)


def square(F: Array, root: Array) -> Array:
    """Return F' diag(root^2) F; F is overwritten."""
    F *= root
    return F.T @ F
