"""The laws of families of functionals, checked on functions in the RKHS of a Gaussian kernel and on polynomials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

import numpy as np
from array_api_compat import is_torch_array

from rkhs._core.backend.arrays import Array, like, namespace, to_numpy
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.calculus.function_spaces import Polynomials, multi_indices
from rkhs._core.gram import gram
from rkhs._core.gram.rounding import magnitudes
from rkhs.functionals import Evaluation, Functional, Gradient, stack
from rkhs.functionals._base import Part
from rkhs.kernels import Gaussian
from rkhs.results import Function
from rkhs.testing._laws import HAS_TORCH, ROUNDING, combinations, demand, demand_equal, largest, rounding

# The definition of a functional on functions from points (t, n) to values (t,).
Reference = Callable[[Callable[[Array], Array]], Array]


def check_functional(functional: Functional, reference: Reference | None = None) -> None:
    """Check that a family of functionals has the properties that the package relies on.

    The laws are: L(f) has the shape of L; L(a f + b g) = a L(f) + b L(g); (a L + b M)(f) = a L(f) + b M(f), and
    similarly for W @ L, `stack` and `take`; L(f) = <z_L, f>; derivatives of polynomials agree with difference
    quotients; the Gram matrix is symmetric and positive semidefinite; and all ways to compute it agree: product, dense,
    diagonal and blocks, NumPy and PyTorch.

    Parameters
    ----------
    functional : Functional
        The family of functionals L.
    reference : callable, optional
        The definition of L: a function that maps f, a function from points of shape (t, n) to values of shape (t,), to
        L(f).  It may use difference quotients, because f is a polynomial of degree two.

    Raises
    ------
    AssertionError
        If a law is violated; the message names the law.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.testing import check_functional
    >>> X = np.random.default_rng(0).standard_normal((5, 2))
    >>> check_functional(rkhs.functionals.Hessian(X))
    >>> check_functional(rkhs.Difference(X, 2 * X), reference=lambda f: f(X) - f(2 * X))
    >>> check_functional(rkhs.Difference(X, 2 * X), reference=lambda f: 3 * f(X))
    Traceback (most recent call last):
    ...
    AssertionError: Difference(5 points in R^2) breaks the law L(f) = reference(f), for a polynomial f: \
