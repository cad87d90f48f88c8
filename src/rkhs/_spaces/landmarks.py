"""Landmarks (the Nystroem method): the span of representers psi_a = z_a of selected functionals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, Matrix, Vector, like, take_rows, to_numpy, unique_rows
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._gram.operator import gram
from rkhs._spaces.base import (
    UNIT,
    Approximation,
    FiniteSpace,
    Orthonormal,
    Pilot,
    check_count,
    eigenvalue_error,
    generator,
    in_double,
)
from rkhs._spaces.closed_forms import AtomicLandmarks, LandmarkTile
from rkhs.functionals import DirectionalDerivative, Evaluation, Functional, Gradient, stack
from rkhs.functionals._base import Part
from rkhs.functionals._points import centered
from rkhs.kernels._base import Kernel

SAMPLE = 10  # candidate points per landmark


@dataclass(frozen=True)
class Landmarks(Approximation):
    """Approximation by landmarks (the Nystroem method), for large numbers of rows.

    f is a combination of p representers of values, and of derivatives along chosen directions, at chosen points.

    The values are at points of the problem, selected by k-means++ or at random.  If the problem has derivatives, so do
    the landmarks, along the gradient of a preliminary solution from values alone: the representers of a gradient
    penalty enter the solution with exactly this direction at each point.  All functionals of small terms (such as a few
    labels among many points) are landmarks.  If there are at most p functionals, all are, and the solution is exact.

    Parameters
    ----------
    functionals : int or Functional
        The number p of landmarks, or a family of functionals, such as
        `rkhs.stack([rkhs.Evaluation(C), rkhs.Gradient(C)])`.
    selection : {"k-means++", "random"}, default="k-means++"
        The method that selects the points.
    derivatives : float, default=0.25
        The fraction of derivatives among the selected landmarks; 0 for values only.
    random_state : int, numpy.random.RandomState or numpy.random.Generator, default=0
        The seed; the same seed selects the same landmarks.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((2000, 5))
    >>> terms = [
    ...     rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(X[:, 0]), weight=1.0),
    ...     rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.01),
    ... ]
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=3.0), terms, approximation=rkhs.Landmarks(300))
    >>> solution = problem.solve()
    >>> solution.status, solution.span
    ('converged', 'Landmarks: 300 functions')
    """

    has_gradients = True
    functionals: int | Functional
    selection: str = "k-means++"
    derivatives: float = 0.25
    random_state: Any = 0

    def __post_init__(self) -> None:
        if not isinstance(self.functionals, Functional):
            check_count(self, self.functionals)
        if self.selection not in ("k-means++", "random"):
            raise ValueError(f'selection must be "k-means++" or "random", got {self.selection!r}.')
        if not 0 <= self.derivatives <= 1:
            raise ValueError(f"derivatives must be between 0 and 1, got {self.derivatives!r}.")

    @property
    def sample_size(self) -> int:
        """The number of rows of a stream that are sampled for `choose`."""
        count = 0 if isinstance(self.functionals, Functional) else SAMPLE * self.functionals
        return max(super().sample_size, count)

    def contains(self, families: Sequence[Functional]) -> bool:
        """Return whether all functionals are landmarks, so that the solution is exact.

        Parameters
        ----------
        families : sequence of Functional
            The functionals of all terms.

        Returns
        -------
        bool
            Whether the solution in the span of the landmarks is exact.
        """
        if isinstance(self.functionals, Functional):
            return all(_among(family, self.functionals) for family in families)
        return sum(family.size for family in families) <= self.functionals

    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Pilot) -> LandmarkSpace:
        """Select the landmarks for a problem.

        Parameters
        ----------
        kernel : Kernel
            The kernel of the problem.
        families : sequence of Functional
            The functionals of all terms, or a sample of them.
        pilot : callable
            The function (space, count, generator) -> f, which returns a preliminary solution.

        Returns
        -------
        LandmarkSpace
            The span of the representers of the landmarks.
        """
        if isinstance(self.functionals, Functional):
            chosen = self.functionals
        elif self.contains(families):
            return LandmarkSpace(kernel, stack(families))
        else:
            chosen = self._chosen(kernel, families, self.functionals, pilot)
        space = LandmarkSpace(kernel, chosen)
        if len(space.constraints) and np.linalg.matrix_rank(space.constraints) >= space.size:
            raise _too_few(kernel, space.size, len(space.constraints))
        return space

    def _chosen(self, kernel: Kernel, families: Sequence[Functional], p: int, pilot: Pilot) -> Functional:
        """Select all functionals of small terms, values at chosen points, and derivatives at some of them."""
        random, prototype = generator(self.random_state), families[0].prototype
        unpenalized = kernel.null_space.size(families[0].dimension) if kernel.order else 0
        if p <= unpenalized:
            raise _too_few(kernel, p, unpenalized)
        few: list[Functional] = []
        others: list[Functional] = []
        for family in sorted(families, key=lambda family: family.size):
            small = sum(chosen.size for chosen in few) + family.size <= p // 2
            (few if small else others).append(family)
        left = p - sum(family.size for family in few)
        points = _points(others, SAMPLE * p, random)
        differentiable = any(family.order for family in others) and kernel.smoothness(points.shape[1]) > 1
        most = max(left - 1 - unpenalized, 0) if kernel.order else left  # derivatives do not determine the null space
        slopes = min(round(self.derivatives * left), most) if differentiable else 0
        count = min(left - slopes, len(points))
        if self.selection == "random" or count == 0:
            at = random.choice(points, count, replace=False) if count else points[:0]
        else:
            from sklearn.cluster import kmeans_plusplus  # imported here because it takes a second

            shifted = (points - points.mean(axis=0)).astype(np.float64)
            at = points[kmeans_plusplus(shifted, count, random_state=int(random.integers(2**31)))[1]]
        values = [*few, Evaluation(like(at, prototype))] if len(at) else few
        if slopes == 0 or not values:
            return stack(values) if values else Evaluation(like(points[:p], prototype))
        base = at if len(at) else points
        anchors = like(base[np.arange(left - len(at)) % len(base)], prototype)
        space = LandmarkSpace(kernel, stack(values))
        f = pilot(space, 4 * (space.size + len(anchors)), random)  # four functionals of each term per landmark
        directions = _along(to_numpy(Gradient(anchors)(f)), to_numpy(anchors), random)
        form = kernel.summands()[0][1].form(points.shape[1])
        if form is not None and form.linear is not None and form.linear.ndim == 1:
            # SearchSubspace of this length make derivatives about as large as values.
            directions *= float(points.shape[1] ** 0.5 / np.linalg.norm(form.linear))
        return stack([*values, DirectionalDerivative(anchors, like(directions, anchors))])


def _points(families: Sequence[Functional], most: int, random: np.random.Generator) -> Matrix:
    """Return at most `most` distinct points of the functionals, sampled at random."""
    arrays = {id(part.atoms.points): part.atoms.points for family in families for part in family.parts}
    drawn = []
    for points in arrays.values():
        t = int(points.shape[0])
        rows = np.arange(t) if t <= most else np.sort(random.choice(t, most, replace=False))
        drawn.append(to_numpy(take_rows(points, rows)))
    distinct = unique_rows(np.concatenate(drawn))[0]
    return distinct if len(distinct) <= most else random.choice(distinct, most, replace=False)


def _along(gradients: Array, anchors: Matrix, random: np.random.Generator) -> Matrix:
    """Return unit vectors (d, n) along gradients (d, n, outputs) at anchors, and random ones at repeated anchors."""
    d, n = anchors.shape
    chosen = gradients[np.arange(d), :, np.arange(d) % gradients.shape[2]]
    first = unique_rows(anchors)[1]
    sizes = np.linalg.norm(chosen, axis=1)
    lost = np.ones(d, dtype=bool)
    lost[first] = sizes[first] <= 1e-8 * sizes.max(initial=0.0)  # rounding errors
    chosen[lost] = random.standard_normal((int(lost.sum()), n))
    return chosen / np.linalg.norm(chosen, axis=1, keepdims=True)


def _too_few(kernel: Kernel, landmarks: int, size: int) -> ValueError:
    return ValueError(
        f"{landmarks} landmarks are too few for {kernel!r}: its null space, {kernel.null_space!r}, has {size} "
        f"functions, which must vanish on the landmarks. Use at least {size + 1}, and many more for a good "
        "approximation."
    )


def _equal(a: Any, b: Any) -> bool:
    """Return whether two dense or sparse matrices are equal, or both None."""
    if a is b or a is None or b is None:
        return a is b
    if scipy.sparse.issparse(a) and scipy.sparse.issparse(b):
        return a.shape == b.shape and (a != b).nnz == 0
    return np.array_equal(to_numpy(a), to_numpy(b))


def _among(functional: Functional, landmarks: Functional) -> bool:
    """Return whether the functionals are a consecutive range of the landmarks, with the same parts."""

    def same(part: Part, other: Part, start: int) -> bool:
        """Return whether two parts are equal except that the rows of the other one start `start` later."""
        pairs = [(part.matrix, other.matrix)]
        pairs += [(getattr(part.atoms, name), getattr(other.atoms, name)) for name in ("points", "directions", "blur")]
        alike = part.start + start == other.start and part.weight == other.weight
        return alike and all(_equal(a, b) for a, b in pairs)

    for first in landmarks.parts:
        start = first.start - functional.parts[0].start
        stop = start + functional.size
        overlapping = [other for other in landmarks.parts if other.start < stop and other.rows.stop > start]
        matched = (any(same(part, other, start) for other in overlapping) for part in functional.parts)
        if len(overlapping) == len(functional.parts) and all(matched):
            return True
    return False


@dataclass(frozen=True, eq=False)
class LandmarkSpace(FiniteSpace):
    """The span of the representers of a family of functionals.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    functionals : Functional
        The functionals whose representers are the p functions.

    Examples
    --------
    >>> import rkhs
    >>> space = rkhs.extend.LandmarkSpace(rkhs.Gaussian(), rkhs.Evaluation([[0.0], [1.0]]))
    >>> space.size, space.gram.round(2).tolist()
    (2, [[1.0, 0.61], [0.61, 1.0]])
    """

    functionals: Functional

    def __post_init__(self) -> None:
        double = in_double(self.functionals.prototype[:0])
        if any(part.atoms.points.dtype != double.dtype for part in self.functionals.parts):
            object.__setattr__(self, "functionals", self.functionals.like(double))

    @property
    def representers(self) -> Functional:
        return self.functionals

    @property
    def prototype(self) -> Array:
        return self.functionals.prototype[:0]

    def like(self, prototype: Array) -> LandmarkSpace:
        return replace(self, functionals=self.functionals.like(prototype))

    @property
    def size(self) -> int:
        return self.functionals.size

    @property
    def dimension(self) -> int:
        return self.functionals.dimension

    @cached_property
    def gram(self) -> Matrix:
        return to_numpy(gram(self.kernel, self.functionals).dense())

    @cached_property
    def null_space(self) -> FunctionSpace:
        """The null space of the kernel, in coordinates centered on the landmarks."""
        return centered(self.kernel.null_space, [self.functionals])

    @cached_property
    def constraints(self) -> Matrix:
        """The values of the null space of a conditionally positive definite kernel on the landmarks."""
        if not self.kernel.order:
            return np.zeros((0, self.size))
        return to_numpy(self.functionals.assemble(self.null_space.on)).T

    def annihilated(self, functional: Functional) -> tuple[Matrix, Vector]:
        C = self.constraints
        if not len(C):
            return super().annihilated(functional)
        L = functional.like(self.prototype)
        P, sizes = to_numpy(L.assemble(self.null_space.on)), to_numpy(L.absolute().assemble(self.null_space.magnitude))
        P = np.where(np.abs(P) <= UNIT * sizes, 0.0, P)  # rounding errors are set to zero
        A = np.linalg.lstsq(C, P.T, rcond=None)[0].T
        residual = np.max(np.abs(A @ C.T - P), axis=1)  # allowed up to 1e-9 of the largest polynomial
        return A, residual > 1e-9 * np.max(np.abs(P), axis=1)

    def rows(self, functional: Functional) -> Array:
        return gram(self.kernel, self.on_device(functional), self.functionals).dense()

    @cached_property
    def _atomic(self) -> AtomicLandmarks | None:
        return AtomicLandmarks.of(self.kernel, self.functionals)

    def tile(self, points: Array) -> LandmarkTile | None:
        return None if self._atomic is None else LandmarkTile(self._atomic, points)

    def gradient_normal(self, products: Sequence[Array]) -> Matrix:
        assert self._atomic is not None
        return self._atomic.gradient_normal(products)

    def hidden(self, functions: Orthonormal) -> int:
        """Return the number of landmarks at distinct points that coincide with another landmark up to rounding.

        The difference of two such landmarks is nearly a derivative times their distance.  `Orthonormal` omits it if the
        squared distance is lost in the rounding of K, and it is lost to the space unless the other functions
        represent that derivative.  Landmarks at identical points are not counted, and second differences of three near
        landmarks are not considered.
        """
        parts = [part for part in self.functionals.parts if part.atoms.order == 0 and part.matrix is None]
        single = sum(part.size for part in self.functionals.parts) == self.size  # each landmark is one atom
        if len(self.constraints) or not parts or not single or any(part.atoms.blur is not None for part in parts):
            return 0
        points = np.concatenate([to_numpy(part.atoms.points) for part in parts])
        rows = np.concatenate([np.arange(part.rows.start, part.rows.stop) for part in parts])
        points, first, _ = unique_rows(points)
        D = 1 / np.sqrt(np.diag(self.gram)[rows[first]])
        K = D[:, None] * self.gram[np.ix_(rows[first], rows[first])] * D
        largest = float(np.max(np.sum(np.abs(K), axis=1), initial=0.0))  # Gershgorin's bound of the eigenvalues
        rounding = 32 * eigenvalue_error(self.size) * largest  # squared distances below this are lost
        near = np.triu(rounding >= 1 - K, 1)
        later = np.flatnonzero(near.any(axis=0))
        if len(later) == 0 or self.kernel.smoothness(self.dimension) <= 1:
            return len(later)
        differences = points[later] - points[np.argmax(near[:, later], axis=0)]
        differences /= np.max(np.abs(differences), axis=1, keepdims=True)  # squares of distances may underflow
        slopes = DirectionalDerivative(like(points[later], self.prototype), like(differences, self.prototype))
        within = np.sum((to_numpy(self.rows(slopes)) @ functions.map) ** 2, axis=1)
        norms = to_numpy(gram(self.kernel, slopes).diagonal())
        return int(np.count_nonzero(within < (1 - 1e-6) * norms))  # a relative part of 1e-6 outside is tolerated
