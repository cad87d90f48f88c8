"""Reduction of a problem to finitely many coefficients by the representer theorem, and conversion back to functions.

Verified products: certificates from images Ga that a solver has computed, checked by a single Gram product.

With independent standard normal numbers r_k, the vector

    G (sum_k r_k a_k)  -  sum_k r_k (Ga)_k  =  sum_k r_k e_k

is normally distributed, and as large as the errors e_k of the images: its norm is below a thousandth of theirs with a
probability of less than one in a thousand (Freivalds' check of a matrix product).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Vector, double, inner, like, namespace, take_rows, to_numpy, zeros
from rkhs._core.calculus.function_spaces import FunctionSpace, Polynomials
from rkhs._core.finite.basis import Basis, joined
from rkhs._core.finite.certificate import Bounds, Certificate, balanced, certificate_of, feasible
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import plain
from rkhs._core.finite.problem import FiniteProblem, Geometry, Iterate, LossBlock, Point, blocks_of
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.gram.matrix import GramMatrix, GramOperator, diagonal_part
from rkhs._core.gram.operator import has_graph
from rkhs._core.gram.rounding import magnitudes
from rkhs._core.linalg.saddle import Saddle
from rkhs.functionals._base import Functional, stack
from rkhs.kernels._base import Kernel

UNITS = 6  # rounding error of an entry of G, in units of eps times its magnitudes; the most is that of Matern 21/2
FEW = 0.6  # a product with a part of the columns of G is used below this fraction of columns, and of time


@dataclass(frozen=True, eq=False)
class GramGeometry(Geometry):
    """The space of the representers, E = K = G: the Gram operator G and the orthonormal basis Q (N, r).

    `gram` is for solvers and may multiply in a lower precision; `exact` has full precision, for certificates and images
    that are reused.  `definite` is False for kernels that are positive definite only on {Q'a = 0}.
    """

    gram: GramOperator
    exact: GramOperator
    Q: Array = None
    definite: bool = True
    magnitudes: Callable[[], Array] | None = None
    of_basis: Array | None = None

    @classmethod
    def stored(cls, G: Array, Q: Array) -> GramGeometry:
        """Return the geometry of a Gram matrix that is stored."""
        matrix = GramMatrix(G)
        return cls(matrix, matrix, Q)

    @property
    def size(self) -> int:
        return int(self.Q.shape[0])

    @cached_property
    def sizes(self) -> Array:
        """Magnitudes (N, 1): the rounding error of G_ij is of order eps sizes_i sizes_j (`operator.magnitudes`)."""
        if self.magnitudes is not None:
            return self.magnitudes()
        return namespace(self.Q).sqrt(abs(self.exact.diagonal()))[:, None]

    @property
    def norms(self) -> Array:
        return namespace(self.Q).sqrt(abs(self.exact.diagonal()))[:, None] if self.definite else self.sizes

    @property
    def basis_sizes(self) -> Array:
        """Magnitudes (N, r) of the entries of Q (`Basis.sizes`)."""
        return abs(self.Q) if self.of_basis is None else self.of_basis

    def start(self, columns: int) -> Iterate:
        return Iterate(zeros((int(self.Q.shape[0]), columns), self.Q), zeros((self.Q.shape[1], columns), self.Q))

    def inner_products(self, rows: Vector) -> tuple[Array, Array]:
        return self.exact.block(rows, rows), take_rows(self.Q, rows)

    def part(self, rows: Vector) -> GramGeometry:
        """Return the geometry of a subset of the functionals."""
        operator = diagonal_part(self.exact, rows)
        return GramGeometry(operator, operator, take_rows(self.Q, rows), self.definite)

    def point(self, system: FiniteProblem, iterate: Iterate, image: Array | None = None) -> GramPoint:
        if image is not None:
            return GramPoint(self, system, iterate, image)
        if iterate.alpha is None:
            return GramPoint(self, system, iterate, self.image(iterate.a))
        step = iterate.a - iterate.alpha  # whose image costs little together with that of a
        images = self.image(namespace(step).concat([iterate.a, step], axis=1))
        columns = step.shape[1]
        return GramPoint(self, system, iterate, images[:, :columns], inner(step, images[:, columns:], axis=0))

    def image(self, a: Array) -> Array:
        """Return Ga, by the columns with nonzero coefficients if they are few, as for support vector machines."""
        support = np.flatnonzero(to_numpy(namespace(a).any(a != 0, axis=1)))
        if len(support) == 0:
            return 0 * a
        if len(support) <= FEW * self.exact.shape[0] and not self.exact.stored:
            columns = self.exact.part(slice(None), support)
            if columns.core_seconds <= FEW * self.exact.core_seconds:
                return columns @ take_rows(a, support)
        return self.exact @ a


class GramPoint(Point):
    """An iterate a, c with u = Ga + Qc.

    u is accurate up to e_i = UNITS eps (sqrt(sum_j (g_ij a_j)^2) + sum_k |q_ik c_k|), if the errors of different
    entries of G are independent.  Here g_ij and q_ik are the magnitudes of the terms from which G_ij and Q_ik are
    computed, not of the entries (`GramGeometry.sizes`, `Basis.sizes`): the slope of a parabola is zero at its vertex,
    with the rounding error of the terms that cancel there.
    """

    def __init__(
        self, geometry: GramGeometry, system: FiniteProblem, iterate: Iterate, image: Array, energy: Array | None = None
    ) -> None:
        self.geometry, self.system, self.iterate = geometry, system, iterate
        self.energy = energy  # (a - alpha)'G(a - alpha) for the alpha of the iterate, if known
        self.u = u = image + geometry.Q @ iterate.basis
        xp, a = namespace(u), iterate.a
        norm = xp.linalg.vector_norm
        self.eps = float(xp.finfo(u.dtype).eps)
        sizes = geometry.sizes
        # e_i = UNITS eps (m_i sqrt(sum_j (m_j a_j)^2) + sum_k |q_ik c_k|)
        penalized = sizes * norm(sizes * a, axis=0)  # (N, c)
        free = geometry.basis_sizes @ abs(iterate.basis)
        self.error = UNITS * self.eps * (penalized + free)
        self.square = xp.clip(xp.vecdot(a, image, axis=0), 0, None)  # |f|^2
        self.primal = double(self._objective(image))
        # dJ = 1/2 a'dG a + loss'(u)'(dG a + dQ c) = (a/2 + loss'(u))'dG a + loss'(u)'dQ c
        force = system.gradient(u) + a / 2
        shift = norm(sizes * a, axis=0) * norm(sizes * force, axis=0) + norm(free * force, axis=0)
        below = xp.clip(-xp.vecdot(a, image, axis=0), 0, None) / 2  # a negative a'Ga is replaced by zero
        self.shift = UNITS * self.eps * double(shift) + double(below)
        if not geometry.definite:  # the component of a outside of {Q'a = 0} is an error
            lost = norm(sizes * (geometry.Q @ (geometry.Q.T @ a)), axis=0)
            self.error = self.error + sizes * lost
            self.shift += double(lost * norm(sizes * force, axis=0))

    def _objective(self, image: Array) -> Array:
        """Return J (c,); infinity if the kernel is conditionally positive definite and Q'a = 0 is violated.

        An a whose norm is within the rounding error of J counts as 0, which is feasible.
        """
        a, system, xp = self.iterate.a, self.system, namespace(image)
        # J = 1/2 a'Ga + sum_i w_i loss_i(u_i)
        value = self.square / 2 + system.loss(self.u)
        if system.definite:
            return value
        size = xp.linalg.vector_norm(a, axis=0)
        outside = xp.linalg.vector_norm(system.Q.T @ a, axis=0) > 1e-6 * size
        matters = size * xp.linalg.vector_norm(image, axis=0) > like(np.asarray(system.rounding), value)
        return xp.where(outside & matters, xp.full_like(value, inf), value)

    def reach(self, norms: Array) -> Array:
        # |z_i| |f| + sum_k |q_ik c_k|
        return norms * namespace(norms).sqrt(self.square) + abs(self.geometry.Q) @ abs(self.iterate.basis)

    def candidates(self, quick: bool) -> Iterator[Array]:
        yield from super().candidates(quick)
        if quick and not bool(namespace(self.u).any(self.iterate.a != 0)):
            yield self.iterate.a
        yield -self.system.gradient(self.u)
        yield self.iterate.a

    def distance(self, alpha: Array, energy: Array | None = None) -> tuple[Vector, Vector]:
        """Return 1/2 (a - alpha)'G(a - alpha), and its rounding error, for each output."""
        xp, Q, g = namespace(alpha), self.geometry.Q, self.iterate.a - alpha
        if alpha is self.iterate.alpha and energy is None:
            energy = self.energy
        if energy is None:
            # 1/2 (a - alpha)'G(a - alpha)
            energy = inner(g, self.geometry.exact @ g, axis=0) if bool(xp.any(g != 0)) else xp.sum(g, axis=0)
        rounding = UNITS * self.eps * double(xp.sum((self.geometry.sizes * g) ** 2, axis=0))
        # a dual point off the plane by Q'alpha changes the bound by (Q'alpha)'c
        unbalanced = xp.linalg.vector_norm(Q.T @ alpha, axis=0)
        rounding += double(unbalanced * xp.linalg.vector_norm(self.iterate.basis, axis=0))
        gaps = np.clip(double(energy), 0.0, None) / 2
        return np.where(double(balanced(Q, alpha)).astype(bool), gaps, inf), rounding


def certify_quickly(cells: Sequence[tuple[FiniteProblem, Iterate]]) -> list[Certificate]:
    """Compute quick certificates for problems that share a Gram matrix, with two products for all of them together."""
    if not cells:
        return []
    xp, exact = namespace(cells[0][1].a), cells[0][0].geometry.exact
    ends = np.cumsum([iterate.a.shape[1] for _, iterate in cells])

    def images(columns: list[Array]) -> list[Array]:
        joined = xp.concat(columns, axis=1)
        nonzero = xp.any(joined != 0, axis=0)
        result = 0 * joined
        if bool(xp.any(nonzero)):
            result[:, nonzero] = exact @ joined[:, nonzero]
        return [result[:, end - a.shape[1] : end] for a, end in zip(columns, ends.tolist(), strict=True)]

    bounds, alphas = [], []
    for (system, iterate), image in zip(cells, images([iterate.a for _, iterate in cells]), strict=True):
        bounds.append(Bounds(system, system.geometry.point(system, iterate, image)))
        alphas.append(feasible(system, next(bounds[-1].point.candidates(quick=True))))
    steps = [iterate.a - alpha for (_, iterate), alpha in zip(cells, alphas, strict=True)]
    for bound, alpha, step, image in zip(bounds, alphas, steps, images(steps), strict=True):
        bound.try_alpha(alpha, inner(step, image, axis=0))
    return [bound.certificate for bound in bounds]


@dataclass(frozen=True, eq=False)
class RepresenterTerms:
    """The functionals of all terms, whose representers span the solution together with the basis, and their losses.

    Functionals of weight zero are omitted.  The basis includes the null space of the kernel, unless that is `dropped`
    (Walder and Chapelle 2007, 6.2).
    """

    kernel: Kernel
    functionals: Functional
    basis: Basis
    rows: tuple[LossBlock, ...]
    outputs: int | None
    precision: str | None = None
    dropped: bool = False

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        terms: Sequence[Term],
        basis: FunctionSpace | None,
        place: Array = None,
        precision: str | None = None,
        dropped: bool = False,
    ) -> RepresenterTerms:
        """Reduce a problem; arrays are converted to the namespace, dtype and device of the array `place` if given."""
        outputs = outputs_of(terms)
        families, rows, start = [], [], 0
        for term in terms:
            family, target, weight = term.functional, term.target, term.weights()
            if not np.all(to_numpy(weight) > 0):
                kept = np.flatnonzero(to_numpy(weight)[:, 0] > 0)
                family, target, weight = family.take(kept), target[kept], weight[kept]
            target = target if target.ndim == 2 else target[:, None]
            if place is not None:
                family, target, weight = family.like(place), like(target, place), like(weight, place)
            families.append(family)
            wide = namespace(target).broadcast_to(target, (family.size, outputs or 1))
            rows.append(LossBlock(slice(start, start + family.size), term.loss, wide, weight))
            start += family.size
        together = stack(families)
        values = Basis.of(together, basis if dropped else joined(basis, kernel.null_space))
        return cls(kernel, together, values, tuple(rows), outputs, precision, dropped)

    def part(self, rows: Vector) -> RepresenterTerms:
        """Return the problem of some of the functionals, given by increasing indices."""
        functionals = self.functionals.take(rows)
        basis = Basis.of(functionals, self.basis.space)
        return replace(self, functionals=functionals, rows=blocks_of(self.rows, rows), basis=basis)

    @property
    def system(self) -> FiniteProblem:
        return self._finite[0]

    @cached_property
    def _finite(self) -> tuple[FiniteProblem, Restriction | None]:
        """The finite problem, and the map from its coefficients to those of the representers (None: the identity)."""
        exact: Any = gram(self.kernel, self.functionals)
        if has_graph(self.kernel):
            exact = exact.stored_if_small()
        fast = (
            exact
            if self.precision is None or exact.stored
            else gram(self.kernel, self.functionals, precision=self.precision)
        )
        definite, basis = self.kernel.order == 0, self.basis
        if self.dropped:
            basis = Basis.of(self.functionals, joined(None, self.kernel.null_space))
        geometry = GramGeometry(fast, exact, basis.Q, definite, lambda: self._magnitudes, basis.sizes)
        system = FiniteProblem(geometry, self.rows, self.outputs)
        return without_null_space(system, self.basis) if self.dropped else (system, None)

    def hidden(self, system: FiniteProblem) -> int:
        """Return `Basis.hidden` on the rows of a finite problem that have a positive weight."""
        space = self.basis.space
        if space is None or (isinstance(space, Polynomials) and space.degree == 0):
            return 0
        rows = np.flatnonzero(to_numpy(system.weight).max(axis=1, initial=0.0) > 0)
        key = rows.tobytes()  # cached, because the cells of a grid share their folds
        if key not in self._hidden:
            whole = len(rows) == self.functionals.size
            functionals = self.functionals if whole else self.functionals.take(rows)
            basis = self.basis if whole else Basis.of(functionals, space)
            self._hidden[key] = basis.hidden(functionals)
        return self._hidden[key]

    @cached_property
    def _hidden(self) -> dict[bytes, int]:
        return {}

    @cached_property
    def _magnitudes(self) -> Array:
        return magnitudes(self.kernel, self.functionals)

    def function(self, iterate: Iterate) -> Function:
        """Return the function with the coefficients of an iterate."""
        a = iterate.a if self._finite[1] is None else self._finite[1] @ iterate.a

        def flat(columns: Array) -> Array:
            return columns if self.outputs is not None else columns[:, 0]

        if self.basis.space is None:
            return Function(self.kernel, self.functionals, flat(a))
        coefficients = like(self.basis.back, a) @ iterate.basis
        return Function(self.kernel, self.functionals, flat(a), self.basis.space, flat(coefficients))

    def iterate(self, f: Function) -> Iterate:
        """Return the coefficients of a function that is a solution of a problem with the same functionals."""
        if f.functionals.shape != self.functionals.shape:
            raise ValueError(
                f"start has {f.functionals.size} representers and this problem {self.functionals.size}: "
                "a warm start needs a solution of a problem with the same functionals."
            )
        a = like(f.coefficients if f.coefficients.ndim == 2 else f.coefficients[:, None], self.basis.Q)
        basis = self.system.start().basis
        if f.basis is not None and f.basis_coefficients is not None:
            c = like(f.basis_coefficients if f.basis_coefficients.ndim == 2 else f.basis_coefficients[:, None], a)
            basis = self.basis.Q.T @ like(self.functionals.assemble(f.basis.on) @ c, a)
        return Iterate(a, basis)