measured 3, allowed 2.64e-08.
    """
    sample = FunctionalSample(functional)
    for law in LAWS:
        law(sample)
    if reference is not None:
        _means(sample, reference)


@dataclass(frozen=True)
class FunctionalSample:
    """A family L with the functions on which it is checked; lengths are in units of the spread of its points."""

    L: Functional

    @cached_property
    def points(self) -> Array:
        return np.concatenate([to_numpy(part.atoms.points) for part in self.L.parts]).astype(np.float64)

    @cached_property
    def origin(self) -> Array:
        """The mean of the points."""
        return self.points.mean(axis=0) if len(self.points) else np.zeros(self.L.dimension)

    @cached_property
    def spread(self) -> float:
        """The root mean square distance of the points from their mean, 1 if they coincide."""
        spread = float(np.sqrt(np.sum((self.points - self.origin) ** 2) / max(1, len(self.points))))
        return spread if spread > rounding(self.points) else 1.0

    @cached_property
    def kernel(self) -> Gaussian:
        return Gaussian(scale=self.spread)

    def normalized(self, atoms: Atoms) -> Atoms:
        """Return the atoms in coordinates relative to the mean, in units of the spread."""
        return atoms.shifted(like(self.origin, atoms.points)).pushed(np.full(atoms.dimension, 1 / self.spread))

    def draw(self, *shape: int) -> Array:
        """Return reproducible normal random numbers in the namespace of the family."""
        return like(np.random.default_rng(shape).standard_normal(shape), self.L.prototype)

    @cached_property
    def others(self) -> Functional:
        """Values and gradients at random points near those of L."""
        Z = like(self.origin, self.L.prototype) + self.spread * self.draw(4, self.L.dimension)
        return stack([Evaluation(Z), Gradient(Z)])

    def function(self, which: int) -> Function:
        return Function(self.kernel, self.others, self.draw(which, self.others.size)[-1])

    def magnitudes(self, L: Functional) -> Array:
        """Return m with |<L_i, M_j>| <= m_i m_j also for the summands of <L_i, M_j>, which may cancel."""
        return to_numpy(magnitudes(self.kernel, L))[:, 0]

    @cached_property
    def scale(self) -> float:
        """The magnitude of the terms of L(f) = sum_j <z_L, z_j> c_j."""
        coefficients = to_numpy(self.function(1).coefficients)
        return largest(self.magnitudes(self.L)) * float(self.magnitudes(self.others) @ abs(coefficients))

    def polynomial_scale(self, degree: int) -> float:
        """The magnitude of the terms of L(p) = sum_a w_a a(p) for monomials p up to the given degree."""
        return sum(_gain(part) * _reach(self.normalized(part.atoms)) ** degree for part in self.L.parts)


def _shape(sample: FunctionalSample) -> None:
    """Check that the parts of L cover all rows, and that L(f) has the shape of L in C order."""
    L = sample.L
    demand(L, f"size = the product of the shape {L.shape} (difference)", abs(L.size - prod(L.shape)), 0.0)
    written = np.zeros(L.size, dtype=bool)
    for part in L.parts:
        if part.start < 0 or part.rows.stop > written.size:
            rows = f"{part.rows.start} to {part.rows.stop - 1}"
            raise AssertionError(f"{L!r} has shape {L.shape}, but a part of it writes to the rows {rows}.")
        written[part.rows] = True
    missing = float(np.sum(~written))
    demand(L, f"each functional of shape {L.shape} has a part (number of those without)", missing, 0.0)
    f = sample.function(1)
    expected = gram(sample.kernel, L, sample.others) @ f.coefficients
    demand_equal(L, "L(f) has the shape of L, in C order", L(f), to_numpy(expected).reshape(L.shape), sample.scale)


def _linear(sample: FunctionalSample) -> None:
    """Check L(a f + b g) = a L(f) + b L(g)."""
    L, f, g = sample.L, sample.function(1), sample.function(2)
    demand_equal(L, "L(2 f - 3 g) = 2 L(f) - 3 L(g)", L(2 * f - 3 * g), 2 * L(f) - 3 * L(g), 5 * sample.scale)


def _algebra(sample: FunctionalSample) -> None:
    """Check (a L + b M)(f) = a L(f) + b M(f),  (W @ L)(f) = W L(f), and that `stack` and `take` agree with arrays."""
    L, f, W = sample.L, sample.function(1), to_numpy(sample.draw(3, sample.L.size))
    gain = max(5.0, 2 * float(np.max(np.sum(abs(W), axis=1))))
    for name, family, expected in combinations(L, to_numpy(L(f)).ravel(), W):
        demand_equal(L, f"({name})(f) follows from L(f)", to_numpy(family(f)).ravel(), expected, gain * sample.scale)


def _reproducing(sample: FunctionalSample) -> None:
    """Check the reproducing property <sum_i c_i z_i, f> = sum_i c_i L_i(f)."""
    L, f, c = sample.L, sample.function(1), sample.draw(sample.L.size)
    values = to_numpy(c) * to_numpy(L(f)).ravel()
    product = like(Function(sample.kernel, L, c).inner(f), L.prototype)
    scale = float(np.sum(abs(to_numpy(c)))) * sample.scale
    demand_equal(L, "<sum c_i z_i, f> = sum c_i L_i(f)", product, np.sum(values), scale)


def _polynomials(sample: FunctionalSample) -> None:
    """Check L(p) against difference quotients, which are exact for polynomials p of degree up to four."""
    space = Polynomials(degree=min(4, sample.L.order + 1))

    def quotients(atoms: Atoms) -> Array:
        """Return derivatives by central differences with steps 1 and 1/2, and Richardson extrapolation."""
        if atoms.order == 0:
            return space.on(atoms)
        lower, u = atoms.restricted(range(atoms.order - 1)), atoms.u(atoms.order - 1)[:, 0]
        wide = (quotients(lower.shifted(-u)) - quotients(lower.shifted(u))) / 2
        narrow = quotients(lower.shifted(-u / 2)) - quotients(lower.shifted(u / 2))
        return (4 * narrow - wide) / 3

    exact = sample.L.assemble(lambda atoms: space.on(sample.normalized(atoms)))
    differences = np.zeros(exact.shape, dtype=to_numpy(exact).dtype)
    for part in sample.L.parts:
        atoms = sample.normalized(part.atoms)
        one_per_point = atoms.take(np.arange(atoms.size))
        differences[part.rows] += to_numpy(part.forward(quotients(one_per_point)))
    law = "L(p) = its difference quotients, for a polynomial p"
    demand_equal(sample.L, law, exact, differences, sample.polynomial_scale(space.degree))


def _gain(part: Part) -> float:
    """Return the largest ratio of the values of a part to those of its atoms."""
    return largest(abs(part.as_matrix()).sum(axis=1))


def _reach(atoms: Atoms) -> float:
    """Return the largest distance from the origin at which the atoms and their difference quotients use a function."""
    deviation = 0.0 if atoms.blur is None else largest(atoms.blur) ** 0.5
    return 1 + largest(atoms.points) + largest(atoms.directions) * atoms.order + deviation


def _gram(sample: FunctionalSample) -> None:
    """Check G = G', c'Gc >= 0, and that G v, the diagonal and blocks of G agree with the dense matrix."""
    L, M, kernel = sample.L, sample.others, sample.kernel
    pairs: tuple[tuple[str, Functional, Functional | None], ...] = (
        ("<L, L>", L, None),
        ("<L, M>", L, M),
        ("<M, L>", M, L),
        ("<L, values>", L, Evaluation(sample.draw(L.size, L.dimension))),  # as many functionals, one per point
    )
    for name, left, right in pairs:
        G = gram(kernel, left, right)
        dense, rows_size = to_numpy(G.dense()), largest(sample.magnitudes(left))
        columns_sizes = sample.magnitudes(left if right is None else right)
        size = rows_size * largest(columns_sizes)
        v = sample.draw(G.shape[1], 2)
        scale = rows_size * largest(columns_sizes @ abs(to_numpy(v)))
        demand_equal(L, f"G v = dense v, for G = {name}", G @ v, dense @ to_numpy(v), scale)
        demand_equal(L, f"the diagonal of G = {name} is that of dense", G.diagonal(), np.diag(dense), size)
        rows, columns = np.arange(G.shape[0])[::2], slice(G.shape[1] // 2, None)
        demand_equal(L, f"blocks of G = {name} are those of dense", G.block(rows, columns), dense[rows, columns], size)
        demand_equal(L, f"G' = dense', for G = {name}", G.T.dense(), dense.T, size)
        if right is None:
            least = float(np.min(np.linalg.eigvalsh(dense), initial=0.0))
            demand(L, "c'Gc >= 0", -least, len(dense) * ROUNDING * float(np.finfo(dense.dtype).eps) * size)


def _same_elsewhere(sample: FunctionalSample) -> None:
    """Check that NumPy and PyTorch give the same results."""
    if not HAS_TORCH:
        return
    import torch

    prototype = sample.L.prototype
    other = to_numpy(prototype) if is_torch_array(prototype) else torch.asarray(np.zeros(0, dtype=prototype.dtype))
    expected, size = gram(sample.kernel, sample.L).dense(), largest(sample.magnitudes(sample.L)) ** 2
    demand_equal(sample.L, "PyTorch = NumPy", gram(sample.kernel, sample.L.like(other)).dense(), expected, size)


def _means(sample: FunctionalSample, reference: Reference) -> None:
    """Check L(f) = reference(f) for all monomials f of degree up to two."""
    xp, origin = namespace(sample.L.prototype), like(sample.origin, sample.L.prototype)
    values = to_numpy(sample.L.assemble(lambda atoms: Polynomials(degree=2).on(sample.normalized(atoms))))

    def monomial(powers: Array, points: Array) -> Array:
        return xp.prod(((points - origin) / sample.spread) ** powers, axis=-1)

    for column, powers in enumerate(multi_indices(2, range(sample.L.dimension), sample.L.dimension)):
        actual = values[:, column].reshape(sample.L.shape)
        expected = to_numpy(reference(partial(monomial, like(powers, origin))))
        if actual.shape != expected.shape:
            raise AssertionError(f"{sample.L!r} has shape {actual.shape}, but its reference {expected.shape}.")
        eps = float(np.finfo(values.dtype).eps)
        quotient = eps**0.5 * largest(values)  # the accuracy of a difference quotient
        allowed = quotient + ROUNDING * eps * sample.polynomial_scale(2)
        demand(sample.L, "L(f) = reference(f), for a polynomial f", largest(actual - expected), allowed)


LAWS = (_shape, _linear, _algebra, _reproducing, _polynomials, _gram, _same_elsewhere)
