"""Landmarks (the Nystroem method): the span of representers psi_a = z_a of selected functionals.

Closed forms for landmarks that are single atoms: normal matrices of gradients without storing the gradients.

For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), a landmark is a value at c_a or a derivative along v_a there:

    psi_a(x)      = phi                    or   phi' s_a                   s_a = <v_a, x - rho c_a>
    grad psi_a(x) = A_a (c_a - rho x) + B_a v_a,     A = phi', B = 0   or   A = phi'' s, B = phi'

For rho = 1 and d = c - x, <d_a, d_b> = -q_a - q_b - |c_a - c_b|^2/2, so that the normal matrix of all gradients is

    A'W + W'A - (A'A) * |c_a - c_b|^2/2 + (A'B) * <c_a - c_b, v_b> + its transpose + (B'B) * <v_a, v_b>

(* is the entrywise product) with W = -A q - B s: a few products of size t x p x p.  For rho = 0, W = 0, and <c_a, c_b>,
<c_a, v_b> replace the terms with differences.  After a linear change of input x -> Mx, inner products of gradients are
taken in the metric N = MM'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import (
    Array,
    Matrix,
    Vector,
    check_choice,
    check_count,
    double,
    indices,
    like,
    namespace,
    take_rows,
    to_numpy,
    unique_rows,
)
from rkhs._core.calculus.atoms import mapped, pulled_back
from rkhs._core.calculus.forms import Form, near_pairs
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.gram.operator import gram
from rkhs.functionals import DirectionalDerivative, Evaluation, Gradient, stack
from rkhs.functionals._base import Functional, Part, centered
from rkhs.kernels._base import Kernel
from rkhs.spaces._base import (
    UNIT,
    Approximation,
    FiniteSpace,
    Orthonormal,
    Pilot,
    Tile,
    eigenvalue_error,
    generator,
    in_double,
)


@dataclass(frozen=True, eq=False)
class AtomicLandmarks:
    """Landmarks that are values at points c_a or derivatives along v_a there, centered and then mapped by A."""

    form: Form
    original: Array  # (p, n), the points before the map
    origin: Array  # (n,), the center
    C: Array  # (p, m), the mapped points
    V: Array  # (d, m), the mapped directions
    slopes: np.ndarray[Any, Any]  # (d,), the indices of derivatives among the landmarks
    factors: Array  # (p,), the weights of the landmarks

    @classmethod
    def of(cls, kernel: Kernel, family: Functional) -> AtomicLandmarks | None:
        """Return landmarks in this form; None for sums of kernels, kernels without a form, and other functionals."""
        (weight, summand), *others = kernel.summands()
        form = summand.form(family.dimension)
        parts = sorted(family.parts, key=lambda part: part.start)
        if others or form is None or sum(part.size for part in parts) != family.size:
            return None
        if any(part.matrix is not None or part.atoms.blur is not None or part.atoms.order > 1 for part in parts):
            return None
        xp = namespace(family.prototype)
        flat = [part.atoms.take(np.arange(part.atoms.size)) for part in parts]
        original = xp.concat([atoms.points for atoms in flat])
        origin = xp.mean(original, axis=0) if form.rho else xp.zeros_like(original[0])
        slopes = np.concatenate([np.full(a.size, bool(a.order)) for a in flat])
        directions = xp.concat(
            [original[:0], *(xp.broadcast_to(a.u(0), (a.size, 1, a.dimension))[:, 0] for a in flat if a.order)]
        )
        factors = np.concatenate([np.full(part.size, weight * part.weight) for part in parts])
        C = mapped(original - origin, form.linear)
        V = mapped(directions, form.linear)
        return cls(form, original, origin, C, V, np.flatnonzero(slopes), like(factors, original))

    @cached_property
    def columns(self) -> Any:
        """The indices of the derivatives, as a slice if they are consecutive."""
        first, count = (int(self.slopes[0]), len(self.slopes)) if len(self.slopes) else (0, 0)
        if count == 0 or int(self.slopes[-1]) == first + count - 1:
            return slice(first, first + count)
        return indices(self.slopes, self.C)

    def gradient_normal(self, products: Sequence[Array]) -> Matrix:
        """Return the normal matrix of all gradients from A'A, A'W, A'B and B'B."""
        AA, AW, AB, BB = map(to_numpy, products)
        C, V = (double(pulled_back(side, self.form.linear)) for side in (self.C, self.V))
        across, towards, slopes = C @ C.T, C @ V.T, self.slopes
        if self.form.rho:
            halves = np.diag(across) / 2
            across = across - halves[:, None] - halves
            towards = towards - np.sum(C[slopes] * V, axis=1)
        mixed = AB * towards
        normal = AW + AW.T + AA * across
        normal[:, slopes] += mixed
        normal[slopes] += mixed.T
        normal[np.ix_(slopes, slopes)] += BB * (V @ V.T)
        factors = to_numpy(self.factors)
        return factors[:, None] * (normal + normal.T) / 2 * factors


class LandmarkTile(Tile):
    """The functions of landmarks at some points, by q, s and the radial derivatives phi, phi', ..."""

    def __init__(self, landmarks: AtomicLandmarks, points: Array) -> None:
        self.landmarks = landmarks
        form, C, V, index = landmarks.form, landmarks.C, landmarks.V, landmarks.columns
        points = like(points, landmarks.original)
        self.Y = Y = mapped(points - landmarks.origin, form.linear)
        xp = namespace(Y)
        q, s = Y @ C.T, Y @ V.T
        if form.rho:
            x_halves, c_halves = (xp.vecdot(side, side, axis=-1) / 2 for side in (Y, C))
            q -= x_halves[:, None]
            q -= c_halves
            if 0 not in q.shape and form.direct(int(points.shape[1]), float(xp.max(x_halves) + xp.max(c_halves))):
                q = form.from_differences(points, landmarks.original)
            s -= xp.vecdot(C[index], V, axis=-1)
            if 0 not in q.shape:
                self._correct_near_pairs(points, q, s, x_halves, c_halves)
        self.q, self.s = q, s
        last = 2 if len(landmarks.slopes) else 1
        self.phi = phi = form.radial_derivatives(xp.asarray(q, copy=True), range(last + 1))
        plain = bool(np.all(to_numpy(landmarks.factors) == 1))
        self.alike = plain and all(derivative is phi[0] for derivative in phi.values())

    def _correct_near_pairs(self, points: Array, q: Array, s: Array, x_halves: Array, c_halves: Array) -> None:
        """Recompute q and s at points near a landmark from differences, because |x|^2 - 2<x, c> + |c|^2 cancels."""
        form, original, slopes = self.landmarks.form, self.landmarks.original, self.landmarks.slopes
        slope_index = np.full(len(original), -1)
        slope_index[slopes] = np.arange(len(slopes))
        for i, j in near_pairs(form, q, x_halves, c_halves, original.shape[1]):
            difference = form.difference(points[i], original[j])
            xp = namespace(difference)
            q[i, j] = -xp.sum(difference * difference, axis=-1) / 2
            column = slope_index[to_numpy(j)]
            subset, k = indices(np.flatnonzero(column >= 0), q), indices(column[column >= 0], q)
            s[i[subset], k] = xp.sum(difference[subset] * self.landmarks.V[k], axis=-1)

    @property
    def values(self) -> Array:
        E, index = namespace(self.q).asarray(self.phi[0], copy=True), self.landmarks.columns
        if len(self.landmarks.slopes):
            E[:, index] = self.phi[1][:, index] * self.s
        E *= self.landmarks.factors
        return E

    def gradient_products(self, root: Array, known: Array | None) -> list[Array]:
        """Return A'A, A'W, A'B and B'B for landmarks of weight one."""
        landmarks, index = self.landmarks, self.landmarks.columns
        A = self.phi[1] * root
        B = namespace(A).asarray(A[:, index], copy=True)
        if len(landmarks.slopes):
            A[:, index] = self.phi[2][:, index] * (self.s * root)
        AA = A.T @ A if known is None else known
        AW = A.T @ self._W(A, B) if landmarks.form.rho else 0 * AA
        return [AA, AW, A.T @ B, B.T @ B]

    def _W(self, A: Array, B: Array) -> Array:
        """Return W = -A q - B s, with q and s in the metric N."""
        landmarks, index, xp = self.landmarks, self.landmarks.columns, namespace(A)
        q, s, linear = self.q, self.s, landmarks.form.linear
        scale = 1.0
        if linear is not None and linear.ndim == 1 and bool(np.all(linear == linear[0])):  # N = scale I
            scale = float(linear[0]) ** 2
        elif linear is not None:
            C, V, Y = (pulled_back(side, linear) for side in (landmarks.C, landmarks.V, self.Y))
            q = Y @ C.T - xp.vecdot(Y, Y, axis=-1)[:, None] / 2 - xp.vecdot(C, C, axis=-1) / 2
            s = Y @ V.T - xp.vecdot(C[index], V, axis=-1)
        W = A * q
        W[:, index] += B * s
        W *= -scale
        return W


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
            check_count(self.functionals, "The number of Landmarks")
        check_choice(self.selection, "selection", "k-means++", "random")
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
            form = kernel.summands()[0][1].form(points.shape[1])
            if form is not None:
                shifted = mapped(shifted, form.linear)  # distances are those of the kernel
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
            # Directions of this length make derivatives about as large as values.
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
    every = np.concatenate(drawn)
    distinct = every[np.sort(unique_rows(every)[1])]
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