def block_in_double(term: Term, outputs: int | None) -> LossBlock:
    """Return the loss of a term with its targets (n, c) and weights (n, 1) as NumPy arrays in float64."""
    target = double(term.target).reshape(term.size, -1)
    weight = double(term.weights())
    return LossBlock(slice(0, term.size), term.loss, np.broadcast_to(target, (term.size, outputs or 1)), weight)


def outputs_of(terms: Sequence[Term]) -> int | None:
    """Return the common number of outputs of the terms, or None if no target has an axis of outputs."""
    counts = {term.outputs for term in terms if term.outputs is not None}
    if len(counts) > 1:
        raise ValueError(f"The terms disagree on the number of outputs: {sorted(counts)}.")
    return counts.pop() if counts else None


def as_representer_terms(problem: Any, caller: str) -> RepresenterTerms:
    """Return the `RepresenterTerms` of a `Problem`, or the argument if it is one; raise for approximations."""
    if getattr(problem, "approximation", None) is not None:
        raise ValueError(
            f"{caller} is about the whole space, and the problem has approximation={problem.approximation!r}: omit the "
            "approximation, or use solution.posterior."
        )
    represented = getattr(problem, "represented", problem)
    if not isinstance(represented, RepresenterTerms):
        raise TypeError(f"{caller} needs an rkhs.Problem, got {problem!r}.")
    return represented


@dataclass(frozen=True, eq=False)
class Restriction:
    """The map alpha -> a = alpha - (Q - W) Q'alpha from coefficients of representers in S to those of the z_i."""

    Q: Array
    excess: Array  # Q - W

    def __matmul__(self, alpha: Array) -> Array:
        # a = alpha - (Q - W) Q'alpha
        return alpha - self.excess @ (self.Q.T @ alpha)


def without_null_space(system: FiniteProblem, kept: Basis) -> tuple[FiniteProblem, Restriction]:
    """Drop the null space of a conditionally positive definite kernel (Walder and Chapelle 2007, 6.2).

    Its polynomials are not penalized: if they separate the data, the minimizer ignores the kernel.  Without them
    f = sum a_i z_i with P'a = 0, a finite-dimensional space S of functions with inner product a'Ga.  Every functional
    is bounded on S, and the Gram matrix of the representers in S is

        K = G Z (Z'GZ)^-1 Z'G,         Z an orthonormal basis of {P'a = 0}

    which is positive semidefinite.  So the problem is an ordinary one with K instead of G and the basis `kept` instead
    of P, and its coefficients alpha define f = sum a_i z_i with a = Z (Z'GZ)^-1 Z'G alpha.  Neither needs Z: with an
    orthonormal basis Q of the columns of P and the saddle point system  GW + QT = GQ, Q'W = 0,  which takes one
    factorization,

        K = G - Q T Q',                a = alpha - (Q - W) Q'alpha
    """
    G = to_numpy(system.exact.in_double())
    Q = double(system.Q)
    # GW + QT = GQ, Q'W = 0
    W, T = Saddle(G, np.zeros(len(G)), Q).solve(G @ Q)
    # K = G - Q T Q', symmetric up to rounding
    K = G - Q @ ((T + T.T) / 2) @ Q.T
    stored = GramMatrix(like(K, system.Q))
    plain = FiniteProblem(GramGeometry(stored, stored, kept.Q, of_basis=kept.sizes), system.terms, system.outputs)
    return plain, Restriction(system.Q, like(Q - W, system.Q))


SHARE = 1e-4  # the fraction of a tolerance that errors of images may contribute
_VERIFIED = object()  # private to this module, so that solvers cannot construct certificates


class VerifiedIterate(Iterate):
    """An iterate whose certificate is based on verified images; only `VerifiedProducts` can create one."""

    certificate: Certificate

    def __init__(self, iterate: Iterate, certificate: Certificate, seal: Any) -> None:
        if seal is not _VERIFIED:
            raise TypeError("Only VerifiedProducts can create a VerifiedIterate: return an Iterate.")
        super().__init__(iterate.a, iterate.basis, iterate.alpha)
        object.__setattr__(self, "certificate", certificate)


def joined_iterates(outputs: Sequence[Iterate]) -> Iterate:
    """Join iterates of one output each; the result is verified if all of them are."""
    together = Iterate.joined(outputs)
    certificates = [one.certificate for one in outputs if isinstance(one, VerifiedIterate)]
    if len(certificates) < len(outputs):
        return together
    return VerifiedIterate(together, Certificate.joined(certificates), _VERIFIED)


@dataclass(frozen=True, eq=False)
class Entry:
    """An iterate whose gap is within the tolerance, provided that its images are correct."""

    iterate: Iterate
    certificate: Certificate


class VerifiedProducts:
    """Random combinations of points a (N, c) and their images Ga, weighted by the effect of an error of the image.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs._core.finite.representers import VerifiedProducts
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.ones(5))
    >>> system = rkhs.Problem(rkhs.Gaussian(1.0), [term]).system
    >>> products = VerifiedProducts(system.geometry)
    >>> a = np.eye(5)[:, :2]
    >>> products.add(a, system.gram @ a, np.ones(2))
    >>> products.right(1e-6)
    True
    >>> products.add(a, system.gram @ a + 1e-8, np.ones(2))
    >>> products.right(1e-6)
    False
    """

    def __init__(self, geometry: GramGeometry) -> None:
        self.exact = plain(geometry.exact)  # without a monitor: the check is not subject to the time limit
        self.random = np.random.default_rng(0)
        self.points: Array = None
        self.images: Array = None
        self.closed = False
        self.entries: list[Entry] = []

    def add(self, a: Array, image: Array, factor: Array) -> None:
        """Add the columns of a and their claimed images Ga, with the weights `factor` (c,)."""
        # sum_k r_k a_k and sum_k r_k (Ga)_k with standard normal r_k (Freivalds 1979)
        r = like((factor * self.random.standard_normal(len(factor)))[:, None], a)
        before = (0.0, 0.0) if self.points is None else (self.points, self.images)
        self.points, self.images = before[0] + a @ r, before[1] + image @ r
        self.closed = False

    def enter(
        self, system: FiniteProblem, iterate: Iterate, image: Array, alpha_image: Array, tol: float
    ) -> Entry | None:
        """Add an iterate of one output with an alpha if, by the images of both, its gap is within tol; else None."""
        assert iterate.alpha is not None
        energy = inner(iterate.a - iterate.alpha, image - alpha_image, axis=0)
        certificate = certificate_of(system, iterate, image, tol, energy)
        if not certificate.within(tol):
            return None
        xp = namespace(image)
        size = max(float(certificate.primal[0]), system.rounding[0])
        length = float(xp.linalg.vector_norm(iterate.a) + xp.linalg.vector_norm(iterate.alpha))
        factor = np.full(1, length / size if size else 0.0)
        self.add(iterate.a, image, factor)
        self.add(iterate.alpha, alpha_image, factor)
        self.entries.append(Entry(iterate, certificate))
        return self.entries[-1]

    def right(self, tol: float) -> bool:
        """Return whether the weighted errors of all images are small compared with `tol`; takes one product."""
        if self.points is None:
            return True
        xp = namespace(self.points)
        # |G (sum_k r_k a_k) - sum_k r_k (Ga)_k|, as large as the error of any of the images
        error = float(xp.linalg.vector_norm(self.exact @ self.points - self.images))
        # The product that checks has itself a rounding error of up to 64 eps.
        self.closed = error <= max(SHARE * tol, 64 * float(xp.finfo(self.points.dtype).eps))
        return self.closed

    def verified(self, entry: Entry) -> VerifiedIterate:
        """Return the iterate of an entry after a successful check of all images."""
        if not self.closed:
            raise RuntimeError("The images failed the check, or were not checked since the last entry: call `right`.")
        if not any(entry is known for known in self.entries):
            raise RuntimeError("This entry belongs to other products: its images were not checked.")
        return VerifiedIterate(entry.iterate, entry.certificate, _VERIFIED)
